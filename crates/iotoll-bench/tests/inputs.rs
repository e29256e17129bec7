//! The benchmark's inputs are what they say.
#![allow(missing_docs, clippy::unwrap_used, clippy::pedantic)]

use std::path::{Path, PathBuf};
use std::process::Command;

use blktrace::{Act, Entry, Run};
use iotoll_bench::{raw::convert, repeat::repeat};
use tracedat::Trace;

fn data(name: &str) -> PathBuf {
    // Asked at run time: clones may share one target directory.
    Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap())
        .join("../../tests/trace/data")
        .join(name)
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("iotoll-bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// (CPU, time, data) of every event.
fn events(path: &Path) -> Vec<(u32, u64, Vec<u8>)> {
    let trace = Trace::open(path).unwrap();
    let (mut entries, mut all) = (trace.events().unwrap(), Vec::new());
    while let Some(entry) = entries.next().unwrap() {
        if let tracedat::Entry::Event(record) = entry {
            all.push((record.cpu, record.ts, record.data.to_vec()));
        }
    }
    all
}

#[test]
fn copies_follow_each_other() {
    let folder = Folder::new("repeat");
    let source = folder.0.join("source.dat");
    let convert = Command::new("trace-cmd")
        .args([
            "convert",
            "--file-version",
            "7",
            "--compression",
            "none",
            "-i",
        ])
        .arg(data("virtio-split-flush.dat"))
        .arg("-o")
        .arg(&source)
        .output();
    assert!(convert.unwrap().status.success(), "apt install trace-cmd");
    let once = events(&source);
    let bytes = std::fs::read(&source).unwrap();
    let target = folder.0.join("target.dat");
    let written = repeat(&bytes, &target, 3).unwrap();
    let all = events(&target);
    assert_eq!(written.events, 3 * once.len() as u64);
    assert_eq!(all.len(), 3 * once.len());
    assert!(all.is_sorted_by_key(|event| event.1));
    let period = all[once.len()].1 - all[0].1;
    for (copy, part) in (0..).zip(all.chunks(once.len())) {
        for (event, original) in part.iter().zip(&once) {
            assert_eq!((event.0, &event.2), (original.0, &original.2));
            assert_eq!(event.1, original.1 + copy * period);
        }
    }
    let mut report = Command::new("trace-cmd");
    let report = report.args(["report", "-i"]).arg(&target).output();
    let text = String::from_utf8_lossy(&report.unwrap().stdout).into_owned();
    let lines = text.lines().filter(|line| line.contains("] ")).count();
    assert_eq!(lines, all.len(), "trace-cmd's own reading");
}

/// What blktrace itself recorded, against what becomes of ftrace's recording of the same seconds.
#[test]
fn raw_files_are_as_blktrace_writes_them() {
    let folder = Folder::new("raw");
    let name = folder.0.join("run");
    let trace = Trace::open(data("blktrace/nvme-ext4-6.12.dat")).unwrap();
    convert(&trace, &name).unwrap();
    let told = |path: &Path| {
        let (mut run, mut all) = (Run::open(path).unwrap(), Vec::new());
        while let Some(entry) = run.next().unwrap() {
            let Entry::Event(event) = entry else {
                continue;
            };
            // ftrace does not tell a timer's unplug from another, nor how long a split bio is.
            let act = if event.act == Act::UnplugTimer {
                Act::Unplug
            } else {
                event.act
            };
            let bytes = if act == Act::Split { 0 } else { event.bytes };
            let what = (event.sector, bytes, event.categories, event.error);
            let pdu = if act == Act::Remap {
                Vec::new()
            } else {
                event.pdu.to_vec()
            };
            all.push((act.letter(), event.pid, what, pdu));
        }
        all.sort();
        all
    };
    let (ours, theirs) = (told(&name), told(&data("blktrace/nvme-ext4-6.12")));
    assert!(theirs.len() > 1500);
    assert_eq!(ours.len(), theirs.len());
    for (our, their) in ours.iter().zip(&theirs) {
        assert_eq!(our, their);
    }
}
