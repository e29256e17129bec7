//! Packed trace data of one CPU: a number of chunks, each with its sizes in front.

use std::sync::{Arc, Mutex, PoisonError};

use crate::bytes::{Endian, room};
use crate::compress::Unpacker;
use crate::error::Result;
use crate::lost::LostReason;
use crate::source::Source;

/// Bytes looked through at once for the next chunk behind damaged sizes.
const WINDOW: usize = 64 << 10;
/// How often that is done for one CPU.
const SEARCHES: u32 = 64;

/// How the chunks of a file are read.
#[derive(Debug, Clone)]
pub(crate) struct Packing {
    pub(crate) unpacker: Arc<Mutex<Unpacker>>,
    pub(crate) endian: Endian,
    pub(crate) page_size: usize,
    /// Largest chunk (bytes) that is taken for one.
    pub(crate) limit: usize,
}

/// The chunks of one CPU, unpacked one after the other.
#[derive(Debug)]
pub(crate) struct Chunks {
    source: Arc<Source>,
    /// Offset of the next chunk.
    at: u64,
    /// Where the CPU's data end, give or take the number of chunks.
    end: u64,
    /// Chunks still to come; unknown before the first.
    left: Option<u32>,
    /// Sizes of the next chunk, if they came along with the last one.
    sizes: Option<[u8; 8]>,
    packing: Packing,
    searches: u32,
}

impl Chunks {
    /// `at` and `size` are the place that the file states. The size that trace-cmd writes leaves
    /// out the number of chunks in front; only a search for a chunk heeds it.
    pub(crate) fn new(source: Arc<Source>, at: u64, size: u64, packing: Packing) -> Self {
        Self {
            source,
            at,
            end: at.saturating_add(size).saturating_add(4),
            left: None,
            sizes: None,
            packing,
            searches: 0,
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
        let Some(left) = self.count()? else {
            return Ok(Some(LostReason::CutOff));
        };
        if left == 0 {
            return Ok(None);
        }
        let sizes = match self.sizes.take() {
            Some(sizes) => Some(sizes),
            None => self.bytes(self.at)?,
        };
        let Some(sizes) = sizes else {
            return Ok(Some(LostReason::CutOff));
        };
        let Some((packed, plain)) = self.sizes(sizes) else {
            self.search()?;
            return Ok(Some(LostReason::Damaged));
        };
        let shared = Arc::clone(&self.packing.unpacker);
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
        // After a search the number of chunks is no guide any more: some were passed over.
        let over = self.searches > 0 && self.at.saturating_add(8) > self.end;
        self.left = Some(if over { 0 } else { left - 1 });
        let whole = unpacker.unpack(packed, room(block, *filled, plain));
        if whole {
            *filled += plain;
        }
        Ok((!whole).then_some(LostReason::Damaged))
    }

    /// How many chunks are left; `None` when the file ends before it says so.
    fn count(&mut self) -> Result<Option<u32>> {
        if self.left.is_none() {
            if let Some(count) = self.bytes::<4>(self.at)? {
                self.at += 4;
                self.left = Some(self.packing.endian.uint(&count) as u32);
            }
        }
        Ok(self.left)
    }

    /// The sizes of a chunk, packed and plain (bytes); `None` when they cannot be.
    fn sizes(&self, bytes: [u8; 8]) -> Option<(usize, usize)> {
        let (packed, plain) = bytes.split_at(4);
        let (packed, plain) = (
            self.packing.endian.uint(packed) as usize,
            self.packing.endian.uint(plain) as usize,
        );
        let limit = self.packing.limit;
        // What does not get smaller grows a little.
        let fits = (1..=limit + 1024).contains(&packed) && (1..=limit).contains(&plain);
        fits.then_some((packed, plain))
    }

    /// Goes to the next place that looks like a chunk, when the sizes here are damaged. Whether
    /// it is one, unpacking tells.
    fn search(&mut self) -> Result<()> {
        self.searches += 1;
        self.sizes = None;
        let mut window = vec![0; WINDOW];
        let mut at = self.at.saturating_add(1);
        while self.searches <= SEARCHES && at < self.end {
            let count = self.source.read_at(at, &mut window)?;
            let bytes = window.get(..count).unwrap_or_default();
            if let Some(found) = bytes.windows(10).position(|w| self.is_chunk(at, w)) {
                self.at = at + found as u64;
                return Ok(());
            }
            if count < WINDOW {
                break;
            }
            at += (WINDOW - 10) as u64;
        }
        self.left = Some(0);
        Ok(())
    }

    /// Whether sizes and magic number fit.
    fn is_chunk(&self, at: u64, bytes: &[u8]) -> bool {
        let Some((sizes, magic)) = bytes.split_first_chunk::<8>() else {
            return false;
        };
        let Some((packed, plain)) = self.sizes(*sizes) else {
            return false;
        };
        // RFC 8878 (zstd) and RFC 1950 (zlib).
        let known = match magic {
            [0x28, 0xb5, ..] => true,
            [0x78, flags, ..] => (0x7800 + u32::from(*flags)) % 31 == 0,
            _ => false,
        };
        let inside = at.saturating_add(8 + packed as u64) <= self.end;
        known && inside && plain % self.packing.page_size == 0
    }

    /// `N` bytes of the file; `None` behind its end.
    fn bytes<const N: usize>(&self, at: u64) -> Result<Option<[u8; N]>> {
        let mut out = [0; N];
        let count = self.source.read_at(at, &mut out)?;
        Ok((count == N).then_some(out))
    }
}
