//! The compression that version 7 may use for sections and for the trace data.

use std::io::Read;

use crate::error::{Error, Result};

/// Largest uncompressed section (kallsyms is the largest, some 10 MB).
const SECTION_LIMIT: usize = 256 << 20;
/// Largest uncompressed chunk of trace data (trace-cmd writes ten pages).
const CHUNK_LIMIT: usize = 64 << 20;

/// The algorithm named in the file's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Nothing is compressed.
    None,
    /// zlib streams.
    Zlib,
    /// zstd frames.
    Zstd,
}

impl Compression {
    pub(crate) fn parse(name: &str) -> Result<Self> {
        match name {
            "none" | "" => Ok(Self::None),
            "zlib" => Ok(Self::Zlib),
            "zstd" => Ok(Self::Zstd),
            other => Err(Error::Unsupported {
                what: format!("compression {other:?}"),
                mend: "convert it with trace-cmd convert --compression none",
            }),
        }
    }

    /// The name as trace-cmd writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }

    /// Uncompresses a section of a stated size. `offset` is its place in the file.
    pub(crate) fn section(self, packed: &[u8], size: u32, offset: u64) -> Result<Vec<u8>> {
        self.unpack(packed, size as usize, SECTION_LIMIT, offset)
    }

    /// Uncompresses a chunk of trace data of a stated size.
    pub(crate) fn chunk(self, packed: &[u8], size: usize, offset: u64) -> Result<Vec<u8>> {
        self.unpack(packed, size, CHUNK_LIMIT, offset)
    }

    fn unpack(self, packed: &[u8], size: usize, limit: usize, offset: u64) -> Result<Vec<u8>> {
        if size > limit {
            return Err(Error::corrupt(
                offset,
                format!("{size} bytes claimed after unpacking"),
            ));
        }
        let damaged = |e: std::io::Error| Error::corrupt(offset, format!("unpacking failed: {e}"));
        let out = match self {
            Self::None => {
                return Err(Error::corrupt(
                    offset,
                    "a packed section in an unpacked file",
                ));
            }
            Self::Zlib => {
                let mut out = Vec::new();
                let mut stream = flate2::read::ZlibDecoder::new(packed).take(size as u64);
                stream.read_to_end(&mut out).map_err(damaged)?;
                out
            }
            Self::Zstd => zstd::bulk::decompress(packed, size).map_err(damaged)?,
        };
        if out.len() == size {
            Ok(out)
        } else {
            Err(Error::corrupt(
                offset,
                format!("{} bytes unpacked of {size}", out.len()),
            ))
        }
    }
}
