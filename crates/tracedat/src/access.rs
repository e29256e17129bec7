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

/// How an integer is read; chosen once, so that reading is one jump and one load.
#[derive(Debug, Clone, Copy)]
enum Width {
    U8,
    /// In this machine's byte order.
    U16,
    U32,
    U64,
    /// In the other byte order.
    Swapped16,
    Swapped32,
    Swapped64,
    /// Any other size.
    Odd,
}

impl Width {
    fn new(size: usize, endian: Endian) -> Self {
        match (size, endian == Endian::native()) {
            (1, _) => Self::U8,
            (2, true) => Self::U16,
            (4, true) => Self::U32,
            (8, true) => Self::U64,
            (2, false) => Self::Swapped16,
            (4, false) => Self::Swapped32,
            (8, false) => Self::Swapped64,
            _ => Self::Odd,
        }
    }
}

/// Reads one field out of records; made once, used for every event.
#[derive(Debug, Clone, Copy)]
pub struct Accessor {
    offset: usize,
    size: usize,
    width: Width,
    signed: bool,
    location: Location,
    endian: Endian,
}

/// The first `N` bytes from `at` on.
#[inline]
fn array<const N: usize>(record: &[u8], at: usize) -> Option<[u8; N]> {
    record.get(at..)?.first_chunk().copied()
}

impl Accessor {
    pub(crate) fn new(field: &crate::Field, endian: Endian) -> Self {
        Self {
            offset: field.offset,
            size: field.size,
            width: Width::new(field.size, endian),
            signed: field.signed,
            location: field.location,
            endian,
        }
    }

    /// The field as an unsigned integer; `None` when the record is too short.
    #[inline]
    pub fn uint(&self, record: &[u8]) -> Option<u64> {
        let at = self.offset;
        Some(match self.width {
            Width::U8 => u64::from(*record.get(at)?),
            Width::U16 => u64::from(u16::from_ne_bytes(array(record, at)?)),
            Width::U32 => u64::from(u32::from_ne_bytes(array(record, at)?)),
            Width::U64 => u64::from_ne_bytes(array(record, at)?),
            Width::Swapped16 => u64::from(u16::from_ne_bytes(array(record, at)?).swap_bytes()),
            Width::Swapped32 => u64::from(u32::from_ne_bytes(array(record, at)?).swap_bytes()),
            Width::Swapped64 => u64::from_ne_bytes(array(record, at)?).swap_bytes(),
            Width::Odd => self.endian.uint(record.get(at..at + self.size)?),
        })
    }

    /// The field as a signed integer (sign-extended only if the format says signed).
    #[inline]
    pub fn int(&self, record: &[u8]) -> Option<i64> {
        let value = self.uint(record)?;
        let unused = 64_u32.saturating_sub(self.size as u32 * 8);
        if self.signed && unused < 64 {
            Some(((value << unused) as i64) >> unused)
        } else {
            Some(value as i64)
        }
    }

    /// The bytes of an array or string field, following its locator word if it has one.
    #[inline]
    pub fn bytes<'r>(&self, record: &'r [u8]) -> Option<&'r [u8]> {
        let (start, len) = match self.location {
            Location::Fixed => (self.offset, self.size),
            Location::Data | Location::Relative => {
                let word = self.endian.u32_at(record, self.offset)?;
                let base = match self.location {
                    Location::Relative => self.offset + 4,
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
