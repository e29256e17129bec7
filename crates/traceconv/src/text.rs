//! Lines of events: of tracefs' `trace`, of `trace-cmd report`, of `perf script`, and of systrace.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use crate::About;
use crate::error::{Error, Result};
use crate::foreign;
use crate::printed::Printed;
use crate::unpack::Input;
use crate::write::{Machine, Taken, Writer, scratch};

const WHAT: &str = "text of trace events";
/// Longest line that is read (bytes); ftrace's own are at most 8 KiB.
const LINE: u64 = 32 << 10;
/// Tasks whose names are kept.
const TASKS: usize = 1 << 16;

/// An event's line, taken apart.
#[derive(Debug, PartialEq)]
struct Line<'l> {
    comm: &'l str,
    pid: i32,
    cpu: u32,
    time: Time,
    group: Option<&'l str>,
    /// Of a system call in ftrace's own form: `sys_enter_` or `sys_exit_`.
    call: &'static str,
    name: &'l str,
    fields: &'l str,
}

/// A time as it is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Time {
    /// ns, and what it is a multiple of.
    Seconds(u64, u64),
    /// Of a clock that counts something else.
    Ticks(u64),
}

/// Whether it begins as lines of events do, or as something that can hold some.
pub(crate) fn is_text(head: &[u8]) -> bool {
    if head.iter().take(4096).any(|&b| b == 0) {
        return false;
    }
    let text = String::from_utf8_lossy(head);
    let html = text.trim_start().starts_with('<');
    let marked = text.starts_with("# tracer:") || (html && text.contains("trace-data"));
    marked || text.lines().any(|line| parse(line).is_some())
}

pub(crate) fn convert(input: Input) -> Result<(File, About)> {
    let html = {
        let head = String::from_utf8_lossy(input.head());
        head.trim_start().starts_with('<')
    };
    let mut reading = Reading::new(html)?;
    let packing = input.packing;
    let mut source = BufReader::with_capacity(256 << 10, input);
    let (mut bytes, mut cut_off) = (Vec::new(), false);
    for number in 1_u64.. {
        bytes.clear();
        let count = (&mut source).take(LINE).read_until(b'\n', &mut bytes);
        let count = count.map_err(|e| match packing {
            Some(packing) => Error::Packing { packing, source: e },
            None => Error::Io(e),
        })?;
        if count == 0 {
            break;
        }
        if bytes.last() != Some(&b'\n') && (count as u64) < LINE {
            cut_off = true;
            break;
        }
        reading.line(number, &String::from_utf8_lossy(&bytes))?;
    }
    reading.finish(cut_off)
}

/// What has been read so far.
struct Reading {
    printed: Printed,
    writer: Writer,
    comms: HashMap<i32, String>,
    /// Inside of HTML only what stands in a script of trace data counts.
    html: bool,
    inside: bool,
    resolution: u64,
    /// What the times of all lines so far are.
    ticks: Option<bool>,
    /// Lines of events whose fields were not understood: how many, and the first.
    odd: u64,
    first_odd: Option<(u64, String)>,
}

impl Reading {
    fn new(html: bool) -> Result<Self> {
        let file = tempfile::tempfile().map_err(scratch)?;
        Ok(Self {
            printed: Printed::default(),
            writer: Writer::new(file, Machine::OWN),
            comms: HashMap::new(),
            html,
            inside: !html,
            resolution: 0,
            ticks: None,
            odd: 0,
            first_odd: None,
        })
    }

