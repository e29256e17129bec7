//! How the kernel prints its events, read backwards: a printed line becomes field values.
//!
//! Three ways: by a template for those that are printed in a way of their own; for system calls,
//! whose fields are printed as `name: value`; and by `name=value` for all others.

use std::collections::HashMap;

use crate::formats::{Formats, PRINT, Ty, Value};

/// Group, event and how it is printed: fields in braces, with the letter of their type. What
/// follows the last field does not count. Several lines of an event are tried in their order.
const TEMPLATES: &[(&str, &str, &str)] = &[
    ("block", "block_rq_issue", REQUEST),
    ("block", "block_rq_insert", REQUEST),
    ("block", "block_rq_merge", REQUEST),
    ("block", "block_io_start", REQUEST),
    ("block", "block_io_done", REQUEST),
    ("block", "block_rq_complete", DONE),
    ("block", "block_rq_requeue", DONE),
    ("block", "block_rq_error", DONE),
    ("block", "block_bio_queue", BIO),
    ("block", "block_bio_complete", BIO),
    ("block", "block_bio_backmerge", BIO),
    ("block", "block_bio_frontmerge", BIO),
    ("block", "block_bio_bounce", BIO),
    ("block", "block_getrq", BIO),
    (
        "block",
        "block_bio_remap",
        "{dev:d} {rwbs:r} {sector:q} + {nr_sector:u} <- ({old_dev:d}) {old_sector:q}",
    ),
    (
        "block",
        "block_split",
        "{dev:d} {rwbs:r} {sector:q} / {new_sector:q}",
    ),
    ("block", "block_plug", "[{comm:s}]"),
    ("block", "block_unplug", "[{comm:s}] {nr_rq:i}"),
    ("nvme", "nvme_setup_cmd", NVME_DISK),
    ("nvme", "nvme_setup_cmd", NVME),
    ("nvme", "nvme_complete_rq", NVME_DISK),
    ("nvme", "nvme_complete_rq", NVME),
    (
        "nvme",
        "nvme_sq",
        "nvme{ctrl_id:u}: disk={disk:s}, qid={qid:i}, head={sq_head:u}, tail={sq_tail:u}",
    ),
    (
        "nvme",
        "nvme_sq",
        "nvme{ctrl_id:u}: qid={qid:i}, head={sq_head:u}, tail={sq_tail:u}",
    ),
    (
        "ufs",
        "ufshcd_command",
        "{str:s}: {dev_name:s}: tag: {tag:u}, {rest:s}hwq_id: {hwq_id:i}",
    ),
    (
        "ufs",
        "ufshcd_command",
        "{str:s}: {dev_name:s}: tag: {tag:u},",
    ),
    (
        "mmc",
        "mmc_request_start",
        "{name:s}: start struct mmc_request[{mrq:p}]",
    ),
    (
        "mmc",
        "mmc_request_done",
        "{name:s}: end struct mmc_request[{mrq:p}]",
    ),
    ("irq", "irq_handler_entry", "irq={irq:i} name={name:s}"),
    ("irq", "softirq_entry", "vec={vec:u}"),
    ("irq", "softirq_exit", "vec={vec:u}"),
    ("irq", "softirq_raise", "vec={vec:u}"),
    ("sched", "sched_waking", WAKING),
    ("sched", "sched_waking", WOKEN),
    ("sched", "sched_wakeup", WAKING),
    ("sched", "sched_wakeup", WOKEN),
    (
        "sched",
        "sched_switch",
        "prev_comm={prev_comm:s} prev_pid={prev_pid:i} prev_prio={prev_prio:i} \
         prev_state={prev_state:S} ==> next_comm={next_comm:s} next_pid={next_pid:i} \
         next_prio={next_prio:i}",
    ),
    // The plugin of trace-cmd and perf script.
    (
        "sched",
        "sched_switch",
        "{prev_comm:s}:{prev_pid:i} [{prev_prio:i}] {prev_state:S} ==> \
         {next_comm:s}:{next_pid:i} [{next_prio:i}]",
    ),
    ("io_uring", "io_uring_submit_req", URING),
    ("io_uring", "io_uring_submit_sqe", URING),
    ("io_uring", "io_uring_complete", URING),
    (
        "io_uring",
        "io_uring_submit_sqe",
        "ring {ctx:p}, req {req:p},",
    ),
    (
        "io_uring",
        "io_uring_queue_async_work",
        "ring {ctx:p}, request {req:p},",
    ),
    ("raw_syscalls", "sys_enter", "NR {id:i} ("),
    ("raw_syscalls", "sys_exit", "NR {id:i} = {ret:x}"),
];

