//! Fields, byte orders, versions and the order of the CPUs.
#![allow(missing_docs, clippy::unwrap_used, clippy::pedantic, clippy::panic)]

mod common;

use blktrace::{Act, Endian, Entry, Error, Remap, Run, What, category};
use common::{PLAIN, Rec, Seen, entries, file, shapes};

#[test]
fn every_field_in_every_shape() {
    for shape in shapes() {
        let wanted = Rec {
            sequence: 1,
            ts: 0x0102_0304_0506_0708,
            sector: 0x1112_1314_1516_1718,
            bytes: 0x2122_2324,
            action: 8 | (1 << 7 | 1 << 1 | 1 << 15) << 16,
            pid: 0x3132_3334,
            dev: 259 << 20 | 0xabcde,
            cpu: 3,
            error: (-5_i16) as u16,
            pdu: b"abc".to_vec(),
        };
        let mut run = Run::from_bytes(vec![(3, wanted.write(&shape))]).unwrap();
        assert_eq!(run.endian(), Some(shape.endian));
        let Some(Entry::Event(event)) = run.next().unwrap() else {
            panic!("no event in {shape:?}");
        };
        assert_eq!(
            (event.sequence, event.ts, event.sector, event.bytes),
            (1, wanted.ts, wanted.sector, wanted.bytes)
        );
        assert_eq!((event.act, event.act.letter()), (Act::Complete, 'C'));
        let bits = category::COMPLETE | category::WRITE | category::FUA;
        assert_eq!(event.categories, bits);
        assert_eq!((event.pid, event.dev), (0x3132_3334, wanted.dev));
        assert_eq!((event.cpu, event.error, event.pdu), (3, -5, &b"abc"[..]));
        assert!(run.next().unwrap().is_none());
        assert!(run.next().unwrap().is_none());
    }
}

#[test]
fn the_upper_categories_of_version_8() {
    let shape = shapes()[1];
    assert_eq!(shape.version, 8);
    let append = Rec {
        action: 8 | 1 << (16 + 16),
        ..Rec::queue(0, 1, 5)
    };
    let mut run = Run::from_bytes(vec![(0, append.write(&shape))]).unwrap();
    let Some(Entry::Event(event)) = run.next().unwrap() else {
        panic!("no event");
    };
    assert_eq!((event.act, event.categories), (Act::Complete, 1 << 16));
}

#[test]
fn notes_and_their_byte_order() {
    for shape in shapes() {
        let clock = |value: u32| match shape.endian {
            Endian::Little => value.to_le_bytes(),
            Endian::Big => value.to_be_bytes(),
        };
        let mut group = match shape.endian {
            Endian::Little => 77_u64.to_le_bytes(),
            Endian::Big => 77_u64.to_be_bytes(),
        }
        .to_vec();
        group.extend(b"hello");
        let records = [
            Rec::note(0, 0, 1, b"fio\0\0\0\0\0\0\0\0\0\0\0\0\0"),
            Rec::note(0, 1, 2, &[clock(1_700_000_000), clock(9)].concat()),
            Rec::note(0, 2 | 1 << 8, 3, &group),
            Rec::note(0, 1, 4, b"abc"),
            Rec::note(0, 9, 5, b""),
        ];
        let mut run = Run::from_bytes(vec![(0, file(&shape, &records))]).unwrap();
        let mut said = Vec::new();
        while let Some(entry) = run.next().unwrap() {
            let Entry::Note(note) = entry else {
                panic!("{entry:?}");
            };
            said.push((note.ts, note.cgroup, format!("{:?}", note.what)));
        }
        let what = |what: What<'_>| format!("{what:?}");
        assert_eq!(
            said,
            [
                (1, None, what(What::Process(b"fio"))),
                (2, None, what(What::Clock(1_700_000_000, 9))),
                (3, Some(77), what(What::Message(b"hello"))),
                (4, None, what(What::Other(1))),
                (5, None, what(What::Other(9))),
            ]
        );
    }
}

#[test]
fn remaps_are_big_endian_everywhere() {
    for shape in shapes() {
        let mut pdu = (8_u32 << 20 | 1).to_be_bytes().to_vec();
        pdu.extend((8_u32 << 20).to_be_bytes());
        pdu.extend(2048_u64.to_be_bytes());
        let short = pdu[..12].to_vec();
        let remap = |pdu, sequence| Rec {
            action: 15 | 1 << 4 << 16,
            pdu,
            ..Rec::queue(0, sequence, 1)
        };
        let records = [remap(pdu, 1), remap(short, 2), Rec::queue(0, 3, 1)];
        let mut run = Run::from_bytes(vec![(0, file(&shape, &records))]).unwrap();
        let mut next = || match run.next().unwrap() {
            Some(Entry::Event(event)) => event.remap(),
            other => panic!("{other:?}"),
        };
        let full = Remap {
            from: 8 << 20 | 1,
            to: 8 << 20,
            sector: 2048,
        };
        assert_eq!([next(), next(), next()], [Some(full), None, None]);
    }
}

