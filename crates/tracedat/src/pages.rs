//! The pages of one CPU, unpacked one chunk at a time.

use crate::bytes::{Endian, Reader};
use crate::compress::Compression;
use crate::error::{Error, Result};
use crate::meta::CpuPart;

/// Where the pages come from.
#[derive(Debug)]
pub(crate) struct Pages<'a> {
    /// The CPU's bytes in the file: pages, or packed chunks.
    data: &'a [u8],
    /// Offset of `data` in the file.
    base: u64,
    page_size: usize,
    packing: Option<Packing>,
    /// Position in `data` of the next page or chunk.
    at: usize,
    /// Current page: in `data` or in the unpacked chunk.
    page: (usize, usize),
}

#[derive(Debug)]
struct Packing {
    compression: Compression,
    endian: Endian,
    chunks_left: u32,
    /// Unpacked bytes; the pages before `next` are used up.
    chunk: Vec<u8>,
    next: usize,
}

impl<'a> Pages<'a> {
    pub(crate) fn new(
        file: &'a [u8],
        part: CpuPart,
        page_size: u32,
        packed: Option<(Compression, Endian)>,
    ) -> Result<Self> {
        let end = file.len() as u64;
        let truncated = Error::Truncated {
            offset: part.offset,
            end,
            what: "the data of a CPU",
        };
        let range = usize::try_from(part.offset).ok().zip(
            part.offset
                .checked_add(part.size)
                .and_then(|end| usize::try_from(end).ok()),
        );
        let data = match range {
            _ if part.size == 0 => Some(&[] as &[u8]),
            // The stated size of packed data leaves out the number of chunks; that number and
            // each chunk's own size say where the data end.
            Some((from, _)) if packed.is_some() => file.get(from..),
            Some((from, to)) => file.get(from..to),
            None => None,
        }
        .ok_or(truncated)?;
        let mut pages = Self {
            data,
            base: part.offset,
            page_size: page_size as usize,
            packing: None,
            at: 0,
            page: (0, 0),
        };
        if let (Some((compression, endian)), false) = (packed, data.is_empty()) {
            let mut r = Reader::new(data, part.offset, endian);
            let chunks_left = r.u32("number of chunks")?;
            pages.at = 4;
            let chunk = Vec::new();
            pages.packing = Some(Packing {
                compression,
                endian,
                chunks_left,
                chunk,
                next: 0,
            });
        }
        Ok(pages)
    }

    /// The bytes of the current page; empty before the first and after the last.
    #[inline]
    pub(crate) fn page(&self) -> &[u8] {
        let whole = self.packing.as_ref().map_or(self.data, |p| &p.chunk);
        whole.get(self.page.0..self.page.1).unwrap_or_default()
    }

    /// File offset for messages: of the page, or of the chunk that holds it.
    pub(crate) fn offset(&self) -> u64 {
        self.base
            + if self.packing.is_some() {
                self.at as u64
            } else {
                self.page.0 as u64
            }
    }

    /// Goes to the next page; false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        let Some(packing) = &mut self.packing else {
            let end = (self.at + self.page_size).min(self.data.len());
            self.page = (self.at, end);
            self.at = end;
            return Ok(self.page.0 < end);
        };
        while packing.chunk.len() - packing.next < self.page_size && packing.chunks_left > 0 {
            let mut r = Reader::new(self.data, self.base, packing.endian);
            r.take(self.at as u64, "chunk")?;
            let (from, to) = (r.u32("chunk")?, r.u32("chunk")?);
            let bytes = r.take(u64::from(from), "chunk")?;
            let offset = self.base + self.at as u64;
            let more = packing.compression.chunk(bytes, to as usize, offset)?;
            self.at += 8 + bytes.len();
            packing.chunks_left -= 1;
            packing.chunk.drain(..packing.next);
            packing.next = 0;
            if packing.chunk.is_empty() {
                packing.chunk = more;
            } else {
                packing.chunk.extend_from_slice(&more);
            }
        }
        let end = (packing.next + self.page_size).min(packing.chunk.len());
        self.page = (packing.next, end);
        packing.next = end;
        Ok(self.page.0 < end)
    }
}