const REQUEST: &str = "{dev:d} {rwbs:r} {bytes:u} ({cmd:s}) {sector:q} + {nr_sector:u}";
const DONE: &str = "{dev:d} {rwbs:r} ({cmd:s}) {sector:q} + {nr_sector:u}";
const BIO: &str = "{dev:d} {rwbs:r} {sector:q} + {nr_sector:u}";
const NVME_DISK: &str = "nvme{ctrl_id:u}: disk={disk:s}, qid={qid:i}, cmdid={cid:u},";
const NVME: &str = "nvme{ctrl_id:u}: qid={qid:i}, cmdid={cid:u},";
const WAKING: &str = "comm={comm:s} pid={pid:i} prio={prio:i} target_cpu={target_cpu:i}";
const WOKEN: &str = "{comm:s}:{pid:i} [{prio:i}]";
const URING: &str = "ring {ctx:p}, req {req:p}, user_data {user_data:p}";

/// Groups by how their events' names begin, for those without a template.
const GROUPS: &[(&str, &str)] = &[
    ("sys_enter_", "syscalls"),
    ("sys_exit_", "syscalls"),
    ("block_", "block"),
    ("nvme_", "nvme"),
    ("ufshcd_", "ufs"),
    ("mmc_", "mmc"),
    ("scsi_", "scsi"),
    ("io_uring_", "io_uring"),
    ("iomap_", "iomap"),
    ("irq_", "irq"),
    ("softirq_", "irq"),
    ("sched_", "sched"),
    ("ext4_", "ext4"),
    ("f2fs_", "f2fs"),
    ("jbd2_", "jbd2"),
    ("wbc_", "writeback"),
    ("writeback_", "writeback"),
];
/// Steps of a search for where the fields of a line end.
const STEPS: u32 = 2000;
/// Fields of an event without a template.
const FIELDS: usize = 24;

/// The group of an event, by its name.
pub(crate) fn group(name: &str) -> &'static str {
    // The probes that `iotoll` sets on the drivers' queue functions.
    if name.starts_with("queue_rq") && name.ends_with("return") {
        return "iotoll";
    }
    let by_template = TEMPLATES.iter().find(|t| t.1 == name).map(|t| t.0);
    let by_start = || GROUPS.iter().find(|g| name.starts_with(g.0)).map(|g| g.1);
    by_template.or_else(by_start).unwrap_or("other")
}

/// A field in a template, and the text in front of it.
#[derive(Debug, Clone, Copy)]
struct Piece {
    before: &'static str,
    name: &'static str,
    letter: u8,
    place: usize,
}

#[derive(Debug, Clone)]
struct Template {
    pieces: Vec<Piece>,
    /// What must follow the last field.
    after: &'static str,
}

/// How an event is read.
#[derive(Debug, Clone)]
enum Reading {
    Templates(Vec<Template>),
    /// Fields by their names in the line.
    Pairs,
    /// The text that user space wrote.
    Print,
}

#[derive(Debug)]
struct Known {
    number: u16,
    reading: Reading,
    fields: Vec<(String, Ty)>,
}

/// Reads printed events, and describes them as they come.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    pub(crate) formats: Formats,
    known: HashMap<String, Known>,
}

impl Printed {
    /// The record of an event: its name, its group if the line says it, the task, and what is
    /// printed behind its name. `None` where the line is not as its template says.
    pub(crate) fn record(
        &mut self,
        group_name: Option<&str>,
        name: &str,
        pid: i32,
        text: &str,
    ) -> Option<&[u8]> {
        let text = text.trim();
        // trace-cmd's word for an event whose print format it cannot follow: all fields then.
        let failed = text.strip_prefix("[FAILED TO PARSE]");
        let key = if failed.is_some() {
            format!("{name} by fields")
        } else {
            name.to_owned()
        };
        if !self.known.contains_key(&key) {
            let known = self.learn(group_name, name, failed.is_some(), failed.unwrap_or(text));
            self.known.insert(key.clone(), known);
        }
        let known = self.known.get(&key)?;
        let mut values = vec![None; known.fields.len()];
        match &known.reading {
            Reading::Templates(all) => {
                let fits = all.iter().any(|template| {
                    values.fill(None);
                    let mut steps = STEPS;
                    template.read(text, &mut values, &mut steps)
                });
                if !fits {
                    return None;
                }
            }
            Reading::Pairs => {
                for (name, value) in pairs(name, failed.unwrap_or(text)) {
                    let place = known.fields.iter().position(|f| f.0 == name);
                    if let Some(slot) = place.and_then(|place| values.get_mut(place)) {
                        *slot = Some(value);
                    }
                }
            }
            Reading::Print => values = vec![None, Some(Value::Text(text.as_bytes()))],
        }
        Some(self.formats.record(known.number, pid, &values))
    }

