//! I/Os, requests and bios as columns.

use std::collections::{HashMap, HashSet};

use iorecord::{
    BlockRow, Direction, FirstRequest, IoResult, Mark, Moment, RowKind, Section, direction,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// The table under construction: a value of each row by column.
pub(crate) trait Columns<R> {
    fn number(&mut self, name: &str, value: impl Fn(&R) -> i64) -> PyResult<()>;
    fn maybe(&mut self, name: &str, value: impl Fn(&R) -> Option<u64>) -> PyResult<()>;
    fn flag(&mut self, name: &str, value: impl Fn(&R) -> bool) -> PyResult<()>;
    fn text(&mut self, name: &str, value: impl Fn(&R) -> String) -> PyResult<()>;
}

/// Columns as lists.
pub(crate) struct Lists<'py, 'r, R> {
    pub(crate) table: Bound<'py, PyDict>,
    pub(crate) rows: &'r [R],
}

impl<'py, R> Lists<'py, '_, R> {
    fn add<T: IntoPyObject<'py>>(&self, name: &str, value: impl Fn(&R) -> T) -> PyResult<()> {
        let values: Vec<T> = self.rows.iter().map(value).collect();
        self.table.set_item(name, values)
    }
}

impl<R> Columns<R> for Lists<'_, '_, R> {
    fn number(&mut self, name: &str, value: impl Fn(&R) -> i64) -> PyResult<()> {
        self.add(name, value)
    }

    fn maybe(&mut self, name: &str, value: impl Fn(&R) -> Option<u64>) -> PyResult<()> {
        self.add(name, value)
    }

    fn flag(&mut self, name: &str, value: impl Fn(&R) -> bool) -> PyResult<()> {
        self.add(name, value)
    }

    fn text(&mut self, name: &str, value: impl Fn(&R) -> String) -> PyResult<()> {
        self.add(name, value)
    }
}

/// Columns as bytes in this machine's order, for numpy: numbers; with the absent ones' places;
/// texts as numbers of a list of their own.
pub(crate) struct Packed<'py, 'r, R> {
    pub(crate) table: Bound<'py, PyDict>,
    pub(crate) rows: &'r [R],
    /// The columns that are wanted; all of them without any.
    pub(crate) only: Option<&'r HashSet<String>>,
}

impl<'py, 'r, R> Packed<'py, 'r, R> {
    /// All columns.
    pub(crate) fn new(table: Bound<'py, PyDict>, rows: &'r [R]) -> Self {
        let only = None;
        Self { table, rows, only }
    }

    fn skips(&self, name: &str) -> bool {
        self.only.is_some_and(|only| !only.contains(name))
    }
}

impl<R> Columns<R> for Packed<'_, '_, R> {
    fn number(&mut self, name: &str, value: impl Fn(&R) -> i64) -> PyResult<()> {
        if self.skips(name) {
            return Ok(());
        }
        let bytes: Vec<u8> = self
            .rows
            .iter()
            .flat_map(|r| value(r).to_ne_bytes())
            .collect();
        let bytes = PyBytes::new(self.table.py(), &bytes);
        self.table.set_item(name, (bytes,))
    }

