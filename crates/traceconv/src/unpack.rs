//! Packed recordings, known by their first bytes whatever their name is.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Write};
use std::path::Path;

use crate::error::{Error, Result};
use crate::write::scratch;

/// Bytes by which a format is known.
const HEAD: u64 = 256 << 10;
/// Packings inside each other.
const NESTED: usize = 3;

/// A recording's bytes in their order, unpacked.
pub(crate) struct Input {
    head: Cursor<Vec<u8>>,
    rest: Box<dyn Read>,
    /// The file itself, if it is not packed.
    file: Option<File>,
    /// How it is packed, the outermost first.
    pub(crate) packing: Option<&'static str>,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input")
            .field("packing", &self.packing)
            .finish_non_exhaustive()
    }
}

impl Input {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path)?;
        let mut input = Self::new(Box::new(file.try_clone()?))?;
        input.file = Some(file).filter(|_| input.packing.is_none());
        Ok(input)
    }

    pub(crate) fn new(source: Box<dyn Read>) -> Result<Self> {
        let mut input = Self::peek(source, None)?;
        for _ in 0..NESTED {
            let Some(packing) = packing_of(input.head()) else {
                break;
            };
            let outer = input.packing.unwrap_or(packing);
            let unpacked = unpack(packing, Box::new(input))?;
            input = Self::peek(unpacked, Some(outer))?;
        }
        Ok(input)
    }

    fn peek(mut source: Box<dyn Read>, packing: Option<&'static str>) -> Result<Self> {
        let head = crate::read_up_to(&mut source, HEAD).map_err(|e| unpacking(packing, e))?;
        Ok(Self {
            head: Cursor::new(head),
            rest: source,
            file: None,
            packing,
        })
    }

    /// What it begins with, before anything was read.
    pub(crate) fn head(&self) -> &[u8] {
        self.head.get_ref()
    }

    /// An error while it was read: of the packing, if it is packed.
    pub(crate) fn failed(&self, source: io::Error) -> Error {
        unpacking(self.packing, source)
    }

    /// A file that can be read at any place: its own, or one without a name.
    pub(crate) fn into_file(mut self) -> Result<File> {
        match self.file.take() {
            Some(file) => Ok(file),
            None => self.spool(),
        }
    }

    /// All of it as a file without a name.
    pub(crate) fn spool(&mut self) -> Result<File> {
        let mut file = tempfile::tempfile().map_err(scratch)?;
        let mut block = vec![0; 256 << 10];
        loop {
            let count = match self.read(&mut block) {
                Ok(0) => return Ok(file),
                Ok(count) => count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(self.failed(e)),
            };
            let bytes = block.get(..count).unwrap_or_default();
            file.write_all(bytes).map_err(scratch)?;
        }
    }
}

impl Read for Input {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.head.read(out)? {
            0 => self.rest.read(out),
            count => Ok(count),
        }
    }
}

fn unpacking(packing: Option<&'static str>, source: io::Error) -> Error {
    match packing {
        Some(packing) => Error::Packing { packing, source },
        None => Error::Io(source),
    }
}

fn packing_of(head: &[u8]) -> Option<&'static str> {
    Some(match head {
        [0x1f, 0x8b, 8, ..] => "gzip",
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => "xz",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd",
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, ..] => "bzip2",
        [0x04, 0x22, 0x4d, 0x18, ..] => "lz4",
        // atrace -z: this line, and a zlib stream.
        [b'T', b'R', b'A', b'C', b'E', b':', b'\n', 0x78, ..] => "zlib",
        _ => return None,
    })
}

fn unpack(packing: &'static str, mut source: Box<dyn Read>) -> Result<Box<dyn Read>> {
    let failed = |source| Error::Packing { packing, source };
    Ok(match packing {
        "gzip" => Box::new(flate2::read::MultiGzDecoder::new(source)),
        "xz" => {
            // 128 MiB is more than any preset needs (xz -9: 65 MiB).
            let stream = liblzma::stream::Stream::new_stream_decoder(
                128 << 20,
                liblzma::stream::CONCATENATED,
            );
            let stream = stream.map_err(|e| failed(e.into()))?;
            Box::new(liblzma::read::XzDecoder::new_stream(source, stream))
        }
        "zstd" => Box::new(zstd::stream::read::Decoder::new(source).map_err(failed)?),
        "bzip2" => Box::new(bzip2::read::MultiBzDecoder::new(source)),
        "lz4" => Box::new(lz4_flex::frame::FrameDecoder::new(BufReader::new(source))),
        _ => {
            io::copy(&mut (&mut source).take(7), &mut io::sink()).map_err(failed)?;
            Box::new(flate2::read::ZlibDecoder::new(source))
        }
    })
}
