//! Reads and writes the container of a trace.dat version 7 with uncompressed sections, as
//! trace-cmd.dat.v7(5) describes it.

use std::io::{Seek, Write};

use crate::Result;

const DONE: u16 = 0;
const BUFFER: u16 = 3;
/// Options that hold nothing but the offset of a section: `HEADER_INFO` to `CMDLINES`.
const SECTIONS: std::ops::RangeInclusive<u16> = 16..=21;
const SECTION_HEAD: usize = 16;
const PACKED: u16 = 1;

/// The data of one CPU, in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The CPU.
    pub cpu: u32,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// The one ring buffer of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buffer {
    /// Name and clock, each with its null.
    names: Vec<u8>,
    /// Size of a page (bytes).
    pub page_size: u32,
    /// The CPUs.
    pub parts: Vec<Part>,
}

/// The parts of a file.
#[derive(Debug)]
pub struct Container<'a> {
    file: &'a [u8],
    /// Options other than the two kinds below: (id, value).
    others: Vec<(u16, &'a [u8])>,
    /// Sections: (id of the option, header and data).
    sections: Vec<(u16, &'a [u8])>,
    /// The buffer that has data.
    pub buffer: Buffer,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let taken = self
            .at
            .checked_add(len)
            .and_then(|end| self.bytes.get(self.at..end));
        let taken =
            taken.ok_or_else(|| format!("the file ends inside something at {}", self.at))?;
        self.at += len;
        Ok(taken)
    }

    fn uint(&mut self, len: usize) -> Result<u64> {
        let join = |all: u64, &byte: &u8| all << 8 | u64::from(byte);
        Ok(self.take(len)?.iter().rev().fold(0, join))
    }

    fn text(&mut self) -> Result<&'a [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let len = rest
            .iter()
            .position(|&b| b == 0)
            .ok_or("a string without an end")?;
        self.take(len + 1)
    }
}

impl<'a> Container<'a> {
    /// Takes a file apart.
    ///
    /// # Errors
    /// When it is not little-endian version 7 without compression and with one buffer.
    pub fn read(file: &'a [u8]) -> Result<Self> {
        let mut head = Reader { bytes: file, at: 0 };
        if head.take(12)? != b"\x17\x08\x44tracing7\0" || head.uint(1)? != 0 {
            return Err("not a little-endian trace.dat of version 7: use trace-cmd convert".into());
        }
        head.take(5)?;
        head.text()?;
        head.text()?;
        let mut next = head.uint(8)?;
        let (mut others, mut sections, mut buffers) = (Vec::new(), Vec::new(), Vec::new());
        while next != 0 {
            let options = section(file, next)?;
            let mut r = Reader {
                bytes: options,
                at: SECTION_HEAD,
            };
            next = 0;
            while r.at < options.len() {
                let (id, len) = (r.uint(2)? as u16, r.uint(4)? as usize);
                let value = r.take(len)?;
                let mut option = Reader {
                    bytes: value,
                    at: 0,
                };
                match id {
                    DONE => {
                        next = option.uint(8)?;
                        break;
                    }
                    BUFFER => buffers.push(buffer(&mut option)?),
                    id if SECTIONS.contains(&id) => {
                        sections.push((id, section(file, option.uint(8)?)?));
                    }
                    _ => others.push((id, value)),
                }
            }
        }
        buffers.retain(|b| b.parts.iter().any(|p| p.size > 0));
        match <[Buffer; 1]>::try_from(buffers) {
            Ok([buffer]) => Ok(Self {
                file,
                others,
                sections,
                buffer,
            }),
            Err(many) => Err(format!("{} buffers with data, and one is known", many.len()).into()),
        }
    }

