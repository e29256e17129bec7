//! `iotoll-dut live`: measures the running kernel's ring buffers while the workload runs.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use iorecord::{Analysis, Cells, Live};
use lexopt::prelude::*;
use tracedat::{LiveOptions, Trace};

use crate::cells;
use crate::document::document;
use crate::error::{Error, writing};
use crate::options::{Options, number, text};

/// Where tracefs is mounted: its own place, and that of kernels before 4.1.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

#[derive(Debug)]
struct Settings {
    options: Options,
    tracefs: PathBuf,
    name: String,
    pause: Duration,
    /// Stop after this time, even if tracing goes on.
    limit: Option<Duration>,
}

/// Runs the command.
pub(crate) fn run(words: &mut lexopt::Parser) -> Result<(), Error> {
    let settings = parse(words)?;
    let failed = |e: &iorecord::Error| Error::measuring(&settings.tracefs, e);
    let events = enabled(&settings.tracefs)?;
    let events: Vec<(&str, &str)> = events
        .lines()
        .filter_map(|l| l.split_once(':'))
        .filter(|e| !e.0.is_empty())
        .collect();
    let events = [events.as_slice(), &[("ftrace", "print")]].concat();
    let trace = Trace::from_tracefs(&settings.tracefs, &events, LiveOptions { follow: false });
    let trace = trace.map_err(|e| failed(&e.into()))?;
    let cells = if settings.options.cells {
        Cells::Marked(cells::MARKER.to_owned())
    } else {
        Cells::Whole(settings.name.clone())
    };
    let mut live = Live::new(trace, &settings.options.request(), cells).map_err(|e| failed(&e))?;
    follow(&settings, &mut live)?;
    live.finish(|name, analysis| settings.print(name, analysis))
}

fn follow(settings: &Settings, live: &mut Live) -> Result<(), Error> {
    let start = Instant::now();
    let switch = settings.tracefs.join("tracing_on");
    loop {
        // Asked before the look: what was recorded before tracing went off is in it.
        let on = fs::read(&switch).map_err(|e| Error::reading(&switch, &e))?;
        live.look(|name, analysis| settings.print(name, analysis))?;
        if !on.starts_with(b"1") || settings.limit.is_some_and(|l| start.elapsed() >= l) {
            return Ok(());
        }
        std::thread::sleep(settings.pause);
    }
}

fn parse(words: &mut lexopt::Parser) -> Result<Settings, Error> {
    let mut settings = Settings {
        options: Options::default(),
        tracefs: PathBuf::new(),
        name: "live".to_owned(),
        pause: Duration::from_millis(100),
        limit: None,
    };
    while let Some(word) = words.next()? {
        let Long(name) = word else {
            return Err(word.unexpected().into());
        };
        match name {
            "tracefs" => settings.tracefs = words.value()?.into(),
            "name" => settings.name = text("name", words.value()?)?,
            "interval" => {
                settings.pause = Duration::from_millis(number("interval", words.value()?)?);
            }
            "seconds" => {
                settings.limit = Some(Duration::from_secs(number("seconds", words.value()?)?));
            }
            "until-stopped" => settings.limit = None,
            name => {
                let name = name.to_owned();
                if !settings.options.take(&name, words)? {
                    return Err(Long(&name).unexpected().into());
                }
            }
        }
    }
    if settings.tracefs.as_os_str().is_empty() {
        let mounted = |path: &&&str| Path::new(path).join("set_event").exists();
        let found = TRACEFS.iter().find(mounted).ok_or_else(|| {
            Error::Infrastructure(format!(
                "no tracefs: mount -t tracefs tracefs {}, as root",
                TRACEFS[0]
            ))
        })?;
        settings.tracefs = found.into();
    }
    Ok(settings)
}

impl Settings {
    fn print(&self, name: &str, analysis: &Analysis) -> Result<(), Error> {
        let text = document(name, None, analysis, &self.options)?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}")
            .and_then(|()| out.flush())
            .map_err(|e| writing(&e))
    }
}

/// `set_event`: a line `GROUP:EVENT` for each event that is being recorded.
fn enabled(tracefs: &Path) -> Result<String, Error> {
    let path = tracefs.join("set_event");
    let text = fs::read_to_string(&path).map_err(|e| Error::reading(&path, &e))?;
    if text.trim().is_empty() {
        return Err(Error::usage(format!(
            "{}: no event is enabled; enable those that the sections need first",
            tracefs.display()
        )));
    }
    Ok(text)
}
