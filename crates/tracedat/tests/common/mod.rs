//! Writes small trace.dat files of every kind the reader knows.
#![allow(dead_code, missing_docs, clippy::unwrap_used, clippy::pedantic)]

mod container;

pub use container::{Instance, file_of};
use tracedat::Endian;

/// Kind of file.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub version: u8,
    pub endian: Endian,
    pub long: usize,
    pub page_size: usize,
    /// `none`, `zlib` or `zstd`; ignored by version 6.
    pub packing: &'static str,
}

impl Shape {
    pub const PLAIN: Self = Self {
        version: 7,
        endian: Endian::Little,
        long: 8,
        page_size: 256,
        packing: "none",
    };

    pub fn all() -> Vec<Self> {
        let mut shapes = Vec::new();
        for endian in [Endian::Little, Endian::Big] {
            for long in [4, 8] {
                for page_size in [128, 4096, 65536] {
                    let shape = Self {
                        version: 6,
                        endian,
                        long,
                        page_size,
                        packing: "none",
                    };
                    shapes.push(shape);
                    for packing in ["none", "zlib", "zstd"] {
                        shapes.push(Self {
                            version: 7,
                            packing,
                            ..shape
                        });
                    }
                }
            }
        }
        shapes
    }

    pub fn int(&self, value: u64, size: usize) -> Vec<u8> {
        let mut bytes = value.to_le_bytes()[..size].to_vec();
        if self.endian == Endian::Big {
            bytes.reverse();
        }
        bytes
    }
}

/// One thing in a ring buffer.
#[derive(Debug, Clone)]
pub enum Item {
    /// An event (time since the last item, record).
    Event(u64, Vec<u8>),
    /// A discarded event (time since the last item, length).
    Discarded(u64, usize),
    /// An absolute time stamp.
    Absolute(u64),
}

/// One page of one CPU.
#[derive(Debug, Clone, Default)]
pub struct Page {
    pub ts: u64,
    /// Lost events before it: not at all, an unknown number, or a number.
    pub missed: Option<Option<u64>>,
    pub items: Vec<Item>,
}

fn header(shape: &Shape, kind: u64, delta: u64) -> Vec<u8> {
    assert!(delta < 1 << 27 && kind < 32);
    let word = match shape.endian {
        Endian::Little => delta << 5 | kind,
        Endian::Big => kind << 27 | delta,
    };
    shape.int(word, 4)
}

fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn item(shape: &Shape, item: &Item) -> Vec<u8> {
    let mut out = Vec::new();
    let extend = |out: &mut Vec<u8>, delta: u64| {
        if delta < 1 << 27 {
            return delta;
        }
        out.extend(header(shape, 30, delta & ((1 << 27) - 1)));
        out.extend(shape.int(delta >> 27, 4));
        0
    };
    match item {
        Item::Event(delta, record) => {
            let delta = extend(&mut out, *delta);
            let body = padded(record.clone());
            if body.is_empty() || body.len() > 28 * 4 {
                out.extend(header(shape, 0, delta));
                out.extend(shape.int(body.len() as u64 + 4, 4));
            } else {
                out.extend(header(shape, body.len() as u64 / 4, delta));
            }
            out.extend(body);
        }
        Item::Discarded(delta, len) => {
            let delta = extend(&mut out, *delta).max(1);
            let body = len.next_multiple_of(4).max(4);
            out.extend(header(shape, 29, delta));
            out.extend(shape.int(body as u64, 4));
            out.resize(out.len() + body - 4, 0xee);
        }
        Item::Absolute(ts) => {
            out.extend(header(shape, 31, ts & ((1 << 27) - 1)));
            out.extend(shape.int(ts >> 27 & 0xffff_ffff, 4));
        }
    }
    out
}