    /// How an event is read that comes for the first time, with this text.
    fn learn(&mut self, group_name: Option<&str>, name: &str, failed: bool, text: &str) -> Known {
        if name == "print" || name == "tracing_mark_write" {
            let fields = vec![("ip".to_owned(), Ty::U64), ("buf".to_owned(), Ty::Tail)];
            return Known {
                number: PRINT,
                reading: Reading::Print,
                fields,
            };
        }
        let system = group_name.unwrap_or_else(|| group(name));
        let mut fields = self.formats.fields(system, name);
        let lines = TEMPLATES.iter().filter(|t| t.1 == name && !failed);
        let templates: Vec<Template> = lines.map(|t| Template::new(t.2, &mut fields)).collect();
        let reading = if templates.is_empty() {
            for (field, value) in pairs(name, text).into_iter().take(FIELDS) {
                let ty = match value {
                    Value::Number(n) if i64::try_from(n).is_err() => Ty::U64,
                    Value::Number(_) => Ty::I64,
                    Value::Text(_) => Ty::Text,
                };
                if fields.iter().all(|f| f.0 != field) {
                    fields.push((field.to_owned(), ty));
                }
            }
            Reading::Pairs
        } else {
            Reading::Templates(templates)
        };
        let each = fields.iter().map(|(name, ty)| (name.as_str(), *ty));
        let number = self.formats.add(system, name, each);
        Known {
            number,
            reading,
            fields,
        }
    }
}

impl Template {
    fn new(line: &'static str, fields: &mut Vec<(String, Ty)>) -> Self {
        let (mut pieces, mut rest) = (Vec::new(), line);
        while let Some((before, (name, letter, after))) = rest
            .split_once('{')
            .and_then(|(before, field)| Some((before, split_field(field)?)))
        {
            let ty = match letter {
                b'd' => Ty::Dev,
                b'r' => Ty::Rwbs,
                b'u' => Ty::U32,
                b'i' => Ty::I32,
                b'q' | b'p' => Ty::U64,
                b'x' | b'S' => Ty::I64,
                _ => Ty::Text,
            };
            let place = fields.iter().position(|f| f.0 == name);
            let place = place.unwrap_or_else(|| {
                fields.push((name.to_owned(), ty));
                fields.len() - 1
            });
            pieces.push(Piece {
                before,
                name,
                letter,
                place,
            });
            rest = after;
        }
        Self {
            pieces,
            after: rest,
        }
    }

    /// Reads a line; false where it is not as the template says.
    fn read<'t>(&self, text: &'t str, values: &mut [Option<Value<'t>>], steps: &mut u32) -> bool {
        let Some(first) = self.pieces.first() else {
            return true;
        };
        text.strip_prefix(first.before)
            .is_some_and(|text| self.field(0, text, values, steps))
    }

    /// Reads from the field at `at` on: it ends where the text behind it in the template comes,
    /// and the rest fits as well.
    fn field<'t>(
        &self,
        at: usize,
        text: &'t str,
        values: &mut [Option<Value<'t>>],
        steps: &mut u32,
    ) -> bool {
        let Some(piece) = self.pieces.get(at) else {
            return true;
        };
        let last = at + 1 == self.pieces.len();
        let next = self.pieces.get(at + 1).map_or(self.after, |p| p.before);
        let mut from = 0;
        loop {
            *steps = steps.saturating_sub(1);
            let rest = text.get(from..).unwrap_or_default();
            let end = if next.is_empty() {
                Some(field_end(rest, piece.letter))
            } else {
                rest.find(next)
            };
            let (Some(end), 1..) = (end, *steps) else {
                return false;
            };
            let end = from + end;
            let word = text.get(..end).unwrap_or_default();
            let behind = text.get(end + next.len()..).unwrap_or_default();
            if let Some(value) = parse(piece.letter, word) {
                if let Some(slot) = values.get_mut(piece.place).filter(|_| piece.name != "rest") {
                    *slot = Some(value);
                }
                if last || self.field(at + 1, behind, values, steps) {
                    return true;
                }
            }
            if next.is_empty() {
                return false;
            }
            from = end + 1;
            while from < text.len() && !text.is_char_boundary(from) {
                from += 1;
            }
        }
    }
}

