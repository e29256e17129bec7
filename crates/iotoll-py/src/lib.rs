//! The private Python module `iotoll._native`: conversion only.

mod table;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use iorecord::{
    Analysis, BlockRow, DeviceMark, Direction, Error, Filter, IoResult, IoTaker, Request, RowTaker,
    Source, Unit, Wanted, Wish,
};
use pyo3::create_exception;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::table::Told;

/// Requests and bios that go to Python at a time.
const ROWS: usize = 1 << 11;

create_exception!(
    _native,
    TraceError,
    PyValueError,
    "A trace that cannot be analysed: one line that names the file, what is wrong and the mend."
);

fn trace_error(path: &str, error: &Error) -> PyErr {
    // Those of blktrace name the file, which is one of several.
    let names_file = matches!(error, Error::Blktrace(_) | Error::MissingCpu { .. });
    TraceError::new_err(if names_file {
        error.to_string()
    } else {
        format!("{path}: {error}")
    })
}

/// What to analyse, as Python says it.
#[derive(Default)]
struct Choice {
    comm: Option<String>,
    device: Option<String>,
    device_mark: Option<String>,
    unit: Option<String>,
    pids: Option<Vec<i32>>,
    directions: Option<Vec<String>>,
    min_size: Option<i64>,
    max_size: Option<i64>,
    turns: Option<PathBuf>,
    tracing: Option<PathBuf>,
    counts: Option<Vec<(u32, u64, u64)>>,
    count_events: Option<bool>,
    keep_ios: Option<bool>,
    without_calls: Option<bool>,
}

impl Choice {
    /// Takes keyword arguments.
    fn parse(options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut wanted = Self::default();
        for (key, value) in options.into_iter().flatten() {
            match key.extract::<&str>()? {
                "comm" => wanted.comm = value.extract()?,
                "device" => wanted.device = value.extract()?,
                "device_mark" => wanted.device_mark = value.extract()?,
                "unit" => wanted.unit = value.extract()?,
                "pids" => wanted.pids = value.extract()?,
                "directions" => wanted.directions = value.extract()?,
                "min_size" => wanted.min_size = value.extract()?,
                "max_size" => wanted.max_size = value.extract()?,
                "turns" => wanted.turns = value.extract()?,
                "tracing" => wanted.tracing = value.extract()?,
                "counts" => wanted.counts = triples(&value)?,
                "count_events" => wanted.count_events = value.extract()?,
                "keep_ios" => wanted.keep_ios = value.extract()?,
                "without_calls" => wanted.without_calls = value.extract()?,
                other => {
                    let message = format!("unexpected keyword argument '{other}'");
                    return Err(PyTypeError::new_err(message));
                }
            }
        }
        Ok(wanted)
    }

    fn unit(&self) -> Result<Unit, Error> {
        self.unit
            .as_deref()
            .map_or(Ok(Unit::Nanoseconds), Unit::parse)
    }

    fn request(self) -> Result<Request, Error> {
        let device_mark = match self.device_mark.as_deref() {
            None | Some("auto") => DeviceMark::Auto,
            Some("last_before") => DeviceMark::LastBefore,
            Some(other) => {
                return Err(Error::Option {
                    name: "device_mark",
                    value: other.to_owned(),
                    known: "auto or last_before",
                });
            }
        };
        let directions = self
            .directions
            .iter()
            .flatten()
            .map(|d| Direction::parse(d));
        let count_events = match self.count_events {
            Some(wanted) => wanted,
            None => self.unit()? == Unit::Instructions,
        };
        Ok(Request {
            comm: self.comm,
            device: self.device,
            device_mark,
            filter: Filter {
                pids: self.pids.unwrap_or_default(),
                directions: directions.collect::<Result<_, _>>()?,
                least: self.min_size,
                most: self.max_size,
            },
            without_calls: self.without_calls.unwrap_or(false),
            keep_ios: self.keep_ios.unwrap_or(true),
            count_events,
            turns: self.turns,
            tracing: self.tracing,
            counts: self.counts,
        })
    }
}

/// Triples of 64-bit numbers in this machine's order, as bytes; the first is a CPU.
fn triples(value: &Bound<'_, PyAny>) -> PyResult<Option<Vec<(u32, u64, u64)>>> {
    if value.is_none() {
        return Ok(None);
    }
    let number = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
    let bytes = value.cast::<PyBytes>()?.as_bytes().chunks_exact(24);
    let triple = |bytes: &[u8]| {
        let (cpu, rest) = bytes.split_at(8);
        let (time, count) = rest.split_at(8);
        (number(cpu) as u32, number(time), number(count))
    };
    Ok(Some(bytes.map(triple).collect()))
}

