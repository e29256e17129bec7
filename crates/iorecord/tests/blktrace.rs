//! The translation of blktrace's actions, against what ftrace recorded of the same seconds.
#![allow(missing_docs, clippy::unwrap_used, clippy::pedantic, clippy::panic)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use iorecord::{Analysis, BlktraceEvents, Filter, Item, Request, Unit, action_name};
use iosections::{Event, Kind, Op, Section, Span};
use tracedat::{Entry, EventFormat, Trace};

fn fixture(name: &str) -> PathBuf {
    // Asked at run time: clones may share one target directory.
    let folder = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap())
        .join("../../tests/trace/data/blktrace");
    folder.join(name)
}

fn events(name: &str) -> Vec<Event> {
    let items = BlktraceEvents::open(fixture(name)).unwrap();
    let event = |item| match item {
        Item::Event(event) => Some(event),
        Item::Task(..) => None,
        Item::Lost(gap) => panic!("{gap:?}"),
    };
    items.filter_map(|item| event(item.unwrap())).collect()
}

/// Two recorders' stamps of one event are this close (ns), on a guest that the host interrupts.
const APART: u64 = 50_000_000;

/// What both recorders should tell of an event: sector, sectors and letters, if any.
type Told = Option<(u64, u32, String)>;

/// (time, event) by name of ftrace's event and task (the idle task by CPU): the guest may stand still
/// or move a task to another CPU between the two recorders' looks at one event, so that only the
/// order within a task is the same.
type ByName = BTreeMap<(&'static str, i32, u32), Vec<(u64, Told)>>;

fn key(name: &'static str, pid: i32, cpu: u32) -> (&'static str, i32, u32) {
    (name, pid, if pid == 0 { cpu } else { 0 })
}

fn span(span: &Span) -> Option<(u64, u32, String)> {
    Some((span.sector, span.sectors, span.rwbs.letters()))
}

fn from_blktrace(name: &str) -> ByName {
    let mut all = ByName::new();
    for event in events(name) {
        let (name, what) = match (event.kind, action_name(event.name)) {
            (Kind::BioQueue(s), _) => ("block_bio_queue", span(&s)),
            (Kind::Issue(s), _) => ("block_rq_issue", span(&s)),
            (Kind::Requeue(s), _) => ("block_rq_requeue", span(&s)),
            (Kind::Complete(s), _) => ("block_rq_complete", span(&s)),
            (Kind::Merge(_), "backmerge") => ("block_bio_backmerge", None),
            (Kind::Merge(_), "frontmerge") => ("block_bio_frontmerge", None),
            (Kind::Split(_), _) => ("block_split", None),
            (Kind::Getrq(..), _) => ("block_getrq", None),
            (Kind::Insert(..), _) => ("block_rq_insert", None),
            (Kind::Other, "plug") => ("block_plug", None),
            (Kind::Other, "unplug" | "unplug_timer") => ("block_unplug", None),
            (Kind::Remap { .. }, _) => ("block_bio_remap", None),
            other => panic!("{other:?}"),
        };
        let key = key(name, event.pid, event.cpu);
        all.entry(key).or_default().push((event.ts, what));
    }
    all
}

fn from_ftrace(name: &str, start: u64, seen: fn(&str) -> bool) -> ByName {
    let trace = Trace::open(fixture(name)).unwrap();
    let wanted = [
        "block_bio_queue",
        "block_rq_issue",
        "block_rq_requeue",
        "block_rq_complete",
        "block_bio_backmerge",
        "block_bio_frontmerge",
        "block_split",
        "block_getrq",
        "block_rq_insert",
        "block_plug",
        "block_unplug",
        "block_bio_remap",
    ];
    let formats: Vec<(&'static str, &EventFormat)> = wanted
        .into_iter()
        .filter_map(|name| Some((name, trace.format("block", name)?)))
        .collect();
    let mut all = ByName::new();
    let mut entries = trace.events().unwrap();
    while let Some(entry) = entries.next().unwrap() {
        let Entry::Event(record) = entry else {
            panic!("{entry:?}");
        };
        let uint = |format: &EventFormat, field| format.accessor(field)?.uint(record.data);
        let id = uint(formats[0].1, "common_type").unwrap();
        let Some(&(name, format)) = formats.iter().find(|f| u64::from(f.1.id) == id) else {
            continue;
        };
        let rwbs = format.accessor("rwbs").and_then(|a| a.text(record.data));
        let rwbs = String::from_utf8(rwbs.unwrap_or_default().to_vec()).unwrap();
        // ftrace was there first.
        if !seen(&rwbs) || record.ts + APART < start {
            continue;
        }
        let has_span = matches!(
            name,
            "block_bio_queue" | "block_rq_issue" | "block_rq_requeue" | "block_rq_complete"
        );
        let what = has_span.then(|| {
            let mut rwbs = rwbs;
            let sectors = uint(format, "nr_sector").unwrap() as u32;
            // ftrace knows the operation write-zeroes only as N; blktrace counts it as a write.
            if sectors > 0 && rwbs.starts_with('N') {
                rwbs.replace_range(..1, "W");
            }
            // A flush has none; 5.10 prints that as -1.
            let sector = uint(format, "sector").filter(|&s| s != u64::MAX);
            (sector.unwrap_or(0), sectors, rwbs)
        });
        let pid = uint(format, "common_pid").unwrap() as i32;
        all.entry(key(name, pid, record.cpu))
            .or_default()
            .push((record.ts, what));
    }
    all
}

#[test]
fn both_recorders_tell_the_same() {
    for name in ["nvme-ext4-5.10", "nvme-ext4-6.12", "nvme-ext4-7.3"] {
        let seen = match name {
            // That kernel gives a blktrace of version 7 no forced unit access and no zeroing.
            "nvme-ext4-7.3" => |rwbs: &str| !rwbs.contains("WF") && !rwbs.contains("WZ"),
            _ => |_: &str| true,
        };
        let ours = from_blktrace(name);
        let start = ours.values().flatten().map(|(ts, _)| *ts).min();
        let theirs = from_ftrace(&format!("{name}.dat"), start.unwrap(), seen);
        let names = |all: &ByName| all.keys().copied().collect::<Vec<_>>();
        assert_eq!(names(&ours), names(&theirs), "{name}");
        for (event, ours) in ours {
            let theirs = &theirs[&event];
            assert_eq!(ours.len(), theirs.len(), "{name} {event:?}");
            for (our, their) in ours.iter().zip(theirs) {
                assert_eq!(
                    our.1, their.1,
                    "{name} {event:?} at {} and {}",
                    our.0, their.0
                );
                let apart = our.0.abs_diff(their.0);
                assert!(apart < APART, "{name} {event:?}: {apart} ns apart");
            }
        }
    }
}

#[test]
fn names_of_tasks() {
    let mut names = BTreeMap::new();
    for item in BlktraceEvents::open(fixture("scsi-6.12")).unwrap() {
        match item.unwrap() {
            Item::Task(pid, name) => {
                names.insert(pid, name);
            }
            Item::Event(event) => {
                assert!(
                    event.pid == 0 || names.contains_key(&event.pid),
                    "{event:?}"
                );
            }
            Item::Lost(gap) => panic!("{gap:?}"),
        }
    }
    assert!(names.values().any(|name| name == "fio"));
    assert!(!names.contains_key(&0));
}

#[test]
fn gaps() {
    let items = BlktraceEvents::open(fixture("dropped-7.3")).unwrap();
    let (mut missing, mut now) = (0, 0);
    for item in items {
        match item.unwrap() {
            Item::Event(event) => now = event.ts,
            Item::Lost(gap) => {
                assert!(
                    gap.from.unwrap() >= now && Some(gap.to) > gap.from,
                    "{gap:?}"
                );
                missing += gap.count.unwrap();
            }
            Item::Task(..) => {}
        }
    }
    assert_eq!(missing, 13);
}

#[test]
fn in_order_of_time() {
    for name in ["scsi-5.10", "scsi-6.12", "dropped-6.12", "nvme-ext4-6.12"] {
        let events = events(name);
        assert!(events.is_sorted_by_key(|event| event.ts), "{name}");
        assert!(events.iter().any(|e| matches!(e.kind, Kind::Issue(_))));
    }
}

/// Times of queue, issue and completion by first sector, of requests that have one bio alone.
fn plain_requests(events: &[Event]) -> BTreeMap<u64, [u64; 3]> {
    let mut times: BTreeMap<u64, Vec<(u32, u64)>> = BTreeMap::new();
    for event in events {
        let (step, span) = match event.kind {
            Kind::BioQueue(span) => (0, span),
            Kind::Issue(span) => (1, span),
            Kind::Complete(span) => (2, span),
            _ => continue,
        };
        // Merged and split ones show sectors that are not a bio's.
        let of = if span.sectors == 8 {
            span.sector
        } else {
            u64::MAX
        };
        times.entry(of).or_default().push((step, event.ts));
    }
    times.remove(&u64::MAX);
    let whole = |(sector, steps): (u64, Vec<(u32, u64)>)| match steps.as_slice() {
        &[(0, queue), (1, issue), (2, complete)] => Some((sector, [queue, issue, complete])),
        _ => None,
    };
    times.into_iter().filter_map(whole).collect()
}

#[test]
fn every_bio_is_an_io() {
    for name in ["scsi-5.10", "scsi-6.12"] {
        let events = events(name);
        let request = Request {
            keep_ios: true,
            ..Request::default()
        };
        let ios = Analysis::run(fixture(name), &request).unwrap().ios;
        let queued = events
            .iter()
            .filter(|e| matches!(e.kind, Kind::BioQueue(_)));
        assert_eq!(ios.len(), queued.count(), "{name}");
        let plain = plain_requests(&events);
        let mut compared = 0;
        for io in &ios {
            assert_eq!(io.op, Op::Bio);
            assert_eq!(io.elapsed.iter().sum::<u64>(), io.end - io.start, "{io:?}");
            let length = |section: Section| io.elapsed[section as usize];
            assert_eq!(
                length(Section::VfsFs) + length(Section::Return),
                0,
                "{io:?}"
            );
            let Some(&[queue, issue, complete]) = io.sector.and_then(|s| plain.get(&s)) else {
                continue;
            };
            assert_eq!((io.start, io.end), (queue, complete), "{io:?}");
            assert_eq!(length(Section::Submission), issue - queue, "{io:?}");
            assert_eq!(length(Section::Hardware), complete - issue, "{io:?}");
            assert_eq!(length(Section::Completion), 0, "{io:?}");
            compared += 1;
        }
        assert!(compared > 50, "{name}: {compared} of {}", ios.len());
    }
}

/// Numbers of I/Os seen, and of those that a request chooses.
fn counts(name: &str, request: &Request) -> (u64, u64) {
    let analysis = Analysis::run(fixture(name), request).unwrap();
    let record: serde_json::Value =
        serde_json::from_str(&analysis.record(Unit::Nanoseconds).unwrap()).unwrap();
    let count = |key: &str| record["ios"][key].as_u64();
    (
        count("seen").unwrap(),
        count("selected").unwrap_or_else(|| count("measured").unwrap()),
    )
}

#[test]
fn tasks_windows_and_filters_choose() {
    let name = "scsi-6.12";
    let all = counts(name, &Request::default());
    assert_eq!(all.0, all.1);
    let comm = |comm: &str| Request {
        comm: Some(comm.to_owned()),
        ..Request::default()
    };
    let fio = counts(name, &comm("fio"));
    assert!(0 < fio.0 && fio.0 <= all.0);
    assert_eq!(counts(name, &comm("nobody")), (0, 0));
    let larger = Request {
        filter: Filter {
            least: Some(4097),
            ..Filter::default()
        },
        ..Request::default()
    };
    let some = counts(name, &larger);
    assert!(some.0 == all.0 && some.1 < all.1);
    let events = events(name);
    let (first, middle) = (events[0].ts, events[events.len() / 2].ts);
    let mut seen = Vec::new();
    let source = iorecord::Source::open(fixture(name)).unwrap();
    let windows = [(0, first), (first, middle), (middle, u64::MAX)];
    Analysis::windows(source, &comm("fio"), &windows, |analysis| {
        seen.push(analysis.outcome.ios.seen);
        Ok::<_, iorecord::Error>(())
    })
    .unwrap();
    assert_eq!((seen[0], seen[1] + seen[2]), (0, fio.0));
    assert!(
        seen[1] > 0 && seen[2] > 0,
        "a name is known in later windows, too"
    );
}
