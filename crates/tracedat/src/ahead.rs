//! Unpacks chunks on another thread while the events of those before are looked at.
//!
//! One thread serves all CPUs of a trace, and each CPU has one piece of work there at a time.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::error::Result;
use crate::lost::LostReason;
use crate::packed::Chunks;

/// Bytes unpacked at once for one CPU, at most and for all CPUs together: to wake the thread for
/// each of trace-cmd's chunks (40 KiB) would cost as much as to unpack them.
const BLOCK: usize = 256 << 10;
const BLOCKS: usize = 16 << 20;
/// Packed bytes of all CPUs for which a thread is worth its start.
const LEAST: u64 = 64 << 10;

/// What is unpacked for a CPU, and the bytes that come of it.
#[derive(Debug)]
struct Work {
    chunks: Chunks,
    block: Vec<u8>,
    /// Bytes in front of the unpacked ones, for those that the reader still has.
    margin: usize,
    filled: usize,
    /// When to stop (bytes).
    enough: usize,
    lost: Result<Option<LostReason>>,
    back: Sender<Self>,
}

impl Work {
    /// Unpacks the next chunks, up to the first of which something is missing.
    fn unpack(&mut self) {
        self.filled = self.margin;
        self.block.resize(self.block.len().max(self.margin), 0);
        loop {
            self.lost = self.chunks.fill(&mut self.block, &mut self.filled);
            let whole = matches!(self.lost, Ok(None));
            if !whole || self.chunks.is_done() || self.filled - self.margin >= self.enough {
                return;
            }
        }
    }
}

/// The thread, with the way to it.
#[derive(Debug)]
struct Thread {
    /// `None` while it is asked to end.
    work: Option<Sender<Work>>,
    handle: Option<JoinHandle<()>>,
}

impl Drop for Thread {
    /// Waits for its end: nothing of a trace outlives its readers.
    fn drop(&mut self) {
        self.work = None;
        if let Some(handle) = self.handle.take() {
            // A panic there was told of by what did not come back.
            let _ = handle.join();
        }
    }
}

/// A user's share of the thread.
#[derive(Debug, Clone)]
pub(crate) struct Unpacking {
    thread: Arc<Thread>,
    enough: usize,
}

impl Unpacking {
    /// Starts it for this many CPUs with so many packed bytes; it ends with its last user, who waits
    /// for that. `None` where it would be of no use (few bytes, a machine with one CPU) or cannot be
    /// had: then the reader unpacks by itself.
    pub(crate) fn start(cpus: usize, packed: u64) -> Option<Self> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let enough = (BLOCKS / cpus.max(1)).min(BLOCK);
        (processors > 1 && packed >= LEAST)
            .then(|| Self::with(enough))
            .flatten()
    }

    fn with(enough: usize) -> Option<Self> {
        let (work, next) = channel::<Work>();
        let run = move || {
            while let Ok(mut work) = next.recv() {
                work.unpack();
                let back = work.back.clone();
                // The reader may have gone.
                let _ = back.send(work);
            }
        };
        let builder = std::thread::Builder::new().name("unpack".to_owned());
        let thread = Arc::new(Thread {
            handle: Some(builder.spawn(run).ok()?),
            work: Some(work),
        });
        Some(Self { thread, enough })
    }
}

/// The chunks of one CPU, unpacked before they are asked for.
#[derive(Debug)]
pub(crate) struct Ahead {
    unpacking: Unpacking,
    next: Receiver<Work>,
    done: bool,
}

impl Ahead {
    /// Begins. `margin` is the most that a reader may still have when it asks for more (bytes).
    pub(crate) fn new(unpacking: Unpacking, chunks: Chunks, margin: usize) -> Self {
        let (back, next) = channel();
        let work = Work {
            chunks,
            block: Vec::new(),
            margin,
            filled: margin,
            enough: unpacking.enough,
            lost: Ok(None),
            back,
        };
        let ahead = Self {
            unpacking,
            next,
            done: false,
        };
        ahead.go_on(work);
        ahead
    }

    fn go_on(&self, work: Work) {
        // Without its thread the answer will not come either, and `fill` says so.
        if let Some(way) = &self.unpacking.thread.work {
            let _ = way.send(work);
        }
    }

