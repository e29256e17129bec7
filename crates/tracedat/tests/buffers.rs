//! Several instances, clock options, guests, text traces, and the same from a file as from memory.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::pedantic)]

mod common;

use common::{FORMAT, Instance, Item, Page, Shape, file, file_of, tick};
use tracedat::{Entry, Guest, Trace};

fn pages(shape: &Shape, from: u64, step: u64, count: u64) -> Vec<Page> {
    let page = |n| Page {
        ts: from + n * step,
        missed: None,
        items: vec![Item::Event(0, tick(shape, from + n))],
    };
    (0..count).map(page).collect()
}

fn formats() -> [(&'static str, String); 1] {
    [("test", FORMAT.to_owned())]
}

/// (time, CPU) of all events.
fn times(trace: &Trace) -> Vec<(u64, u32)> {
    let mut all = Vec::new();
    let mut events = trace.events().unwrap();
    while let Some(entry) = events.next().unwrap() {
        match entry {
            Entry::Event(r) => all.push((r.ts, r.cpu)),
            Entry::Lost(gap) => panic!("{gap:?}"),
        }
    }
    all
}

fn instance(shape: &Shape, name: &'static str, clock: &'static str, from: u64) -> Instance {
    Instance {
        name,
        clock,
        cpus: vec![(0, pages(shape, from, 10, 2)), (1, vec![])],
    }
}

fn of_versions() -> Vec<Shape> {
    let mut shapes = Shape::all();
    shapes.retain(|s| s.page_size == 4096);
    shapes
}

#[test]
fn instances_with_the_same_clock_are_merged() {
    for shape in of_versions() {
        let buffers = [
            instance(&shape, "", "mono", 100),
            instance(&shape, "second", "mono", 105),
            instance(&shape, "third", "boot", 3),
        ];
        let mut trace = Trace::from_bytes(file_of(&shape, &formats(), &[], &buffers)).unwrap();
        let names: Vec<&str> = trace.buffers().iter().map(|b| b.name()).collect();
        assert_eq!(names, ["", "second", "third"]);
        let read: Vec<&str> = trace.selected().map(|b| b.name()).collect();
        let mut expected = vec![(100, 0), (105, 0), (110, 0), (115, 0)];
        if shape.version == 6 {
            // One clock for all: the third is merged too.
            assert_eq!(read, names);
            expected.splice(0..0, [(3, 0), (13, 0)]);
        } else {
            assert_eq!(read, ["", "second"]);
        }
        assert_eq!(times(&trace), expected, "{shape:?}");
        trace.select("third").unwrap();
        assert_eq!(times(&trace), [(3, 0), (13, 0)]);
        trace.select("").unwrap();
        assert_eq!(times(&trace), [(100, 0), (110, 0)]);
        let error = trace.select("fourth").unwrap_err().to_string();
        assert!(error.contains("no buffer \"fourth\"") && error.contains("\"second\""));
    }
}

#[test]
fn an_empty_top_buffer_yields_to_an_instance() {
    let shape = Shape::PLAIN;
    let mut top = instance(&shape, "", "mono", 0);
    top.cpus = vec![(0, vec![])];
    let buffers = [top, instance(&shape, "only", "boot", 7)];
    let trace = Trace::from_bytes(file_of(&shape, &formats(), &[], &buffers)).unwrap();
    assert_eq!((trace.instance(), trace.clock()), ("only", "boot"));
    assert_eq!(times(&trace), [(7, 0), (17, 0)]);
}

#[test]
fn offsets_and_ticks() {
    for shape in of_versions() {
        let tsc: Vec<u8> = [(3, 4), (1, 4), (77, 8)]
            .iter()
            .flat_map(|&(value, size)| shape.int(value, size))
            .collect();
        let options = [(1, b"0x2\0".to_vec()), (7, b"-500\0".to_vec()), (14, tsc)];
        let of = |clock, options: &[(u64, Vec<u8>)]| {
            let top = [instance(&shape, "", clock, 2000)];
            times(&Trace::from_bytes(file_of(&shape, &formats(), options, &top)).unwrap())
        };
        // The date is in microseconds, the offset in nanoseconds.
        assert_eq!(of("mono", &options[..2]), [(3500, 0), (3510, 0)]);
        assert_eq!(of("x86-tsc", &options), [(4500, 0), (4515, 0)]);
        assert_eq!(of("mono", &options), [(3500, 0), (3510, 0)]);
    }
}

#[test]
fn a_guest_is_moved_to_the_hosts_clock() {
    for shape in of_versions() {
        let mut shift = shape.int(4242, 8);
        shift.extend(shape.int(0, 4));
        shift.extend(shape.int(1, 4));
        shift.extend(shape.int(1, 4));
        for value in [0, (-1000_i64) as u64, 1] {
            shift.extend(shape.int(value, 8));
        }
        let mut guest = b"vm\0".to_vec();
        guest.extend(shape.int(99, 8));
        guest.extend(shape.int(1, 4));
        guest.extend(shape.int(0, 4));
        guest.extend(shape.int(1234, 4));
        let options = [(12, shift), (13, guest), (11, shape.int(7, 8))];
        let top = [instance(&shape, "", "mono", 2000)];
        let trace = Trace::from_bytes(file_of(&shape, &formats(), &options, &top)).unwrap();
        assert_eq!(times(&trace), [(1000, 0), (1010, 0)]);
        assert_eq!(
            (trace.trace_id(), trace.host_trace_id()),
            (Some(7), Some(4242))
        );
        let guest = Guest {
            name: "vm".to_owned(),
            trace_id: 99,
            cpus: vec![(0, 1234)],
        };
        assert_eq!(trace.guests(), [guest]);
    }
}

#[test]
fn a_text_trace_is_refused() {
    let old = Shape {
        version: 6,
        ..Shape::PLAIN
    };
    let mut bytes = file(&old, &[(0, vec![])]);
    let at = bytes.windows(9).position(|w| w == b"flyrecord").unwrap();
    bytes[at..at + 10].copy_from_slice(b"latency  \0");
    let new = Shape::PLAIN;
    let mut text = new.int(0, 8);
    text.extend(b"\0local\0");
    for bytes in [bytes, file_of(&new, &formats(), &[(22, text)], &[])] {
        let error = Trace::from_bytes(bytes).unwrap_err().to_string();
        assert!(error.contains("latency (text) trace"), "{error}");
        assert!(error.contains("trace-cmd record") && !error.contains('\n'));
    }
}

#[test]
fn files_are_read_as_memory_is() {
    for shape in Shape::all() {
        // More than one block of each CPU.
        let count = 200_000 / shape.page_size as u64 + 3;
        let count = count.min(2000);
        let cpus = vec![
            (0, pages(&shape, 5, 10, count)),
            (1, pages(&shape, 1, 7, count)),
        ];
        let bytes = file(&shape, &cpus);
        let path = std::env::temp_dir().join(format!("tracedat-{}.dat", std::process::id()));
        std::fs::write(&path, &bytes).unwrap();
        let from_file = times(&Trace::open(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(from_file.len() as u64, 2 * count);
        assert_eq!(
            from_file,
            times(&Trace::from_bytes(bytes).unwrap()),
            "{shape:?}"
        );
    }
}

#[test]
fn hundreds_of_cpus() {
    let shape = Shape {
        page_size: 65536,
        ..Shape::PLAIN
    };
    let cpus: Vec<_> = (0..300)
        .map(|cpu| (cpu, pages(&shape, u64::from(cpu), 1000, 2)))
        .collect();
    let trace = Trace::from_bytes(file(&shape, &cpus)).unwrap();
    let all = times(&trace);
    assert_eq!(all.len(), 600);
    assert!(all.is_sorted());
}