/// Analyses, each turned to Python's objects when it is asked for.
#[pyclass(module = "iotoll._native")]
struct Analyses {
    path: String,
    unit: Unit,
    left: std::vec::IntoIter<Analysis>,
}

#[pymethods]
impl Analyses {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Analysed<'py>>> {
        let Some(analysis) = self.left.next() else {
            return Ok(None);
        };
        let record = py
            .detach(|| analysis.record(self.unit))
            .map_err(|e| trace_error(&self.path, &e))?;
        let mut columns = table::Lists {
            table: PyDict::new(py),
            rows: &analysis.ios,
        };
        let told = Told {
            sees_all: analysis.source().sees_all(),
            own: analysis.knows_own(),
            sections: analysis.source().sections().collect(),
        };
        let path = |number: u32| analysis.outcome.path(number).to_owned();
        table::ios(&mut columns, &told, path)?;
        Ok(Some((record, columns.table)))
    }
}

/// A record as JSON text, and one entry per measured I/O in every column.
type Analysed<'py> = (String, Bound<'py, PyDict>);

/// The record and the I/Os of a trace, or of each window of it.
#[pyfunction]
#[pyo3(signature = (path, *, windows = None, **options))]
fn analyze(
    py: Python<'_>,
    path: &str,
    windows: Option<Vec<(u64, u64)>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Analyses> {
    let wanted = Choice::parse(options)?;
    let (unit, all) = py
        .detach(|| {
            let (unit, request) = (wanted.unit()?, wanted.request()?);
            let Some(windows) = windows else {
                return Ok((unit, vec![Analysis::run(path, &request)?]));
            };
            let mut all = Vec::new();
            Analysis::windows(Source::open(path)?, &request, &windows, |found| {
                all.push(found);
                Ok::<_, Error>(())
            })?;
            Ok((unit, all))
        })
        .map_err(|e: Error| trace_error(path, &e))?;
    Ok(Analyses {
        path: path.to_owned(),
        unit,
        left: all.into_iter(),
    })
}

/// Gives batches to Python, which other threads have between them; what goes wrong there ends the walk.
struct Giver {
    take: Py<PyAny>,
    failed: Option<PyErr>,
    told: Vec<Told>,
    /// The columns of I/Os that are given; all of them without any.
    columns: Option<HashSet<String>>,
    /// Rows of a window that are still to be given.
    rows: (usize, Vec<BlockRow>),
}

impl Giver {
    fn new(take: &Bound<'_, PyAny>, told: Vec<Told>) -> Self {
        Self {
            take: take.clone().unbind(),
            failed: None,
            told,
            columns: None,
            rows: (0, Vec::new()),
        }
    }

    fn call(
        &mut self,
        window: usize,
        fill: impl for<'py> FnOnce(Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>>,
    ) -> Result<(), Error> {
        let done = Python::attach(|py| {
            let table = fill(PyDict::new(py))?;
            self.take.call1(py, (window, table)).map(drop)
        });
        done.map_err(|error| {
            self.failed = Some(error);
            Error::Stopped
        })
    }

    fn flush(&mut self) -> Result<(), Error> {
        let (window, rows) = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return Ok(());
        }
        self.call(window, |table| {
            let mut columns = table::Packed::new(table, &rows);
            table::blocks(&mut columns)?;
            Ok(columns.table)
        })
    }

    fn error(self, path: &str, error: &Error) -> PyErr {
        self.failed.unwrap_or_else(|| trace_error(path, error))
    }
}

impl IoTaker for Giver {
    fn take(&mut self, window: usize, ios: &[IoResult], paths: &[String]) -> Result<(), Error> {
        let told = std::mem::take(&mut self.told);
        let only = self.columns.take();
        let done = self.call(window, |table| {
            let mut columns = table::Packed {
                only: only.as_ref(),
                ..table::Packed::new(table, ios)
            };
            let name = |number: u32| {
                let name = paths.get(number as usize);
                name.map_or_else(|| "other".to_owned(), String::clone)
            };
            if let Some(told) = told.get(window) {
                table::ios(&mut columns, told, name)?;
            }
            Ok(columns.table)
        });
        (self.told, self.columns) = (told, only);
        done
    }
}

impl RowTaker for Giver {
    fn take(&mut self, window: usize, row: &BlockRow) -> Result<(), Error> {
        if self.rows.0 != window || self.rows.1.len() >= ROWS {
            self.flush()?;
            self.rows.0 = window;
        }
        self.rows.1.push(*row);
        Ok(())
    }
}

