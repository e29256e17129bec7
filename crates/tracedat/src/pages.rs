//! The pages of one CPU, wherever they come from, in blocks that are reused.

use std::sync::Arc;

use crate::ahead::{Ahead, Unpacking};
use crate::buffer::CpuPart;
use crate::bytes::room;
use crate::error::Result;
use crate::lost::LostReason;
use crate::packed::{Chunks, Packing};
use crate::pipe::Pipe;
use crate::source::Source;

/// Bytes fetched at once for one CPU, at most and for all CPUs together. More is slower: the
/// bytes of all CPUs shall still be in the cache when they are looked at.
const BLOCK: usize = 64 << 10;
const BLOCKS: usize = 8 << 20;
/// Pages behind the current one that are kept in sight, to tell which of two contradicting times
/// is wrong.
const AHEAD: usize = 2;

/// What supplies the pages.
#[derive(Debug)]
pub(crate) enum Feed {
    /// Pages in a row, from this offset to that one.
    Plain(Arc<Source>, u64, u64),
    /// Packed chunks of pages.
    Packed(Chunks),
    /// The same, unpacked by another thread.
    Ahead(Ahead),
    /// The kernel's own ring buffer.
    Pipe(Pipe),
    /// Nothing more.
    Done,
}

/// What came next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A page: [`Pages::page`].
    Page,
    /// Bytes that could not be read.
    Hole(LostReason),
    /// Nothing.
    End,
}

/// One CPU's pages.
#[derive(Debug)]
pub(crate) struct Pages {
    feed: Feed,
    /// Fetched bytes: `filled` of them, those before `at` used up.
    block: Vec<u8>,
    filled: usize,
    at: usize,
    /// Start of the current page.
    start: usize,
    page_size: usize,
    block_size: usize,
    /// Something is missing behind the fetched bytes.
    hole: Option<LostReason>,
}

impl Pages {
    /// `cpus` is the number of CPUs that are read at the same time.
    pub(crate) fn new(feed: Feed, page_size: usize, cpus: usize) -> Self {
        let share = (BLOCKS / cpus.max(1)).min(BLOCK);
        let pages = (share / page_size.max(1)).max(AHEAD + 1);
        Self {
            feed,
            block: Vec::new(),
            filled: 0,
            at: 0,
            start: 0,
            page_size,
            block_size: pages.saturating_mul(page_size),
            hole: None,
        }
    }

    /// The bytes of the current page; empty before the first.
    #[inline]
    pub(crate) fn page(&self) -> &[u8] {
        self.block.get(self.start..self.at).unwrap_or_default()
    }

    /// The pages behind the current one that are already there.
    pub(crate) fn ahead(&self) -> impl Iterator<Item = &[u8]> {
        let rest = self.block.get(self.at..self.filled).unwrap_or_default();
        rest.chunks(self.page_size)
    }

    /// Goes to the next page.
    pub(crate) fn advance(&mut self) -> Result<Step> {
        loop {
            let left = self.filled - self.at;
            let enough = match &self.feed {
                Feed::Done => true,
                Feed::Pipe(_) => left > 0,
                _ => left > AHEAD * self.page_size || self.hole.is_some(),
            };
            if !enough {
                self.fill()?;
                continue;
            }
            self.start = self.at;
            if left == 0 {
                return Ok(self.hole.take().map_or(Step::End, Step::Hole));
            }
            self.at += left.min(self.page_size);
            return Ok(Step::Page);
        }
    }

    /// Fetches more bytes behind the unused ones.
    fn fill(&mut self) -> Result<()> {
        if let Feed::Ahead(ahead) = &mut self.feed {
            self.hole = ahead.fill(&mut self.block, &mut self.at, &mut self.filled)?;
            self.start = self.at;
            let done = ahead.is_done();
            self.unpacked(done);
            return Ok(());
        }
        self.block.copy_within(self.at..self.filled, 0);
        self.filled -= self.at;
        (self.at, self.start) = (0, 0);
        match &mut self.feed {
            Feed::Plain(source, at, end) => {
                let left = usize::try_from(*end - *at).unwrap_or(usize::MAX);
                let want = left.min(self.block_size - self.filled);
                let out = room(&mut self.block, self.filled, want);
                let count = source.read_at(*at, out)?;
                self.filled += count;
                *at += count as u64;
                if count < want {
                    self.hole = Some(LostReason::CutOff);
                }
                if count < want || *at == *end {
                    self.feed = Feed::Done;
                }
            }
            Feed::Packed(chunks) => {
                self.hole = chunks.fill(&mut self.block, &mut self.filled)?;
                let done = chunks.is_done();
                self.unpacked(done);
            }
            Feed::Pipe(pipe) => {
                let out = room(&mut self.block, self.filled, self.page_size);
                let count = pipe.read(out)?;
                self.filled += count;
                if count == 0 {
                    self.feed = Feed::Done;
                }
            }
            Feed::Ahead(_) | Feed::Done => {}
        }
        Ok(())
    }

    /// Packed chunks were unpacked, perhaps the last ones.
    fn unpacked(&mut self, done: bool) {
        if self.hole.is_some() {
            // Half a page before the hole has lost its other half.
            self.filled -= (self.filled - self.at) % self.page_size;
        }
        if done {
            self.feed = Feed::Done;
        }
    }
}

/// The pages of a CPU in a file; packed ones are unpacked by the reader, or by another thread.
pub(crate) fn of_file(
    source: &Arc<Source>,
    part: CpuPart,
    packing: Option<Packing>,
    unpacking: Option<Unpacking>,
) -> Feed {
    let (at, size) = (part.offset, part.size);
    if size == 0 {
        return Feed::Done;
    }
    let source = Arc::clone(source);
    let Some(packing) = packing else {
        // An impossible end is beyond the end of any file.
        return Feed::Plain(source, at, at.saturating_add(size));
    };
    let margin = AHEAD * packing.page_size;
    let chunks = Chunks::new(source, at, size, packing);
    match unpacking {
        Some(unpacking) => Feed::Ahead(Ahead::new(unpacking, chunks, margin)),
        None => Feed::Packed(chunks),
    }
}
