//! Shows events as text: every field by the format that the trace carries for it.

use std::fmt::Write as _;

use tracedat::{Accessor, EventFormat, Field, Location, Record, Trace};

use crate::fields::dev;
use crate::shown::Shown;

/// Bytes of an array field that are shown.
const BYTES_SHOWN: usize = 32;

/// Sectors of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sectors {
    /// `major:minor`; `None` matches any.
    pub(crate) dev: Option<String>,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Sectors {
    pub(crate) fn overlap(&self, other: &Self) -> bool {
        let device = match (&self.dev, &other.dev) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        device && self.first <= other.last && other.first <= self.last
    }
}

/// What an event means when the events of one I/O are looked for.
#[derive(Debug)]
pub(crate) enum Role {
    /// On sectors of a device.
    Block {
        dev: Accessor,
        sector: Accessor,
        count: Accessor,
    },
    /// Of a driver, with a tag and perhaps a queue.
    Driver {
        tag: Accessor,
        queue: Option<Accessor>,
        host: Option<Accessor>,
    },
    /// Start or end of an interrupt or softirq.
    Interrupt { entry: bool },
    /// Names tasks: who wakes, who goes and who comes.
    Task(Vec<Accessor>),
    /// Anything else.
    Other,
}

impl Role {
    fn new(format: &EventFormat) -> Self {
        let field = |names: &[&str]| names.iter().find_map(|name| format.accessor(name));
        match format.system.as_str() {
            "block" => match (field(&["dev"]), field(&["sector"]), field(&["nr_sector"])) {
                (Some(dev), Some(sector), Some(count)) => Self::Block { dev, sector, count },
                _ => Self::Other,
            },
            "nvme" | "ufs" | "mmc" | "scsi" => match field(&["cid", "tag", "mrq"]) {
                Some(tag) => Self::Driver {
                    tag,
                    queue: field(&["qid", "hwq_id"]),
                    host: field(&["ctrl_id", "sdev", "host_no"]),
                },
                None => Self::Other,
            },
            "irq" => Self::Interrupt {
                entry: format.name == "irq_handler_entry",
            },
            "sched" => Self::Task(
                ["pid", "prev_pid", "next_pid"]
                    .iter()
                    .filter_map(|name| format.accessor(name))
                    .collect(),
            ),
            _ => Self::Other,
        }
    }
}

/// How one field becomes text.
#[derive(Debug)]
enum Form {
    Device,
    Signed,
    Unsigned,
    Pointer,
    Text,
    Bytes,
    Symbols(Vec<(u64, String)>),
}

impl Form {
    fn new(field: &Field, format: &EventFormat) -> Self {
        let kind = field.kind.as_str();
        let symbols = format.symbols(&field.name);
        if kind == "dev_t" {
            Self::Device
        } else if kind.contains("char[") {
            Self::Text
        } else if kind.contains('[') || field.location != Location::Fixed {
            Self::Bytes
        } else if kind.contains('*') {
            Self::Pointer
        } else if !symbols.is_empty() {
            Self::Symbols(symbols)
        } else if field.signed {
            Self::Signed
        } else {
            Self::Unsigned
        }
    }

