//! Counts the events of a trace by name, as an example and to be timed:
//! `cargo run --release --example count -- [--fields] trace.dat`.
//! With `--fields` it also reads up to four integer fields of each event, as an analysis would.
use std::time::Instant;

use tracedat::{Accessor, Entry, Trace};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let fields = args.iter().any(|a| a == "--fields");
    args.retain(|a| a != "--fields");
    let trace = Trace::open(args.first().ok_or("usage: count [--fields] TRACE")?)?;
    let start = Instant::now();
    let kind = trace
        .formats()
        .first()
        .and_then(|f| f.accessor("common_type"))
        .ok_or("the trace has no events")?;
    let size = trace.formats().iter().map(|f| usize::from(f.id) + 1).max();
    let mut counts = vec![0_u64; size.unwrap_or(0)];
    let mut accessors: Vec<Option<Vec<Accessor>>> = vec![None; counts.len()];
    let (mut sum, mut gaps, mut last) = (0_u64, 0_u64, 0);
    let mut events = trace.events()?;
    while let Some(entry) = events.next()? {
        let record = match entry {
            Entry::Event(record) => record,
            Entry::Lost(gap) => {
                eprintln!("{gap:?}");
                gaps += 1;
                continue;
            }
        };
        let id = kind.uint(record.data).unwrap_or(0) as usize;
        if let Some(count) = counts.get_mut(id) {
            *count += 1;
        }
        last = record.ts;
        if let Some(slot) = accessors.get_mut(id).filter(|_| fields) {
            for accessor in slot.get_or_insert_with(|| integers(&trace, id)) {
                sum = sum.wrapping_add(accessor.uint(record.data).unwrap_or(0));
            }
        }
    }
    let time = start.elapsed();
    for format in trace.formats() {
        if let Some(&n) = counts.get(usize::from(format.id)).filter(|&&n| n > 0) {
            println!("{n:9} {}", format.name);
        }
    }
    let total: u64 = counts.iter().sum();
    println!("{total:9} events, {gaps} gaps, last at {last}, sum of fields {sum:#x}");
    eprintln!("{:.1} ms", time.as_secs_f64() * 1e3);
    Ok(())
}

/// Accessors of the first integer fields of an event.
fn integers(trace: &Trace, id: usize) -> Vec<Accessor> {
    let Some(format) = trace.formats().iter().find(|f| usize::from(f.id) == id) else {
        return Vec::new();
    };
    let wanted = |size| matches!(size, 1 | 2 | 4 | 8);
    let names = format.fields().into_iter().filter(|f| wanted(f.size));
    let names = names.filter(|f| !f.name.starts_with("common_") || f.name == "common_pid");
    let first = names.take(4);
    first.filter_map(|f| format.accessor(&f.name)).collect()
}
