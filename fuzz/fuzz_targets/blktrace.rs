//! Raw blktrace: a file of one CPU, and the same bytes as `blkparse -d` would have written them.
#![no_main]

use blktrace::{Entry, Run};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for run in [
        Run::from_bytes(vec![(0, bytes.to_vec())]),
        Run::dump_from_bytes(bytes.to_vec()),
    ] {
        let Ok(mut run) = run else {
            continue;
        };
        let mut last = 0;
        while let Some(entry) = run.next().expect("memory can be read") {
            if let Entry::Event(event) = entry {
                assert!(event.ts >= last, "time goes back");
                last = event.ts;
                let _ = event.remap();
            }
        }
    }
});
