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
    let mut window = None;
    while let Some(word) = words.next()? {
        match word {
            Value(value) if path.is_none() => path = Some(PathBuf::from(value)),
            Long("window") => {
                let from = number("window", words.value()?)?;
                window = Some((from, number("window", words.value()?)?));
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
    if chosen.cells && window.is_some() {
        return Err(Error::usage(
            "record: --cells and --window exclude each other",
        ));
    }
    let path = path.ok_or_else(|| Error::usage("record: no trace named"))?;
    let sha256 = with_digest
        .then(|| digest::of_file(&path).map_err(|e| Error::reading(&path, &e)))
        .transpose()?;
    measure(&path, sha256.as_deref(), &chosen, window)
}

fn measure(
    path: &Path,
    digest: Option<&str>,
    options: &Options,
    window: Option<(u64, u64)>,
) -> Result<(), Error> {
    let failed = |e: &iorecord::Error| Error::measuring(path, e);
    let trace = Arc::new(Trace::open(path).map_err(|e| match e {
        tracedat::Error::Io(e) => Error::reading(path, &e),
        other => failed(&other.into()),
    })?);
    let windows = if options.cells {
        cells::windows(&trace).map_err(|e| failed(&e))?
    } else {
        let name = path.file_stem().unwrap_or(path.as_os_str());
        let name = name.to_string_lossy().into_owned();
        vec![(name, window.unwrap_or((0, u64::MAX)))]
    };
    if windows.is_empty() {
        let path = path.display();
        return Err(Error::usage(format!(
            "{path}: --cells, but no \"{}NAME\" in its markers",
            cells::MARKER
        )));
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    let (names, spans): (Vec<_>, Vec<_>) = windows.into_iter().unzip();
    let mut names = names.iter();
    let print = |analysis: Analysis| {
        let name = names.next().map_or("", String::as_str);
        let text = document(name, digest, &analysis, options)?;
        writeln!(out, "{text}").map_err(|e| writing(&e))
    };
    Analysis::windows(trace, &options.request(), &spans, print).map_err(|e| e.at(path))?;
    out.flush().map_err(|e| writing(&e))
}
