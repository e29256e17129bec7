//! What events are read from.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iosections::Section;
use serde_json::{Value, json};
use tracedat::{Buffer, Entry, Trace};

use crate::blktrace::{NOT_SEEN, action_name};
use crate::error::Error;
use crate::fields::Header;

/// What was recorded: a trace, or the raw files of a blktrace run.
#[derive(Debug, Clone)]
pub enum Source {
    /// A trace.dat, or the running kernel's ring buffers.
    Trace(Arc<Trace>),
    /// One file for each CPU, in their order.
    Blktrace(Vec<PathBuf>),
}

impl From<Trace> for Source {
    fn from(trace: Trace) -> Self {
        Self::Trace(Arc::new(trace))
    }
}

impl From<Arc<Trace>> for Source {
    fn from(trace: Arc<Trace>) -> Self {
        Self::Trace(trace)
    }
}

impl Source {
    /// Opens a trace.dat, or what `blkparse -d` wrote; or finds a blktrace run, by the name before
    /// `.blktrace.N` or one of the files.
    ///
    /// # Errors
    /// When there is neither, one CPU's file is missing, or it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        match run_files(path.as_ref())? {
            None => Ok(distinct(path.as_ref(), Trace::open(&path)?)?.into()),
            Some(files) => Ok(Self::Blktrace(files)),
        }
    }

    /// The files that a trace consists of, as [`Source::open`] finds them: itself, or one for each
    /// CPU of a blktrace run.
    ///
    /// # Errors
    /// When there is none, or one CPU's is missing.
    pub fn files(path: impl AsRef<Path>) -> Result<Vec<PathBuf>, Error> {
        let path = path.as_ref();
        Ok(run_files(path)?.unwrap_or_else(|| vec![path.to_owned()]))
    }

    /// Whether a path is of blktrace: the raw files of a run, or what `blkparse -d` wrote.
    ///
    /// # Errors
    /// As [`Source::files`].
    pub fn is_blktrace(path: impl AsRef<Path>) -> Result<bool, Error> {
        Ok(run_files(path.as_ref())?.is_some())
    }

    /// Whether it tells of system calls, interrupts and the switches between tasks; blktrace sees
    /// the block layer alone.
    pub fn sees_all(&self) -> bool {
        matches!(self, Self::Trace(_))
    }

    /// The clock, where its times are ticks of unknown length instead of nanoseconds.
    pub fn ticks(&self) -> Option<&str> {
        match self {
            Self::Trace(trace) if trace.is_in_ticks() => Some(trace.clock()),
            _ => None,
        }
    }

    /// The sections that it tells of.
    pub fn sections(&self) -> impl Iterator<Item = Section> {
        let unseen: &[(Section, &str)] = match self {
            Self::Trace(_) => &[],
            Self::Blktrace(_) => &NOT_SEEN,
        };
        let told = |section: &Section| unseen.iter().all(|(unseen, _)| unseen != section);
        Section::ALL.into_iter().filter(told)
    }

    /// An event's name, or its number when the trace has no format for it.
    pub(crate) fn event_name(&self, id: usize) -> String {
        let trace = match self {
            Self::Trace(trace) => trace,
            Self::Blktrace(_) => return action_name(id as u16).to_owned(),
        };
        let mut formats = trace.formats().iter();
        let format = formats.find(|f| usize::from(f.id) == id);
        format.map_or_else(|| format!("event_{id}"), |f| f.name.clone())
    }

    pub(crate) fn unplaced_losses(&self) -> u64 {
        match self {
            Self::Trace(trace) => trace.unplaced_losses(),
            Self::Blktrace(_) => 0,
        }
    }

    /// Its format, number of CPUs and clock.
    pub(crate) fn about(&self) -> Value {
        match self {
            Self::Trace(trace) => json!({
                "version": trace.version(),
                "compression": trace.compression().name(),
                "cpus": trace.cpus(),
                "clock": trace.clock(),
            })
            .with_left_out(trace),
            Self::Blktrace(files) => json!({
                "source": "blktrace",
                "cpus": files.len(),
            }),
        }
    }
}

/// Adds the instances that are not read, where there are any.
trait LeftOut {
    fn with_left_out(self, trace: &Trace) -> Self;
}

impl LeftOut for Value {
    fn with_left_out(mut self, trace: &Trace) -> Self {
        let read: Vec<&str> = trace.selected().map(Buffer::name).collect();
        let others = trace.buffers().iter().filter(|b| b.has_data());
        let others = others.map(Buffer::name).filter(|name| !read.contains(name));
        let left: Vec<&str> = others.collect();
        if let (false, Some(map)) = (left.is_empty(), self.as_object_mut()) {
            map.insert("left_out".into(), json!(left));
        }
        self
    }
}

/// Block events that are compared of each instance.
const COMPARED: usize = 1 << 14;

/// Leaves out the instances that recorded the same requests and bios as another one: each of them
/// would count twice. That they are the same shows in the records, since each instance has times of
/// its own.
fn distinct(path: &Path, mut trace: Trace) -> Result<Trace, Error> {
    let names: Vec<String> = trace.selected().map(|b| b.name().to_owned()).collect();
    if names.len() < 2 {
        return Ok(trace);
    }
    let mut known: HashSet<(u32, Vec<u8>)> = HashSet::new();
    for name in names {
        let mut alone = Trace::open(path)?;
        alone.select(&name)?;
        let found = requests_of(&alone)?;
        if found.iter().any(|record| known.contains(record)) {
            trace.leave_out(&name);
        } else {
            known.extend(found);
        }
    }
    Ok(trace)
}

/// CPU and content of the first block events with sectors.
fn requests_of(trace: &Trace) -> Result<HashSet<(u32, Vec<u8>)>, Error> {
    let formats = trace.formats().iter();
    let tells = |name: &str| name.starts_with("block_rq_") || name.starts_with("block_bio_");
    let block = formats.filter(|f| f.system == "block" && tells(&f.name));
    let block: HashSet<u16> = block.map(|f| f.id).collect();
    let header = trace.formats().first().and_then(Header::new);
    let mut found = HashSet::new();
    let (Some(header), false) = (header, block.is_empty()) else {
        return Ok(found);
    };
    let mut events = trace.events()?;
    while let Some(entry) = events.next()? {
        if let Entry::Event(record) = entry {
            if block.contains(&header.read(record.data).0) {
                found.insert((record.cpu, record.data.to_vec()));
            }
        }
        if found.len() >= COMPARED {
            break;
        }
    }
    Ok(found)
}

/// The files of a blktrace run; `None` when the path is something else.
fn run_files(path: &Path) -> Result<Option<Vec<PathBuf>>, Error> {
    if path.exists() && !blktrace::is_cpu_file(path) {
        return Ok(blktrace::is_dump(path).then(|| vec![path.to_owned()]));
    }
    let files = blktrace::find(path)?;
    let missing = (0..).zip(&files).find(|(cpu, file)| *cpu != file.cpu);
    if let (Some((cpu, _)), Some(last)) = (missing, files.last()) {
        return Err(Error::MissingCpu {
            run: path.to_owned(),
            cpu,
            last: last.cpu,
        });
    }
    Ok(Some(files.into_iter().map(|f| f.path).collect()))
}
