//! A record's header, in either version and byte order.

/// The upper 24 bits of the first word; the lowest byte is the version.
const MAGIC: u32 = 0x6561_7400;

/// Byte order of the traced machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

/// The integer of type `$int` at `$at` of `$bytes`, an array that is long enough.
macro_rules! int {
    ($endian:expr, $int:ty, $bytes:expr, $at:expr) => {{
        let mut raw = [0; size_of::<$int>()];
        raw.copy_from_slice(&$bytes[$at..$at + size_of::<$int>()]);
        match $endian {
            Endian::Little => <$int>::from_le_bytes(raw),
            Endian::Big => <$int>::from_be_bytes(raw),
        }
    }};
}

impl Endian {
    /// The 32-bit integer at the start of `bytes`, if they hold one.
    pub(crate) fn u32(self, bytes: &[u8]) -> Option<u32> {
        let raw: &[u8; 4] = bytes.first_chunk()?;
        Some(int!(self, u32, raw, 0))
    }

    /// The 64-bit integer at the start of `bytes`, if they hold one.
    pub(crate) fn u64(self, bytes: &[u8]) -> Option<u64> {
        let raw: &[u8; 8] = bytes.first_chunk()?;
        Some(int!(self, u64, raw, 0))
    }
}

/// Version 7 (`struct blk_io_trace`) or 8 (`struct blk_io_trace2`, with 64 bits of action).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V7,
    V8,
}

/// How the records of a file are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) endian: Endian,
    pub(crate) version: Version,
}

/// What the first word of a file says.
pub(crate) enum First {
    Known(Layout),
    /// blktrace's magic with another version.
    Version(u8),
    Foreign,
}

/// Looks at the first word of a file.
pub(crate) fn first_word(word: [u8; 4]) -> First {
    for endian in [Endian::Little, Endian::Big] {
        let word = int!(endian, u32, word, 0);
        if word & !0xff == MAGIC {
            return match word as u8 {
                7 => First::Known(Layout {
                    endian,
                    version: Version::V7,
                }),
                8 => First::Known(Layout {
                    endian,
                    version: Version::V8,
                }),
                other => First::Version(other),
            };
        }
    }
    First::Foreign
}

/// The fields of a header, without the magic.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Header {
    pub(crate) sequence: u32,
    pub(crate) ts: u64,
    pub(crate) sector: u64,
    pub(crate) bytes: u32,
    pub(crate) action: u64,
    pub(crate) pid: u32,
    pub(crate) dev: u32,
    pub(crate) cpu: u32,
    pub(crate) error: u16,
    pub(crate) pdu_len: u16,
}

impl Layout {
    /// Length of a header (bytes).
    pub(crate) const fn size(self) -> usize {
        match self.version {
            Version::V7 => 48,
            Version::V8 => 64,
        }
    }

    /// The four bytes that every record begins with.
    pub(crate) fn magic(self) -> [u8; 4] {
        let word = MAGIC
            | match self.version {
                Version::V7 => 7,
                Version::V8 => 8,
            };
        match self.endian {
            Endian::Little => word.to_le_bytes(),
            Endian::Big => word.to_be_bytes(),
        }
    }

    /// The header at the start of `bytes`; `None` without the magic or when they are too few.
    #[inline]
    pub(crate) fn read(self, bytes: &[u8]) -> Option<Header> {
        match (self.version, self.endian) {
            (Version::V7, Endian::Little) => read_v7::<true>(bytes.first_chunk()?),
            (Version::V7, Endian::Big) => read_v7::<false>(bytes.first_chunk()?),
            (Version::V8, Endian::Little) => read_v8::<true>(bytes.first_chunk()?),
            (Version::V8, Endian::Big) => read_v8::<false>(bytes.first_chunk()?),
        }
    }
}

const fn endian<const LITTLE: bool>() -> Endian {
    if LITTLE { Endian::Little } else { Endian::Big }
}

#[inline]
fn read_v7<const LITTLE: bool>(raw: &[u8; 48]) -> Option<Header> {
    let e = endian::<LITTLE>();
    (int!(e, u32, raw, 0) == MAGIC | 7).then(|| Header {
        sequence: int!(e, u32, raw, 4),
        ts: int!(e, u64, raw, 8),
        sector: int!(e, u64, raw, 16),
        bytes: int!(e, u32, raw, 24),
        action: u64::from(int!(e, u32, raw, 28)),
        pid: int!(e, u32, raw, 32),
        dev: int!(e, u32, raw, 36),
        cpu: int!(e, u32, raw, 40),
        error: int!(e, u16, raw, 44),
        pdu_len: int!(e, u16, raw, 46),
    })
}

#[inline]
fn read_v8<const LITTLE: bool>(raw: &[u8; 64]) -> Option<Header> {
    let e = endian::<LITTLE>();
    (int!(e, u32, raw, 0) == MAGIC | 8).then(|| Header {
        sequence: int!(e, u32, raw, 4),
        ts: int!(e, u64, raw, 8),
        sector: int!(e, u64, raw, 16),
        bytes: int!(e, u32, raw, 24),
        pid: int!(e, u32, raw, 28),
        action: int!(e, u64, raw, 32),
        dev: int!(e, u32, raw, 40),
        cpu: int!(e, u32, raw, 44),
        error: int!(e, u16, raw, 48),
        pdu_len: int!(e, u16, raw, 50),
    })
}
