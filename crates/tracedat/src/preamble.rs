//! The first bytes of a file, which both versions share.

use crate::bytes::Endian;
use crate::compress::Compression;
use crate::error::{Error, Result};
use crate::head::{Head, text_trace};
use crate::meta::Meta;
use crate::reader::Reader;
use crate::source::Source;
use crate::{v6, v7};

/// Reads everything but the trace data.
pub(crate) fn parse(source: &Source) -> Result<(Head, Meta)> {
    let mut r = Reader::new(source, 0, 0, Endian::Little);
    match r.take(10, "magic") {
        Ok(magic) if magic == MAGIC => {}
        Err(e @ Error::Io(_)) => return Err(e),
        _ => return Err(Error::Magic),
    }
    let version_text = r.string("version")?;
    let version: u32 = version_text.parse().unwrap_or(0);
    if !matches!(version, 6 | 7) {
        return Err(Error::Unsupported {
            what: format!("trace.dat version {version_text:?}"),
            mend: "convert it with trace-cmd convert --file-version 7",
        });
    }
    let offset = r.offset();
    let endian = match r.u8("byte order")? {
        0 => Endian::Little,
        1 => Endian::Big,
        other => return Err(Error::corrupt(offset, format!("byte order {other}"))),
    };
    let long = match r.u8("size of long")? {
        4 => 4,
        8 => 8,
        other => return Err(Error::corrupt(offset + 1, format!("long of {other} bytes"))),
    };
    let mut r = r.with_endian(endian);
    let page_size = r.u32("page size")?;
    let mut head = Head {
        version,
        endian,
        long,
        page_size,
        compression: Compression::None,
    };
    let mut meta = Meta::default();
    if version == 6 {
        v6::parse(source, &mut r, &head, &mut meta)?;
    } else {
        head.compression = Compression::parse(&r.string("compression")?)?;
        r.string("version of the compression")?;
        let options = r.u64("offset of the options")?;
        v7::parse(source, &head, options, &mut meta)?;
    }
    for buffer in &meta.buffers {
        check_page_size(buffer.page_size, offset + 2)?;
    }
    if meta.buffers.is_empty() && !meta.texts.is_empty() {
        return Err(text_trace());
    }
    check_end(source, &meta)?;
    Ok((head, meta))
}

const MAGIC: &[u8] = b"\x17\x08\x44tracing";
/// Behind its end a recording may be filled up to a page.
const FILLED: usize = 64 << 10;

/// Refuses a second recording behind the first one, which would be left out in silence.
fn check_end(source: &Source, meta: &Meta) -> Result<()> {
    let parts = meta.buffers.iter().flat_map(|b| &b.parts);
    let ends = parts.map(|part| part.offset.saturating_add(part.size));
    let end = ends.fold(meta.end, u64::max);
    if end == 0 || end >= source.len() {
        return Ok(());
    }
    let mut behind = vec![0; FILLED];
    let count = source.read_at(end, &mut behind)?;
    behind.truncate(count);
    match behind.windows(MAGIC.len()).position(|w| w == MAGIC) {
        None => Ok(()),
        Some(at) => Err(Error::Unsupported {
            what: format!(
                "two recordings in one file (the second from byte {} on)",
                end + at as u64
            ),
            mend: "cut it there, with head -c and tail -c, and name one of the pieces",
        }),
    }
}

/// The kernel's largest sub-buffer is 128 pages (`buffer_subbuf_size_kb`, 6.8): 8 MiB with pages
/// of 64 KiB.
fn check_page_size(size: u32, offset: u64) -> Result<()> {
    if (64..=8 << 20).contains(&size) {
        Ok(())
    } else {
        Err(Error::corrupt(offset, format!("page size {size}")))
    }
}
