//! `iotoll-dut send`: prints documents as lines for a serial console.

use std::io::{self, BufWriter, Read, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use lexopt::prelude::*;
use serde_json::Value as Json;

use crate::error::{Error, writing};
use crate::options::{number, text};
use crate::serial::Message;

#[derive(Debug, Default)]
struct Options {
    from: Option<PathBuf>,
    record: Option<String>,
    chunks: Option<Vec<RangeInclusive<usize>>>,
    repeat: u64,
}

/// Runs the command.
pub(crate) fn run(words: &mut lexopt::Parser) -> Result<(), Error> {
    let options = parse(words)?;
    let messages = messages(&read(&options)?)?;
    let chosen: Vec<&Message> = messages
        .iter()
        .filter(|m| options.record.as_ref().is_none_or(|id| m.id() == id))
        .collect();
    check(&options, &chosen)?;
    let mut out = BufWriter::new(io::stdout().lock());
    for _ in 0..options.repeat {
        for message in &chosen {
            let wanted = |n| {
                options
                    .chunks
                    .as_ref()
                    .is_none_or(|list| list.iter().any(|r| r.contains(&n)))
            };
            message.write(&mut out, wanted).map_err(|e| writing(&e))?;
        }
    }
    out.flush().map_err(|e| writing(&e))
}

fn parse(words: &mut lexopt::Parser) -> Result<Options, Error> {
    let mut options = Options {
        repeat: 1,
        ..Options::default()
    };
    while let Some(word) = words.next()? {
        match word {
            Long("in") => options.from = Some(words.value()?.into()),
            Long("record") => options.record = Some(text("record", words.value()?)?),
            Long("chunks") => options.chunks = Some(list(&text("chunks", words.value()?)?)?),
            Long("repeat") => options.repeat = number("repeat", words.value()?)?,
            other => return Err(other.unexpected().into()),
        }
    }
    if options.repeat == 0 {
        return Err(Error::usage("--repeat 0: nothing would be sent"));
    }
    Ok(options)
}

/// `3,7-9` as ranges.
fn list(text: &str) -> Result<Vec<RangeInclusive<usize>>, Error> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (0 < first && first <= last).then_some(first..=last)
    };
    let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
    ranges.ok_or_else(|| {
        Error::usage(format!(
            "--chunks {text}: use numbers from 1, for example 3,7-9"
        ))
    })
}

fn read(options: &Options) -> Result<String, Error> {
    let Some(path) = &options.from else {
        let mut input = String::new();
        let done = io::stdin().lock().read_to_string(&mut input);
        return match done {
            Ok(_) => Ok(input),
            Err(e) => Err(Error::Infrastructure(format!("standard input: {e}"))),
        };
    };
    std::fs::read_to_string(path).map_err(|e| Error::reading(path, &e))
}

/// Packs every line of the input.
fn messages(input: &str) -> Result<Vec<Message>, Error> {
    let lines = input.lines().filter(|line| !line.trim().is_empty());
    let pack = |line: &str| {
        let json: Option<Json> = serde_json::from_str(line).ok();
        let cell = json.as_ref().and_then(|j| j.get("cell")?.as_str());
        let cell = cell.ok_or_else(|| {
            Error::usage("the input has a line that is no record; give what record or live printed")
        })?;
        Message::new(cell, line).map_err(|e| Error::Infrastructure(e.to_string()))
    };
    lines.map(pack).collect()
}

fn check(options: &Options, chosen: &[&Message]) -> Result<(), Error> {
    match (chosen, &options.record, &options.chunks) {
        ([], Some(id), _) => Err(Error::usage(format!("--record {id}: not in the input"))),
        ([], None, _) => Err(Error::usage("the input holds no record")),
        ([_, _, ..], _, Some(_)) => Err(Error::usage(
            "--chunks: the input holds several records; name one with --record",
        )),
        ([one], _, Some(chunks)) => match chunks.iter().map(RangeInclusive::end).max() {
            Some(&last) if last > one.chunks() => {
                let has = one.chunks();
                Err(Error::usage(format!(
                    "--chunks: the record has only {has} of them"
                )))
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}
