//! `read-trace cpus|merged|fields TRACE`: the reader alone. `cpus` goes through the events CPU by
//! CPU, `merged` in order of time, `fields` also reads task, device, sector and length of each.
use iotoll_bench::Result;
use tracedat::{Accessor, Entry, EventFormat, Trace};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(how), Some(trace)) = (args.next(), args.next()) else {
        return Err("usage: read-trace cpus|merged|fields TRACE".into());
    };
    let trace = Trace::open(trace)?;
    let (events, sum) = match how.as_str() {
        "cpus" => by_cpu(&trace)?,
        "merged" => merged(&trace, |data| data.len() as u64)?,
        "fields" => {
            let fields = fields(&trace)?;
            merged(&trace, |data| read(&fields, data).unwrap_or(0))?
        }
        other => return Err(format!("{other}; use cpus, merged or fields").into()),
    };
    println!("events {events}\nsum {sum}");
    Ok(())
}

fn by_cpu(trace: &Trace) -> Result<(u64, u64)> {
    let (mut events, mut sum) = (0, 0_u64);
    for mut cursor in trace.cursors()? {
        while let Some(entry) = cursor.next()? {
            if let Entry::Event(record) = entry {
                events += 1;
                sum = sum.wrapping_add(record.ts);
            }
        }
    }
    Ok((events, sum))
}

fn merged(trace: &Trace, mut each: impl FnMut(&[u8]) -> u64) -> Result<(u64, u64)> {
    let (mut events, mut sum) = (0, 0_u64);
    let mut entries = trace.events()?;
    while let Some(entry) = entries.next()? {
        if let Entry::Event(record) = entry {
            events += 1;
            sum = sum.wrapping_add(record.ts).wrapping_add(each(record.data));
        }
    }
    Ok((events, sum))
}

/// The common fields, and those of every event by its number.
struct Fields {
    kind: Accessor,
    pid: Accessor,
    events: Vec<[Option<Accessor>; 3]>,
}

fn fields(trace: &Trace) -> Result<Fields> {
    let first = trace.formats().first().ok_or("no event formats")?;
    let common = first
        .accessor("common_type")
        .zip(first.accessor("common_pid"));
    let (kind, pid) = common.ok_or("no common fields")?;
    let mut events = Vec::new();
    for format in trace.formats() {
        let id = usize::from(format.id);
        if events.len() <= id {
            events.resize(id + 1, [None; 3]);
        }
        let get =
            |format: &EventFormat| ["dev", "sector", "nr_sector"].map(|name| format.accessor(name));
        if let Some(event) = events.get_mut(id) {
            *event = get(format);
        }
    }
    Ok(Fields { kind, pid, events })
}

fn read(fields: &Fields, data: &[u8]) -> Option<u64> {
    let mut sum = fields.pid.uint(data)?;
    let event = fields.events.get(fields.kind.uint(data)? as usize)?;
    for field in event.iter().flatten() {
        sum = sum.wrapping_add(field.uint(data)?);
    }
    Some(sum)
}
