//! The lines in which a document crosses a serial console. docs/dut.md has the format;
//! src/iotoll/serialrecord.py reads it.
//!
//! A console mixes the kernel's own lines into ours, changes line ends, and may lose characters.
//! So each line says whose it is, carries its own CRC-32 (which lines are good?), and the whole
//! document has a SHA-256 (is what they make up the document?).

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::digest;

/// Bytes of the packed document in one chunk: 160 characters, so that no line exceeds 200.
const CHUNK: usize = 120;
/// Longest cell name in a header; the document has the whole one.
const NAME: usize = 48;

/// A document ready to be sent.
#[derive(Debug)]
pub(crate) struct Message {
    id: String,
    /// Header and trailer without their letter and CRC.
    about: String,
    packed: Vec<u8>,
}

impl Message {
    /// Packs a document. `cell` is a label for whoever reads the log.
    pub(crate) fn new(cell: &str, document: &str) -> io::Result<Self> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(document.as_bytes())?;
        let packed = encoder.finish()?;
        let sha256 = digest::of_bytes(document.as_bytes());
        let id = sha256.get(..8).unwrap_or_default().to_owned();
        let chunks = packed.len().div_ceil(CHUNK);
        let (size, packed_size, cell) = (document.len(), packed.len(), label(cell));
        let about = format!("{id} {cell} zlib {size} {packed_size} {chunks} {sha256}");
        Ok(Self { id, about, packed })
    }

    /// First letters of the document's SHA-256: the record's number.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Number of chunks.
    pub(crate) fn chunks(&self) -> usize {
        self.packed.len().div_ceil(CHUNK)
    }

    /// Writes header, those chunks (counted from 1) that are `wanted`, and trailer.
    pub(crate) fn write(
        &self,
        out: &mut impl Write,
        wanted: impl Fn(usize) -> bool,
    ) -> io::Result<()> {
        line(out, &format!("H {}", self.about))?;
        let of = self.chunks();
        for (number, bytes) in (1..).zip(self.packed.chunks(CHUNK)) {
            if wanted(number) {
                let data = STANDARD.encode(bytes);
                line(out, &format!("D {} {number}/{of} {data}", self.id))?;
            }
        }
        // The same words again: a lost header can be done without.
        line(out, &format!("E {}", self.about))
    }
}

/// One line: the magic, the text, and the CRC-32 of all before the last space.
fn line(out: &mut impl Write, text: &str) -> io::Result<()> {
    let text = format!("#iotoll1 {text}");
    let crc = crc32fast::hash(text.as_bytes());
    writeln!(out, "{text} {crc:08x}")
}

/// A name that is one word of harmless characters.
fn label(cell: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "._-".contains(c) {
            c
        } else {
            '_'
        }
    };
    let name: String = cell.chars().take(NAME).map(plain).collect();
    if name.is_empty() {
        "_".to_owned()
    } else {
        name
    }
}
