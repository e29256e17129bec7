//! What a blktrace run begins with, and its events of single I/Os.

use std::path::PathBuf;

use blktrace::{Entry, Event, Run, What};

use crate::blktrace::{action_name, number_of, rwbs};
use crate::decode::Sectors;
use crate::error::Error;
use crate::fields::dev;
use crate::names::LEARNED;
use crate::shown::{Found, Outline, Shown, Wanted};

fn open(files: &[PathBuf]) -> Result<Option<Run>, Error> {
    Ok(files.first().map(Run::open).transpose()?)
}

/// First time and task names of a run; they stand among its events.
pub(crate) fn outline(files: &[PathBuf]) -> Result<Outline, Error> {
    let Some(mut run) = open(files)? else {
        return Ok(Outline::default());
    };
    let mut outline = Outline::default();
    while let Some(entry) = run.next()? {
        match entry {
            Entry::Event(event) => outline.first = outline.first.or(Some(event.ts)),
            Entry::Note(note) => {
                let known = outline.tasks.contains_key(&note.pid);
                if let (What::Process(name), 1.., true) =
                    (note.what, note.pid, known || outline.tasks.len() < LEARNED)
                {
                    let name = String::from_utf8_lossy(name).into_owned();
                    outline.tasks.insert(note.pid, name);
                }
            }
            Entry::Lost(_) => {}
        }
    }
    Ok(outline)
}

/// The events on the sectors of some I/Os, from their starts to their ends; and those without
/// sectors (plugs) of their tasks.
pub(crate) fn io_events(
    files: &[PathBuf],
    wanted: &[Wanted],
    limit: usize,
) -> Result<Vec<Found>, Error> {
    let mut found = vec![Found::default(); wanted.len()];
    let last = wanted.iter().map(|io| *io.time.end()).max().unwrap_or(0);
    let Some(mut run) = open(files)? else {
        return Ok(found);
    };
    while let Some(entry) = run.next()? {
        let Entry::Event(event) = entry else {
            continue;
        };
        if event.ts > last {
            break;
        }
        for (io, found) in wanted.iter().zip(&mut found) {
            if !belongs(&event, io) {
                continue;
            }
            if found.events.len() < limit {
                found.events.push(show(&event));
            } else {
                found.cut += 1;
            }
        }
    }
    Ok(found)
}

fn belongs(event: &Event<'_>, io: &Wanted) -> bool {
    if !io.time.contains(&event.ts) {
        return false;
    }
    let (Some(own), 1..) = (&io.sectors, event.bytes) else {
        return event.pid == io.pid;
    };
    let last = u64::from(event.bytes.div_ceil(512)) - 1;
    let sectors = Sectors {
        dev: Some(dev(u64::from(event.dev)).to_string()),
        first: event.sector,
        last: event.sector.saturating_add(last),
    };
    sectors.overlap(&Sectors {
        dev: io.dev.clone(),
        first: *own.start(),
        last: *own.end(),
    })
}

fn show(event: &Event<'_>) -> Shown {
    let mut fields = vec![("dev".to_owned(), dev(u64::from(event.dev)).to_string())];
    if event.bytes > 0 {
        fields.push(("sector".to_owned(), event.sector.to_string()));
        fields.push(("bytes".to_owned(), event.bytes.to_string()));
        fields.push(("rwbs".to_owned(), rwbs(event).letters()));
    }
    if event.error != 0 {
        fields.push(("error".to_owned(), event.error.to_string()));
    }
    Shown {
        ts: event.ts,
        cpu: event.cpu,
        pid: event.pid,
        event: action_name(number_of(event.act)).to_owned(),
        fields,
    }
}