/// A ring-buffer page; ends with a null padding event when there is room.
pub fn page(shape: &Shape, page: &Page) -> Vec<u8> {
    let data: Vec<u8> = page.items.iter().flat_map(|i| item(shape, i)).collect();
    let mut commit = data.len() as u64;
    let mut tail = Vec::new();
    if let Some(count) = page.missed {
        commit |= 1 << 31;
        if let Some(count) = count {
            // As the kernel does it, with a negative int.
            commit |= 0xffff_ffff_c000_0000;
            tail = shape.int(count, shape.long);
        }
    }
    let mut out = shape.int(page.ts, 8);
    out.extend(shape.int(commit, shape.long));
    out.extend(data);
    out.extend(tail);
    assert!(
        out.len() <= shape.page_size,
        "page of {} bytes is too small",
        shape.page_size
    );
    out.resize(shape.page_size, 0);
    out
}

pub const FORMAT: &str = "name: tick
ID: 7
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:u64 serial;\toffset:8;\tsize:8;\tsigned:0;
\tfield:short little;\toffset:16;\tsize:2;\tsigned:1;
\tfield:char rwbs[6];\toffset:18;\tsize:6;\tsigned:0;
\tfield:__data_loc char[] name;\toffset:24;\tsize:4;\tsigned:0;
\tfield:__rel_loc char[] other;\toffset:28;\tsize:4;\tsigned:0;
\tfield:enum phase phase;\toffset:32;\tsize:4;\tsigned:0;

print fmt: \"%s\", __print_symbolic(REC->phase, {0, \"send\"}, { 0x1, \"complete\" }, {X, \"third\"}), REC->serial
";

/// A record of the event above; 40 bytes and the two strings.
pub fn tick(shape: &Shape, serial: u64) -> Vec<u8> {
    let mut out = shape.int(7, 2);
    out.extend([0, 0]);
    out.extend(shape.int(42, 4));
    out.extend(shape.int(serial, 8));
    out.extend(shape.int(0xfffe, 2));
    out.extend(b"WFS\0\0\0");
    out.extend(shape.int((5 << 16) + 36, 4));
    out.extend(shape.int((3 << 16) + (41 - 32), 4));
    out.extend(shape.int(1, 4));
    out.extend(b"four\0ab\0");
    out
}

fn head_texts(shape: &Shape) -> Vec<u8> {
    let (long, data) = (shape.long, 8 + shape.long);
    let page = format!(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
         \tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\
         \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
         \tfield: char data;\toffset:{data};\tsize:{};\tsigned:1;\n",
        shape.page_size - data
    );
    let event = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\
                 \tarray       :   32 bits\n\n\tpadding     : type == 29\n\
                 \ttime_extend : type == 30\n\ttime_stamp : type == 31\n\
                 \tdata max type_len  == 28\n";
    let mut out = b"header_page\0".to_vec();
    out.extend(shape.int(page.len() as u64, 8));
    out.extend(page.as_bytes());
    out.extend(b"header_event\0");
    out.extend(shape.int(event.len() as u64, 8));
    out.extend(event.as_bytes());
    out
}

fn event_texts(shape: &Shape, formats: &[(&str, String)]) -> Vec<u8> {
    let mut out = shape.int(formats.len() as u64, 4);
    for (system, text) in formats {
        out.extend(system.as_bytes());
        out.push(0);
        out.extend(shape.int(1, 4));
        out.extend(shape.int(text.len() as u64, 8));
        out.extend(text.as_bytes());
    }
    out
}

fn comm_text(shape: &Shape) -> Vec<u8> {
    let mut out = shape.int(7, 8);
    out.extend(b"42 fio\n");
    out
}

/// A whole file with one event format.
pub fn file(shape: &Shape, cpus: &[(u32, Vec<Page>)]) -> Vec<u8> {
    file_with(shape, &[("test", FORMAT.to_owned())], cpus)
}

/// A whole file with the top buffer only.
pub fn file_with(shape: &Shape, formats: &[(&str, String)], cpus: &[(u32, Vec<Page>)]) -> Vec<u8> {
    let top = Instance {
        name: "",
        clock: "mono",
        cpus: cpus.to_vec(),
    };
    file_of(shape, formats, &[], &[top])
}