    fn line(&mut self, number: u64, line: &str) -> Result<()> {
        if self.html {
            if line.contains("trace-data") && line.contains("<script") {
                self.inside = true;
            } else if line.contains("</script>") {
                self.inside = false;
            }
        }
        if !self.inside || line.starts_with('#') {
            return Ok(());
        }
        if let Some((cpu, count)) = lost(line) {
            return self.writer.lost(cpu, count);
        }
        let Some(event) = parse(line) else {
            return Ok(());
        };
        let ts = match event.time {
            Time::Seconds(ns, unit) => {
                self.resolution = self.resolution.max(unit);
                ns
            }
            Time::Ticks(ticks) => ticks,
        };
        let ticks = matches!(event.time, Time::Ticks(_));
        if *self.ticks.get_or_insert(ticks) != ticks {
            return Err(corrupt(number, "times in seconds and others in ticks"));
        }
        let known = self.comms.contains_key(&event.pid);
        if event.pid != 0 && event.comm != "<...>" && (known || self.comms.len() < TASKS) {
            // Only where it changed: nearly every line repeats a name.
            if self
                .comms
                .get(&event.pid)
                .is_none_or(|comm| comm != event.comm)
            {
                let comm = event.comm.replace('\n', " ");
                self.comms.insert(event.pid, comm);
            }
        }
        let name: std::borrow::Cow<'_, str> = if event.call.is_empty() {
            event.name.into()
        } else {
            format!("{}{}", event.call, event.name).into()
        };
        let record = self
            .printed
            .record(event.group, &name, event.pid, event.fields);
        let Some(record) = record else {
            self.odd += 1;
            self.first_odd
                .get_or_insert_with(|| (number, name.into_owned()));
            return Ok(());
        };
        match self.writer.event(event.cpu, ts, record)? {
            Taken::Yes => Ok(()),
            Taken::Back(by) => {
                let seconds = by as f64 / 1e9;
                let why = format!(
                    "CPU {} goes back by {seconds:.6} s: are two recordings in it?",
                    event.cpu
                );
                Err(corrupt(number, why))
            }
        }
    }

    fn finish(self, cut_off: bool) -> Result<(File, About)> {
        if self.writer.events == 0 {
            return Err(if self.html {
                foreign::named(b"<")
            } else {
                Error::foreign(
                    "text of ftrace without an event",
                    "record one: `iotoll record` prints the command",
                )
            });
        }
        let mut notes = Vec::new();
        if let Some((line, name)) = self.first_odd {
            notes.push(format!(
                "{} events are printed in a way that is not known and left out, the first a {name} in line {line}",
                self.odd
            ));
        }
        if cut_off {
            notes.push("it ends in the middle of a line, which is left out".to_owned());
        }
        let clock = if self.ticks == Some(true) {
            "ticks"
        } else {
            "unknown"
        };
        let bytes = self.printed.formats.bytes();
        let file = self.writer.finish(&bytes, &self.comms, clock)?;
        let format = if self.html { "systrace" } else { "text" };
        let about = About {
            format: format.to_owned(),
            resolution: self.resolution.max(1),
            notes,
            ..About::default()
        };
        Ok((file, about))
    }
}

fn corrupt(line: u64, why: impl Into<String>) -> Error {
    Error::Corrupt {
        what: WHAT,
        place: format!("line {line}"),
        why: why.into(),
    }
}

/// `CPU:1 [LOST 123 EVENTS]` of ftrace, `CPU:1 [123 EVENTS DROPPED]` of trace-cmd; either also
/// without a number.
fn lost(line: &str) -> Option<(u32, Option<u64>)> {
    let (cpu, what) = line.trim().strip_prefix("CPU:")?.split_once(" [")?;
    let what = what.strip_suffix(']')?;
    let told = what.contains("LOST") || what.contains("DROPPED");
    let count = what.split(' ').find_map(|word| word.parse().ok());
    told.then_some(())?;
    Some((cpu.trim().parse().ok()?, count))
}

