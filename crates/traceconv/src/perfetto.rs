//! Perfetto's protobuf, as far as its ftrace events go.
//!
//! Read packet by packet, by field numbers; a test compares those below with the message classes
//! of the package `perfetto`. Events that Perfetto has no message for come by name, in either of
//! its two ways.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};

use crate::About;
use crate::error::{Error, Result};
use crate::formats::{Formats, PRINT, Ty, Value};
use crate::unpack::Input;
use crate::wire::{Fields, Wire, varint};
use crate::write::{Machine, Taken, Writer, scratch};

const WHAT: &str = "a Perfetto trace";
/// Longest packet (bytes). Perfetto's own are far below a megabyte.
const PACKET: u64 = 64 << 20;
const TASKS: usize = 1 << 16;
/// Events that a trace describes itself.
const DESCRIBED: usize = 4096;

/// Number in `FtraceEvent`, group, event, and fields: number, name, type. `Ty::Dev` of Perfetto is
/// user space's device number.
type Event = (
    u32,
    &'static str,
    &'static str,
    &'static [(u32, &'static str, Ty)],
);

const BIO: &[(u32, &str, Ty)] = &[
    (1, "dev", Ty::Dev),
    (2, "sector", Ty::U64),
    (3, "nr_sector", Ty::U32),
    (4, "rwbs", Ty::Rwbs),
    (5, "comm", Ty::Text),
];
const REQUEST: &[(u32, &str, Ty)] = &[
    (1, "dev", Ty::Dev),
    (2, "sector", Ty::U64),
    (3, "nr_sector", Ty::U32),
    (4, "bytes", Ty::U32),
    (5, "rwbs", Ty::Rwbs),
    (6, "comm", Ty::Text),
];
const STARTED: &[(u32, &str, Ty)] = &[
    (1, "dev", Ty::Dev),
    (2, "sector", Ty::U64),
    (3, "nr_sector", Ty::U32),
    (4, "bytes", Ty::U32),
    (6, "rwbs", Ty::Rwbs),
    (7, "comm", Ty::Text),
];
const DONE: &[(u32, &str, Ty)] = &[
    (1, "dev", Ty::Dev),
    (2, "sector", Ty::U64),
    (3, "nr_sector", Ty::U32),
    (5, "rwbs", Ty::Rwbs),
];
const WAKING: &[(u32, &str, Ty)] = &[
    (1, "comm", Ty::Text),
    (2, "pid", Ty::I32),
    (3, "prio", Ty::I32),
    (5, "target_cpu", Ty::I32),
];
const VECTOR: &[(u32, &str, Ty)] = &[(1, "vec", Ty::U32)];

const SWITCH: Event = (
    4,
    "sched",
    "sched_switch",
    &[
        (1, "prev_comm", Ty::Text),
        (2, "prev_pid", Ty::I32),
        (3, "prev_prio", Ty::I32),
        (4, "prev_state", Ty::I64),
        (5, "next_comm", Ty::Text),
        (6, "next_pid", Ty::I32),
        (7, "next_prio", Ty::I32),
    ],
);
const WAKE: Event = (20, "sched", "sched_waking", WAKING);

