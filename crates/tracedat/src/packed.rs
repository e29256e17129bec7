//! Packed trace data of one CPU: a number of chunks, each with its sizes in front.

use std::sync::{Arc, Mutex, PoisonError};

use crate::bytes::Endian;
use crate::compress::Unpacker;
use crate::cursor::LostReason;
use crate::error::Result;
use crate::pages::room;
use crate::source::Source;

/// The chunks of one CPU, unpacked one after the other.
#[derive(Debug)]
pub(crate) struct Chunks<'a> {
    source: &'a Source,
    /// Offset of the next chunk.
    at: u64,
    /// Chunks still to come; unknown before the first.
    left: Option<u32>,
    /// Sizes of the next chunk, if they came along with the last one.
    sizes: Option<[u8; 8]>,
    endian: Endian,
    /// Largest chunk (bytes) that is taken for one.
    limit: usize,
    unpacker: Arc<Mutex<Unpacker>>,
}

impl<'a> Chunks<'a> {
    pub(crate) fn new(
        source: &'a Source,
        at: u64,
        endian: Endian,
        limit: usize,
        unpacker: &Arc<Mutex<Unpacker>>,
    ) -> Self {
        Self {
            source,
            at,
            left: None,
            sizes: None,
            endian,
            limit,
            unpacker: Arc::clone(unpacker),
        }
    }

    /// Whether there is nothing more to unpack.
    pub(crate) fn is_done(&self) -> bool {
        self.left == Some(0)
    }

    /// Appends the next chunk to the first `filled` bytes of `block`; what is missing instead.
    pub(crate) fn fill(
        &mut self,
        block: &mut Vec<u8>,
        filled: &mut usize,
    ) -> Result<Option<LostReason>> {
        let lost = self.chunk(block, filled)?;
        if lost == Some(LostReason::CutOff) {
            self.left = Some(0);
        }
        Ok(lost)
    }

    fn chunk(&mut self, block: &mut Vec<u8>, filled: &mut usize) -> Result<Option<LostReason>> {
        let left = match self.left {
            Some(left) => left,
            None => {
                let Some(count) = self.bytes::<4>(self.at)? else {
                    return Ok(Some(LostReason::CutOff));
                };
                self.at += 4;
                self.endian.uint(&count) as u32
            }
        };
        self.left = Some(left);
        if left == 0 {
            return Ok(None);
        }
        let sizes = match self.sizes.take() {
            Some(sizes) => sizes,
            None => match self.bytes::<8>(self.at)? {
                Some(sizes) => sizes,
                None => return Ok(Some(LostReason::CutOff)),
            },
        };
        let (packed, plain) = sizes.split_at(4);
        let (packed, plain) = (self.endian.uint(packed), self.endian.uint(plain));
        let packed_limit = self.limit as u64 + 1024;
        if packed == 0 || packed > packed_limit || plain == 0 || plain > self.limit as u64 {
            // Where the next chunk starts is lost with the sizes.
            self.left = Some(0);
            return Ok(Some(LostReason::Damaged));
        }
        let (packed, plain) = (packed as usize, plain as usize);
        let shared = Arc::clone(&self.unpacker);
        let mut unpacker = shared.lock().unwrap_or_else(PoisonError::into_inner);
        // One read gets the chunk and the sizes of the next one.
        let input = room(&mut unpacker.packed, 0, packed + 8);
        let count = self.source.read_at(self.at.saturating_add(8), input)?;
        if count < packed {
            return Ok(Some(LostReason::CutOff));
        }
        self.sizes = input
            .get(packed..count)
            .and_then(|rest| rest.first_chunk().copied());
        self.at = self.at.saturating_add(8 + packed as u64);
        self.left = Some(left - 1);
        let whole = unpacker.unpack(packed, room(block, *filled, plain));
        if whole {
            *filled += plain;
        }
        Ok((!whole).then_some(LostReason::Damaged))
    }

    /// `N` bytes of the file; `None` behind its end.
    fn bytes<const N: usize>(&self, at: u64) -> Result<Option<[u8; N]>> {
        let mut out = [0; N];
        let count = self.source.read_at(at, &mut out)?;
        Ok((count == N).then_some(out))
    }
}