/// A window as Python says it: from, to, device, whether own times are known.
type WishedIos = (u64, u64, Option<String>, bool);

/// Gives the I/Os of some windows to `take(window, columns)` while the trace is read: all columns in
/// the order of the starts; or only those that are named, in the order of the ends.
#[pyfunction]
#[pyo3(signature = (path, windows, take, *, columns = None, **options))]
fn stream(
    path: &str,
    windows: Vec<WishedIos>,
    take: &Bound<'_, PyAny>,
    columns: Option<HashSet<String>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let wrong = |error: &Error| trace_error(path, error);
    let request = Choice::parse(options)?.request().map_err(|e| wrong(&e))?;
    let source = Source::open(path).map_err(|e| wrong(&e))?;
    let mut wishes = Vec::new();
    let mut told = Vec::new();
    for (from, to, device, own) in windows {
        let device = device.as_deref().map(iorecord::device).transpose();
        wishes.push(Wish {
            time: (from, to),
            device: device.map_err(|e| wrong(&e))?,
        });
        told.push(Told {
            sees_all: source.sees_all(),
            own,
            sections: source.sections().collect(),
        });
    }
    let in_order = columns.is_none();
    let mut giver = Giver {
        columns,
        ..Giver::new(take, told)
    };
    let done = take
        .py()
        .detach(|| iorecord::stream(&source, &request, &wishes, in_order, &mut giver));
    done.map_err(|error| giver.error(path, &error))
}

/// Sums, and the slowest rows, of a window's requests and bios.
type BlocksOf<'py> = (String, Bound<'py, PyDict>);

/// The requests and bios of some windows; each goes to `take(window, columns)` where it is given.
#[pyfunction]
#[pyo3(signature = (path, windows, *, keep = 0, take = None, **options))]
#[expect(
    clippy::needless_pass_by_value,
    reason = "pyo3 makes a list of tuples into a Vec"
)]
fn blocks<'py>(
    py: Python<'py>,
    path: &str,
    windows: Vec<(u64, u64)>,
    keep: usize,
    take: Option<&Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Vec<BlocksOf<'py>>> {
    let wrong = |error: &Error| trace_error(path, error);
    let request = Choice::parse(options)?.request().map_err(|e| wrong(&e))?;
    let source = Source::open(path).map_err(|e| wrong(&e))?;
    let found = match take {
        None => py.detach(|| iorecord::blocks(&source, &request, &windows, keep, None)),
        Some(take) => {
            let mut giver = Giver::new(take, Vec::new());
            let all = iorecord::blocks(&source, &request, &windows, keep, Some(&mut giver));
            match all.and_then(|all| giver.flush().map(|()| all)) {
                Ok(all) => Ok(all),
                Err(error) => return Err(giver.error(path, &error)),
            }
        }
    };
    let packed = |all: iorecord::Blocks| {
        let mut columns = table::Packed::new(PyDict::new(py), &all.slow);
        table::blocks(&mut columns)?;
        Ok((all.json, columns.table))
    };
    found
        .map_err(|e| wrong(&e))?
        .into_iter()
        .map(packed)
        .collect()
}

/// What a trace is, as JSON text.
#[pyfunction]
fn trace_info(py: Python<'_>, path: &str) -> PyResult<String> {
    py.detach(|| Analysis::run(path, &Request::default())?.info())
        .map_err(|e| trace_error(path, &e))
}

/// The files that a trace consists of: itself, or one for each CPU of a blktrace run.
#[pyfunction]
fn files(path: &str) -> PyResult<Vec<PathBuf>> {
    Source::files(path).map_err(|e| trace_error(path, &e))
}

/// Whether a path is of blktrace: the files of a run, or what `blkparse -d` wrote.
#[pyfunction]
fn is_blktrace(path: &str) -> PyResult<bool> {
    Source::is_blktrace(path).map_err(|e| trace_error(path, &e))
}

/// The trace clock of a trace whose times are ticks of unknown length; `None` of all others.
#[pyfunction]
fn ticks(path: &str) -> PyResult<Option<String>> {
    let source = Source::open(path).map_err(|e| trace_error(path, &e))?;
    Ok(source.ticks().map(str::to_owned))
}

/// A recording of another format, as a trace.dat that lives as long as this.
#[pyclass(module = "iotoll._native")]
struct Recording(traceconv::Recording);

#[pymethods]
impl Recording {
    /// Where the trace.dat can be read.
    #[getter]
    fn path(&self) -> PathBuf {
        self.0.path()
    }

