//! Reads synthetic files of every kind.
#![allow(missing_docs, clippy::unwrap_used, clippy::pedantic)]

mod common;

use common::{Item, Page, Shape, file, tick};
use tracedat::{Entry, Error, LostRange, LostReason, Trace};

/// All (time, CPU, serial) in merged order, and the gaps.
fn events(bytes: Vec<u8>) -> (Vec<(u64, u32, u64)>, Vec<LostRange>) {
    let trace = Trace::from_bytes(bytes).unwrap();
    let serial = trace
        .format("test", "tick")
        .unwrap()
        .accessor("serial")
        .unwrap();
    let (mut all, mut gaps) = (Vec::new(), Vec::new());
    let mut events = trace.events().unwrap();
    while let Some(entry) = events.next().unwrap() {
        match entry {
            Entry::Event(r) => all.push((r.ts, r.cpu, serial.uint(r.data).unwrap())),
            Entry::Lost(gap) => {
                let late = all.iter().any(|e| Some(e.0) > gap.from);
                assert!(!late || gap.from.is_none(), "{gap:?} came late");
                gaps.push(gap);
            }
        }
    }
    (all, gaps)
}

fn ticks(shape: &Shape, ts: u64, deltas: &[u64], first: u64) -> Page {
    let items = deltas
        .iter()
        .zip(first..)
        .map(|(&d, n)| Item::Event(d, tick(shape, n)))
        .collect();
    Page {
        ts,
        missed: None,
        items,
    }
}

fn two_cpus(shape: &Shape) -> Vec<(u32, Vec<Page>)> {
    let one = |ts, delta, serial| ticks(shape, ts, &[delta], serial);
    let mut late = one(900, 0, 12);
    late.missed = Some(None);
    vec![
        (
            0,
            vec![
                one(100, 0, 0),
                one(200, 7, 1),
                one(300, 1 << 40, 2),
                one(1 << 41, 3, 3),
            ],
        ),
        (3, vec![one(150, 0, 10), one(207, 0, 11), late]),
    ]
}

const EXPECTED: [(u64, u32, u64); 7] = [
    (100, 0, 0),
    (150, 3, 10),
    (207, 0, 1),
    (207, 3, 11),
    (900, 3, 12),
    (300 + (1 << 40), 0, 2),
    (3 + (1 << 41), 0, 3),
];

#[test]
fn every_kind_of_file_gives_the_same_events() {
    for shape in Shape::all() {
        let mut expected = EXPECTED.to_vec();
        if shape.version == 6 {
            expected
                .iter_mut()
                .filter(|e| e.1 == 3)
                .for_each(|e| e.1 = 1);
        }
        let (all, gaps) = events(file(&shape, &two_cpus(&shape)));
        assert_eq!(all, expected, "{shape:?}");
        let cpu = expected[1].1;
        assert_eq!(
            gaps,
            [LostRange {
                cpu,
                from: Some(207),
                to: 900,
                count: None,
                reason: LostReason::Overwritten
            }]
        );
    }
}

#[test]
fn the_order_of_cpus_in_the_file_does_not_matter() {
    let shape = Shape::PLAIN;
    let mut cpus = two_cpus(&shape);
    cpus.reverse();
    assert_eq!(events(file(&shape, &cpus)).0, EXPECTED);
}

#[test]
fn facts_of_the_file() {
    for shape in Shape::all() {
        let trace = Trace::from_bytes(file(&shape, &two_cpus(&shape))).unwrap();
        assert_eq!(trace.version(), u32::from(shape.version));
        assert_eq!(trace.long_size(), shape.long);
        assert_eq!(trace.page_size() as usize, shape.page_size);
        assert_eq!(trace.endian(), shape.endian);
        assert_eq!(trace.compression().name(), shape.packing);
        assert_eq!(
            (trace.cpus(), trace.clock(), trace.instance()),
            (2, "mono", "")
        );
        assert_eq!(trace.comms().get(&42).map(String::as_str), Some("fio"));
        assert_eq!(trace.unplaced_losses(), 9);
    }
}

