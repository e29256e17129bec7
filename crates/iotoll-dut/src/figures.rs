//! `iotoll-dut figures`: a record's figures as words, for scripts that report them one by one.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use lexopt::prelude::*;
use serde_json::Value as Json;

use crate::error::{Error, writing};

/// What is said of each section (src/iotoll/lava/figures.py has the same list).
const STATISTICS: [&str; 3] = ["median", "mean", "p99"];

/// Runs the command.
pub(crate) fn run(words: &mut lexopt::Parser) -> Result<(), Error> {
    let mut path: Option<PathBuf> = None;
    while let Some(word) = words.next()? {
        match word {
            Long("in") => path = Some(words.value()?.into()),
            other => return Err(other.unexpected().into()),
        }
    }
    let input = read(path.as_deref())?;
    let mut out = BufWriter::new(io::stdout().lock());
    for line in input.lines().filter(|line| !line.trim().is_empty()) {
        out.write_all(figures(line)?.as_bytes())
            .map_err(|e| writing(&e))?;
    }
    out.flush().map_err(|e| writing(&e))
}

/// The text of a file, or of the standard input.
fn read(path: Option<&Path>) -> Result<String, Error> {
    let Some(path) = path else {
        let mut input = String::new();
        let done = io::stdin().lock().read_to_string(&mut input);
        done.map_err(|e| Error::Infrastructure(format!("standard input: {e}")))?;
        return Ok(input);
    };
    std::fs::read_to_string(path).map_err(|e| Error::reading(path, &e))
}

/// Lines of `CELL SECTION STATISTIC VALUE UNIT`: each section's own figures, as far as it has any.
fn figures(line: &str) -> Result<String, Error> {
    let strange =
        || Error::usage("the input has a line that is no record; give what record printed");
    let json: Json = serde_json::from_str(line).map_err(|_| strange())?;
    let word = |value: Option<&Json>| {
        let text = value.and_then(Json::as_str).ok_or_else(strange)?;
        let good = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        good.then(|| text.to_owned()).ok_or_else(strange)
    };
    let cell = word(json.get("cell"))?;
    let record = json.get("record").ok_or_else(strange)?;
    let unit = word(record.get("unit"))?;
    let sections = record.get("sections").and_then(Json::as_object);
    let mut text = String::new();
    for (section, part) in sections.ok_or_else(strange)? {
        // What the device does has no length in instructions.
        if section == "hardware" && unit == "instructions" {
            continue;
        }
        for statistic in STATISTICS {
            let value = part.get("own").and_then(|own| own.get(statistic));
            if let Some(value) = value.and_then(Json::as_f64) {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "{cell} {section} {statistic} {value} {unit}");
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::figures;

    const OWN: &str = r#"{"own":{"median":5229,"mean":5272.25,"p99":5550,"max":9}}"#;

    fn record(unit: &str, sections: &str) -> String {
        format!(r#"{{"cell":"ufs-4k","record":{{"unit":"{unit}","sections":{{{sections}}}}}}}"#)
    }

    #[test]
    fn each_section_and_statistic_is_one_line() {
        let line = record(
            "instructions",
            &format!(r#""submission":{OWN},"hardware":{OWN}"#),
        );
        let expected = "ufs-4k submission median 5229 instructions\n\
                        ufs-4k submission mean 5272.25 instructions\n\
                        ufs-4k submission p99 5550 instructions\n";
        assert_eq!(figures(&line).ok().as_deref(), Some(expected));
        let line = record("ns", &format!(r#""hardware":{OWN}"#));
        assert!(
            figures(&line).is_ok_and(|text| text.starts_with("ufs-4k hardware median 5229 ns\n"))
        );
    }

    #[test]
    fn what_a_section_lacks_is_left_out() {
        let line = record("ns", r#""completion":{"own":{"median":null}},"return":{}"#);
        assert_eq!(figures(&line).ok().as_deref(), Some(""));
    }

    #[test]
    fn other_input_is_refused() {
        for line in [
            "",
            "[]",
            "{}",
            r#"{"cell":"a b","record":{"unit":"ns","sections":{}}}"#,
        ] {
            assert!(figures(line).is_err(), "{line}");
        }
    }
}
