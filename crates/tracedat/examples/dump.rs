//! Prints every event, one line each, CPU after CPU; `tests/trace/test_oracle_events.py`
//! compares it with what libtracecmd reads: `cargo run --release --example dump -- trace.dat`.
//!
//! `BUFFER CPU TIME SIZE MISSED ID FIELD=VALUE …`: integers as they are stored, arrays and
//! strings in hexadecimal; MISSED is the number of events lost just before (-1: unknown).
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};

use tracedat::{Accessor, Entry, Field, Location, LostReason, Trace};

type Columns = Vec<(Field, Accessor)>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: dump TRACE")?;
    let mut trace = Trace::open(path)?;
    let formats: HashMap<u64, Columns> = trace
        .formats()
        .iter()
        .map(|format| {
            let fields = format.fields().into_iter();
            let columns = fields.map(|f| (f.clone(), format.accessor_of(&f)));
            (u64::from(format.id), columns.collect())
        })
        .collect();
    let kind = trace
        .formats()
        .first()
        .and_then(|f| f.accessor("common_type"))
        .ok_or("the trace has no events")?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let names = trace.buffers().iter().map(|b| b.name().to_owned());
    for name in names.collect::<Vec<_>>() {
        trace.select(&name)?;
        let name = if name.is_empty() { "-" } else { &name };
        for mut cursor in trace.cursors()? {
            let mut missed = 0;
            while let Some(entry) = cursor.next()? {
                let record = match entry {
                    Entry::Event(record) => record,
                    Entry::Lost(gap) if gap.reason == LostReason::Overwritten => {
                        missed = gap.count.map_or(-1, |n| n as i64);
                        continue;
                    }
                    Entry::Lost(gap) => {
                        eprintln!("{gap:?}");
                        continue;
                    }
                };
                let id = kind.uint(record.data).unwrap_or(0);
                let (cpu, ts, size) = (record.cpu, record.ts, record.data.len());
                let mut line = format!("{name} {cpu} {ts} {size} {missed} {id}");
                missed = 0;
                for (field, accessor) in formats.get(&id).map_or(&[] as &[_], Vec::as_slice) {
                    print(field, accessor, record.data, &mut line)?;
                }
                writeln!(out, "{line}")?;
            }
        }
    }
    Ok(())
}

fn print(field: &Field, accessor: &Accessor, data: &[u8], line: &mut String) -> std::fmt::Result {
    write!(line, " {}=", field.name)?;
    if field.location == Location::Fixed && !field.kind.contains('[') {
        return match accessor.uint(data) {
            Some(value) => write!(line, "{value}"),
            None => line.write_char('?'),
        };
    }
    // An array without a size, as that of a marker, fills the record.
    let bytes = if field.size == 0 {
        data.get(field.offset..)
    } else {
        accessor.bytes(data)
    };
    match bytes {
        Some(bytes) => bytes.iter().try_for_each(|byte| write!(line, "{byte:02x}")),
        None => line.write_char('?'),
    }
}
