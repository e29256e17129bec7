//! The fuzzer's seeds, and the inputs that once broke something, read in every test run.
#![allow(missing_docs, clippy::unwrap_used, clippy::pedantic)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{FORMAT, Instance, Item, Page, Shape, file_of, tick};
use tracedat::{Endian, Entry, EventFormat, Trace};

fn folder(name: &str) -> PathBuf {
    // Asked at run time: clones may share one target directory.
    Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap())
        .join("../../fuzz/seeds")
        .join(name)
}

fn files(name: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(folder(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn containers() {
    let mut readable = 0;
    for (name, bytes) in files("container") {
        let Ok(trace) = Trace::from_bytes(bytes) else {
            continue;
        };
        let Ok(mut events) = trace.events() else {
            continue;
        };
        let mut last = 0;
        while let Some(entry) = events.next().unwrap() {
            if let Entry::Event(record) = entry {
                assert!(record.ts >= last, "{name}");
                last = record.ts;
                readable += 1;
            }
        }
    }
    assert!(readable > 0);
}

#[test]
fn formats() {
    let mut fields = 0;
    for (name, bytes) in files("formats") {
        let Some(text) = bytes.get(2..) else { continue };
        let Some(format) = EventFormat::parse("test", text, Endian::Little) else {
            continue;
        };
        for field in format.fields() {
            let accessor = format.accessor_of(&field);
            let inside = field.offset + field.size <= text.len();
            assert_eq!(accessor.uint(text).is_some(), inside, "{name} {field:?}");
            let _ = (
                accessor.int(text),
                accessor.text(text),
                format.symbols(&field.name),
            );
            fields += 1;
        }
        assert!(format.fields().len() < 1000, "{name}");
    }
    assert!(fields > 0);
}

/// Writes the synthetic seeds: `cargo test -p tracedat --test seeds -- --ignored`.
#[test]
#[ignore = "writes into fuzz/seeds"]
fn write_seeds() {
    for shape in Shape::all().into_iter().filter(|s| s.page_size == 128) {
        let page = |ts, missed| Page {
            ts,
            missed,
            items: vec![Item::Event(3, tick(&shape, ts))],
        };
        let extra = Page {
            ts: 0xf8 << 56 | 900,
            missed: Some(None),
            items: vec![
                Item::Discarded(5, 12),
                Item::Absolute(1000),
                Item::Event(1 << 30, vec![7; 12]),
            ],
        };
        let buffer = |name, clock, cpus: Vec<(u32, Vec<Page>)>| Instance { name, clock, cpus };
        let buffers = [
            buffer(
                "",
                "mono",
                vec![
                    (0, vec![page(9, None), page(70, Some(Some(4)))]),
                    (3, vec![]),
                ],
            ),
            buffer(
                "a",
                "mono",
                vec![(0, vec![page(30, None), extra]), (3, vec![page(40, None)])],
            ),
        ];
        let mut shift = shape.int(4242, 8);
        for (value, size) in [
            (1, 4),
            (1, 4),
            (2, 4),
            (0, 8),
            (50, 8),
            (3, 8),
            (9, 8),
            (1, 8),
            (1, 8),
        ] {
            shift.extend(shape.int(value, size));
        }
        let tsc = [shape.int(3, 4), shape.int(1, 4), shape.int(0, 8)].concat();
        let options = [(7, b"-5\0".to_vec()), (12, shift), (14, tsc)];
        let formats = [("test", FORMAT.to_owned())];
        let bytes = file_of(&shape, &formats, &options, &buffers);
        let name = format!(
            "v{}-{:?}-{}-{}",
            shape.version, shape.endian, shape.long, shape.packing
        );
        fs::write(folder("container").join(name.to_lowercase()), bytes).unwrap();
    }
    fs::write(
        folder("formats").join("tick"),
        [b"\0\x40", FORMAT.as_bytes()].concat(),
    )
    .unwrap();
}