const EVENTS: &[Event] = &[
    SWITCH,
    (17, "sched", "sched_wakeup", WAKING),
    WAKE,
    (24, "irq", "softirq_entry", VECTOR),
    (25, "irq", "softirq_exit", VECTOR),
    (26, "irq", "softirq_raise", VECTOR),
    (
        36,
        "irq",
        "irq_handler_entry",
        &[(1, "irq", Ty::I32), (2, "name", Ty::Text)],
    ),
    (
        37,
        "irq",
        "irq_handler_exit",
        &[(1, "irq", Ty::I32), (2, "ret", Ty::I32)],
    ),
    (45, "block", "block_rq_issue", REQUEST),
    (115, "block", "block_bio_backmerge", BIO),
    (116, "block", "block_bio_bounce", BIO),
    (
        117,
        "block",
        "block_bio_complete",
        &[
            (1, "dev", Ty::Dev),
            (2, "sector", Ty::U64),
            (3, "nr_sector", Ty::U32),
            (4, "error", Ty::I32),
            (5, "rwbs", Ty::Rwbs),
        ],
    ),
    (118, "block", "block_bio_frontmerge", BIO),
    (119, "block", "block_bio_queue", BIO),
    (
        120,
        "block",
        "block_bio_remap",
        &[
            (1, "dev", Ty::Dev),
            (2, "sector", Ty::U64),
            (3, "nr_sector", Ty::U32),
            (4, "old_dev", Ty::Dev),
            (5, "old_sector", Ty::U64),
            (6, "rwbs", Ty::Rwbs),
        ],
    ),
    (122, "block", "block_getrq", BIO),
    (125, "block", "block_rq_complete", DONE),
    (126, "block", "block_rq_insert", REQUEST),
    (129, "block", "block_rq_requeue", DONE),
    (
        131,
        "block",
        "block_split",
        &[
            (1, "dev", Ty::Dev),
            (2, "sector", Ty::U64),
            (3, "new_sector", Ty::U64),
            (4, "rwbs", Ty::Rwbs),
            (5, "comm", Ty::Text),
        ],
    ),
    (329, "raw_syscalls", "sys_enter", &[(1, "id", Ty::I64)]),
    (
        330,
        "raw_syscalls",
        "sys_exit",
        &[(1, "id", Ty::I64), (2, "ret", Ty::I64)],
    ),
    (
        406,
        "ufs",
        "ufshcd_command",
        &[
            (1, "dev_name", Ty::Text),
            (6, "str", Ty::Text),
            (7, "tag", Ty::U32),
            (8, "transfer_len", Ty::I32),
            (10, "str_t", Ty::U32),
        ],
    ),
    (546, "block", "block_io_start", STARTED),
    (547, "block", "block_io_done", STARTED),
];
const PRINTED: u32 = 3;
const GENERIC: u32 = 327;
/// `FtraceEvent` fields from here on are events that the trace describes itself.
const SELF_DESCRIBED: u32 = 65536;

/// Whether the first packet is one, and another follows, or nothing.
pub(crate) fn is_perfetto(head: &[u8]) -> bool {
    let first = head.strip_prefix(&[0x0a]).and_then(varint);
    let Some((len, rest)) = first.filter(|&(len, _)| (2..PACKET).contains(&len)) else {
        return false;
    };
    let Some((packet, behind)) = rest.split_at_checked(len as usize) else {
        // A first packet that is longer than what was looked at.
        return Fields::of(rest)
            .next()
            .is_some_and(|(field, _)| field < 1000);
    };
    let mut fields = Fields::of(packet);
    fields.by_ref().for_each(drop);
    fields.is_done() && behind.first().is_none_or(|&b| b == 0x0a)
}

/// An event whose fields the trace itself describes, by their numbers.
struct Described {
    system: String,
    name: String,
    fields: Vec<(u32, String, Ty)>,
}

/// An event of a bundle, before its bundle is in order.
struct Found {
    ts: u64,
    record: Vec<u8>,
}

struct Reading {
    formats: Formats,
    writer: Writer,
    comms: HashMap<i32, String>,
    /// The task that runs on each CPU, by the last switch.
    current: HashMap<u32, i32>,
    described: HashMap<u32, Described>,
    /// Numbers of the events of the table, once they came.
    numbers: HashMap<u32, (u16, Vec<u32>, Vec<Ty>)>,
    clock: Option<u64>,
    back: u64,
    damaged: u64,
    packets: u64,
}

pub(crate) fn convert(input: Input) -> Result<(File, About)> {
    let packing = input.packing;
    let failed = |e| match packing {
        Some(packing) => Error::Packing { packing, source: e },
        None => Error::Io(e),
    };
    let file = tempfile::tempfile().map_err(scratch)?;
    let mut reading = Reading {
        formats: Formats::default(),
        writer: Writer::new(file, Machine::OWN),
        comms: HashMap::new(),
        current: HashMap::new(),
        described: HashMap::new(),
        numbers: HashMap::new(),
        clock: None,
        back: 0,
        damaged: 0,
        packets: 0,
    };
    let mut source = BufReader::with_capacity(256 << 10, input);
    let (mut at, mut packet) = (0, Vec::new());
    let cut = loop {
        match next_packet(&mut source, &mut packet).map_err(failed)? {
            Next::Packet(len) => {
                reading.packet(&packet, 0)?;
                at += len;
            }
            Next::End => break false,
            Next::Cut => break true,
            Next::Damage(why) => return Err(Error::corrupt(WHAT, at, why)),
        }
    };
    reading.finish(cut)
}

