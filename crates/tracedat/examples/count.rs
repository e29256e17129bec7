//! Counts the events of a trace by name: `cargo run --release --example count -- trace.dat`.
use std::collections::BTreeMap;

use tracedat::Entry;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: count TRACE")?;
    let trace = tracedat::Trace::open(path)?;
    let kind = trace
        .formats()
        .first()
        .and_then(|f| f.accessor("common_type"));
    let mut counts = BTreeMap::new();
    let mut events = trace.events()?;
    while let Some(entry) = events.next()? {
        let record = match entry {
            Entry::Event(record) => record,
            Entry::Lost(gap) => {
                println!("{gap:?}");
                continue;
            }
        };
        let id = kind.and_then(|k| k.uint(record.data)).unwrap_or(0);
        *counts.entry(id).or_insert(0_u64) += 1;
    }
    for format in trace.formats() {
        if let Some(n) = counts.get(&u64::from(format.id)) {
            println!("{n:9} {}", format.name);
        }
    }
    Ok(())
}
