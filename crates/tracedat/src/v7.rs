//! Version 7: sections that options point to.

use std::collections::HashSet;

use crate::buffer::{Buffer, CpuPart};
use crate::error::{Error, Result};
use crate::head::Head;
use crate::meta::{Meta, cpu_count, cpu_number};
use crate::reader::Reader;
use crate::source::Source;

/// More sections of options, or buffers, than any recording has.
const SECTION_LIMIT: usize = 1 << 10;

/// A section's header, and a reader behind it.
struct Section<'a> {
    id: u16,
    packed: bool,
    size: u64,
    /// Behind it in the file.
    end: u64,
    body: Reader<'a>,
}

fn section<'a>(source: &'a Source, head: &Head, at: u64) -> Result<Section<'a>> {
    let mut body = Reader::new(source, 0, 0, head.endian);
    body.skip(at, "section")?;
    let id = body.u16("section")?;
    let packed = body.u16("section")? & 1 != 0;
    body.u32("section")?;
    let size = body.u64("section")?;
    Ok(Section {
        id,
        packed,
        size,
        end: body.offset().saturating_add(size),
        body,
    })
}

/// Reads a section's data, unpacked if need be.
fn with_section<T>(
    mut section: Section<'_>,
    head: &Head,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T>,
) -> Result<T> {
    if !section.packed {
        let mut part = section.body.part(section.size, "section")?;
        return read(&mut part);
    }
    let what = "packed section";
    let (from, to) = (section.body.u32(what)?, section.body.u32(what)?);
    let offset = section.body.offset();
    let bytes = section.body.take(u64::from(from), what)?;
    let plain = Source::Bytes(head.compression.section(&bytes, to, offset)?);
    drop(bytes);
    read(&mut Reader::new(&plain, 0, offset, head.endian))
}

pub(crate) fn parse(source: &Source, head: &Head, first: u64, meta: &mut Meta) -> Result<()> {
    let (mut at, mut seen) = (first, HashSet::new());
    let mut places = Vec::new();
    while at != 0 {
        if !seen.insert(at) || seen.len() > SECTION_LIMIT {
            return Err(Error::corrupt(at, "the options sections form a loop"));
        }
        let options = section(source, head, at)?;
        meta.end = meta.end.max(options.end);
        if options.id != 0 {
            return Err(Error::corrupt(at, "an options section expected"));
        }
        at = with_section(options, head, |r| {
            read_options(source, head, r, meta, &mut places)
        })?;
    }
    for (id, at) in places {
        let part = section(source, head, at)?;
        meta.end = meta.end.max(part.end);
        with_section(part, head, |r| match id {
            16 => meta.read_headers(r, head.long),
            17 => meta.read_ftrace_formats(r, head.endian),
            18 => meta.read_event_formats(r, head.endian),
            _ => meta.read_comms(r),
        })?;
    }
    Ok(())
}

/// Reads one section of options; where the next one is, 0 if there is none. `places` gets the
/// sections that the options point to.
fn read_options(
    source: &Source,
    head: &Head,
    r: &mut Reader<'_>,
    meta: &mut Meta,
    places: &mut Vec<(u16, u64)>,
) -> Result<u64> {
    while !r.is_empty() {
        let (id, len) = (r.u16("option")?, r.u32("option")?);
        let mut option = r.part(u64::from(len), "option")?;
        match id {
            0 => return option.u64("DONE option"),
            3 => read_buffer(source, head, &mut option, meta)?,
            16 | 17 | 18 | 21 => {
                // One of each: a second one replaces the first, as in libtracecmd.
                places.retain(|place| place.0 != id);
                places.push((id, option.u64("option")?));
            }
            22 => {
                option.u64("BUFFER_TEXT option")?;
                let name = option.string("name of a buffer")?;
                meta.texts.push(name);
            }
            _ => meta.read_option(id, &mut option)?,
        }
    }
    Ok(0)
}

fn read_buffer(source: &Source, head: &Head, r: &mut Reader<'_>, meta: &mut Meta) -> Result<()> {
    let at = r.u64("BUFFER option")?;
    let name = r.string("name of a buffer")?;
    let clock = r.string("clock of a buffer")?;
    let page_size = r.u32("page size of a buffer")?;
    let mut parts = Vec::new();
    for _ in 0..cpu_count(r)? {
        let cpu = cpu_number(r)?;
        let (offset, size) = (r.u64("offset of a CPU")?, r.u64("size of a CPU")?);
        parts.push(CpuPart { cpu, offset, size });
    }
    let data = section(source, head, at)?;
    if data.id != 3 {
        return Err(Error::corrupt(at, "a BUFFER section expected"));
    }
    if meta.buffers.len() >= SECTION_LIMIT {
        let text = format!("more than {SECTION_LIMIT} buffers");
        return Err(Error::corrupt(r.offset(), text));
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
