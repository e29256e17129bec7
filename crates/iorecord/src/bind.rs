//! Translates records of a trace to events of the measurement, by the formats of the trace.

use std::collections::HashMap;

use iosections::{Dev, Event, Kind, Op, Rwbs, Span};
use tracedat::{Accessor, EventFormat, Record, Trace};

/// The generation in an `NVMe` command id is above these bits.
const NVME_TAG: u32 = 0xfff;

/// The fields of a block event that has sectors.
#[derive(Debug, Clone, Copy)]
struct SpanFields {
    dev: Accessor,
    sector: Accessor,
    sectors: Accessor,
    rwbs: Accessor,
}

impl SpanFields {
    fn new(format: &EventFormat) -> Option<Self> {
        Some(Self {
            dev: format.accessor("dev")?,
            sector: format.accessor("sector")?,
            sectors: format.accessor("nr_sector")?,
            rwbs: format.accessor("rwbs")?,
        })
    }

    fn read(&self, record: &[u8]) -> Option<Span> {
        Some(Span {
            dev: dev(self.dev.uint(record)?),
            sector: self.sector.uint(record)?,
            sectors: self.sectors.uint(record)? as u32,
            rwbs: Rwbs::new(self.rwbs.bytes(record)?),
        })
    }
}

/// The kernel's internal device number: 12 bits major, 20 bits minor.
pub(crate) fn dev(raw: u64) -> Dev {
    Dev {
        major: (raw >> 20) as u32 & 0xfff,
        minor: raw as u32 & 0xf_ffff,
    }
}

/// The fields of an `NVMe` event.
#[derive(Debug, Clone, Copy)]
struct NvmeFields {
    disk: Option<Accessor>,
    controller: Option<Accessor>,
    qid: Option<Accessor>,
    cid: Option<Accessor>,
}

impl NvmeFields {
    fn new(format: &EventFormat) -> Self {
        Self {
            disk: format.accessor("disk"),
            controller: format.accessor("ctrl_id"),
            qid: format.accessor("qid"),
            cid: format.accessor("cid"),
        }
    }

    /// A number for the controller's disk (FNV-1a of its name), the queue and the tag.
    fn read(&self, record: &[u8]) -> (u64, u32, u32) {
        let uint = |field: Option<Accessor>| field.and_then(|a| a.uint(record)).unwrap_or(0);
        let name = self.disk.and_then(|a| a.text(record)).unwrap_or_default();
        let disk = name
            .iter()
            .fold(0xcbf2_9ce4_8422_2325 ^ uint(self.controller), |hash, &b| {
                (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
            });
        (
            disk,
            uint(self.qid) as u32,
            uint(self.cid) as u32 & NVME_TAG,
        )
    }
}

/// How `ufshcd_command` tells sending from completing.
#[derive(Debug, Clone)]
enum UfsPhase {
    /// A string (4.x to 5.4).
    Text(Accessor),
    /// A number, and those that mean send and complete (5.15 on).
    Number(Accessor, Vec<u64>, Vec<u64>),
}

#[derive(Debug, Clone)]
struct UfsFields {
    phase: UfsPhase,
    tag: Accessor,
    queue: Option<Accessor>,
}

fn is_send(text: &[u8]) -> bool {
    matches!(text, b"send" | b"send_req")
}

fn is_complete(text: &[u8]) -> bool {
    matches!(text, b"complete" | b"complete_rsp")
}

impl UfsFields {
    fn new(format: &EventFormat) -> Option<Self> {
        let phase = if let Some(number) = format.accessor("str_t") {
            let symbols = format.symbols("str_t");
            let pick = |wanted: fn(&[u8]) -> bool, usual: u64| -> Vec<u64> {
                let hits = symbols.iter().filter(|(_, text)| wanted(text.as_bytes()));
                let found: Vec<u64> = hits.map(|&(number, _)| number).collect();
                if found.is_empty() { vec![usual] } else { found }
            };
            UfsPhase::Number(number, pick(is_send, 0), pick(is_complete, 1))
        } else {
            UfsPhase::Text(format.accessor("str")?)
        };
        Some(Self {
            phase,
            tag: format.accessor("tag")?,
            queue: format.accessor("hwq_id"),
        })
    }