fn split_field(field: &'static str) -> Option<(&'static str, u8, &'static str)> {
    let (inside, after) = field.split_once('}')?;
    let (name, letter) = inside.split_once(':')?;
    Some((name, *letter.as_bytes().first()?, after))
}

/// Where a field ends that nothing of the template follows: a name takes all, the others a word.
fn field_end(text: &str, letter: u8) -> usize {
    if letter == b's' {
        return text.len();
    }
    let end = |c: char| c.is_whitespace() || c == ',' || c == ']';
    let whole = if letter == b'd' {
        text.find(char::is_whitespace)
    } else {
        text.find(end)
    };
    whole.unwrap_or(text.len())
}

fn parse(letter: u8, word: &str) -> Option<Value<'_>> {
    let word = word.trim();
    Some(match letter {
        b'd' => {
            let (major, minor) = word.split_once([',', ':'])?;
            let (major, minor): (u64, u64) = (major.parse().ok()?, minor.trim().parse().ok()?);
            Value::Number((major & 0xfff) << 20 | minor & 0xf_ffff)
        }
        b'r' => {
            let letters = |b: u8| b.is_ascii_uppercase() || b == b'N' || b == b'?';
            if word.is_empty() || word.len() > 10 || !word.bytes().all(letters) {
                return None;
            }
            Value::Text(word.as_bytes())
        }
        b'u' | b'q' => Value::Number(word.parse().ok()?),
        b'i' => Value::Number(word.parse::<i64>().ok()? as u64),
        b'p' => Value::Number(hex(word)?),
        b'x' => Value::Number(number(word)?),
        b'S' => Value::Number(state(word)?),
        _ => Value::Text(word.as_bytes()),
    })
}

/// A pointer, with or without `0x`.
fn hex(word: &str) -> Option<u64> {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    u64::from_str_radix(digits, 16).ok()
}

/// A number as C prints it.
pub(crate) fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word
            .parse::<i64>()
            .map(|n| n as u64)
            .or_else(|_| word.parse())
            .ok(),
    }
}

/// The letters of a task's state as the bits of `prev_state`; `+` says that it was preempted.
fn state(word: &str) -> Option<u64> {
    let mut bits = 0;
    for c in word.chars() {
        bits |= match c {
            'R' | '|' => 0,
            'S' => 0x01,
            'D' => 0x02,
            'T' => 0x04,
            't' => 0x08,
            'X' => 0x10,
            'Z' => 0x20,
            'P' => 0x40,
            'I' => 0x80,
            '+' => 0x100,
            'K' | 'W' | 'x' | 'N' | 'n' | 'E' | 'w' | 'i' | 'p' => 0x200,
            _ => return None,
        };
    }
    (!word.is_empty()).then_some(bits)
}

/// Names and values of a line without a template.
fn pairs<'t>(name: &str, text: &'t str) -> Vec<(&'t str, Value<'t>)> {
    if name.starts_with("sys_exit_") {
        let word = text.strip_prefix("->").unwrap_or(text).trim();
        let word = word.strip_prefix("ret=").unwrap_or(word);
        let word = word.split_whitespace().next().unwrap_or_default();
        return number(word)
            .map(|value| ("ret", Value::Number(value)))
            .into_iter()
            .collect();
    }
    let call = name.starts_with("sys_enter_");
    // ftrace prints the arguments of a system call in hexadecimal, without 0x.
    let bare = call && text.starts_with('(');
    let value = |word: &'t str| {
        let known = if bare { hex(word) } else { number(word) };
        known.map_or(Value::Text(word.as_bytes()), Value::Number)
    };
    let split: Vec<(&str, &str)> = if call {
        let inside = text.trim_start_matches('(').trim_end_matches(')');
        let parts = inside.split(',');
        parts.filter_map(|part| part.split_once(':')).collect()
    } else {
        let words = text.split_whitespace();
        words.filter_map(|word| word.split_once('=')).collect()
    };
    let pair =
        |(name, word): (&'t str, &'t str)| (name.trim(), value(word.trim().trim_end_matches(',')));
    split
        .into_iter()
        .map(pair)
        .filter(|(name, _)| !name.is_empty())
        .collect()
}
