//! Runs the measurement over a trace.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use iosections::{Dev, Engine, Options, Outcome, Tasks};
use tracedat::{Entry, Trace};

use crate::bind::Binding;
use crate::error::Error;
use crate::scan::Scan;

/// Names that kernel threads which write for others begin with.
const HELPERS: [&str; 9] = [
    "jbd2/",
    "kworker",
    "kjournald",
    "f2fs_",
    "xfs",
    "btrfs",
    "kdmflush",
    "dmcrypt",
    "flush-",
];

/// What to take as the hand-over to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceMark {
    /// The return of the driver's queue function where the trace has it, else the last event
    /// before it.
    #[default]
    Auto,
    /// The last event before the hand-over, always.
    LastBefore,
}

/// What to analyse in a trace.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Only I/Os of tasks with this name.
    pub comm: Option<String>,
    /// Device as `major:minor`; the one with most bios if not given. A partition stands for its
    /// disk.
    pub device: Option<String>,
    /// Hand-over to the device.
    pub device_mark: DeviceMark,
    /// Only events from the first time stamp to before the second: one cell of a batch.
    pub window: Option<(u64, u64)>,
}

impl Request {
    /// Whether an event at this time is looked at.
    pub(crate) fn covers(&self, time: u64) -> bool {
        self.window
            .is_none_or(|(from, to)| (from..to).contains(&time))
    }
}

/// A trace and what was measured in it.
#[derive(Debug)]
pub struct Analysis {
    pub(crate) trace: Arc<Trace>,
    pub(crate) scan: Scan,
    /// The measured I/Os and all counts.
    pub outcome: Outcome,
}

/// Whether a kernel thread of this name submits requests for others.
pub(crate) fn writes_for_others(comm: &str) -> bool {
    HELPERS.iter().any(|h| comm.starts_with(h))
}

struct Names<'a> {
    trace: &'a Trace,
    scan: &'a Scan,
    comm: Option<&'a str>,
}

impl Names<'_> {
    fn comm(&self, pid: i32) -> Option<&str> {
        let known = self
            .trace
            .comms()
            .get(&pid)
            .or_else(|| self.scan.comms.get(&pid));
        known.map(String::as_str)
    }
}

impl Tasks for Names<'_> {
    fn selected(&self, pid: i32) -> bool {
        self.comm
            .is_none_or(|wanted| self.comm(pid) == Some(wanted))
    }

    fn helps(&self, pid: i32) -> bool {
        self.comm(pid).is_none_or(writes_for_others)
    }
}

impl Analysis {
    /// Reads a file and measures its I/Os.
    ///
    /// # Errors
    /// When the trace cannot be read or the device is no `major:minor`.
    pub fn run(path: impl AsRef<Path>, request: &Request) -> Result<Self, Error> {
        Self::of(Trace::open(path)?, request)
    }

    /// Measures the I/Os of a trace.
    ///
    /// # Errors
    /// As [`Analysis::run`].
    pub fn of(trace: impl Into<Arc<Trace>>, request: &Request) -> Result<Self, Error> {
        let trace = trace.into();
        let wanted = request.device.as_deref().map(parse_device).transpose()?;
        let Some(mut binding) = Binding::new(&trace) else {
            let outcome = Outcome {
                device: wanted,
                ..Outcome::default()
            };
            return Ok(Self {
                trace,
                scan: Scan::default(),
                outcome,
            });
        };
        let scan = Scan::run(&trace, &binding, request)?;
        binding.aliases.clone_from(&scan.aliases);
        let device = wanted.map(|dev| scan.aliases.get(&dev).copied().unwrap_or(dev));
        let outcome = match device.or_else(|| scan.busiest()) {
            // Without a device there are no requests; the I/Os are counted all the same.
            None => measure(&trace, &scan, &binding, Dev { major: 0, minor: 0 }, request)?,
            Some(device) => measure(&trace, &scan, &binding, device, request)?,
        };
        Ok(Self {
            trace,
            scan,
            outcome,
        })
    }
}

fn measure(
    trace: &Trace,
    scan: &Scan,
    binding: &Binding,
    device: Dev,
    request: &Request,
) -> Result<Outcome, Error> {
    let counted = |system: &str, name: &str| {
        trace
            .format(system, name)
            .is_some_and(|f| scan.count(f.id) > 0)
    };
    let options = Options {
        device,
        use_queue_return: request.device_mark == DeviceMark::Auto && scan.has_queue_return(trace),
        has_nvme_complete: counted("nvme", "nvme_complete_rq"),
        lost: scan.lost.clone(),
    };
    let names = Names {
        trace,
        scan,
        comm: request.comm.as_deref(),
    };
    let mut engine = Engine::new(options, names);
    let mut events = trace.events()?;
    let mut gaps = HashSet::new();
    while let Some(entry) = events.next()? {
        let record = match entry {
            Entry::Event(record) => record,
            Entry::Lost(gap) => {
                gaps.insert(gap.cpu);
                continue;
            }
        };
        if request.window.is_some_and(|(_, to)| record.ts >= to) {
            break;
        }
        // The engine wants to hear of a gap at the first event after it.
        if !gaps.is_empty() && gaps.remove(&record.cpu) {
            engine.gap(record.cpu);
        }
        if request.covers(record.ts) {
            engine.push(&binding.event(&record));
        }
    }
    Ok(engine.finish())
}

pub(crate) fn parse_device(text: &str) -> Result<Dev, Error> {
    text.split_once(':')
        .and_then(|(major, minor)| {
            Some(Dev {
                major: major.parse().ok()?,
                minor: minor.parse().ok()?,
            })
        })
        .ok_or(Error::Option {
            name: "device",
            value: text.to_owned(),
            known: "major:minor, for example 8:0",
        })
}