#[test]
fn fields_by_the_format() {
    for shape in Shape::all() {
        let trace = Trace::from_bytes(file(&shape, &[])).unwrap();
        let format = trace.format("test", "tick").unwrap();
        let get = |name| format.accessor(name).unwrap();
        let record = tick(&shape, 0x0102_0304_0506_0708);
        assert_eq!(get("common_type").uint(&record), Some(7));
        assert_eq!(get("common_pid").int(&record), Some(42));
        assert_eq!(get("serial").uint(&record), Some(0x0102_0304_0506_0708));
        assert_eq!(get("little").int(&record), Some(-2));
        assert_eq!(get("rwbs").text(&record), Some(b"WFS".as_slice()));
        assert_eq!(get("name").text(&record), Some(b"four".as_slice()));
        assert_eq!(get("other").text(&record), Some(b"ab".as_slice()));
        assert_eq!(get("serial").uint(&record[..15]), None);
        assert_eq!(get("name").bytes(&record[..38]), None);
        assert!(format.accessor("absent").is_none());
        let symbols = format.symbols("phase");
        let expected = [(0, "send"), (1, "complete"), (2, "third")];
        assert_eq!(symbols, expected.map(|(n, s)| (n, s.to_owned())));
        assert!(format.symbols("serial").is_empty());
    }
}

#[test]
fn discarded_events_take_time_and_absolute_stamps_replace_it() {
    for shape in Shape::all().into_iter().filter(|s| s.page_size > 200) {
        let high = 0xf8 << 56;
        let page = Page {
            ts: high | 100,
            missed: None,
            items: vec![
                Item::Event(0, tick(&shape, 0)),
                Item::Discarded(5, 12),
                Item::Event(1, tick(&shape, 1)),
                Item::Absolute(1000),
                Item::Event(2, tick(&shape, 2)),
            ],
        };
        let (all, _) = events(file(&shape, &[(0, vec![page])]));
        let expected = [(high | 100, 0, 0), (high | 106, 0, 1), (high | 1002, 0, 2)];
        assert_eq!(all, expected, "{shape:?}");
    }
}

#[test]
fn long_records_carry_their_length() {
    let shape = Shape {
        page_size: 4096,
        ..Shape::PLAIN
    };
    let mut long = tick(&shape, 5);
    long.resize(600, 0);
    let page = Page {
        ts: 1,
        missed: None,
        items: vec![Item::Event(0, long)],
    };
    assert_eq!(events(file(&shape, &[(0, vec![page])])).0, [(1, 0, 5)]);
}

#[test]
fn counted_gaps_and_gaps_at_the_start() {
    let shape = Shape::PLAIN;
    let mut page = ticks(&shape, 500, &[1], 0);
    page.missed = Some(Some(77));
    let gaps = events(file(&shape, &[(0, vec![page])])).1;
    assert_eq!(
        gaps,
        [LostRange {
            cpu: 0,
            from: None,
            to: 500,
            count: Some(77),
            reason: LostReason::Overwritten
        }]
    );
}

#[test]
fn an_empty_cpu_is_no_error() {
    for shape in Shape::all() {
        assert!(
            events(file(&shape, &[(0, vec![]), (1, vec![])]))
                .0
                .is_empty()
        );
    }
}

#[test]
fn errors_say_what_and_where() {
    let text = |bytes: &[u8]| Trace::from_bytes(bytes.to_vec()).unwrap_err().to_string();
    assert!(text(b"PNG").contains("no trace-cmd magic"));
    assert!(text(b"").contains("record it with trace-cmd"));
    assert!(text(b"\x17\x08\x44tracing5\0").contains("version \"5\""));
    let plain = file(&Shape::PLAIN, &two_cpus(&Shape::PLAIN));
    assert!(text(&plain[..20]).contains("ends at 0x14"));
    let mut foreign = plain.clone();
    foreign[18..22].copy_from_slice(b"lzma");
    assert!(
        text(&foreign).contains("--compression none"),
        "{}",
        text(&foreign)
    );
    let missing = Trace::open("/nonexistent/trace.dat").unwrap_err();
    assert!(matches!(missing, Error::Io(_)));
    for message in [
        text(b"PNG"),
        text(&plain[..20]),
        text(&foreign),
        missing.to_string(),
    ] {
        assert!(!message.contains('\n'));
    }
}
