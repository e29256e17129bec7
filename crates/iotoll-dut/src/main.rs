//! `iotoll-dut`: measures on the device under test itself and delivers the result as text.
//!
//! `record` and `live` print one JSON document per cell and line; `send` turns documents into
//! checked lines for a serial console, which the host's `iotoll receive` reads; `figures` prints
//! their medians and the like as words. docs/dut.md.

mod cells;
mod digest;
mod document;
mod error;
mod figures;
mod live;
mod options;
mod record;
mod send;
mod serial;

use std::io::Write;
use std::process::ExitCode;

use error::{Error, writing};
use lexopt::prelude::*;

const USAGE: &str = "\
iotoll-dut: measures storage I/O on the device under test

usage: iotoll-dut record TRACE [OPTION]...    measures a trace.dat
       iotoll-dut live [OPTION]...            measures the running kernel's ring buffers
       iotoll-dut send [OPTION]...            prints records as checked lines for a serial console
       iotoll-dut figures [--in FILE]         prints records' figures: CELL SECTION STATISTIC VALUE UNIT

record and live print one JSON document per cell and line:
  --cells                  one document per cell; \"iotoll cell NAME\" in the trace begins each
  --comm NAME              only I/Os of tasks with this name
  --device MAJOR:MINOR     this disk; default: the one with most bios
  --device-mark MARK       end of submission: auto (default), last_before
  --unit UNIT              of the trace's clock: ns (default), instructions
  --columns                per-I/O figures too (always with --unit instructions)
  --own                    ... and every section's own count, for calibrations
only record:
  --window FROM TO         only events from the one time stamp to before the other
  --digest                 the SHA-256 of the trace too
only live, which takes the events out of the ring buffers, without trace-cmd and without a file:
  --tracefs DIR            default: where it is mounted; or an instance's folder in it
  --until-stopped          until tracing_on is 0 (default)
  --seconds N              ... but no longer than this
  --interval MS            between two looks (default 100); the ring buffers must last so long
  --name NAME              of the document without --cells (default: live)

send reads such documents:
  --in FILE                default: standard input
  --repeat N               send everything N times, for a line that nobody can ask again on
  --record ID              only the record of this number ...
  --chunks LIST            ... and of it only these chunks, for example 3,7-9

exit status: 0 done, 2 wrong words or files, 4 the trace, the kernel or the output failed
";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("iotoll-dut: {error}");
            ExitCode::from(error.code())
        }
    }
}

fn run() -> Result<(), Error> {
    let mut words = lexopt::Parser::from_env();
    match words.next()? {
        Some(Value(command)) => match command.to_str() {
            Some("record") => record::run(&mut words),
            Some("live") => live::run(&mut words),
            Some("send") => send::run(&mut words),
            Some("figures") => figures::run(&mut words),
            _ => Err(Error::usage(format!(
                "no command {command:?}; use record, live, send or figures, or see iotoll-dut --help"
            ))),
        },
        Some(Short('h') | Long("help")) => print(USAGE),
        Some(Short('V') | Long("version")) => {
            print(concat!("iotoll-dut ", env!("CARGO_PKG_VERSION"), "\n"))
        }
        Some(other) => Err(other.unexpected().into()),
        None => Err(Error::usage(
            "no command; use record, live, send or figures, or see iotoll-dut --help",
        )),
    }
}

fn print(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|e| writing(&e))
}
