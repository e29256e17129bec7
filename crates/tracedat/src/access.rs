//! Reading one field out of many records.

use crate::bytes::Endian;

/// How the bytes of a field are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// In place, at the field's offset.
    Fixed,
    /// `__data_loc`: a 32-bit word holds length << 16 | offset from the start of the record.
    Data,
    /// `__rel_loc`: as `__data_loc`, but counted from the end of that word.
    Relative,
}

/// Behind the end of any record (bytes), and far from the end of the numbers.
const FAR: usize = 1 << 30;

/// Reads one field out of records; made once, used for every event.
#[derive(Debug, Clone, Copy)]
pub struct Accessor {
    offset: u32,
    size: u32,
    /// Bits that the field leaves free in 64 of them.
    free: u8,
    signed: bool,
    location: Location,
    endian: Endian,
}

impl Accessor {
    pub(crate) fn new(field: &crate::Field, endian: Endian) -> Self {
        Self {
            offset: field.offset.min(FAR) as u32,
            size: field.size.min(FAR) as u32,
            free: 64 - field.size.min(8) as u8 * 8,
            signed: field.signed,
            location: field.location,
            endian,
        }
    }

    /// Offset and size (bytes) of a field that is in place and in this machine's byte order.
    pub fn native(&self) -> Option<(usize, usize)> {
        let swapped = self.size > 1 && self.endian != Endian::native();
        let place = (self.offset as usize, self.size as usize);
        (self.location == Location::Fixed && !swapped).then_some(place)
    }

    /// Length (bytes) of the shortest record that the field can be read from, as a number or as
    /// bytes; `None` where the record itself tells where the bytes are.
    pub fn reach(&self) -> Option<usize> {
        let end = self.offset as usize + self.size as usize;
        (self.location == Location::Fixed).then_some(end)
    }

    /// The field as an unsigned integer; `None` when the record is too short.
    ///
    /// One load and two shifts for a field of any size, with no branch on the size: the events of
    /// a trace change from one to the next, so that such a branch could not be foretold.
    #[inline]
    pub fn uint(&self, record: &[u8]) -> Option<u64> {
        let (offset, size) = (self.offset as usize, self.size as usize);
        if offset + size > record.len() {
            return None;
        }
        let (Some(room), 0..=63) = (record.len().checked_sub(8), self.free) else {
            return self.odd(record);
        };
        // Near the end of the record the eight bytes start before the field.
        let start = offset.min(room);
        let before = (offset - start) as u32 * 8;
        let raw = *record.get(start..)?.first_chunk()?;
        Some(match self.endian {
            Endian::Little => (u64::from_le_bytes(raw) >> before << self.free) >> self.free,
            Endian::Big => (u64::from_be_bytes(raw) << before) >> self.free,
        })
    }

    /// [`Accessor::uint`] of records of less than 8 bytes and of fields without a size.
    #[cold]
    fn odd(&self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.offset as usize..)?;
        let bytes = bytes.get(..self.size as usize)?;
        Some(self.endian.uint(bytes))
    }

    /// The field as a signed integer (sign-extended only if the format says signed).
    #[inline]
    pub fn int(&self, record: &[u8]) -> Option<i64> {
        let value = self.uint(record)?;
        if self.signed && self.free < 64 {
            Some(((value << self.free) as i64) >> self.free)
        } else {
            Some(value as i64)
        }
    }

    /// The bytes of an array or string field, following its locator word if it has one.
    #[inline]
    pub fn bytes<'r>(&self, record: &'r [u8]) -> Option<&'r [u8]> {
        let (start, len) = match self.location {
            Location::Fixed => (self.offset as usize, self.size as usize),
            Location::Data | Location::Relative => {
                let at = self.offset as usize;
                let word = self.endian.u32_at(record, at)?;
                let base = match self.location {
                    Location::Relative => at + 4,
                    _ => 0,
                };
                (base + (word & 0xffff) as usize, (word >> 16) as usize)
            }
        };
        record.get(start..start + len)
    }

    /// The bytes of a string field up to its first null.
    #[inline]
    pub fn text<'r>(&self, record: &'r [u8]) -> Option<&'r [u8]> {
        let bytes = self.bytes(record)?;
        bytes.split(|&b| b == 0).next()
    }
}

#[cfg(test)]
mod tests {
    use super::{Accessor, Location};
    use crate::{Endian, Field};

    #[test]
    fn fields_of_any_size_anywhere() {
        let record: Vec<u8> = (0..20_u8).map(|n| n.wrapping_mul(59) ^ 0xa5).collect();
        for endian in [Endian::Little, Endian::Big] {
            for (len, offset, size) in (0..=20).flat_map(|len| {
                (0..=21).flat_map(move |offset| (0..=12).map(move |size| (len, offset, size)))
            }) {
                let record = record.get(..len).unwrap_or_default();
                let field = Field {
                    name: String::new(),
                    kind: String::new(),
                    offset,
                    size,
                    signed: false,
                    location: Location::Fixed,
                };
                let plain = record.get(offset..offset + size).map(|b| endian.uint(b));
                let read = Accessor::new(&field, endian).uint(record);
                assert_eq!(read, plain, "{endian:?}: {size} bytes at {offset} of {len}");
            }
        }
    }
}
