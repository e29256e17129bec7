//! The record of a cell, as JSON text.

use std::collections::BTreeMap;

use iosections::{IoResult, Section, Stats};
use serde_json::{Map, Value, json};

use crate::analysis::Analysis;
use crate::error::Error;

/// Paths that are listed one by one; the rest is summed up as `other`.
const PATH_LIMIT: usize = 32;

/// Unit of all durations of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// Nanoseconds of a real clock.
    #[default]
    Nanoseconds,
    /// Instructions, on a virtual board with one nanosecond per instruction.
    Instructions,
}

impl Unit {
    /// The unit of this name: `ns` or `instructions`.
    ///
    /// # Errors
    /// For any other name.
    pub fn parse(name: &str) -> Result<Self, Error> {
        match name {
            "ns" => Ok(Self::Nanoseconds),
            "instructions" => Ok(Self::Instructions),
            _ => Err(Error::Option {
                name: "unit",
                value: name.to_owned(),
                known: "ns or instructions",
            }),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Instructions => "instructions",
        }
    }
}

impl Analysis {
    /// The record as JSON text.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn record(&self, unit: Unit) -> Result<String, Error> {
        let results: Vec<&IoResult> = self.outcome.results.iter().collect();
        let overhead = |io: &IoResult, of: Which| {
            Section::ALL
                .into_iter()
                .filter(|s| s.is_overhead())
                .map(|s| value(io, of, s))
                .sum()
        };
        let total =
            |io: &IoResult, of: Which| Section::ALL.into_iter().map(|s| value(io, of, s)).sum();
        let record = json!({
            "unit": unit.name(),
            "trace": self.trace_part(),
            "device": self.device_part(),
            "ios": self.io_counts(),
            "requests": self.request_counts(),
            "marks": {
                "device": self.outcome.device_marks,
                "interrupt": self.outcome.interrupt_marks,
            },
            "sections": self.sections(&results),
            "overhead": summary(&results, overhead),
            "total": summary(&results, total),
            "paths": paths(&results),
        });
        Ok(serde_json::to_string(&record)?)
    }

    /// What the trace is, as JSON text: version, packing, byte order, sizes, clock, events, losses.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn info(&self) -> Result<String, Error> {
        let trace = &self.trace;
        let endian = match trace.endian() {
            tracedat::Endian::Little => "little",
            tracedat::Endian::Big => "big",
        };
        let mut info = self.trace_part();
        if let Some(map) = info.as_object_mut() {
            map.insert("endian".into(), endian.into());
            map.insert("long_size".into(), trace.long_size().into());
            map.insert("page_size".into(), trace.page_size().into());
        }
        Ok(serde_json::to_string(&info)?)
    }

    fn trace_part(&self) -> Value {
        json!({
            "version": self.trace.version(),
            "compression": self.trace.compression().name(),
            "cpus": self.trace.cpus(),
            "clock": self.trace.clock(),
            "events": self.event_counts(),
            "lost_events": self.scan.lost_events,
            "lost_ranges": self.scan.lost.len(),
        })
    }

    fn event_counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for (id, &count) in self.scan.counts.iter().enumerate() {
            if count > 0 {
                *counts.entry(self.event_name(id)).or_default() += count;
            }
        }
        counts
    }

    /// The event's name, or its number when the trace has no format for it.
    fn event_name(&self, id: usize) -> String {
        let format = self
            .trace
            .formats()
            .iter()
            .find(|f| usize::from(f.id) == id);
        format.map_or_else(|| format!("event_{id}"), |f| f.name.clone())
    }

    fn device_part(&self) -> Value {
        let driver = match self.outcome.drivers {
            [0, 0] => "block",
            [ufs, nvme] if ufs >= nvme => "ufs",
            _ => "nvme",
        };
        let dev = self
            .outcome
            .device
            .map_or_else(String::new, |d| d.to_string());
        json!({ "dev": dev, "driver": driver })
    }

    fn io_counts(&self) -> Value {
        let c = &self.outcome.ios;
        json!({
            "seen": c.seen,
            "measured": c.measured,
            "no_request": c.no_request,
            "dropped_lost": c.dropped_lost,
            "incomplete": c.incomplete,
            "clean": c.clean,
            "detached": c.detached,
        })
    }

    fn request_counts(&self) -> Value {
        let c = &self.outcome.requests;
        json!({
            "seen": c.seen,
            "attributed": c.attributed,
            "helper": c.helper,
            "unattributed": c.unattributed,
            "in_flight": c.in_flight,
            "splits": c.splits,
            "merges": c.merges,
            "requeues": c.requeues,
            "flushes": c.flushes,
        })
    }

    fn sections(&self, results: &[&IoResult]) -> Value {
        let mut sections = section_summaries(results);
        for section in Section::ALL {
            let Some(part) = sections
                .get_mut(section.name())
                .and_then(Value::as_object_mut)
            else {
                continue;
            };
            part.insert(
                "probe_events".into(),
                self.probe_events(section, results.len()),
            );
            let firsts = results.iter().filter_map(|io| first(io, section)).collect();
            part.insert("first".into(), stats_json(&Stats::of(firsts)));
        }
        Value::Object(sections)
    }

    /// Mean number of events per I/O inside its own time in a section.
    fn probe_events(&self, section: Section, ios: usize) -> Value {
        let mut means = BTreeMap::new();
        for (id, counts) in self.outcome.probe_events.iter().enumerate() {
            let count = counts.get(section.index()).copied().unwrap_or(0);
            if count > 0 && ios > 0 {
                *means.entry(self.event_name(id)).or_insert(0.0) += count as f64 / ios as f64;
            }
        }
        json!(means)
    }
}

