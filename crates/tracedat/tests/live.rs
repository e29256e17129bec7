//! The kernel's own ring buffers: from a folder that looks like tracefs, and from this machine's
//! tracefs where there is one that may be used.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::pedantic)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{FORMAT, Item, Page, Shape, page, tick};
use tracedat::{Endian, Entry, LiveOptions, LostReason, Trace};

/// A folder that is removed when the test ends.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tracedat-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

const HEADER_PAGE: &[u8] = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:240;\tsigned:0;
";
const HEADER_EVENT: &[u8] = b"# compressed entry header
\ttype_len    :    5 bits
\ttime_delta  :   27 bits
\tarray       :   32 bits

\tpadding     : type == 29
\ttime_extend : type == 30
\ttime_stamp : type == 31
\tdata max type_len  == 28
";

fn tracefs(shape: &Shape, name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("events/header_page", HEADER_PAGE);
    folder.write("events/header_event", HEADER_EVENT);
    folder.write("events/test/tick/format", FORMAT.as_bytes());
    folder.write("saved_cmdlines", b"42 fio\n");
    folder.write("trace_clock", b"local [mono] boot\n");
    folder.write("tracing_on", b"0\n");
    for cpu in 0..2_u64 {
        let one = |n: u64, missed| Page {
            ts: 100 * n + cpu,
            missed,
            items: vec![
                Item::Event(0, tick(shape, n)),
                Item::Event(5, tick(shape, n)),
            ],
        };
        let mut pages: Vec<u8> = (1..4).flat_map(|n| page(shape, &one(n, None))).collect();
        if cpu == 1 {
            pages.extend(page(shape, &one(9, Some(Some(17)))));
        }
        folder.write(&format!("per_cpu/cpu{cpu}/trace_pipe_raw"), &pages);
        folder.write(
            &format!("per_cpu/cpu{cpu}/stats"),
            b"entries: 3\ndropped events: 2\n",
        );
    }
    folder
}

#[test]
fn pages_of_a_folder_that_looks_like_tracefs() {
    let shape = Shape {
        endian: if cfg!(target_endian = "big") {
            Endian::Big
        } else {
            Endian::Little
        },
        ..Shape::PLAIN
    };
    let folder = tracefs(&shape, "pages");
    for follow in [false, true] {
        let options = LiveOptions { follow };
        let trace = Trace::from_tracefs(&folder.0, &[("test", "tick")], options).unwrap();
        assert_eq!(
            (trace.clock(), trace.cpus(), trace.page_size()),
            ("mono", 2, 256)
        );
        assert_eq!(trace.comms().get(&42).map(String::as_str), Some("fio"));
        assert_eq!(trace.unplaced_losses(), 4);
        let (mut times, mut gaps) = (Vec::new(), Vec::new());
        let mut events = trace.events().unwrap();
        while let Some(entry) = events.next().unwrap() {
            match entry {
                Entry::Event(r) => times.push(r.ts),
                Entry::Lost(gap) => gaps.push((gap.cpu, gap.from, gap.to, gap.count, gap.reason)),
            }
        }
        let expected = [
            100, 101, 105, 106, 200, 201, 205, 206, 300, 301, 305, 306, 901, 906,
        ];
        assert_eq!(times, expected);
        assert_eq!(
            gaps,
            [(1, Some(306), 901, Some(17), LostReason::Overwritten)]
        );
    }
}

#[test]
fn a_missing_event_is_named() {
    let folder = tracefs(&Shape::PLAIN, "missing");
    let error = Trace::from_tracefs(&folder.0, &[("test", "tock")], LiveOptions::default());
    let text = error.unwrap_err().to_string();
    assert!(
        text.contains("events/test/tock/format") && !text.contains('\n'),
        "{text}"
    );
}

/// An instance of this machine's tracefs, removed when the test ends.
struct Instance(PathBuf);

impl Instance {
    /// `None` without a tracefs, or without the right to make instances.
    fn new() -> Option<Self> {
        let root = Path::new("/sys/kernel/tracing/instances");
        let path = root.join(format!("tracedat-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        Some(Self(path))
    }

    fn set(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn markers_of_the_running_kernel() {
    let Some(instance) = Instance::new() else {
        println!("skipped: no tracefs at /sys/kernel/tracing that this user may use");
        return;
    };
    for follow in [false, true] {
        instance.set("tracing_on", "1");
        let write = || {
            for n in 0..500 {
                instance.set("trace_marker", &format!("marker {n}"));
            }
            instance.set("tracing_on", "0");
        };
        // Those who follow read while it is written.
        std::thread::scope(|threads| {
            if follow {
                threads.spawn(write);
            } else {
                write();
            }
            read_markers(&instance, LiveOptions { follow });
        });
    }
}

fn read_markers(instance: &Instance, options: LiveOptions) {
    let trace = Trace::from_tracefs(&instance.0, &[("ftrace", "print")], options).unwrap();
    let text = trace.format("ftrace", "print").unwrap();
    let text = text.field("buf").unwrap().offset;
    let (mut found, mut last) = (0, 0);
    let mut events = trace.events().unwrap();
    while let Some(entry) = events.next().unwrap() {
        let Entry::Event(record) = entry else {
            panic!("{entry:?}");
        };
        assert!(record.ts >= last);
        last = record.ts;
        let expected = format!("marker {found}");
        assert!(record.data[text..].starts_with(expected.as_bytes()));
        found += 1;
    }
    assert_eq!(found, 500);
}
