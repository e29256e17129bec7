//! The private Python module `iotoll._native`: conversion only.

use std::collections::BTreeMap;

use iorecord::{
    Analysis, DeviceMark, Error, FirstRequest, IoResult, Request, Section, Unit, Wanted,
};
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

create_exception!(
    _native,
    TraceError,
    PyValueError,
    "A trace that cannot be analysed: one line that names the file, what is wrong and the mend."
);

fn trace_error(path: &str, error: &Error) -> PyErr {
    TraceError::new_err(format!("{path}: {error}"))
}

fn request(
    comm: Option<String>,
    device: Option<String>,
    mark: &str,
    window: Option<(u64, u64)>,
) -> Result<Request, Error> {
    let device_mark = match mark {
        "auto" => DeviceMark::Auto,
        "last_before" => DeviceMark::LastBefore,
        _ => {
            return Err(Error::Option {
                name: "device_mark",
                value: mark.to_owned(),
                known: "auto or last_before",
            });
        }
    };
    Ok(Request {
        comm,
        device,
        device_mark,
        window,
    })
}

/// The record of a trace as JSON text.
#[pyfunction]
#[pyo3(signature = (path, *, comm=None, device=None, device_mark="auto", unit="ns", window=None))]
fn analyze(
    py: Python<'_>,
    path: &str,
    comm: Option<String>,
    device: Option<String>,
    device_mark: &str,
    unit: &str,
    window: Option<(u64, u64)>,
) -> PyResult<String> {
    py.detach(|| {
        let unit = Unit::parse(unit)?;
        Analysis::run(path, &request(comm, device, device_mark, window)?)?.record(unit)
    })
    .map_err(|e| trace_error(path, &e))
}

/// One entry per measured I/O in every column.
#[pyfunction]
#[pyo3(signature = (path, *, comm=None, device=None, device_mark="auto", unit="ns", window=None))]
fn io_table<'py>(
    py: Python<'py>,
    path: &str,
    comm: Option<String>,
    device: Option<String>,
    device_mark: &str,
    unit: &str,
    window: Option<(u64, u64)>,
) -> PyResult<Bound<'py, PyDict>> {
    let analysis = py
        .detach(|| {
            Unit::parse(unit)?;
            Analysis::run(path, &request(comm, device, device_mark, window)?)
        })
        .map_err(|e| trace_error(path, &e))?;
    columns(py, &analysis.outcome.results)
}

fn columns<'py>(py: Python<'py>, ios: &[IoResult]) -> PyResult<Bound<'py, PyDict>> {
    let table = PyDict::new(py);
    table.set_item("start", ios.iter().map(|io| io.start).collect::<Vec<_>>())?;
    table.set_item("pid", ios.iter().map(|io| io.pid).collect::<Vec<_>>())?;
    table.set_item("op", ios.iter().map(|io| io.op.name()).collect::<Vec<_>>())?;
    table.set_item("bytes", ios.iter().map(|io| io.ret).collect::<Vec<_>>())?;
    table.set_item(
        "path",
        ios.iter().map(|io| io.path.as_str()).collect::<Vec<_>>(),
    )?;
    table.set_item("clean", ios.iter().map(|io| io.clean).collect::<Vec<_>>())?;
    for section in Section::ALL {
        let pick = |values: &[u64; 5]| values.get(section.index()).copied().unwrap_or(0);
        let elapsed: Vec<u64> = ios.iter().map(|io| pick(&io.elapsed)).collect();
        let own: Vec<u64> = ios.iter().map(|io| pick(&io.own)).collect();
        table.set_item(format!("elapsed_{}", section.name()), elapsed)?;
        table.set_item(format!("own_{}", section.name()), own)?;
    }
    let first = |pick: fn(&FirstRequest) -> Option<u64>| {
        let values = ios.iter().map(|io| io.first.as_ref().and_then(pick));
        values.collect::<Vec<_>>()
    };
    table.set_item("first_vfs_fs", first(|f| Some(f.vfs_fs)))?;
    table.set_item("first_submission", first(|f| Some(f.submission)))?;
    table.set_item("first_completion", first(|f| f.completion))?;
    table.set_item(
        "requests",
        ios.iter().map(|io| io.requests).collect::<Vec<_>>(),
    )?;
    table.set_item("bios", ios.iter().map(|io| io.bios).collect::<Vec<_>>())?;
    Ok(table)
}

/// What a trace is, as JSON text.
#[pyfunction]
fn trace_info(py: Python<'_>, path: &str) -> PyResult<String> {
    py.detach(|| Analysis::run(path, &Request::default())?.info())
        .map_err(|e| trace_error(path, &e))
}

/// Texts that user space wrote into the trace, with their times.
#[pyfunction]
fn markers(py: Python<'_>, path: &str) -> PyResult<Vec<(u64, String)>> {
    py.detach(|| iorecord::markers(path))
        .map_err(|e| trace_error(path, &e))
}

/// The summary of some durations as JSON text.
#[pyfunction]
fn summarise(py: Python<'_>, values: Vec<u64>) -> PyResult<String> {
    py.detach(|| iorecord::summarise(values))
        .map_err(|e| TraceError::new_err(e.to_string()))
}

/// First time of a trace, and names of its tasks by thread number.
#[pyfunction]
fn outline(py: Python<'_>, path: &str) -> PyResult<(Option<u64>, BTreeMap<i32, String>)> {
    let outline = py
        .detach(|| iorecord::outline(path))
        .map_err(|e| trace_error(path, &e))?;
    Ok((outline.first, outline.tasks))
}

/// Read and write system calls: pid, start, end, return value.
#[pyfunction]
fn calls(py: Python<'_>, path: &str, window: (u64, u64)) -> PyResult<Vec<(i32, u64, u64, i64)>> {
    let calls = py
        .detach(|| iorecord::calls(path, window))
        .map_err(|e| trace_error(path, &e))?;
    Ok(calls
        .iter()
        .map(|c| (c.pid, c.start, c.end, c.ret))
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
    module.add_function(wrap_pyfunction!(calls, module)?)?;
    module.add_function(wrap_pyfunction!(io_events, module)?)?;
    module.add_function(wrap_pyfunction!(io_table, module)?)?;
    module.add_function(wrap_pyfunction!(markers, module)?)?;
    module.add_function(wrap_pyfunction!(outline, module)?)?;
    module.add_function(wrap_pyfunction!(summarise, module)?)?;
    module.add_function(wrap_pyfunction!(trace_info, module)?)?;
    Ok(())
}
