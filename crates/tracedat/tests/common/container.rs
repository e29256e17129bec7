//! The container around the pages: version 6 or 7.

use std::io::Write;

use tracedat::Endian;

use super::{Page, Shape, comm_text, event_texts, head_texts, page};

/// A recorded instance; the first one of a file is the top buffer, without a name.
#[derive(Debug, Clone)]
pub struct Instance {
    pub name: &'static str,
    /// Version 6 has only one clock, that of the top buffer.
    pub clock: &'static str,
    /// (number, pages) of each CPU; version 6 numbers them itself.
    pub cpus: Vec<(u32, Vec<Page>)>,
}

impl Instance {
    fn data(&self, shape: &Shape) -> Vec<Vec<u8>> {
        let pages = |pages: &[Page]| pages.iter().flat_map(|p| page(shape, p)).collect();
        self.cpus.iter().map(|(_, list)| pages(list)).collect()
    }
}

/// A whole file: its event formats, more options (number, data) and buffers.
pub fn file_of(
    shape: &Shape,
    formats: &[(&str, String)],
    options: &[(u64, Vec<u8>)],
    buffers: &[Instance],
) -> Vec<u8> {
    let mut out = b"\x17\x08\x44tracing".to_vec();
    out.extend(shape.version.to_string().as_bytes());
    out.push(0);
    out.push(u8::from(shape.endian == Endian::Big));
    out.push(shape.long as u8);
    out.extend(shape.int(shape.page_size as u64, 4));
    if shape.version == 6 {
        finish_v6(shape, formats, options, buffers, out)
    } else {
        finish_v7(shape, formats, options, buffers, out)
    }
}

fn option(shape: &Shape, id: u64, data: &[u8]) -> Vec<u8> {
    let mut out = shape.int(id, 2);
    out.extend(shape.int(data.len() as u64, 4));
    out.extend(data);
    out
}

const STATS: &[u8] = b"CPU: 0\nentries: 3\ndropped events: 9\n\0";

fn finish_v6(
    shape: &Shape,
    formats: &[(&str, String)],
    options: &[(u64, Vec<u8>)],
    buffers: &[Instance],
    mut out: Vec<u8>,
) -> Vec<u8> {
    out.extend(head_texts(shape));
    out.extend(shape.int(0, 4));
    out.extend(event_texts(shape, formats));
    out.extend(shape.int(0, 4));
    out.extend(shape.int(0, 4));
    out.extend(comm_text(shape));
    out.extend(shape.int(buffers[0].cpus.len() as u64, 4));
    out.extend(b"options  \0");
    let clock = format!("local [{}] boot\n\0", buffers[0].clock);
    out.extend(option(shape, 4, clock.as_bytes()));
    out.extend(option(shape, 2, STATS));
    for (id, data) in options {
        out.extend(option(shape, *id, data));
    }
    let mut places = Vec::new();
    for buffer in &buffers[1..] {
        let mut data = shape.int(0, 8);
        data.extend(buffer.name.as_bytes());
        data.push(0);
        places.push(out.len() + 6);
        out.extend(option(shape, 3, &data));
    }
    out.extend(shape.int(0, 2));
    v6_table(shape, &buffers[0], &mut out);
    for (buffer, place) in buffers[1..].iter().zip(places) {
        let at = out.len() as u64;
        out.splice(place..place + 8, shape.int(at, 8));
        v6_table(shape, buffer, &mut out);
    }
    out
}

/// Places and data of the CPUs of one buffer.
fn v6_table(shape: &Shape, buffer: &Instance, out: &mut Vec<u8>) {
    let data = buffer.data(shape);
    out.extend(b"flyrecord\0");
    let mut at = out.len() + data.len() * 16;
    for part in &data {
        out.extend(shape.int(at as u64, 8));
        out.extend(shape.int(part.len() as u64, 8));
        at += part.len();
    }
    out.extend(data.iter().flatten());
}

