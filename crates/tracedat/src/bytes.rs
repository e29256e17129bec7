//! Integers and strings in the byte order of the traced machine.

use std::ffi::CStr;

/// Byte order of the traced machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Endian {
    /// The byte order of the machine that this runs on.
    pub(crate) const fn native() -> Self {
        if cfg!(target_endian = "big") {
            Self::Big
        } else {
            Self::Little
        }
    }

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
        let raw: [u8; 4] = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(raw),
            Self::Big => u32::from_be_bytes(raw),
        })
    }
}

/// Text of the trace; bytes that are not UTF-8 become U+FFFD. Stops at the first null.
pub(crate) fn lossy(bytes: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(bytes).map_or(bytes, CStr::to_bytes);
    // Nearly all is UTF-8, and to look for what is not is slow.
    std::str::from_utf8(text).map_or_else(|_| String::from_utf8_lossy(text).into(), str::to_owned)
}

/// The `len` bytes of the block behind the filled ones; the block grows if it must.
pub(crate) fn room(block: &mut Vec<u8>, filled: usize, len: usize) -> &mut [u8] {
    let end = filled.saturating_add(len);
    if block.len() < end {
        block.resize(end, 0);
    }
    block.get_mut(filled..end).unwrap_or_default()
}
