//! The measured I/Os as columns.

use iorecord::{Analysis, Direction, FirstRequest, IoResult, Mark, Moment, Section};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The table under construction.
struct Columns<'py, 'a> {
    table: Bound<'py, PyDict>,
    ios: &'a [IoResult],
}

impl<'py> Columns<'py, '_> {
    /// One column: a value of each I/O.
    fn add<'io, T: IntoPyObject<'py>>(
        &'io self,
        name: &str,
        value: impl Fn(&'io IoResult) -> T,
    ) -> PyResult<()> {
        let values: Vec<T> = self.ios.iter().map(value).collect();
        self.table.set_item(name, values)
    }
}

pub(crate) fn columns<'py>(py: Python<'py>, analysis: &Analysis) -> PyResult<Bound<'py, PyDict>> {
    let c = Columns {
        table: PyDict::new(py),
        ios: &analysis.ios,
    };
    c.add("start", |io| io.start)?;
    c.add("end", |io| io.end)?;
    c.add("pid", |io| io.pid)?;
    c.add("op", |io| io.op.name())?;
    c.add("kind", |io| io.op.kind())?;
    c.add("dev", |io| io.dev.to_string())?;
    c.add("sector", |io| io.sector)?;
    c.add("bytes", |io| io.bytes)?;
    c.add("direction", |io| Direction::of(io).name())?;
    c.add("path", |io| analysis.outcome.path(io.path))?;
    let sees_all = analysis.source().sees_all();
    if analysis.knows_own() {
        c.add("clean", |io| io.clean)?;
        own_times(&c)?;
    }
    for section in analysis.source().sections() {
        c.add(&format!("elapsed_{}", section.name()), |io| {
            of(section, &io.elapsed)
        })?;
    }
    c.add("requests", |io| io.requests)?;
    c.add("detached", |io| io.detached)?;
    c.add("bios", |io| io.bios)?;
    c.add("merges", |io| io.merges)?;
    c.add("splits", |io| io.splits)?;
    c.add("requeues", |io| io.requeues)?;
    c.add("queue", |io| io.queue)?;
    c.add("submit_cpu", |io| io.submit_cpu)?;
    c.add("complete_cpu", |io| io.complete_cpu)?;
    let marks = ["start_mark", "device_mark", "interrupt_mark", "end_mark"];
    for (place, name) in marks.into_iter().enumerate() {
        if sees_all || name != "interrupt_mark" {
            c.add(name, |io| io.marks.get(place).copied().map(Mark::name))?;
        }
    }
    c.add("reaped", |io| io.reaped)?;
    for moment in Moment::ALL {
        let name = format!("at_{}", moment.name());
        c.add(&name, |io| io.moments.get(moment))?;
    }
    Ok(c.table)
}

fn of(section: Section, times: &[u64; 5]) -> u64 {
    times.get(section.index()).copied().unwrap_or(0)
}

fn own_times(c: &Columns<'_, '_>) -> PyResult<()> {
    for section in Section::ALL {
        c.add(&format!("own_{}", section.name()), |io| {
            of(section, &io.own)
        })?;
    }
    let first =
        |io: &IoResult, pick: fn(&FirstRequest) -> Option<u64>| io.first.as_ref().and_then(pick);
    c.add("first_vfs_fs", |io| first(io, |f| Some(f.vfs_fs)))?;
    c.add("first_submission", |io| first(io, |f| Some(f.submission)))?;
    c.add("first_completion", |io| first(io, |f| f.completion))
}
