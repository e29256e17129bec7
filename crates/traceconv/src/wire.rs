//! The fields of a protobuf message, one after the other.

/// A field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

impl<'b> Wire<'b> {
    pub(crate) fn bytes(self) -> Option<&'b [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Number(_) => None,
        }
    }
}

/// A message's fields; ends at its end, or at what is no field.
#[derive(Debug)]
pub(crate) struct Fields<'b> {
    rest: &'b [u8],
}

impl<'b> Fields<'b> {
    pub(crate) fn of(message: &'b [u8]) -> Self {
        Self { rest: message }
    }

    /// Whether all of the message was read.
    pub(crate) fn is_done(&self) -> bool {
        self.rest.is_empty()
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = (u32, Wire<'b>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (key, mut rest) = varint(self.rest)?;
        let value = match key & 7 {
            0 => {
                let (value, behind) = varint(rest)?;
                rest = behind;
                Wire::Number(value)
            }
            1 => {
                let (raw, behind) = rest.split_first_chunk()?;
                rest = behind;
                Wire::Number(u64::from_le_bytes(*raw))
            }
            2 => {
                let (len, behind) = varint(rest)?;
                let (bytes, behind) = behind.split_at_checked(usize::try_from(len).ok()?)?;
                rest = behind;
                Wire::Bytes(bytes)
            }
            5 => {
                let (raw, behind) = rest.split_first_chunk()?;
                rest = behind;
                Wire::Number(u32::from_le_bytes(*raw).into())
            }
            _ => return None,
        };
        self.rest = rest;
        Some((u32::try_from(key >> 3).ok()?, value))
    }
}

/// A number of seven bits a byte, and what is behind it.
#[inline]
pub(crate) fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (place, &byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f).checked_shl(place as u32 * 7)?;
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(place + 1..)?));
        }
    }
    None
}
