//! The running kernel's own ring buffers, read through tracefs without trace-cmd.
//!
//! Reading takes the pages out of the ring buffers: each event is given once. Only the kernel's
//! own page format is needed, so the events are the same as those of a file.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::bytes::{Endian, lossy};
use crate::error::{Error, Result};
use crate::format::EventFormat;
use crate::layout::Layout;
use crate::meta::{Meta, chosen_clock, comms};
use crate::pipe::Pipe;

/// `O_NONBLOCK` of Linux on all machines but Alpha, MIPS, PA-RISC and SPARC.
const NONBLOCK: i32 = 0o4000;
/// Longest `format`, `header_page` or the like (bytes).
const TEXT_LIMIT: u64 = 16 << 20;

/// How to read the running kernel's ring buffers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LiveOptions {
    /// Wait for more events until tracing is switched off (`tracing_on` is 0). In order of time a
    /// CPU without events holds the others back, whose events stay in the ring buffers meanwhile:
    /// make those large enough, or read each cursor in a thread of its own.
    ///
    /// Without this the events end when the ring buffers are empty, which is right after tracing
    /// was switched off.
    pub follow: bool,
}

/// A tracefs, or an instance in it.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) root: PathBuf,
    pub(crate) options: LiveOptions,
}

/// The bytes of a tracefs file, whose size is not known before.
fn read(path: &Path) -> Result<Vec<u8>> {
    let fail = |source| Error::Tracefs {
        path: path.display().to_string(),
        source,
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(fail)?;
    file.take(TEXT_LIMIT)
        .read_to_end(&mut bytes)
        .map_err(fail)?;
    Ok(bytes)
}

/// The numbers of the CPUs that have a folder in `per_cpu`.
pub(crate) fn cpus(root: &Path) -> Result<Vec<u32>> {
    let folder = root.join("per_cpu");
    let fail = |source| Error::Tracefs {
        path: folder.display().to_string(),
        source,
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).map_err(fail)? {
        let name = entry.map_err(fail)?.file_name();
        let number: Option<u32> = name
            .to_str()
            .and_then(|n| n.strip_prefix("cpu")?.parse().ok());
        found.extend(number);
    }
    found.sort_unstable();
    Ok(found)
}

impl Live {
    pub(crate) fn pipe(&self, cpu: u32) -> Result<Pipe> {
        let path = self.root.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        // Without O_NONBLOCK a read waits until `buffer_percent` of the buffer is full.
        let open = OpenOptions::new()
            .read(true)
            .custom_flags(NONBLOCK)
            .open(&path);
        let file = open.map_err(|source| Error::Tracefs {
            path: path.display().to_string(),
            source,
        })?;
        let switch = self.options.follow.then(|| self.root.join("tracing_on"));
        Ok(Pipe { file, switch })
    }

    pub(crate) fn refresh(&self, meta: &mut Meta) -> Result<()> {
        let names = self.top().join("saved_cmdlines");
        meta.comms = comms(&read(&names)?);
        let stats = cpus(&self.root)?.into_iter().map(|cpu| {
            let path = self.root.join(format!("per_cpu/cpu{cpu}/stats"));
            Ok(lossy(&read(&path)?))
        });
        meta.stats = stats.collect::<Result<_>>()?;
        Ok(())
    }

    /// The tracefs that an instance belongs to; only that one has the task names.
    fn top(&self) -> &Path {
        let parent = self.root.parent();
        let instances = parent.filter(|p| p.file_name().is_some_and(|n| n == "instances"));
        instances.and_then(Path::parent).unwrap_or(&self.root)
    }

    pub(crate) fn meta(&self, events: &[(&str, &str)], long: usize) -> Result<Meta> {
        let events_folder = self.root.join("events");
        let page = read(&events_folder.join("header_page"))?;
        let event = read(&events_folder.join("header_event"))?;
        let mut meta = Meta {
            layout: Some(Layout::parse(&page, &event, long, 0)?),
            clock: chosen_clock(&lossy(&read(&self.root.join("trace_clock"))?)),
            ..Meta::default()
        };
        for (system, name) in events {
            let path = events_folder.join(system).join(name).join("format");
            let text = read(&path)?;
            meta.formats
                .extend(EventFormat::parse(system, &text, Endian::native()));
        }
        self.refresh(&mut meta)?;
        Ok(meta)
    }
}