    fn read(&self, record: &[u8]) -> Option<Kind> {
        let (send, complete) = match &self.phase {
            UfsPhase::Text(field) => {
                let text = field.text(record)?;
                (is_send(text), is_complete(text))
            }
            UfsPhase::Number(field, send, complete) => {
                let number = field.uint(record)?;
                (send.contains(&number), complete.contains(&number))
            }
        };
        let tag = self.tag.uint(record)? as u32;
        let queue = self.queue.and_then(|a| a.uint(record)).unwrap_or(u64::MAX) as u32;
        match (send, complete) {
            (true, _) => Some(Kind::UfsSend { queue, tag }),
            (_, true) => Some(Kind::UfsComplete { queue, tag }),
            _ => None,
        }
    }
}

/// How one event is translated.
#[derive(Debug, Clone)]
enum Decode {
    Enter(Op),
    Exit(Op, Accessor),
    BioQueue(SpanFields),
    Issue(SpanFields),
    Requeue(SpanFields),
    Complete(SpanFields),
    Split(Accessor),
    Merge(Accessor),
    NvmeSetup(NvmeFields),
    NvmeSq(NvmeFields),
    NvmeComplete(NvmeFields),
    Ufs(UfsFields),
    SoftirqEntry(Accessor),
    Switch {
        state: Option<Accessor>,
        next: Accessor,
    },
    Plain(Kind),
}

impl Decode {
    /// The translation of an event, if it matters and its fields are there.
    fn new(format: &EventFormat) -> Option<Self> {
        let name = format.name.as_str();
        Some(match (format.system.as_str(), name) {
            ("syscalls", _) => return Self::syscall(format),
            ("block", "block_bio_queue") => Self::BioQueue(SpanFields::new(format)?),
            ("block", "block_rq_issue") => Self::Issue(SpanFields::new(format)?),
            ("block", "block_rq_requeue") => Self::Requeue(SpanFields::new(format)?),
            ("block", "block_rq_complete") => Self::Complete(SpanFields::new(format)?),
            ("block", "block_split") => Self::Split(format.accessor("dev")?),
            ("block", "block_bio_backmerge" | "block_bio_frontmerge" | "block_rq_merge") => {
                Self::Merge(format.accessor("dev")?)
            }
            ("nvme", "nvme_setup_cmd") => Self::NvmeSetup(NvmeFields::new(format)),
            ("nvme", "nvme_sq") => Self::NvmeSq(NvmeFields::new(format)),
            ("nvme", "nvme_complete_rq") => Self::NvmeComplete(NvmeFields::new(format)),
            ("ufs", "ufshcd_command") => Self::Ufs(UfsFields::new(format)?),
            ("irq", "irq_handler_entry") => Self::Plain(Kind::IrqEntry),
            ("irq", "irq_handler_exit") => Self::Plain(Kind::IrqExit),
            ("irq", "softirq_entry") => Self::SoftirqEntry(format.accessor("vec")?),
            ("irq", "softirq_exit") => Self::Plain(Kind::SoftirqExit),
            ("sched", "sched_switch") => Self::Switch {
                state: format.accessor("prev_state"),
                next: format.accessor("next_pid")?,
            },
            ("iotoll", _) if is_queue_return(name) => Self::Plain(Kind::QueueReturn),
            _ => return None,
        })
    }