    /// The pages of one CPU.
    pub fn pages(&self, part: &Part) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (from, to) = (part.offset as usize, (part.offset + part.size) as usize);
        let data = self.file.get(from..to).unwrap_or_default();
        data.chunks(self.buffer.page_size as usize)
    }

    /// Writes a file with everything but the buffer, then the buffer: `write` writes the data of
    /// each CPU in turn and gives the size that the option is to tell. They begin at a multiple
    /// of the page size.
    ///
    /// # Errors
    /// Those of `write` and of the file.
    pub fn write<W: Write + Seek>(
        &self,
        out: &mut W,
        mut write: impl FnMut(&mut W, &Part) -> Result<u64>,
    ) -> Result<Vec<Part>> {
        out.write_all(b"\x17\x08\x44tracing7\0\0\x08")?;
        out.write_all(&self.buffer.page_size.to_le_bytes())?;
        out.write_all(b"none\0\0")?;
        let options_at = out.stream_position()?;
        out.write_all(&[0; 8])?;
        let mut options = Vec::new();
        for (id, bytes) in &self.sections {
            let at = out.stream_position()?;
            out.write_all(bytes)?;
            option(&mut options, *id, &at.to_le_bytes());
        }
        for (id, value) in &self.others {
            option(&mut options, *id, value);
        }
        let (at, parts) = self.write_buffer(out, &mut write)?;
        option(&mut options, BUFFER, &self.buffer_option(at, &parts));
        option(&mut options, DONE, &0_u64.to_le_bytes());
        let end = out.stream_position()?;
        out.write_all(&section_head(0, options.len() as u64))?;
        out.write_all(&options)?;
        out.seek(std::io::SeekFrom::Start(options_at))?;
        out.write_all(&end.to_le_bytes())?;
        out.flush()?;
        Ok(parts)
    }

    fn write_buffer<W: Write + Seek>(
        &self,
        out: &mut W,
        write: &mut impl FnMut(&mut W, &Part) -> Result<u64>,
    ) -> Result<(u64, Vec<Part>)> {
        let at = out.stream_position()?;
        out.write_all(&[0; SECTION_HEAD])?;
        let mut parts = Vec::new();
        for part in &self.buffer.parts {
            let page = u64::from(self.buffer.page_size);
            let gap = out.stream_position()?.next_multiple_of(page) - out.stream_position()?;
            out.write_all(&vec![0; gap as usize])?;
            let offset = out.stream_position()?;
            let size = write(out, part)?;
            parts.push(Part {
                cpu: part.cpu,
                offset,
                size,
            });
        }
        let end = out.stream_position()?;
        out.seek(std::io::SeekFrom::Start(at))?;
        let size = end - at - SECTION_HEAD as u64;
        out.write_all(&section_head(BUFFER, size))?;
        out.seek(std::io::SeekFrom::Start(end))?;
        Ok((at, parts))
    }

    fn buffer_option(&self, at: u64, parts: &[Part]) -> Vec<u8> {
        let mut value = at.to_le_bytes().to_vec();
        value.extend(&self.buffer.names);
        value.extend(self.buffer.page_size.to_le_bytes());
        value.extend((parts.len() as u32).to_le_bytes());
        for part in parts {
            value.extend(part.cpu.to_le_bytes());
            value.extend(part.offset.to_le_bytes());
            value.extend(part.size.to_le_bytes());
        }
        value
    }
}

/// A section, its header included.
fn section(file: &[u8], at: u64) -> Result<&[u8]> {
    let rest = file.get(at as usize..).unwrap_or_default();
    let mut r = Reader { bytes: rest, at: 2 };
    if r.uint(2)? as u16 & PACKED != 0 {
        return Err("compressed sections: use trace-cmd convert --compression none".into());
    }
    r.take(4)?;
    let size = r.uint(8)? as usize;
    r.take(size)?;
    Ok(rest.get(..r.at).unwrap_or_default())
}

fn section_head(id: u16, size: u64) -> Vec<u8> {
    let mut head = id.to_le_bytes().to_vec();
    head.extend([0; 6]);
    head.extend(size.to_le_bytes());
    head
}

fn option(options: &mut Vec<u8>, id: u16, value: &[u8]) {
    options.extend(id.to_le_bytes());
    options.extend((value.len() as u32).to_le_bytes());
    options.extend(value);
}

fn buffer(option: &mut Reader<'_>) -> Result<Buffer> {
    option.take(8)?;
    let mut names = option.text()?.to_vec();
    names.extend(option.text()?);
    let page_size = option.uint(4)? as u32;
    let mut parts = Vec::new();
    for _ in 0..option.uint(4)? {
        let cpu = option.uint(4)? as u32;
        let (offset, size) = (option.uint(8)?, option.uint(8)?);
        parts.push(Part { cpu, offset, size });
    }
    Ok(Buffer {
        names,
        page_size,
        parts,
    })
}
