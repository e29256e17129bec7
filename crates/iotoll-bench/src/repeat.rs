//! A longer trace: the pages of one, again and again at later times.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::container::{Container, Part};
use crate::{Result, pages};

/// Pages in a compressed chunk, as trace-cmd packs them.
const CHUNK: usize = 10;
/// Clock units between the copies.
const PAUSE: u64 = 1_000_000;

/// What was written.
#[derive(Debug)]
pub struct Written {
    /// Events in the file.
    pub events: u64,
    /// Size of a page (bytes).
    pub page_size: u32,
    /// Where each CPU's data are.
    pub parts: Vec<Part>,
}

/// Writes `times` copies of a trace into one file, each after the other in time.
///
/// # Errors
/// When the source is not as [`Container::read`] wants it, or a file cannot be written.
pub fn repeat(source: &[u8], target: &Path, packed: bool, times: u64) -> Result<Written> {
    let container = Container::read(source)?;
    let (mut first, mut last, mut events) = (u64::MAX, 0, 0);
    for part in &container.buffer.parts {
        for page in container.pages(part) {
            let Some(span) = pages::span(page).filter(|span| span.2 > 0) else {
                continue;
            };
            (first, last) = (first.min(span.0), last.max(span.1));
            events += span.2;
        }
    }
    let period = last.saturating_sub(first) + PAUSE;
    let mut out = BufWriter::with_capacity(1 << 20, File::create(target)?);
    let parts = container.write(&mut out, packed, |out, part| {
        let copies = (0..times).flat_map(|copy| {
            container.pages(part).map(move |page| {
                let mut page = page.to_vec();
                pages::shift(&mut page, copy * period);
                page
            })
        });
        if packed {
            pack(out, copies)
        } else {
            plain(out, copies)
        }
    })?;
    Ok(Written {
        events: events * times,
        page_size: container.buffer.page_size,
        parts,
    })
}

fn plain(out: &mut impl Write, pages: impl Iterator<Item = Vec<u8>>) -> Result<u64> {
    let mut size = 0;
    for page in pages {
        out.write_all(&page)?;
        size += page.len() as u64;
    }
    Ok(size)
}

/// Number of chunks, then each as: compressed size, size, data.
fn pack<W: Write + std::io::Seek>(
    out: &mut W,
    mut pages: impl Iterator<Item = Vec<u8>>,
) -> Result<u64> {
    let start = out.stream_position()?;
    let (mut chunks, mut size) = (0_u32, 0);
    out.write_all(&chunks.to_le_bytes())?;
    loop {
        let chunk: Vec<u8> = pages.by_ref().take(CHUNK).flatten().collect();
        if chunk.is_empty() {
            break;
        }
        let packed = zstd::bulk::compress(&chunk, zstd::DEFAULT_COMPRESSION_LEVEL)?;
        out.write_all(&(packed.len() as u32).to_le_bytes())?;
        out.write_all(&(chunk.len() as u32).to_le_bytes())?;
        out.write_all(&packed)?;
        size += 8 + packed.len() as u64;
        chunks += 1;
    }
    let end = out.stream_position()?;
    out.seek(std::io::SeekFrom::Start(start))?;
    out.write_all(&chunks.to_le_bytes())?;
    out.seek(std::io::SeekFrom::Start(end))?;
    // The number of chunks does not count.
    Ok(size)
}
