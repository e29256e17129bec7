//! The compression that version 7 may use for sections and for the trace data.

use std::io::Read;

use crate::error::{Error, Result};

/// Largest unpacked section (the formats of all events are some 6 MB).
const SECTION_LIMIT: u32 = 64 << 20;

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
        if size > SECTION_LIMIT {
            let text = format!("{size} bytes claimed after unpacking");
            return Err(Error::corrupt(offset, text));
        }
        let mut out = Vec::new();
        let limit = u64::from(size) + 1;
        let unpacked = match self {
            Self::None => {
                let text = "a packed section in an unpacked file";
                return Err(Error::corrupt(offset, text));
            }
            Self::Zlib => flate2::read::ZlibDecoder::new(packed)
                .take(limit)
                .read_to_end(&mut out),
            Self::Zstd => zstd::stream::read::Decoder::with_buffer(packed)
                .and_then(|d| d.take(limit).read_to_end(&mut out)),
        };
        if let Err(e) = unpacked {
            return Err(Error::corrupt(offset, format!("unpacking failed: {e}")));
        }
        if out.len() == size as usize {
            Ok(out)
        } else {
            let text = format!("{} bytes unpacked of {size}", out.len());
            Err(Error::corrupt(offset, text))
        }
    }
}

/// Unpacks chunks of trace data, with one context for all of them.
pub(crate) struct Unpacker {
    kind: Kind,
    /// The packed bytes of one chunk.
    pub(crate) packed: Vec<u8>,
}

enum Kind {
    None,
    Zlib(flate2::Decompress),
    Zstd(zstd::bulk::Decompressor<'static>),
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacker").finish_non_exhaustive()
    }
}

impl Unpacker {
    pub(crate) fn new(compression: Compression) -> Result<Self> {
        let kind = match compression {
            Compression::None => Kind::None,
            Compression::Zlib => Kind::Zlib(flate2::Decompress::new(true)),
            Compression::Zstd => Kind::Zstd(zstd::bulk::Decompressor::new()?),
        };
        let packed = Vec::new();
        Ok(Self { kind, packed })
    }

    /// Unpacks the first `len` bytes of `packed` into all of `out`; whether that was their content.
    pub(crate) fn unpack(&mut self, len: usize, out: &mut [u8]) -> bool {
        let packed = self.packed.get(..len).unwrap_or_default();
        match &mut self.kind {
            Kind::None => false,
            Kind::Zlib(stream) => {
                stream.reset(true);
                let end = stream.decompress(packed, out, flate2::FlushDecompress::Finish);
                matches!(end, Ok(flate2::Status::StreamEnd))
                    && stream.total_out() == out.len() as u64
            }
            Kind::Zstd(context) => context
                .decompress_to_buffer(packed, out)
                .is_ok_and(|count| count == out.len()),
        }
    }
}