    /// Whether there is nothing more to unpack.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Puts the next chunks behind the bytes of `block` from `from` to `filled`, which move; what
    /// is missing behind them.
    pub(crate) fn fill(
        &mut self,
        block: &mut Vec<u8>,
        from: &mut usize,
        filled: &mut usize,
    ) -> Result<Option<LostReason>> {
        let Ok(mut work) = self.next.recv() else {
            return Err(std::io::Error::other("the thread that unpacks has ended").into());
        };
        let left = block.get(*from..*filled).unwrap_or_default();
        if let Some(more) = left.len().checked_sub(work.margin) {
            // As much as the margin holds, or more than it was promised to be.
            work.block.splice(0..0, std::iter::repeat_n(0, more));
            (work.margin, work.filled) = (left.len(), work.filled + more);
        }
        *from = work.margin - left.len();
        *filled = work.filled;
        if let Some(room) = work.block.get_mut(*from..work.margin) {
            room.copy_from_slice(left);
        }
        std::mem::swap(block, &mut work.block);
        let lost = std::mem::replace(&mut work.lost, Ok(None));
        self.done = work.chunks.is_done();
        if !self.done {
            self.go_on(work);
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use proptest::prelude::*;

    use super::*;
    use crate::bytes::Endian;
    use crate::compress::{Compression, Unpacker};
    use crate::packed::Packing;
    use crate::pages::{Feed, Pages, Step};
    use crate::source::Source;

    const PAGE: usize = 512;
    const MARGIN: usize = 2 * PAGE;

    /// Packed data as trace-cmd writes them: the number of chunks, and each with its sizes.
    fn packed(chunks: &[Vec<u8>]) -> Vec<u8> {
        let mut file = (chunks.len() as u32).to_le_bytes().to_vec();
        for plain in chunks {
            let chunk = zstd::bulk::compress(plain, 1).unwrap_or_default();
            file.extend((chunk.len() as u32).to_le_bytes());
            file.extend((plain.len() as u32).to_le_bytes());
            file.extend(chunk);
        }
        file
    }

    fn chunks(file: &[u8]) -> Result<Chunks> {
        let source = Arc::new(Source::Bytes(file.to_vec()));
        chunks_of(source, file.len() as u64 - 4)
    }

    fn chunks_of(source: Arc<Source>, size: u64) -> Result<Chunks> {
        let unpacker = Unpacker::new(Compression::Zstd)?;
        let packing = Packing {
            unpacker: Arc::new(Mutex::new(unpacker)),
            endian: Endian::Little,
            page_size: PAGE,
            limit: 1 << 20,
        };
        Ok(Chunks::new(source, 0, size, packing))
    }

    /// What a reader gets of it.
    fn steps(feed: Feed) -> Vec<(Step, Vec<u8>)> {
        let mut pages = Pages::new(feed, PAGE, 1);
        let step = || match pages.advance() {
            Ok(Step::End) | Err(_) => None,
            Ok(step) => Some((step, pages.page().to_vec())),
        };
        std::iter::from_fn(step).collect()
    }

    /// Found by fuzzing: the thread lived on, with the file, when a trace was gone.
    #[test]
    fn nothing_outlives_the_reader() -> Result<()> {
        let plain = vec![vec![7; 200 * PAGE]; 20];
        let file = packed(&plain);
        let size = file.len() as u64 - 4;
        let source = Arc::new(Source::Bytes(file));
        for _ in 0..20 {
            let unpacking = Unpacking::with(BLOCKS);
            let all = chunks_of(Arc::clone(&source), size)?;
            drop(unpacking.map(|thread| Ahead::new(thread, all, MARGIN)));
            assert_eq!(Arc::strong_count(&source), 1);
        }
        Ok(())
    }

    proptest! {
        /// Whoever unpacks: the same pages, and the same holes between them.
        #[test]
        fn the_reader_sees_no_difference(
            sizes in prop::collection::vec((1..9_usize, 0..3_usize), 0..20),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cut in prop::option::of(any::<prop::sample::Index>()),
            enough in 1..6000_usize,
        ) {
            let fill = |at: usize, size: usize| (0..size).map(|n| (n * 7 + at) as u8).collect();
            // Chunks that end inside a page, too.
            let plain: Vec<Vec<u8>> = sizes
                .iter()
                .enumerate()
                .map(|(at, &(pages, part))| fill(at, pages * PAGE - part * 100))
                .collect();
            let mut file = packed(&plain);
            for (at, byte) in damage {
                let len = file.len();
                file[at.index(len)] ^= byte;
            }
            if let Some(cut) = cut {
                file.truncate(cut.index(file.len()).max(4));
            }
            let fail = |e: crate::Error| TestCaseError::fail(e.to_string());
            let here = Feed::Packed(chunks(&file).map_err(fail)?);
            let Some(unpacking) = Unpacking::with(enough) else {
                return Err(TestCaseError::fail("no thread"));
            };
            let there = Ahead::new(unpacking, chunks(&file).map_err(fail)?, MARGIN);
            prop_assert_eq!(steps(Feed::Ahead(there)), steps(here));
        }
    }
}