#[test]
fn cpus_by_time_then_sequence() {
    let cpu0 = [
        Rec::queue(0, 1, 10),
        Rec::note(0, 0, 20, b"x"),
        Rec::queue(0, 2, 20),
        Rec::queue(0, 3, 40),
    ];
    let cpu7 = [
        Rec::queue(7, 1, 5),
        Rec::queue(7, 2, 10),
        Rec::queue(7, 3, 10),
        Rec::queue(7, 4, 50),
    ];
    let order = |files| {
        let events = entries(files).into_iter().filter_map(|seen| match seen {
            Seen::Event(cpu, ts, sequence, _) => Some((ts, sequence, cpu)),
            _ => None,
        });
        events.collect::<Vec<_>>()
    };
    let wanted = [
        (5, 1, 7),
        (10, 1, 0),
        (10, 2, 7),
        (10, 3, 7),
        (20, 2, 0),
        (40, 3, 0),
        (50, 4, 7),
    ];
    let files = [
        (0, file(&PLAIN, &cpu0)),
        (7, file(&PLAIN, &cpu7)),
        (9, vec![]),
    ];
    assert_eq!(order(files.to_vec()), wanted);
    assert_eq!(order(files.into_iter().rev().collect()), wanted);
}

#[test]
fn driver_data_are_skipped_and_counted() {
    let driver = Rec {
        action: 17 | 1 << 14 << 16,
        pdu: vec![0xee; 65535],
        ..Rec::queue(0, 2, 2)
    };
    let records = [Rec::queue(0, 1, 1), driver, Rec::queue(0, 3, 3)];
    let mut run = Run::from_bytes(vec![(0, file(&PLAIN, &records))]).unwrap();
    let mut sequences = Vec::new();
    while let Some(entry) = run.next().unwrap() {
        let Entry::Event(event) = entry else {
            panic!("{entry:?}");
        };
        sequences.push(event.sequence);
    }
    assert_eq!((sequences, run.driver_data()), (vec![1, 3], 1));
}

#[test]
fn what_is_not_blktrace_is_said_so() {
    let fails = |files| Run::from_bytes(files).unwrap_err();
    let foreign = fails(vec![(0, b"\x17\x08\x44tracing6".to_vec())]);
    assert!(matches!(foreign, Error::Magic { .. }), "{foreign}");
    let short = fails(vec![(0, b"\x07".to_vec())]);
    assert!(matches!(short, Error::Magic { .. }), "{short}");
    let old = fails(vec![(0, vec![6, 0x74, 0x61, 0x65])]);
    assert!(matches!(old, Error::Version { version: 6, .. }), "{old}");
    assert!(
        Run::from_bytes(vec![(0, vec![])])
            .unwrap()
            .next()
            .unwrap()
            .is_none()
    );
}

#[test]
fn files_of_one_run_are_found_by_name_or_by_file() {
    let folder = std::env::temp_dir().join(format!("blktrace-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for name in [
        "a.blktrace.0",
        "a.blktrace.11",
        "a.blktrace.2",
        "a.blktrace.x",
        "b.blktrace.1",
    ] {
        std::fs::write(folder.join(name), file(&PLAIN, &[Rec::queue(0, 1, 1)])).unwrap();
    }
    let cpus = |name: &str| {
        let found = blktrace::find(folder.join(name)).unwrap();
        found.iter().map(|f| f.cpu).collect::<Vec<_>>()
    };
    assert_eq!(cpus("a"), [0, 2, 11]);
    assert_eq!(cpus("a.blktrace.2"), [0, 2, 11]);
    assert_eq!(cpus("b"), [1]);
    let none = Run::open(folder.join("c")).unwrap_err();
    assert!(matches!(none, Error::NoFiles { .. }), "{none}");
    let mut run = Run::open(folder.join("a")).unwrap();
    let mut events = 0;
    while let Some(entry) = run.next().unwrap() {
        events += u32::from(matches!(entry, Entry::Event(_)));
    }
    std::fs::remove_dir_all(folder).unwrap();
    assert_eq!(events, 3);
}
