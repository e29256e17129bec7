//! `iotoll-dut record`: measures a trace.dat.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iorecord::Analysis;
use lexopt::prelude::*;
use tracedat::Trace;

use crate::document::document;
use crate::error::{Error, writing};
use crate::options::{Options, number};
use crate::{cells, digest};

/// Runs the command.
pub(crate) fn run(words: &mut lexopt::Parser) -> Result<(), Error> {
    let (mut chosen, mut path, mut with_digest) = (Options::default(), None, false);
    while let Some(word) = words.next()? {
        match word {
            Value(value) if path.is_none() => path = Some(PathBuf::from(value)),
            Long("window") => {
                let from = number("window", words.value()?)?;
                chosen.request.window = Some((from, number("window", words.value()?)?));
            }
            Long("digest") => with_digest = true,
            Long(name) => {
                let name = name.to_owned();
                if !chosen.take(&name, words)? {
                    return Err(Long(&name).unexpected().into());
                }
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if chosen.cells && chosen.request.window.is_some() {
        return Err(Error::usage(
            "record: --cells and --window exclude each other",
        ));
    }
    let path = path.ok_or_else(|| Error::usage("record: no trace named"))?;
    let sha256 = with_digest
        .then(|| digest::of_file(&path).map_err(|e| Error::reading(&path, &e)))
        .transpose()?;
    measure(&path, sha256.as_deref(), &chosen)
}

fn measure(path: &Path, digest: Option<&str>, options: &Options) -> Result<(), Error> {
    let failed = |e: &iorecord::Error| Error::measuring(path, e);
    let trace = Arc::new(Trace::open(path).map_err(|e| match e {
        tracedat::Error::Io(e) => Error::reading(path, &e),
        other => failed(&other.into()),
    })?);
    let windows = if options.cells {
        cells::windows(&trace).map_err(|e| failed(&e))?
    } else {
        let name = path.file_stem().unwrap_or(path.as_os_str());
        vec![(name.to_string_lossy().into_owned(), options.request.window)]
    };
    if windows.is_empty() {
        let path = path.display();
        return Err(Error::usage(format!(
            "{path}: --cells, but no \"{}NAME\" in its markers",
            cells::MARKER
        )));
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    for (name, window) in windows {
        let mut request = options.request();
        request.window = window;
        let analysis = Analysis::of(trace.clone(), &request).map_err(|e| failed(&e))?;
        let text = document(&name, digest, &analysis, options)?;
        writeln!(out, "{text}").map_err(|e| writing(&e))?;
    }
    out.flush().map_err(|e| writing(&e))
}
