//! The parts of a file, of either version.

use std::collections::HashSet;

use crate::bytes::{Endian, Reader};
use crate::compress::Compression;
use crate::error::{Error, Result};
use crate::meta::{Buffer, CpuPart, Meta};

/// A machine with more CPUs than this is a damaged file.
const CPU_LIMIT: u32 = 1 << 14;

/// What the first bytes say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) version: u32,
    pub(crate) endian: Endian,
    pub(crate) long: usize,
    pub(crate) page_size: u32,
    pub(crate) compression: Compression,
}

/// Reads everything but the trace data.
pub(crate) fn parse(file: &[u8]) -> Result<(Head, Meta)> {
    let mut r = Reader::new(file, 0, Endian::Little);
    if r.take(10, "magic").ok() != Some(b"\x17\x08\x44tracing".as_slice()) {
        return Err(Error::Magic);
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
    let mut r = Reader::new(
        r.take(file.len() as u64 - r.offset(), "file")?,
        offset + 2,
        endian,
    );
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
        parse_v6(&mut r, &head, &mut meta)?;
    } else {
        head.compression = Compression::parse(&r.string("compression")?)?;
        r.string("version of the compression")?;
        let options = r.u64("offset of the options")?;
        parse_v7(file, &head, options, &mut meta)?;
    }
    for buffer in &meta.buffers {
        check_page_size(buffer.page_size, offset + 2)?;
    }
    Ok((head, meta))
}

fn check_page_size(size: u32, offset: u64) -> Result<()> {
    if (64..=1 << 24).contains(&size) {
        Ok(())
    } else {
        Err(Error::corrupt(offset, format!("page size {size}")))
    }
}

/// A reader at a file offset.
fn reader_at<'a>(
    file: &'a [u8],
    offset: u64,
    endian: Endian,
    what: &'static str,
) -> Result<Reader<'a>> {
    let mut whole = Reader::new(file, 0, endian);
    whole.take(offset, what)?;
    let rest = whole.take(file.len() as u64 - offset, what)?;
    Ok(Reader::new(rest, offset, endian))
}

fn parse_v6(r: &mut Reader<'_>, head: &Head, meta: &mut Meta) -> Result<()> {
    meta.read_headers(r, head.long)?;
    meta.read_ftrace_formats(r, head.endian)?;
    meta.read_event_formats(r, head.endian)?;
    r.block(false, "kallsyms")?;
    r.block(false, "printk formats")?;
    meta.read_comms(r)?;
    meta.cpu_count = cpu_count(r)?;
    let mut kind = r.take(10, "kind of the data")?;
    if kind.starts_with(b"options") {
        read_v6_options(r, head, meta)?;
        kind = r.take(10, "kind of the data")?;
    }
    if !kind.starts_with(b"flyrecord") {
        return Err(Error::Unsupported {
            what: "a latency (text) trace".to_owned(),
            mend: "record with trace-cmd record or extract",
        });
    }
    let mut parts = Vec::new();
    for cpu in 0..meta.cpu_count {
        let (offset, size) = (r.u64("offset of a CPU")?, r.u64("size of a CPU")?);
        parts.push(CpuPart { cpu, offset, size });
    }
    let clock = std::mem::take(&mut meta.clock);
    let clock = if clock.is_empty() {
        "local".to_owned()
    } else {
        clock
    };
    let top = Buffer {
        clock,
        page_size: head.page_size,
        parts,
        ..Buffer::default()
    };
    meta.buffers.insert(0, top);
    Ok(())
}

fn cpu_count(r: &mut Reader<'_>) -> Result<u32> {
    let offset = r.offset();
    match r.u32("number of CPUs")? {
        n if n <= CPU_LIMIT => Ok(n),
        n => Err(Error::corrupt(offset, format!("{n} CPUs"))),
    }
}