    fn maybe(&mut self, name: &str, value: impl Fn(&R) -> Option<u64>) -> PyResult<()> {
        if self.skips(name) {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(self.rows.len() * 8);
        let mut absent = Vec::with_capacity(self.rows.len());
        for row in self.rows {
            let found = value(row);
            bytes.extend(found.unwrap_or(0).to_ne_bytes());
            absent.push(u8::from(found.is_none()));
        }
        let py = self.table.py();
        let both = (PyBytes::new(py, &bytes), PyBytes::new(py, &absent));
        self.table.set_item(name, both)
    }

    fn flag(&mut self, name: &str, value: impl Fn(&R) -> bool) -> PyResult<()> {
        if self.skips(name) {
            return Ok(());
        }
        let bytes: Vec<u8> = self.rows.iter().map(|r| u8::from(value(r))).collect();
        let bytes = PyBytes::new(self.table.py(), &bytes);
        self.table.set_item(name, (bytes,))
    }

    fn text(&mut self, name: &str, value: impl Fn(&R) -> String) -> PyResult<()> {
        if self.skips(name) {
            return Ok(());
        }
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let mut names: Vec<String> = Vec::new();
        let mut bytes = Vec::with_capacity(self.rows.len() * 4);
        for row in self.rows {
            let text = value(row);
            let number = *numbers.entry(text).or_insert_with_key(|text| {
                names.push(text.clone());
                names.len() as u32 - 1
            });
            bytes.extend(number.to_ne_bytes());
        }
        let bytes = PyBytes::new(self.table.py(), &bytes);
        self.table.set_item(name, (bytes, names))
    }
}

/// What a source tells of its I/Os.
pub(crate) struct Told {
    pub(crate) sees_all: bool,
    pub(crate) own: bool,
    pub(crate) sections: Vec<Section>,
}

/// The columns of the per-I/O table.
pub(crate) fn ios(
    c: &mut impl Columns<IoResult>,
    told: &Told,
    path: impl Fn(u32) -> String,
) -> PyResult<()> {
    c.number("start", |io| io.start as i64)?;
    c.number("end", |io| io.end as i64)?;
    c.number("pid", |io| io.pid.into())?;
    c.text("op", |io| io.op.name().to_owned())?;
    c.text("kind", |io| io.op.kind().to_owned())?;
    c.text("dev", |io| io.dev.to_string())?;
    c.maybe("sector", |io| io.sector)?;
    c.number("bytes", |io| io.bytes)?;
    c.text("direction", |io| Direction::of(io).name().to_owned())?;
    c.text("path", |io| path(io.path))?;
    if told.own {
        c.flag("clean", |io| io.clean)?;
        own_times(c)?;
    }
    for &section in &told.sections {
        c.number(&format!("elapsed_{}", section.name()), |io| {
            of(section, &io.elapsed)
        })?;
    }
    c.number("requests", |io| io.requests.into())?;
    c.number("detached", |io| io.detached.into())?;
    c.number("bios", |io| io.bios.into())?;
    c.number("merges", |io| io.merges.into())?;
    c.number("splits", |io| io.splits.into())?;
    c.number("requeues", |io| io.requeues.into())?;
    c.maybe("queue", |io| io.queue.map(u64::from))?;
    c.number("submit_cpu", |io| io.submit_cpu.into())?;
    c.number("complete_cpu", |io| io.complete_cpu.into())?;
    let marks = ["start_mark", "device_mark", "interrupt_mark", "end_mark"];
    for (place, name) in marks.into_iter().enumerate() {
        if told.sees_all || name != "interrupt_mark" {
            let mark = |io: &IoResult| io.marks.get(place).copied().map_or("", Mark::name);
            c.text(name, |io| mark(io).to_owned())?;
        }
    }
    c.maybe("reaped", |io| io.reaped)?;
    for moment in Moment::ALL {
        let name = format!("at_{}", moment.name());
        c.maybe(&name, |io| io.moments.get(moment))?;
    }
    Ok(())
}

fn of(section: Section, times: &[u64; 5]) -> i64 {
    times.get(section.index()).copied().unwrap_or(0) as i64
}

fn own_times(c: &mut impl Columns<IoResult>) -> PyResult<()> {
    for section in Section::ALL {
        c.number(&format!("own_{}", section.name()), |io| {
            of(section, &io.own)
        })?;
    }
    let first =
        |io: &IoResult, pick: fn(&FirstRequest) -> Option<u64>| io.first.as_ref().and_then(pick);
    c.maybe("first_vfs_fs", |io| first(io, |f| Some(f.vfs_fs)))?;
    c.maybe("first_submission", |io| first(io, |f| Some(f.submission)))?;
    c.maybe("first_completion", |io| first(io, |f| f.completion))
}

/// The columns of the table of requests and bios.
pub(crate) fn blocks(c: &mut impl Columns<BlockRow>) -> PyResult<()> {
    let told = |ts: u64| Some(ts).filter(|&ts| ts > 0);
    let kind = |row: &BlockRow| match row.kind {
        RowKind::Request => "request",
        RowKind::Bio => "bio",
    };
    c.text("kind", |row| kind(row).to_owned())?;
    c.text("dev", |row| row.dev.to_string())?;
    c.text("partition", |row| {
        row.part.map_or_else(String::new, |dev| dev.to_string())
    })?;
    c.text("top", |row| row.top.to_string())?;
    c.text("below", |row| {
        row.below.map_or_else(String::new, |dev| dev.to_string())
    })?;
    c.text("direction", |row| direction(row).name().to_owned())?;
    c.text("rwbs", |row| row.rwbs.letters())?;
    c.maybe("sector", |row| {
        Some(row.sector).filter(|&at| row.bytes > 0 && at != u64::MAX)
    })?;
    c.number("bytes", |row| row.bytes as i64)?;
    c.number("bios", |row| row.bios.into())?;
    c.number("pid", |row| row.pid.into())?;
    c.maybe("inode", |row| told(row.inode))?;
    c.number("issue_cpu", |row| row.cpu.into())?;
    c.number("complete_cpu", |row| row.done_cpu.into())?;
    c.number("requeues", |row| row.requeues.into())?;
    c.number("ahead", |row| row.ahead.into())?;
    c.flag("ambiguous", |row| row.ambiguous)?;
    c.flag("lost", |row| row.lost)?;
    c.maybe("at_top_queue", |row| told(row.top_queued))?;
    c.maybe("at_queue", |row| told(row.queued))?;
    c.maybe("at_getrq", |row| told(row.getrq))?;
    c.maybe("at_insert", |row| told(row.insert))?;
    c.maybe("at_issue", |row| told(row.issued))?;
    c.maybe("at_sent", |row| told(row.sent))?;
    c.maybe("at_driver_done", |row| told(row.driver_done))?;
    c.maybe("at_complete", |row| told(row.done))?;
    c.maybe("at_below", |row| told(row.below_span.0))?;
    c.maybe("at_below_done", |row| told(row.below_span.1))?;
    c.maybe("q2d", BlockRow::q2d)?;
    c.maybe("d2c", BlockRow::d2c)?;
    c.maybe("q2c", BlockRow::q2c)
}
