//! A recording of another format, packed or not: what it becomes is a trace.dat that can be read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracedat::{Entry, Trace};

/// Entries looked at in one file.
const ENTRIES: usize = 100_000;

fuzz_target!(|bytes: &[u8]| {
    let Ok(Some(recording)) = traceconv::from_bytes(bytes.to_vec()) else {
        return;
    };
    let format = recording.about.format.as_str();
    if matches!(format, "blktrace" | "trace.dat") {
        // Only unpacked; the other targets read these.
        return;
    }
    let trace = match Trace::open(recording.path()) {
        Ok(trace) => trace,
        // The formats of perf.data go over as they are, be they damaged.
        Err(error) => {
            assert_eq!(format, "perf.data", "{error}");
            return;
        }
    };
    let fields: Vec<_> = trace
        .formats()
        .iter()
        .take(8)
        .flat_map(|f| f.fields().into_iter().filter_map(|x| f.accessor(&x.name)).take(16))
        .collect();
    let mut events = trace.events().expect("as many CPUs as were written");
    let mut last = 0;
    for _ in 0..ENTRIES {
        match events.next().expect("the file can be read") {
            Some(Entry::Event(record)) => {
                assert!(record.ts >= last, "time goes back");
                last = record.ts;
                for field in &fields {
                    let _ = field.uint(record.data);
                    let _ = field.text(record.data);
                }
            }
            Some(Entry::Lost(_)) => {}
            None => return,
        }
    }
});
