//! The record of a cell, as JSON text.

use std::collections::BTreeMap;

use iosections::{DeviceOutcome, Driver, Mark, MarkCounts, RequestCounts, Section};
use serde_json::{Value, json};

use crate::analysis::Analysis;
use crate::blktrace::NOT_SEEN;
use crate::error::Error;
use crate::source::Source;
use crate::stats::Stats;
use crate::summary::{Three, Way};

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
    /// Ticks of a clock that counts something else, where nothing says how long they are.
    Ticks,
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
            Self::Ticks => "ticks",
        }
    }
}

impl Analysis {
    /// The record as JSON text. Nanoseconds are ticks where the trace's clock does not count
    /// nanoseconds.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn record(&self, unit: Unit) -> Result<String, Error> {
        let device = self.device.and_then(|dev| self.outcome.device(dev));
        let device = device.cloned().unwrap_or_default();
        let sees_all = self.source.sees_all();
        let unit = match unit {
            Unit::Nanoseconds if self.source.ticks().is_some() => Unit::Ticks,
            unit => unit,
        };
        let mut record = vec![
            ("unit", unit.name().into()),
            ("trace", self.trace_part()),
            ("device", self.device_part(&device)),
            ("ios", self.io_counts()),
            ("requests", request_counts(&device.requests)),
            ("marks", self.marks(&device)),
            ("sections", self.sections()),
            ("overhead", self.three(&self.summary.overhead(), sees_all)),
            ("total", self.three(&self.summary.total(), true)),
            ("paths", self.paths()),
        ];
        if !sees_all {
            let why = |(section, why): (Section, &'static str)| (section.name(), why.into());
            record.push(("not_in_source", object(NOT_SEEN.map(why))));
        } else if !self.outcome.switches {
            record.push(("own_unknown", "the trace has no sched_switch".into()));
        }
        let record = object(record);
        Ok(serde_json::to_string(&record)?)
    }

    /// What the trace is, as JSON text: version, packing, byte order, sizes, clock, events, losses.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn info(&self) -> Result<String, Error> {
        let mut info = self.trace_part();
        if let (Source::Trace(trace), Some(map)) = (&self.source, info.as_object_mut()) {
            let endian = match trace.endian() {
                tracedat::Endian::Little => "little",
                tracedat::Endian::Big => "big",
            };
            map.insert("endian".into(), endian.into());
            map.insert("long_size".into(), trace.long_size().into());
            map.insert("page_size".into(), trace.page_size().into());
        }
        Ok(serde_json::to_string(&info)?)
    }

    fn trace_part(&self) -> Value {
        let mut part = self.source.about();
        if let Some(map) = part.as_object_mut() {
            map.insert("events".into(), json!(self.event_counts()));
            map.insert("lost_events".into(), self.facts.lost_events.into());
            map.insert("lost_ranges".into(), self.facts.lost_ranges.into());
        }
        part
    }

    fn event_counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for (id, &count) in self.facts.counts.iter().enumerate() {
            if count > 0 {
                *counts.entry(self.source.event_name(id)).or_default() += count;
            }
        }
        counts
    }

    fn device_part(&self, device: &DeviceOutcome) -> Value {
        let dev = self.asked.or(self.device);
        let dev = dev.map_or_else(String::new, |d| d.to_string());
        let driver = device.driver().map_or("block", Driver::name);
        let mut part = json!({ "dev": dev, "driver": driver });
        if let (Some(_), Some(disk), Some(map)) = (self.asked, self.device, part.as_object_mut()) {
            // What the requests are counted of.
            map.insert("disk".into(), disk.to_string().into());
        }
        part
    }

    /// The I/Os of all devices, and what became of them; those of other devices than this one are
    /// told apart from the measured ones. A filter changes nothing but the number of those shown.
    fn io_counts(&self) -> Value {
        let c = &self.outcome.ios;
        let mut counts = json!({
            "seen": c.seen,
            "measured": self.whole.ios,
            "no_request": c.no_request,
            "waited": c.waited,
            "dropped_lost": c.dropped_lost,
            "incomplete": c.incomplete,
            "ambiguous": c.ambiguous,
            "other_device": c.measured - self.whole.ios,
            "clean": self.whole.clean,
            "detached": self.whole.detached,
        });
        if let Some(map) = counts.as_object_mut() {
            if self.whole.is_filtered {
                map.insert("selected".into(), self.summary.ios().into());
            }
            if !self.knows_own() {
                // Whether anything else ran meanwhile, it does not tell.
                map.remove("clean");
            }
        }
        counts
    }

    /// The events that ended the sections: of all requests of the device, or, of chosen I/Os, of
    /// their first ones.
    fn marks(&self, device: &DeviceOutcome) -> Value {
        let (mut handed, mut interrupt) = (device.device_marks, device.interrupt_marks);
        if self.whole.is_filtered || self.asked.is_some() {
            (handed, interrupt) = (self.summary.handed, self.summary.interrupts);
        }
        if !self.source.sees_all() {
            interrupt = MarkCounts::default();
        }
        object([
            ("start", mark_counts(&self.summary.starts)),
            ("end", mark_counts(&self.summary.ends)),
            ("device", mark_counts(&handed)),
            ("interrupt", mark_counts(&interrupt)),
        ])
    }

    fn sections(&self) -> Value {
        let part = |section: Section| {
            let mut part = self.three(&self.summary.section(section), true);
            if let Some(part) = part.as_object_mut() {
                part.insert("probe_events".into(), self.probe_events(section));
                part.insert("ended_by".into(), self.ended_by(section));
                if self.knows_own() {
                    part.insert("first".into(), stats_json(&self.summary.first(section)));
                }
            }
            (section.name(), part)
        };
        object(self.source.sections().map(part))
    }

    /// The events that ended a section, of the first own request of each I/O. Sections that end at
    /// different events cannot be compared.
    fn ended_by(&self, section: Section) -> Value {
        let always = |event: &'static str| object([(event, self.summary.ios().into())]);
        match section {
            Section::VfsFs => always(Mark::BioQueue.name()),
            Section::Submission => mark_counts(&self.summary.handed),
            Section::Hardware if self.source.sees_all() => mark_counts(&self.summary.interrupts),
            Section::Hardware | Section::Completion => always(Mark::Complete.name()),
            Section::Return => mark_counts(&self.summary.ends),
        }
    }

    /// What the source tells of some durations: of blktrace's no more than how long they were.
    fn three(&self, three: &Three, is_told: bool) -> Value {
        let told = |stats: &Stats, is_told| {
            if is_told {
                stats_json(stats)
            } else {
                stats_json(&Stats::default())
            }
        };
        let has_own = self.knows_own();
        object([
            ("elapsed", told(&three.elapsed, is_told)),
            ("own", told(&three.own, has_own)),
            ("own_clean", told(&three.own_clean, has_own)),
        ])
    }

    /// Mean number of events per I/O inside its own time in a section; only known of all I/Os
    /// together.
    fn probe_events(&self, section: Section) -> Value {
        let ios = if self.whole.is_filtered || !self.knows_own() {
            0
        } else {
            self.outcome.ios.measured
        };
        let mut means = BTreeMap::new();
        for (id, counts) in self.outcome.probe_events.iter().enumerate() {
            let count = counts.get(section.index()).copied().unwrap_or(0);
            if count > 0 && ios > 0 {
                *means.entry(self.source.event_name(id)).or_insert(0.0) +=
                    count as f64 / ios as f64;
            }
        }
        json!(means)
    }
}

