//! Checked reading of integers and strings in the byte order of the traced machine.

use crate::error::{Error, Result};

/// Byte order of the traced machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Endian {
    /// The unsigned integer in all of `bytes` (1 to 8 of them; more are cut off, 0 gives 0).
    #[inline]
    pub fn uint(self, bytes: &[u8]) -> u64 {
        if let Ok(raw) = <[u8; 8]>::try_from(bytes) {
            return match self {
                Self::Little => u64::from_le_bytes(raw),
                Self::Big => u64::from_be_bytes(raw),
            };
        }
        if let Some(word) = self.u32_at(bytes, 0).filter(|_| bytes.len() == 4) {
            return u64::from(word);
        }
        let join = |acc: u64, &byte: &u8| (acc << 8) | u64::from(byte);
        match self {
            Self::Little => bytes.iter().take(8).rev().fold(0, join),
            Self::Big => bytes.iter().take(8).fold(0, join),
        }
    }

    /// The 32-bit integer at `at`, or `None` when it does not fit into `bytes`.
    #[inline]
    pub(crate) fn u32_at(self, bytes: &[u8], at: usize) -> Option<u32> {
        let raw: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(raw),
            Self::Big => u32::from_be_bytes(raw),
        })
    }
}

/// A position in a part of the file. `base` is the file offset of the part, for messages.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    base: u64,
    endian: Endian,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], base: u64, endian: Endian) -> Self {
        Self {
            bytes,
            at: 0,
            base,
            endian,
        }
    }

    /// Offset in the file of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(crate) fn take(&mut self, len: u64, what: &'static str) -> Result<&'a [u8]> {
        let end = usize::try_from(len)
            .ok()
            .and_then(|n| self.at.checked_add(n));
        match end.and_then(|end| Some((end, self.bytes.get(self.at..end)?))) {
            Some((end, taken)) => {
                self.at = end;
                Ok(taken)
            }
            None => Err(Error::Truncated {
                offset: self.offset(),
                end: self.base + self.bytes.len() as u64,
                what,
            }),
        }
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8> {
        Ok(self.take(1, what)?.first().copied().unwrap_or(0))
    }

    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16> {
        Ok(self.endian.uint(self.take(2, what)?) as u16)
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32> {
        Ok(self.endian.uint(self.take(4, what)?) as u32)
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64> {
        Ok(self.endian.uint(self.take(8, what)?))
    }

    /// A null-terminated string, without the null.
    pub(crate) fn string(&mut self, what: &'static str) -> Result<String> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let len = rest.iter().position(|&b| b == 0).ok_or(Error::Truncated {
            offset: self.offset(),
            end: self.base + self.bytes.len() as u64,
            what,
        })?;
        let text = self.take(len as u64 + 1, what)?;
        Ok(lossy(text.get(..len).unwrap_or_default()))
    }

    /// Exactly these bytes.
    pub(crate) fn expect(&mut self, want: &[u8], what: &'static str) -> Result<()> {
        let offset = self.offset();
        if self.take(want.len() as u64, what)? == want {
            Ok(())
        } else {
            Err(Error::corrupt(offset, format!("{what} expected")))
        }
    }

    /// A block with its 64-bit or 32-bit length in front.
    pub(crate) fn block(&mut self, long: bool, what: &'static str) -> Result<&'a [u8]> {
        let len = if long {
            self.u64(what)?
        } else {
            u64::from(self.u32(what)?)
        };
        self.take(len, what)
    }
}

/// Text of the trace; bytes that are not UTF-8 become U+FFFD. Stops at the first null.
pub(crate) fn lossy(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}