    fn syscall(format: &EventFormat) -> Option<Self> {
        if let Some(name) = format.name.strip_prefix("sys_enter_") {
            return Op::from_name(name).map(Self::Enter);
        }
        let op = Op::from_name(format.name.strip_prefix("sys_exit_")?)?;
        Some(Self::Exit(op, format.accessor("ret")?))
    }
}

/// `queue_rq_return`, or the like for `queue_rqs`.
pub(crate) fn is_queue_return(name: &str) -> bool {
    name.starts_with("queue_rq") && name.ends_with("return")
}

/// The translation of a whole trace.
#[derive(Debug)]
pub(crate) struct Binding {
    kind: Accessor,
    pid: Accessor,
    decoders: Vec<Option<Decode>>,
    /// Partition → disk.
    pub(crate) aliases: HashMap<Dev, Dev>,
}

impl Binding {
    /// `None` when the trace has no event formats at all.
    pub(crate) fn new(trace: &Trace) -> Option<Self> {
        let first = trace.formats().first()?;
        let mut decoders = Vec::new();
        for format in trace.formats() {
            let id = usize::from(format.id);
            if decoders.len() <= id {
                decoders.resize(id + 1, None);
            }
            if let (Some(decoder), Some(slot)) = (Decode::new(format), decoders.get_mut(id)) {
                *slot = Some(decoder);
            }
        }
        Some(Self {
            kind: first.accessor("common_type")?,
            pid: first.accessor("common_pid")?,
            decoders,
            aliases: HashMap::new(),
        })
    }

    /// The event's number.
    pub(crate) fn id(&self, record: &[u8]) -> u16 {
        self.kind.uint(record).unwrap_or(0) as u16
    }

    /// Translates one record. An event that is too short for its format counts as any other.
    pub(crate) fn event(&self, record: &Record<'_>) -> Event {
        let name = self.id(record.data);
        let decoder = self
            .decoders
            .get(usize::from(name))
            .and_then(Option::as_ref);
        Event {
            ts: record.ts,
            cpu: record.cpu,
            pid: self.pid.int(record.data).unwrap_or(0) as i32,
            name,
            kind: decoder
                .and_then(|d| self.kind(d, record.data))
                .unwrap_or(Kind::Other),
        }
    }

    fn kind(&self, decoder: &Decode, data: &[u8]) -> Option<Kind> {
        let disk = |raw: u64| self.disk(dev(raw));
        let span = |fields: &SpanFields| {
            let span = fields.read(data)?;
            Some(Span {
                dev: self.disk(span.dev),
                ..span
            })
        };
        Some(match decoder {
            Decode::Enter(op) => Kind::SyscallEnter(*op),
            Decode::Exit(op, ret) => Kind::SyscallExit(*op, ret.int(data)?),
            Decode::BioQueue(fields) => Kind::BioQueue(span(fields)?),
            Decode::Issue(fields) => Kind::Issue(span(fields)?),
            Decode::Requeue(fields) => Kind::Requeue(span(fields)?),
            Decode::Complete(fields) => Kind::Complete(span(fields)?),
            Decode::Split(field) => Kind::Split(disk(field.uint(data)?)),
            Decode::Merge(field) => Kind::Merge(disk(field.uint(data)?)),
            Decode::NvmeSetup(fields) => {
                let (disk, qid, cid) = fields.read(data);
                Kind::NvmeSetup { disk, qid, cid }
            }
            Decode::NvmeSq(fields) => Kind::NvmeSq {
                disk: fields.read(data).0,
            },
            Decode::NvmeComplete(fields) => {
                let (disk, qid, cid) = fields.read(data);
                Kind::NvmeComplete { disk, qid, cid }
            }
            Decode::Ufs(fields) => fields.read(data)?,
            Decode::SoftirqEntry(vector) => Kind::SoftirqEntry(vector.uint(data)? as u32),
            Decode::Switch { state, next } => Kind::Switch {
                // The low byte holds the sleeping states; above it is "preempted".
                blocked: state
                    .and_then(|s| s.uint(data))
                    .is_none_or(|s| s & 0xff != 0),
                next: next.int(data)? as i32,
            },
            Decode::Plain(kind) => *kind,
        })
    }

    fn disk(&self, dev: Dev) -> Dev {
        self.aliases.get(&dev).copied().unwrap_or(dev)
    }
}