    /// The field's value; `None` when the record is too short for it.
    fn value(&self, at: &Accessor, data: &[u8]) -> Option<String> {
        Some(match self {
            Self::Device => dev(at.uint(data)?).to_string(),
            Self::Signed => at.int(data)?.to_string(),
            Self::Unsigned => at.uint(data)?.to_string(),
            Self::Pointer => format!("{:#x}", at.uint(data)?),
            Self::Text => String::from_utf8_lossy(at.text(data)?).into_owned(),
            Self::Bytes => hex(at.bytes(data)?),
            Self::Symbols(symbols) => {
                let number = at.uint(data)?;
                let known = symbols.iter().find(|(n, _)| *n == number);
                known.map_or_else(|| number.to_string(), |(_, text)| text.clone())
            }
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes.iter().take(BYTES_SHOWN) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    if bytes.len() > BYTES_SHOWN {
        text.push('…');
    }
    text
}

/// One kind of event: its role, and how its fields become text.
#[derive(Debug)]
pub(crate) struct Decoder {
    pub(crate) system: String,
    pub(crate) name: String,
    pub(crate) role: Role,
    fields: Vec<(String, Accessor, Form)>,
}

impl Decoder {
    fn new(format: &EventFormat) -> Self {
        let own = |field: &Field| !field.name.starts_with("common_");
        let fields = format.fields().into_iter().filter(own);
        let with_form = |field: Field| {
            let form = Form::new(&field, format);
            Some((field.name.clone(), format.accessor(&field.name)?, form))
        };
        Self {
            system: format.system.clone(),
            name: format.name.clone(),
            role: Role::new(format),
            fields: fields.filter_map(with_form).collect(),
        }
    }

    /// Sectors of a block event. A flush has none.
    pub(crate) fn sectors(&self, data: &[u8]) -> Option<Sectors> {
        let Role::Block {
            dev: device,
            sector,
            count,
        } = &self.role
        else {
            return None;
        };
        let (first, count) = (sector.uint(data)?, count.uint(data)?);
        Some(Sectors {
            dev: Some(dev(device.uint(data)?).to_string()),
            first,
            last: first.checked_add(count.checked_sub(1)?)?,
        })
    }

    /// Host, queue and tag of a driver's event. The upper bits of an `NVMe` command id are a
    /// generation that `nvme_complete_rq` leaves out (since 5.15).
    pub(crate) fn tag(&self, data: &[u8]) -> Option<[u64; 3]> {
        let Role::Driver { tag, queue, host } = &self.role else {
            return None;
        };
        let mask = if self.system == "nvme" {
            0xfff
        } else {
            u64::MAX
        };
        let number = |field: &Option<Accessor>| field.and_then(|a| a.uint(data)).unwrap_or(0);
        Some([number(host), number(queue), tag.uint(data)? & mask])
    }

    /// Whether the driver emits it before the request's `block_rq_issue`.
    pub(crate) fn before_issue(&self) -> bool {
        self.name == "nvme_setup_cmd"
    }

    /// Thread numbers that the event names.
    pub(crate) fn tasks(&self, data: &[u8]) -> Vec<i32> {
        let Role::Task(fields) = &self.role else {
            return Vec::new();
        };
        let pid = |a: &Accessor| a.int(data).map(|pid| pid as i32);
        fields.iter().filter_map(pid).collect()
    }

    pub(crate) fn show(&self, record: &Record<'_>, pid: i32) -> Shown {
        let text = |(name, at, form): &(String, Accessor, Form)| {
            Some((name.clone(), form.value(at, record.data)?))
        };
        Shown {
            ts: record.ts,
            cpu: record.cpu,
            pid,
            event: self.name.clone(),
            fields: self.fields.iter().filter_map(text).collect(),
        }
    }
}

/// The decoders of all events of a trace.
#[derive(Debug)]
pub(crate) struct Decoders {
    /// `common_type` and `common_pid`, which all events have at the same place.
    common: Option<(Accessor, Accessor)>,
    /// By event number.
    by_id: Vec<Option<Decoder>>,
}

impl Decoders {
    pub(crate) fn new(trace: &Trace) -> Self {
        let first = trace.formats().first();
        let common = first.and_then(|f| f.accessor("common_type").zip(f.accessor("common_pid")));
        let mut by_id = Vec::new();
        for format in trace.formats() {
            let id = usize::from(format.id);
            if by_id.len() <= id {
                by_id.resize_with(id + 1, || None);
            }
            if let Some(slot) = by_id.get_mut(id) {
                *slot = Some(Decoder::new(format));
            }
        }
        Self { common, by_id }
    }

    /// The running task and the decoder of a record; `None` when its event is unknown.
    pub(crate) fn of(&self, data: &[u8]) -> Option<(i32, &Decoder)> {
        let (kind, pid) = self.common?;
        let id = usize::try_from(kind.uint(data)?).ok()?;
        Some((pid.int(data)? as i32, self.by_id.get(id)?.as_ref()?))
    }
}