/// An object of parts that are moved into it; `json!` copies each with all that is in it.
fn object(parts: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let parts = parts.into_iter();
    Value::Object(parts.map(|(name, part)| (name.to_owned(), part)).collect())
}

fn request_counts(c: &RequestCounts) -> Value {
    json!({
        "seen": c.seen,
        "attributed": c.attributed,
        "helper": c.helper,
        "unattributed": c.unattributed,
        "ambiguous": c.ambiguous,
        "in_flight": c.in_flight,
        "splits": c.splits,
        "merges": c.merges,
        "requeues": c.requeues,
        "flushes": c.flushes,
    })
}

fn mark_counts(counts: &MarkCounts) -> Value {
    object(counts.iter().map(|(mark, n)| (mark.name(), n.into())))
}

fn stats_json(stats: &Stats) -> Value {
    if stats.count == 0 {
        return json!({ "count": 0 });
    }
    let mut json = json!({
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
    });
    if let (false, Some(map)) = (stats.exact, json.as_object_mut()) {
        map.insert("resolution".into(), (1.0 / 256.0).into());
    }
    json
}

impl Analysis {
    /// The I/Os grouped by path, most frequent first.
    fn paths(&self) -> Value {
        let name = |way: &Way| self.outcome.path(way.path);
        let mut ways: Vec<&Way> = self.summary.ways.iter().collect();
        ways.sort_by_key(|way| {
            let rest = way.path == u32::MAX;
            (rest, std::cmp::Reverse(way.ios), name(way))
        });
        let mut rest: Option<Way> = None;
        for way in ways.split_off(ways.len().min(PATH_LIMIT)) {
            match &mut rest {
                Some(rest) => rest.join(way),
                None => rest = Some(way.as_rest()),
            }
        }
        let part = |way: &Way| {
            let section = |s: Section| (s.name(), self.three(&way.section(s), true));
            object([
                ("path", name(way).into()),
                ("ios", way.ios.into()),
                ("clean", self.knows_own().then_some(way.clean).into()),
                ("sections", object(self.source.sections().map(section))),
            ])
        };
        ways.into_iter().chain(rest.as_ref()).map(part).collect()
    }
}