fn read_v6_options(r: &mut Reader<'_>, head: &Head, meta: &mut Meta) -> Result<()> {
    loop {
        let id = r.u16("option")?;
        if id == 0 {
            return Ok(());
        }
        let len = r.u32("option")?;
        let offset = r.offset();
        let data = r.take(u64::from(len), "option")?;
        meta.read_option(id, data, &mut Reader::new(data, offset, head.endian))?;
    }
}

/// A section of version 7, unpacked if need be.
struct Section<'a> {
    id: u16,
    packed: bool,
    offset: u64,
    data: std::borrow::Cow<'a, [u8]>,
}

impl Section<'_> {
    fn reader(&self, head: &Head) -> Reader<'_> {
        Reader::new(&self.data, self.offset, head.endian)
    }
}

/// Reads a section's header and, if `with_data`, its data.
fn section<'a>(file: &'a [u8], head: &Head, at: u64, with_data: bool) -> Result<Section<'a>> {
    let mut r = reader_at(file, at, head.endian, "section")?;
    let id = r.u16("section")?;
    let packed = r.u16("section")? & 1 != 0;
    r.u32("section")?;
    let size = r.u64("section")?;
    let offset = r.offset();
    let data = if !with_data {
        std::borrow::Cow::Borrowed([].as_slice())
    } else if packed {
        let (from, to) = (r.u32("packed section")?, r.u32("packed section")?);
        let bytes = r.take(u64::from(from), "packed section")?;
        head.compression.section(bytes, to, offset)?.into()
    } else {
        r.take(size, "section")?.into()
    };
    Ok(Section {
        id,
        packed,
        offset,
        data,
    })
}

fn parse_v7(file: &[u8], head: &Head, first: u64, meta: &mut Meta) -> Result<()> {
    let (mut at, mut seen) = (first, HashSet::new());
    let mut event_sections = Vec::new();
    while at != 0 {
        if !seen.insert(at) {
            return Err(Error::corrupt(at, "the options sections form a loop"));
        }
        let options = section(file, head, at, true)?;
        if options.id != 0 {
            return Err(Error::corrupt(at, "an options section expected"));
        }
        let mut r = options.reader(head);
        at = 0;
        while !r.is_empty() {
            let (id, len) = (r.u16("option")?, r.u32("option")?);
            let offset = r.offset();
            let data = r.take(u64::from(len), "option")?;
            let mut option = Reader::new(data, offset, head.endian);
            match id {
                0 => {
                    at = option.u64("DONE option")?;
                    break;
                }
                3 => read_buffer(file, head, &mut option, meta)?,
                16 | 17 | 18 | 21 => event_sections.push((id, option.u64("option")?)),
                _ => meta.read_option(id, data, &mut option)?,
            }
        }
    }
    for (id, at) in event_sections {
        let part = section(file, head, at, true)?;
        let mut r = part.reader(head);
        match id {
            16 => meta.read_headers(&mut r, head.long)?,
            17 => meta.read_ftrace_formats(&mut r, head.endian)?,
            18 => meta.read_event_formats(&mut r, head.endian)?,
            _ => meta.read_comms(&mut r)?,
        }
    }
    Ok(())
}

fn read_buffer(file: &[u8], head: &Head, r: &mut Reader<'_>, meta: &mut Meta) -> Result<()> {
    let at = r.u64("BUFFER option")?;
    let name = r.string("name of a buffer")?;
    let clock = r.string("clock of a buffer")?;
    let page_size = r.u32("page size of a buffer")?;
    let mut parts = Vec::new();
    for _ in 0..cpu_count(r)? {
        let cpu = r.u32("CPU")?;
        let (offset, size) = (r.u64("offset of a CPU")?, r.u64("size of a CPU")?);
        parts.push(CpuPart { cpu, offset, size });
    }
    let data = section(file, head, at, false)?;
    if data.id != 3 {
        return Err(Error::corrupt(at, "a BUFFER section expected"));
    }
    meta.buffers.push(Buffer {
        name,
        clock,
        page_size,
        packed: data.packed,
        parts,
    });
    Ok(())
}
