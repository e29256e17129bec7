//! Version 6: one part after the other.

use crate::buffer::{Buffer, CpuPart};
use crate::error::{Error, Result};
use crate::head::{Head, text_trace};
use crate::meta::{Meta, cpu_count};
use crate::reader::Reader;
use crate::source::Source;

/// More instances than any recording has.
const INSTANCE_LIMIT: usize = 1 << 10;

pub(crate) fn parse(
    source: &Source,
    r: &mut Reader<'_>,
    head: &Head,
    meta: &mut Meta,
) -> Result<()> {
    meta.read_headers(r, head.long)?;
    meta.read_ftrace_formats(r, head.endian)?;
    meta.read_event_formats(r, head.endian)?;
    for what in ["kallsyms", "printk formats"] {
        let len = r.u32(what)?;
        r.skip(u64::from(len), what)?;
    }
    meta.read_comms(r)?;
    meta.cpu_count = cpu_count(r)?;
    // Names of instances and where their tables of CPUs are.
    let mut instances = Vec::new();
    let parts = read_kind(r, meta, &mut instances)?;
    let clock = if meta.clock.is_empty() {
        "local".to_owned()
    } else {
        meta.clock.clone()
    };
    let count = meta.cpu_count;
    let mut add = |name, parts| {
        meta.buffers.push(Buffer {
            name,
            clock: clock.clone(),
            page_size: head.page_size,
            packed: false,
            parts,
        });
    };
    add(String::new(), parts);
    for (at, name) in instances {
        let mut r = Reader::new(source, 0, 0, head.endian);
        r.skip(at, "table of an instance")?;
        // An instance's own options (statistics) do not count for the file.
        let mut own = Meta {
            cpu_count: count,
            ..Meta::default()
        };
        add(name, read_kind(&mut r, &mut own, &mut Vec::new())?);
    }
    Ok(())
}

/// The options, if there are any, and the places of the CPUs' data.
fn read_kind(
    r: &mut Reader<'_>,
    meta: &mut Meta,
    instances: &mut Vec<(u64, String)>,
) -> Result<Vec<CpuPart>> {
    let mut offset = r.offset();
    let mut kind = r.take(10, "kind of the data")?;
    if kind.starts_with(b"options") {
        read_options(r, meta, instances)?;
        offset = r.offset();
        kind = r.take(10, "kind of the data")?;
    }
    if kind.starts_with(b"latency") {
        return Err(text_trace());
    }
    if !kind.starts_with(b"flyrecord") {
        return Err(Error::corrupt(offset, "the kind of the data is unknown"));
    }
    let mut parts = Vec::new();
    for cpu in 0..meta.cpu_count {
        let (offset, size) = (r.u64("offset of a CPU")?, r.u64("size of a CPU")?);
        parts.push(CpuPart { cpu, offset, size });
    }
    Ok(parts)
}

fn read_options(
    r: &mut Reader<'_>,
    meta: &mut Meta,
    instances: &mut Vec<(u64, String)>,
) -> Result<()> {
    loop {
        let id = r.u16("option")?;
        if id == 0 {
            return Ok(());
        }
        let len = r.u32("option")?;
        let mut option = r.part(u64::from(len), "option")?;
        if id != 3 {
            meta.read_option(id, &mut option)?;
        } else if instances.len() < INSTANCE_LIMIT {
            let at = option.u64("BUFFER option")?;
            instances.push((at, option.string("name of a buffer")?));
        } else {
            let text = format!("more than {INSTANCE_LIMIT} instances");
            return Err(Error::corrupt(option.offset(), text));
        }
    }
}