enum Next {
    /// It took so many bytes.
    Packet(u64),
    End,
    Cut,
    Damage(&'static str),
}

fn next_packet(source: &mut impl Read, packet: &mut Vec<u8>) -> io::Result<Next> {
    let mut byte = [0];
    let mut one = |source: &mut dyn Read| loop {
        match source.read(&mut byte) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(byte[0])),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    };
    match one(source)? {
        None => return Ok(Next::End),
        Some(0x0a) => {}
        Some(_) => return Ok(Next::Damage("no packet begins here")),
    }
    let (mut len, mut size) = (0, 1);
    for place in 0..5 {
        let Some(byte) = one(source)? else {
            return Ok(Next::Cut);
        };
        size += 1;
        len |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            break;
        }
    }
    if len > PACKET {
        return Ok(Next::Damage("a packet of more than 64 MiB"));
    }
    packet.clear();
    source.take(len).read_to_end(packet)?;
    Ok(if packet.len() as u64 == len {
        Next::Packet(size + len)
    } else {
        Next::Cut
    })
}

impl Reading {
    fn packet(&mut self, packet: &[u8], depth: u32) -> Result<()> {
        self.packets += 1;
        for (field, value) in Fields::of(packet) {
            match (field, value) {
                (1, Wire::Bytes(bundle)) => self.bundle(bundle)?,
                (2, Wire::Bytes(tree)) => self.names(tree),
                (50, Wire::Bytes(deflated)) if depth == 0 => {
                    // A trace of its own, packed.
                    let plain = flate2::read::ZlibDecoder::new(deflated);
                    let mut plain = BufReader::new(plain);
                    let mut inner = Vec::new();
                    loop {
                        match next_packet(&mut plain, &mut inner) {
                            Ok(Next::Packet(_)) => self.packet(&inner, depth + 1)?,
                            Ok(Next::End) => break,
                            Ok(_) | Err(_) => {
                                self.damaged += 1;
                                break;
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn learn(&mut self, pid: i32, comm: &[u8]) {
        if pid > 0 && !comm.is_empty() && self.comms.len() < TASKS {
            let same = self.comms.get(&pid).is_some_and(|c| c.as_bytes() == comm);
            if !same {
                let comm = String::from_utf8_lossy(comm).replace('\n', " ");
                self.comms.insert(pid, comm);
            }
        }
    }

    /// `ProcessTree`: names of threads, and of processes whose threads have none.
    fn names(&mut self, tree: &[u8]) {
        for (field, value) in Fields::of(tree) {
            let Some(message) = value.bytes() else {
                continue;
            };
            let (mut pid, mut name) = (0, None);
            for (inner, value) in Fields::of(message) {
                match (field, inner, value) {
                    (_, 1, Wire::Number(number)) => pid = number as i32,
                    (1, 3, Wire::Bytes(word)) if name.is_none() => name = Some(word),
                    (2, 2, Wire::Bytes(word)) => name = Some(word),
                    _ => {}
                }
            }
            let Some(name) = name.filter(|_| !self.comms.contains_key(&pid)) else {
                continue;
            };
            // The kernel's name of a task is its program's, up to 15 bytes.
            let program = name.rsplit(|&b| b == b'/').next().unwrap_or(name);
            let program = if field == 1 { program } else { name };
            self.learn(pid, program.get(..15).unwrap_or(program));
        }
    }

    fn bundle(&mut self, bundle: &[u8]) -> Result<()> {
        let (mut cpu, mut lost) = (0, false);
        for (field, value) in Fields::of(bundle) {
            match (field, value) {
                (1, Wire::Number(number)) => cpu = number as u32,
                (3, Wire::Number(number)) => lost |= number != 0,
                (5, Wire::Number(number)) => self.clock = Some(number),
                (11, Wire::Bytes(message)) => self.describe(message),
                _ => {}
            }
        }
        if lost {
            self.writer.lost(cpu, None)?;
        }
        let mut found = Vec::new();
        for (field, value) in Fields::of(bundle) {
            match (field, value) {
                (2, Wire::Bytes(event)) => found.extend(self.event(event)),
                (4, Wire::Bytes(sched)) => self.compact(cpu, sched, &mut found),
                _ => {}
            }
        }
        found.sort_by_key(|f| f.ts);
        for Found { ts, record } in found {
            if let Taken::Back(_) = self.writer.event(cpu, ts.min(1 << 62), &record)? {
                self.back += 1;
                self.writer.lost(cpu, Some(1))?;
            }
        }
        Ok(())
    }

    fn event(&mut self, event: &[u8]) -> Option<Found> {
        let (mut ts, mut pid, mut body) = (0, 0, None);
        for (field, value) in Fields::of(event) {
            match (field, value) {
                (1, Wire::Number(number)) => ts = number,
                (2, Wire::Number(number)) => pid = number as i32,
                (field, Wire::Bytes(message)) => body = Some((field, message)),
                _ => {}
            }
        }
        let (field, message) = body?;
        let record = match field {
            PRINTED => {
                let (_, text) = Fields::of(message).find(|(field, _)| *field == 2)?;
                let text = Value::Text(text.bytes()?);
                self.formats.record(PRINT, pid, &[None, Some(text)])
            }
            GENERIC => self.generic(pid, message)?,
            SELF_DESCRIBED.. => self.self_described(pid, field, message)?,
            _ => self.known(pid, field, message)?,
        };
        let record = record.to_vec();
        Some(Found { ts, record })
    }

    /// An event that Perfetto has a message for.
    fn known(&mut self, pid: i32, number: u32, message: &[u8]) -> Option<&[u8]> {
        let event = EVENTS.iter().find(|e| e.0 == number)?;
        let mut comms = [None; 2];
        for (field, value) in Fields::of(message) {
            let name = event.3.iter().find(|f| f.0 == field).map(|f| f.1);
            match (name, value) {
                (Some("comm"), Wire::Bytes(comm)) if event.1 == "block" => {
                    comms[0] = Some((pid, comm));
                }
                (Some("prev_comm"), Wire::Bytes(comm)) => comms[0] = Some((pid, comm)),
                (Some("next_comm"), Wire::Bytes(comm)) => comms[1] = Some((0, comm)),
                (Some("next_pid"), Wire::Number(next)) => {
                    comms[1] = comms[1].map(|(_, comm)| (next as i32, comm));
                }
                _ => {}
            }
        }
        for (pid, comm) in comms.into_iter().flatten() {
            self.learn(pid, comm);
        }
        if !self.numbers.contains_key(&number) {
            // A kernel's ufshcd_command tells its phase by text or by number, never by both.
            let text = Fields::of(message).any(|(field, _)| field == 6);
            let is_there = |f: &&(u32, &str, Ty)| match f.1 {
                "str" => text,
                "str_t" => !text,
                _ => true,
            };
            let fields: Vec<_> = event.3.iter().filter(is_there).collect();
            let each = fields.iter().map(|f| (f.1, f.2));
            let id = self.formats.add(event.1, event.2, each);
            let places = fields.iter().map(|f| f.0).collect();
            let types = fields.iter().map(|f| f.2).collect();
            self.numbers.insert(number, (id, places, types));
        }
        let (id, places, types) = self.numbers.get(&number)?;
        let mut values = vec![None; places.len()];
        for (field, value) in Fields::of(message) {
            let place = places.iter().position(|&f| f == field);
            let ty = place.and_then(|place| types.get(place));
            if let (Some(ty), Some(slot)) = (ty, place.and_then(|place| values.get_mut(place))) {
                *slot = Some(of_wire(*ty, value));
            }
        }
        Some(self.formats.record(*id, pid, &values))
    }

    /// An event that came by name, each field with its own.
    fn generic(&mut self, pid: i32, message: &[u8]) -> Option<&[u8]> {
        let mut name = None;
        let mut fields: Vec<(&str, Value<'_>)> = Vec::new();
        for (field, value) in Fields::of(message) {
            match (field, value) {
                (1, Wire::Bytes(text)) => name = std::str::from_utf8(text).ok(),
                (2, Wire::Bytes(inner)) => fields.extend(generic_field(inner)),
                _ => {}
            }
        }
        let name = name?;
        let (system, name) = match name.split_once('/') {
            Some(found) => found,
            None => (crate::printed::group(name), name),
        };
        let ty = |value: &Value<'_>| match value {
            Value::Number(n) if i64::try_from(*n).is_err() => Ty::U64,
            Value::Number(_) => Ty::I64,
            Value::Text(_) => Ty::Text,
        };
        let id = self
            .formats
            .add(system, name, fields.iter().map(|f| (f.0, ty(&f.1))));
        let order = self.formats.fields(system, name);
        let value = |(wanted, _): &(String, Ty)| {
            let found = fields.iter().find(|f| f.0 == wanted);
            found.map(|f| f.1)
        };
        let values: Vec<_> = order.iter().map(value).collect();
        Some(self.formats.record(id, pid, &values))
    }

    /// `GenericEventDescriptor`: number, group, and the event's message as a `DescriptorProto`.
    fn describe(&mut self, message: &[u8]) {
        let (mut number, mut system, mut descriptor) = (None, "", &[][..]);
        for (field, value) in Fields::of(message) {
            match (field, value) {
                (1, Wire::Number(id)) => number = u32::try_from(id).ok(),
                (3, Wire::Bytes(text)) => system = std::str::from_utf8(text).unwrap_or(""),
                (2, Wire::Bytes(bytes)) => descriptor = bytes,
                _ => {}
            }
        }
        let (mut name, mut fields) = ("", Vec::new());
        for (field, value) in Fields::of(descriptor) {
            match (field, value) {
                (1, Wire::Bytes(text)) => name = std::str::from_utf8(text).unwrap_or(""),
                (2, Wire::Bytes(inner)) => fields.extend(described_field(inner)),
                _ => {}
            }
        }
        let room = self.described.len() < DESCRIBED && fields.len() <= 64;
        if let (Some(number), false, true) = (number, name.is_empty(), room) {
            let system = if system.is_empty() {
                crate::printed::group(name)
            } else {
                system
            };
            let described = Described {
                system: system.to_owned(),
                name: name.to_owned(),
                fields,
            };
            self.described.insert(number, described);
        }
    }

    fn self_described(&mut self, pid: i32, number: u32, message: &[u8]) -> Option<&[u8]> {
        let event = self.described.get(&number)?;
        let each = event.fields.iter().map(|f| (f.1.as_str(), f.2));
        let id = self.formats.add(&event.system, &event.name, each);
        let mut values = vec![None; event.fields.len()];
        for (field, value) in Fields::of(message) {
            let place = event.fields.iter().position(|f| f.0 == field);
            if let Some(slot) = place.and_then(|place| values.get_mut(place)) {
                *slot = Some(match value {
                    Wire::Number(number) => Value::Number(number),
                    Wire::Bytes(text) => Value::Text(text),
                });
            }
        }
        Some(self.formats.record(id, pid, &values))
    }

    /// `CompactSched`: switches and wake-ups as columns, times as steps.
    fn compact(&mut self, cpu: u32, sched: &[u8], found: &mut Vec<Found>) {
        let mut names: Vec<&[u8]> = Vec::new();
        let mut columns: HashMap<u32, Vec<u64>> = HashMap::new();
        for (field, value) in Fields::of(sched) {
            match (field, value) {
                (5, Wire::Bytes(name)) => names.push(name),
                (_, Wire::Bytes(packed)) => {
                    let column = columns.entry(field).or_default();
                    let mut rest = packed;
                    while let Some((number, behind)) = varint(rest) {
                        column.push(number);
                        rest = behind;
                    }
                }
                (_, Wire::Number(number)) => columns.entry(field).or_default().push(number),
            }
        }
        let at = |field: u32, row: usize| columns.get(&field).and_then(|c| c.get(row)).copied();
        let name = |field: u32, row: usize| {
            let place = at(field, row).and_then(|place| usize::try_from(place).ok());
            place.and_then(|place| names.get(place)).copied()
        };
        let id = |event: &Event, formats: &mut Formats| {
            formats.add(event.1, event.2, event.3.iter().map(|f| (f.1, f.2)))
        };
        let mut ts = 0_u64;
        for (row, step) in columns.get(&1).into_iter().flatten().enumerate() {
            ts = ts.wrapping_add(*step);
            let (Some(next), comm) = (at(3, row), name(6, row)) else {
                break;
            };
            let pid = self.current.insert(cpu, next as i32).unwrap_or(0);
            if let Some(comm) = comm {
                self.learn(next as i32, comm);
            }
            let values = [
                None,
                Some(Value::Number(pid as u64)),
                None,
                at(2, row).map(Value::Number),
                comm.map(Value::Text),
                Some(Value::Number(next)),
                at(4, row).map(Value::Number),
            ];
            let number = id(&SWITCH, &mut self.formats);
            let record = self.formats.record(number, pid, &values).to_vec();
            found.push(Found { ts, record });
        }
        let mut ts = 0_u64;
        for (row, step) in columns.get(&7).into_iter().flatten().enumerate() {
            ts = ts.wrapping_add(*step);
            let Some(woken) = at(8, row) else {
                break;
            };
            if let Some(comm) = name(11, row) {
                self.learn(woken as i32, comm);
            }
            let pid = self.current.get(&cpu).copied().unwrap_or(0);
            let values = [
                name(11, row).map(Value::Text),
                Some(Value::Number(woken)),
                at(10, row).map(Value::Number),
                at(9, row).map(Value::Number),
            ];
            let number = id(&WAKE, &mut self.formats);
            let record = self.formats.record(number, pid, &values).to_vec();
            found.push(Found { ts, record });
        }
    }

    fn finish(self, cut: bool) -> Result<(File, About)> {
        if self.writer.events == 0 {
            return Err(Error::foreign(
                "a Perfetto trace without events of ftrace",
                "record with the data source linux.ftrace and the ftrace_events block/*, irq/*, sched/*",
            ));
        }
        let mut notes = Vec::new();
        if cut {
            notes.push("it ends in the middle of a packet, which is left out".to_owned());
        }
        if self.damaged > 0 {
            notes.push(format!("{} packed packets are damaged", self.damaged));
        }
        if self.back > 0 {
            let back = self.back;
            notes.push(format!(
                "{back} events came out of their order and are left out"
            ));
        }
        let clock = match self.clock {
            None | Some(0) => "boot",
            Some(2) => "global",
            Some(3) => "local",
            Some(4) => "mono_raw",
            Some(_) => "unknown",
        };
        let bytes = self.formats.bytes();
        let file = self.writer.finish(&bytes, &self.comms, clock)?;
        let about = About {
            format: "Perfetto".to_owned(),
            resolution: 1,
            notes,
            ..About::default()
        };
        Ok((file, about))
    }
}

fn of_wire(ty: Ty, value: Wire<'_>) -> Value<'_> {
    match (ty, value) {
        (Ty::Dev, Wire::Number(dev)) => Value::Number(kernel_dev(dev)),
        (_, Wire::Number(number)) => Value::Number(number),
        (_, Wire::Bytes(text)) => Value::Text(text),
    }
}

/// User space's device number (`makedev()`), which Perfetto stores, as the kernel's own.
fn kernel_dev(dev: u64) -> u64 {
    let major = dev >> 8 & 0xfff;
    let minor = dev & 0xff | dev >> 12 & 0xf_ff00;
    major << 20 | minor
}

/// Name and value of a `GenericFtraceEvent.Field`.
fn generic_field(message: &[u8]) -> Option<(&str, Value<'_>)> {
    let (mut name, mut found) = (None, Value::Number(0));
    for (field, value) in Fields::of(message) {
        match (field, value) {
            (1, Wire::Bytes(text)) => name = std::str::from_utf8(text).ok(),
            (3, Wire::Bytes(text)) => found = Value::Text(text),
            (4 | 5, Wire::Number(number)) => found = Value::Number(number),
            _ => {}
        }
    }
    Some((name?, found))
}

/// Number, name and type of a field of a `DescriptorProto`.
fn described_field(message: &[u8]) -> Option<(u32, String, Ty)> {
    let (mut number, mut name, mut ty) = (None, None, Ty::I64);
    for (field, value) in Fields::of(message) {
        match (field, value) {
            (1, Wire::Bytes(text)) => name = std::str::from_utf8(text).ok(),
            (3, Wire::Number(n)) => number = u32::try_from(n).ok(),
            // `FieldDescriptorProto.Type`: 9 is a string, 4 and 13 are unsigned.
            (5, Wire::Number(9 | 12)) => ty = Ty::Text,
            (5, Wire::Number(4 | 13)) => ty = Ty::U64,
            _ => {}
        }
    }
    Some((number?, name?.to_owned(), ty))
}