    /// What it was: `perf.data`, `text`, ...
    #[getter]
    fn format(&self) -> &str {
        &self.0.about.format
    }

    /// How it was packed.
    #[getter]
    fn packing(&self) -> Option<&'static str> {
        self.0.about.packing
    }

    /// What its times are a multiple of (ns).
    #[getter]
    fn resolution(&self) -> u64 {
        self.0.about.resolution
    }

    /// What is missing, or was not understood.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.0.about.notes.clone()
    }
}

/// Reads a recording of another format; `None` for a trace.dat or blktrace's files.
#[pyfunction]
fn open_recording(py: Python<'_>, path: &str) -> PyResult<Option<Recording>> {
    py.detach(|| traceconv::open(path))
        .map(|found| found.map(Recording))
        .map_err(|e| TraceError::new_err(format!("{path}: {e}")))
}

/// Texts that user space wrote into the trace, with their times.
#[pyfunction]
fn markers(py: Python<'_>, path: &str) -> PyResult<Vec<(u64, String)>> {
    py.detach(|| iorecord::markers(path))
        .map_err(|e| trace_error(path, &e))
}

/// What the recording of a trace executed until each reading of its clock: time, instructions, and
/// the CPU that read it.
#[pyfunction]
#[expect(
    clippy::needless_pass_by_value,
    reason = "pyo3 makes a Path into a PathBuf"
)]
fn tracing(py: Python<'_>, path: PathBuf) -> PyResult<Vec<(u64, u64, u32)>> {
    let readings = py
        .detach(|| iorecord::tracing(&path))
        .map_err(|e| TraceError::new_err(e.to_string()))?;
    let told = readings.iter().map(|r| (r.time, r.executed, r.cpu));
    Ok(told.collect())
}

/// First time of a trace, and names of its tasks by thread number.
#[pyfunction]
fn outline(py: Python<'_>, path: &str) -> PyResult<(Option<u64>, BTreeMap<i32, String>)> {
    let outline = py
        .detach(|| iorecord::outline(path))
        .map_err(|e| trace_error(path, &e))?;
    Ok((outline.first, outline.tasks))
}

/// A system call as Python sees it: name, pid, start, end, return value.
type SystemCall = (&'static str, i32, u64, u64, i64);

/// Calls that read, write or flush.
#[pyfunction]
fn calls(py: Python<'_>, path: &str) -> PyResult<Vec<SystemCall>> {
    let calls = py
        .detach(|| iorecord::calls(path))
        .map_err(|e| trace_error(path, &e))?;
    Ok(calls
        .iter()
        .map(|c| (c.op.name(), c.pid, c.start, c.end, c.ret))
        .collect())
}

/// An I/O as Python names it: pid, start, end, device, first and last sector, alone.
type WantedIo = (i32, u64, u64, Option<String>, Option<(u64, u64)>, bool);

/// The events of single I/Os as JSON text.
#[pyfunction]
#[pyo3(signature = (path, ios, *, limit))]
fn io_events(py: Python<'_>, path: &str, ios: Vec<WantedIo>, limit: usize) -> PyResult<String> {
    let wanted = |(pid, start, end, dev, sectors, alone): WantedIo| Wanted {
        pid,
        time: start..=end,
        dev,
        sectors: sectors.map(|(first, last)| first..=last),
        alone,
    };
    let ios: Vec<Wanted> = ios.into_iter().map(wanted).collect();
    py.detach(|| iorecord::io_events_json(path, &ios, limit))
        .map_err(|e| trace_error(path, &e))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("TraceError", module.py().get_type::<TraceError>())?;
    module.add_function(wrap_pyfunction!(analyze, module)?)?;
    module.add_function(wrap_pyfunction!(blocks, module)?)?;
    module.add_function(wrap_pyfunction!(calls, module)?)?;
    module.add_function(wrap_pyfunction!(files, module)?)?;
    module.add_function(wrap_pyfunction!(io_events, module)?)?;
    module.add_function(wrap_pyfunction!(is_blktrace, module)?)?;
    module.add_function(wrap_pyfunction!(open_recording, module)?)?;
    module.add_function(wrap_pyfunction!(ticks, module)?)?;
    module.add_class::<Recording>()?;
    module.add_function(wrap_pyfunction!(markers, module)?)?;
    module.add_function(wrap_pyfunction!(outline, module)?)?;
    module.add_function(wrap_pyfunction!(stream, module)?)?;
    module.add_function(wrap_pyfunction!(trace_info, module)?)?;
    module.add_function(wrap_pyfunction!(tracing, module)?)?;
    Ok(())
}