fn pack(shape: &Shape, bytes: &[u8]) -> Vec<u8> {
    match shape.packing {
        "zlib" => {
            let mut z = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            z.write_all(bytes).unwrap();
            z.finish().unwrap()
        }
        "zstd" => zstd::bulk::compress(bytes, 1).unwrap(),
        _ => bytes.to_vec(),
    }
}

fn sized(shape: &Shape, bytes: &[u8]) -> Vec<u8> {
    let packed = pack(shape, bytes);
    let mut out = shape.int(packed.len() as u64, 4);
    out.extend(shape.int(bytes.len() as u64, 4));
    out.extend(packed);
    out
}

fn section_head(shape: &Shape, id: u64, packed: bool, size: usize, out: &mut Vec<u8>) {
    out.extend(shape.int(id, 2));
    out.extend(shape.int(u64::from(packed), 2));
    out.extend(shape.int(0, 4));
    out.extend(shape.int(size as u64, 8));
}

fn section(shape: &Shape, id: u64, bytes: &[u8], out: &mut Vec<u8>) -> u64 {
    let at = out.len() as u64;
    let packed = shape.packing != "none" && id != 0;
    let body = if packed {
        sized(shape, bytes)
    } else {
        bytes.to_vec()
    };
    section_head(shape, id, packed, body.len(), out);
    out.extend(body);
    at
}

fn finish_v7(
    shape: &Shape,
    formats: &[(&str, String)],
    more: &[(u64, Vec<u8>)],
    buffers: &[Instance],
    mut out: Vec<u8>,
) -> Vec<u8> {
    out.extend(shape.packing.as_bytes());
    out.extend(b"\x001.0\0");
    let options_at = out.len();
    out.extend(shape.int(0, 8));
    let mut options = Vec::new();
    for (id, text) in [
        (16, head_texts(shape)),
        (18, event_texts(shape, formats)),
        (21, comm_text(shape)),
    ] {
        let at = section(shape, id, &text, &mut out);
        options.extend(option(shape, id, &shape.int(at, 8)));
    }
    for buffer in buffers {
        let data = v7_buffer(shape, buffer, &mut out);
        options.extend(option(shape, 3, &data));
    }
    // The options in two linked sections.
    let second = out.len() as u64;
    options.extend(option(shape, 0, &shape.int(0, 8)));
    section(shape, 0, &options, &mut out);
    let mut first = option(shape, 2, STATS);
    let cpus = buffers.first().map_or(0, |b| b.cpus.len());
    first.extend(option(shape, 8, &shape.int(cpus as u64, 4)));
    for (id, data) in more {
        first.extend(option(shape, *id, data));
    }
    first.extend(option(shape, 0, &shape.int(second, 8)));
    let first = section(shape, 0, &first, &mut out);
    out.splice(options_at..options_at + 8, shape.int(first, 8));
    out
}

/// Appends a buffer's section; the data of its option.
fn v7_buffer(shape: &Shape, buffer: &Instance, out: &mut Vec<u8>) -> Vec<u8> {
    let packed = shape.packing != "none";
    let mut data = shape.int(out.len() as u64, 8);
    section_head(shape, 3, packed, 0, out);
    for text in [buffer.name, buffer.clock] {
        data.extend(text.as_bytes());
        data.push(0);
    }
    data.extend(shape.int(shape.page_size as u64, 4));
    data.extend(shape.int(buffer.cpus.len() as u64, 4));
    for ((cpu, _), part) in buffer.cpus.iter().zip(buffer.data(shape)) {
        let at = out.len();
        if packed && !part.is_empty() {
            let chunks: Vec<&[u8]> = part.chunks(shape.page_size * 3).collect();
            out.extend(shape.int(chunks.len() as u64, 4));
            for chunk in chunks {
                out.extend(sized(shape, chunk));
            }
        } else {
            out.extend(part);
        }
        data.extend(shape.int(u64::from(*cpu), 4));
        data.extend(shape.int(at as u64, 8));
        data.extend(shape.int((out.len() - at) as u64, 8));
    }
    data
}
