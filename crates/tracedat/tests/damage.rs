//! Damaged files give an error or fewer events, never a panic and never endless work.
#![allow(missing_docs, clippy::unwrap_used, clippy::pedantic)]

mod common;

use common::{Item, Page, Shape, file, tick};
use proptest::prelude::*;
use tracedat::{Endian, Entry, Trace};

/// Reads everything that can be read; the number of events.
fn read(bytes: Vec<u8>) -> Result<u64, tracedat::Error> {
    let trace = Trace::from_bytes(bytes)?;
    for format in trace.formats() {
        let fields = format.fields();
        for accessor in fields.iter().filter_map(|f| format.accessor(&f.name)) {
            for len in [0, 3, 24, 40] {
                let record = vec![0xff; len];
                let _ = (
                    accessor.uint(&record),
                    accessor.int(&record),
                    accessor.text(&record),
                );
            }
        }
        let _ = format.symbols("phase");
    }
    let (mut count, mut events) = (0, trace.events()?);
    while let Some(entry) = events.next()? {
        count += u64::from(matches!(entry, Entry::Event(_)));
    }
    Ok(count)
}

fn sample(shape: &Shape) -> Vec<u8> {
    let page = |ts: u64, missed| {
        let event = |n| Item::Event(n, tick(shape, n));
        Page {
            ts,
            missed,
            items: vec![event(1), Item::Discarded(3, 8), event(1 << 30)],
        }
    };
    let pages = vec![page(10, None), page(1 << 31, Some(Some(4)))];
    file(shape, &[(0, pages.clone()), (1, pages)])
}

fn shapes() -> Vec<Shape> {
    let plain = Shape::PLAIN;
    vec![
        plain,
        Shape {
            version: 6,
            ..plain
        },
        Shape {
            version: 6,
            endian: Endian::Big,
            long: 4,
            ..plain
        },
        Shape {
            packing: "zlib",
            ..plain
        },
        Shape {
            packing: "zstd",
            endian: Endian::Big,
            ..plain
        },
    ]
}

#[test]
fn cut_off_anywhere() {
    for shape in shapes() {
        let whole = sample(&shape);
        assert_eq!(read(whole.clone()).unwrap(), 8);
        for len in 0..whole.len() {
            if let Ok(events) = read(whole[..len].to_vec()) {
                assert!(events <= 8, "{shape:?} cut at {len}");
            }
        }
    }
}

#[test]
fn each_byte_turned() {
    for shape in shapes() {
        let whole = sample(&shape);
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            let _ = read(bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_damage(
        shape in prop::sample::select(shapes()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut bytes = sample(&shape);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = read(bytes);
    }

    #[test]
    fn random_pages(noise in prop::collection::vec(any::<u8>(), 256 * 4)) {
        let shape = Shape::PLAIN;
        let mut bytes = sample(&shape);
        // The pages of the first CPU follow each other; overwrite them, but keep a legal commit.
        let page = common::page(&shape, &Page::default());
        let start = bytes.windows(10).position(|w| w[..2] == [10, 0] && w[2..8] == [0; 6]);
        let start = start.unwrap();
        bytes[start..start + noise.len()].copy_from_slice(&noise);
        bytes[start + 8..start + 16].copy_from_slice(&[240, 0, 0, 0, 0, 0, 0, 0]);
        prop_assert_eq!(page.len(), 256);
        let _ = read(bytes);
    }
}