/// Takes a line apart; `None` where it is no event's.
fn parse(line: &str) -> Option<Line<'_>> {
    let line = line.trim_end();
    let (task, cpu, rest) = at_cpu(line)?;
    let (comm, pid) = task_of(task)?;
    let (stamp, rest) = stamp(rest)?;
    let time = time_of(stamp)?;
    let rest = rest.trim_start();
    let plain = |name: &str| {
        let word = |b: u8| b.is_ascii_alphanumeric() || b"_.-:*".contains(&b);
        !name.is_empty() && name.bytes().all(word)
    };
    let mut event = Line {
        comm,
        pid,
        cpu,
        time,
        group: None,
        call: "",
        name: "",
        fields: "",
    };
    if let Some(call) = rest.strip_prefix("sys_") {
        let end = call.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        let (name, behind) = call.split_at(end);
        if behind.starts_with('(') {
            (event.call, event.name, event.fields) = ("sys_enter_", name, behind);
            return Some(event);
        }
        if let Some(ret) = behind.strip_prefix(" -> ") {
            (event.call, event.name, event.fields) = ("sys_exit_", name, ret);
            return Some(event);
        }
    }
    // `name: fields`, or `group:name: fields`.
    let (name, fields) = match rest.split_once(": ") {
        Some(found) => found,
        None => (rest.strip_suffix(':')?, ""),
    };
    let name = name.trim();
    if !plain(name) {
        return None;
    }
    (event.group, event.name) = match name.split_once(':') {
        Some((group, name)) => (Some(group), name),
        None => (None, name),
    };
    event.fields = fields;
    if matches!(event.name, "print" | "bprint") {
        // trace-cmd prints the function in front of the text.
        let fields = fields.trim_start();
        event.fields = fields
            .strip_prefix("tracing_mark_write: ")
            .unwrap_or(fields);
        event.name = "print";
    }
    Some(event)
}

/// Splits a line at the first `[001]` that a task stands in front of.
fn at_cpu(line: &str) -> Option<(&str, u32, &str)> {
    let mut from = 0;
    while let Some(at) = line.get(from..)?.find('[') {
        let at = from + at;
        let (task, rest) = (line.get(..at)?, line.get(at + 1..)?);
        if let Some((number, behind)) = rest.split_once(']') {
            let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
            if digits && task.ends_with(char::is_whitespace) {
                return Some((task, number.parse().ok()?, behind));
            }
        }
        from = at + 1;
    }
    None
}

/// `comm-1234`, `comm-1234 (  1234)`, `comm-1234 (-----)`, or perf's `comm 1234` and
/// `comm 1234/1235`.
fn task_of(text: &str) -> Option<(&str, i32)> {
    let mut text = text.trim();
    if text.ends_with(')') {
        let (task, group) = text.rsplit_once('(')?;
        let inside = group.trim_end_matches(')').trim();
        if !inside.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
            return None;
        }
        text = task.trim_end();
    }
    let by_dash = text.rsplit_once('-');
    let dash = by_dash.and_then(|(comm, pid)| Some((comm, pid.parse().ok()?)));
    let space = || {
        let (comm, pid) = text.rsplit_once(char::is_whitespace)?;
        let pid = pid.rsplit('/').next()?;
        Some((comm.trim(), pid.parse().ok()?))
    };
    dash.or_else(space)
        .filter(|&(_, pid): &(&str, i32)| pid >= 0)
}

/// The time stamp, with the flags in front of it left out.
fn stamp(rest: &str) -> Option<(&str, &str)> {
    let mut rest = rest.trim_start();
    for _ in 0..2 {
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        if let Some(stamp) = word.strip_suffix(':') {
            let number = |b: u8| b.is_ascii_digit() || b == b'.';
            return (!stamp.is_empty() && stamp.bytes().all(number)).then_some((stamp, behind));
        }
        rest = behind.trim_start();
    }
    None
}

fn time_of(stamp: &str) -> Option<Time> {
    let Some((seconds, part)) = stamp.split_once('.') else {
        return Some(Time::Ticks(stamp.parse().ok()?));
    };
    let digits = part.len() as u32;
    if !(1..=9).contains(&digits) {
        return None;
    }
    let unit = 10_u64.pow(9 - digits);
    let (seconds, part): (u64, u64) = (seconds.parse().ok()?, part.parse().ok()?);
    let ns = seconds
        .checked_mul(1_000_000_000)?
        .checked_add(part * unit)?;
    // No clock comes near this; a page's time must leave room above it.
    (ns < 1 << 62).then_some(Time::Seconds(ns, unit))
}