/// Which of the two figures of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Elapsed,
    Own,
}

fn value(io: &IoResult, of: Which, section: Section) -> u64 {
    let values = match of {
        Which::Elapsed => &io.elapsed,
        Which::Own => &io.own,
    };
    values.get(section.index()).copied().unwrap_or(0)
}

fn first(io: &IoResult, section: Section) -> Option<u64> {
    let first = io.first?;
    match section {
        Section::VfsFs => Some(first.vfs_fs),
        Section::Submission => Some(first.submission),
        Section::Completion => first.completion,
        Section::Hardware | Section::Return => None,
    }
}

fn section_summaries(ios: &[&IoResult]) -> Map<String, Value> {
    Section::ALL
        .into_iter()
        .map(|s| (s.name().to_owned(), summary(ios, |io, of| value(io, of, s))))
        .collect()
}

fn summary(ios: &[&IoResult], value: impl Fn(&IoResult, Which) -> u64) -> Value {
    let stats = |of, clean: bool| {
        let chosen = ios.iter().filter(|io| !clean || io.clean);
        stats_json(&Stats::of(chosen.map(|io| value(io, of)).collect()))
    };
    json!({
        "elapsed": stats(Which::Elapsed, false),
        "own": stats(Which::Own, false),
        "own_clean": stats(Which::Own, true),
    })
}

/// The summary of some durations, as it stands in a record, as JSON text.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn summarise(values: Vec<u64>) -> Result<String, Error> {
    Ok(serde_json::to_string(&stats_json(&Stats::of(values)))?)
}

fn stats_json(stats: &Stats) -> Value {
    if stats.count == 0 {
        return json!({ "count": 0 });
    }
    json!({
        "count": stats.count,
        "min": stats.min,
        "median": stats.median,
        "trimmed_mean": stats.trimmed_mean,
        "mean": stats.mean,
        "p90": stats.p90,
        "p99": stats.p99,
        "p99_9": stats.p99_9,
        "max": stats.max,
        "mode": stats.mode,
        "mode_count": stats.mode_count,
        "histogram": stats.histogram,
    })
}

/// The I/Os grouped by path, most frequent first.
fn paths(ios: &[&IoResult]) -> Value {
    let mut groups: BTreeMap<&str, Vec<&IoResult>> = BTreeMap::new();
    for io in ios {
        groups.entry(&io.path).or_default().push(io);
    }
    let mut groups: Vec<(&str, Vec<&IoResult>)> = groups.into_iter().collect();
    groups.sort_by_key(|(path, ios)| (std::cmp::Reverse(ios.len()), *path));
    if groups.len() > PATH_LIMIT {
        let rest = groups.split_off(PATH_LIMIT);
        groups.push(("other", rest.into_iter().flat_map(|(_, ios)| ios).collect()));
    }
    let part = |(path, ios): (&str, Vec<&IoResult>)| {
        json!({
            "path": path,
            "ios": ios.len(),
            "clean": ios.iter().filter(|io| io.clean).count(),
            "sections": section_summaries(&ios),
        })
    };
    groups.into_iter().map(part).collect()
}
