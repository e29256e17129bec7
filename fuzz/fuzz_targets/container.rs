//! A whole file: its description, every entry of every buffer, some fields of every event.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracedat::{Accessor, Entry, Trace};

/// Entries looked at in one file: a packed file can hold far more than its size says.
const ENTRIES: usize = 200_000;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut trace) = Trace::from_bytes(bytes.to_vec()) else {
        return;
    };
    walk(&trace);
    let names: Vec<String> = trace.buffers().iter().map(|b| b.name().to_owned()).collect();
    for name in names.iter().take(4) {
        trace.select(name).expect("a buffer of this name exists");
        walk(&trace);
    }
});

fn walk(trace: &Trace) {
    let fields: Vec<Accessor> = trace
        .formats()
        .iter()
        .take(8)
        .flat_map(|f| f.fields().into_iter().filter_map(|x| f.accessor(&x.name)).take(16))
        .collect();
    let Ok(mut events) = trace.events() else {
        return;
    };
    let mut last = std::collections::HashMap::new();
    let mut merged = 0;
    let mut seen = 0;
    while let Some(entry) = events.next().expect("memory can be read") {
        seen += 1;
        if seen > ENTRIES {
            return;
        }
        match entry {
            Entry::Event(record) => {
                assert!(record.ts >= merged, "events in order of time");
                merged = record.ts;
                last.insert(record.cpu, record.ts);
                for field in &fields {
                    std::hint::black_box((field.int(record.data), field.text(record.data)));
                }
            }
            Entry::Lost(gap) => {
                assert!(gap.from.is_none_or(|from| from <= gap.to), "{gap:?}");
                assert!(gap.from.unwrap_or(0) >= merged || gap.from.is_none(), "{gap:?} late");
            }
        }
    }
}
