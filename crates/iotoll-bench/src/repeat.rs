//! A longer trace: the pages of one, again and again at later times.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::container::{Container, Part};
use crate::{Result, pages};

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
pub fn repeat(source: &[u8], target: &Path, times: u64) -> Result<Written> {
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
    let parts = container.write(&mut out, |out, part| {
        let copies = (0..times).flat_map(|copy| {
            container.pages(part).map(move |page| {
                let mut page = page.to_vec();
                pages::shift(&mut page, copy * period);
                page
            })
        });
        write_pages(out, copies)
    })?;
    Ok(Written {
        events: events * times,
        page_size: container.buffer.page_size,
        parts,
    })
}

fn write_pages(out: &mut impl Write, pages: impl Iterator<Item = Vec<u8>>) -> Result<u64> {
    let mut size = 0;
    for page in pages {
        out.write_all(&page)?;
        size += page.len() as u64;
    }
    Ok(size)
}
