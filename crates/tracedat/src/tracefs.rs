//! The running kernel's ring buffers as a trace.

use std::path::Path;

use crate::buffer::{Buffer, CpuPart};
use crate::bytes::Endian;
use crate::compress::Compression;
use crate::error::Result;
use crate::head::Head;
use crate::layout::Layout;
use crate::live::{Live, LiveOptions, cpus};
use crate::source::Source;
use crate::trace::Trace;

impl Trace {
    /// The running kernel's ring buffers: `root` is where tracefs is mounted, or an instance in
    /// it, and `events` are the (group, name) of the events whose formats are wanted.
    ///
    /// # Errors
    /// When a file there is missing, among them the format of a wanted event.
    pub fn from_tracefs(
        root: impl AsRef<Path>,
        events: &[(&str, &str)],
        options: LiveOptions,
    ) -> Result<Self> {
        let root = root.as_ref().to_owned();
        let live = Live { root, options };
        // The kernel's own `long` is the size of the commit word in `header_page`; this is the
        // size to assume if that text lacks it.
        let long = size_of::<usize>();
        let mut meta = live.meta(events, long)?;
        let layout = meta.layout.unwrap_or(Layout::usual(long));
        let cpus = cpus(&live.root)?;
        meta.cpu_count = cpus.len() as u32;
        let part = |cpu| CpuPart {
            cpu,
            offset: 0,
            size: u64::MAX,
        };
        let page_size = layout.page_size;
        meta.buffers.push(Buffer {
            name: String::new(),
            clock: meta.clock.clone(),
            page_size,
            packed: false,
            parts: cpus.into_iter().map(part).collect(),
        });
        let head = Head {
            version: 0,
            endian: Endian::native(),
            long: layout.commit_size,
            page_size,
            compression: Compression::None,
        };
        let source = Source::Bytes(Vec::new());
        Ok(Self::with(source, Some(live), head, meta))
    }
}
