//! The recordings of the repository, event by event against blkparse.
#![allow(missing_docs, clippy::unwrap_used, clippy::pedantic, clippy::panic)]

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;

use blktrace::{Act, Entry, Event, Run, What, category};

/// What both sides say of an event, in the words of blkparse. The time comes first, for sorting.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    ts: u64,
    cpu: u32,
    sequence: u32,
    dev: String,
    pid: i32,
    act: String,
    rwbs: String,
    sector: u64,
    bytes: u32,
    error: i32,
    /// The number that unplugs and splits carry; 0 of others.
    number: u64,
    /// Name of the task; none when the files do not tell it.
    comm: Option<String>,
}

const FORMAT: &str = "@%T %t %c %s %M,%m %p %a %d %S %N %e %U [%C]\\n";

/// Every run among the fixtures: their files lie in one folder and in folders below it.
fn runs() -> Vec<PathBuf> {
    // Asked at run time: clones may share one target directory.
    let top = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap())
        .join("../../tests/trace/data/blktrace");
    let (mut runs, mut folders) = (BTreeSet::new(), vec![top]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let file = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                folders.push(path);
            } else if let Some((name, _)) = file.split_once(".blktrace.") {
                runs.insert(folder.join(name));
            }
        }
    }
    assert!(runs.len() >= 7, "{runs:?}");
    runs.into_iter().collect()
}

fn blkparse(run: &Path) -> Vec<Line> {
    let mut command = Command::new("blkparse");
    command.args(["-q", "-f", FORMAT, "-i"]).arg(run);
    let output = command.output().unwrap_or_else(|e| {
        panic!("blkparse is the oracle and cannot be run ({e}): apt install blktrace")
    });
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(parse).collect()
}

fn parse(line: &str) -> Option<Line> {
    let (head, tail) = line.strip_prefix('@')?.split_once('[')?;
    let (comm, _) = tail.rsplit_once(']')?;
    let f: Vec<&str> = head.split_whitespace().collect();
    // Of events without one, blkparse prints what is in its buffer.
    let has_number = matches!(f[6], "U" | "UT" | "X");
    let seconds: u64 = f[0].parse().unwrap();
    Some(Line {
        ts: seconds * 1_000_000_000 + f[1].parse::<u64>().unwrap(),
        cpu: f[2].parse().unwrap(),
        sequence: f[3].parse().unwrap(),
        dev: f[4].to_owned(),
        pid: f[5].parse().unwrap(),
        act: f[6].to_owned(),
        rwbs: f[7].to_owned(),
        sector: f[8].parse().unwrap(),
        bytes: f[9].parse().unwrap(),
        error: f[10].parse().unwrap(),
        number: if has_number {
            f[11].parse().unwrap()
        } else {
            0
        },
        comm: Some(comm.to_owned()),
    })
}

fn rwbs(event: &Event<'_>) -> String {
    let has = |bit| event.categories & bit != 0;
    let mut letters = String::new();
    letters.extend(has(category::FLUSH).then_some('F'));
    letters.push(match () {
        () if has(category::DISCARD) => 'D',
        () if has(category::WRITE) => 'W',
        () if event.bytes > 0 => 'R',
        () => 'N',
    });
    letters.extend(has(category::FUA).then_some('F'));
    letters.extend(has(category::AHEAD).then_some('A'));
    letters.extend(has(category::SYNC).then_some('S'));
    letters.extend(has(category::META).then_some('M'));
    letters
}

fn number(event: &Event<'_>) -> u64 {
    match event.act {
        Act::Unplug | Act::UnplugTimer | Act::Split => {
            u64::from_be_bytes(event.pdu.try_into().unwrap())
        }
        _ => 0,
    }
}

/// The events, and how many are missing.
fn ours(run: &Path) -> (Vec<Line>, u64) {
    let mut run = Run::open(run).unwrap();
    let (mut lines, mut names, mut missing) = (Vec::new(), HashMap::new(), 0);
    while let Some(entry) = run.next().unwrap() {
        match entry {
            Entry::Event(event) => lines.push(Line {
                ts: event.ts,
                cpu: event.cpu,
                sequence: event.sequence,
                dev: format!("{},{}", event.dev >> 20, event.dev & 0xf_ffff),
                pid: event.pid,
                act: match event.act {
                    Act::UnplugTimer => "UT".to_owned(),
                    act => act.letter().to_string(),
                },
                rwbs: rwbs(&event),
                sector: event.sector,
                bytes: event.bytes,
                error: event.error.into(),
                number: number(&event),
                comm: None,
            }),
            Entry::Note(note) => {
                if let What::Process(name) = note.what {
                    let name = String::from_utf8(name.to_vec()).unwrap();
                    names.insert(note.pid, name);
                }
            }
            Entry::Lost(lost) => missing += lost.count.unwrap(),
        }
    }
    for line in &mut lines {
        // 0 is the idle task, of which every CPU has its own.
        line.comm = names.get(&line.pid).filter(|_| line.pid != 0).cloned();
    }
    (lines, missing)
}

#[test]
fn the_same_events_as_blkparse() {
    for run in runs() {
        let ((mut ours, missing), mut theirs) = (ours(&run), blkparse(&run));
        // blktrace said 14; the last one has no successor to show it.
        let dropped = if run.ends_with("dropped-7.3") { 13 } else { 0 };
        assert_eq!(missing, dropped, "{}", run.display());
        assert!(ours.len() > 500, "{}: {} events", run.display(), ours.len());
        assert_eq!(ours.len(), theirs.len(), "{}", run.display());
        // Ours come by time; blkparse counts it from the run's first record.
        assert!(ours.is_sorted_by_key(|line| line.ts));
        ours.sort();
        theirs.sort();
        let first = ours[0].ts - theirs[0].ts;
        for (our, their) in ours.iter().zip(&mut theirs) {
            their.ts += first;
            // A name is remembered from its note to the end; blkparse asks at the time of the event.
            if our.comm.is_none() {
                their.comm = None;
            }
            assert_eq!(our, their, "{}", run.display());
        }
    }
}

/// blkparse's own format of a remap ends with "<- (major,minor) sector".
#[test]
fn the_same_remaps_as_blkparse() {
    let mut compared = 0;
    for run in runs() {
        let output = Command::new("blkparse")
            .args(["-q", "-i"])
            .arg(&run)
            .output();
        let text = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
        let mut theirs: Vec<(u64, u32, String)> = Vec::new();
        for line in text.lines() {
            let f: Vec<&str> = line.split_whitespace().collect();
            if f.get(5) == Some(&"A") {
                let (_, from) = line.split_once("<- ").unwrap();
                let head = (f[7].parse().unwrap(), f[2].parse().unwrap());
                theirs.push((head.0, head.1, from.to_owned()));
            }
        }
        let (mut ours, mut run) = (Vec::new(), Run::open(&run).unwrap());
        while let Some(entry) = run.next().unwrap() {
            if let Entry::Event(event) = entry {
                ours.extend(event.remap().map(|remap| {
                    let dev = (remap.from >> 20, remap.from & 0xf_ffff);
                    let from = format!("({},{}) {}", dev.0, dev.1, remap.sector);
                    (event.sector, event.sequence, from)
                }));
            }
        }
        ours.sort();
        theirs.sort();
        compared += ours.len();
        assert_eq!(ours, theirs);
    }
    assert!(compared > 400, "{compared} remaps");
}
