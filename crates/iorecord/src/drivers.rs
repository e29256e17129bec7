//! The fields of the events of drivers and of `io_uring`: what they call a request.

use iosections::{Driver, Kind, Tag};
use tracedat::{Accessor, EventFormat};

use crate::fields::reach;

/// The generation in an `NVMe` command id is above these bits (Linux 5.15).
const NVME_TAG: u64 = 0xfff;
/// A driver's event that tells of no hardware queue.
const NO_QUEUE: u32 = u32::MAX;

/// FNV-1a of a name.
fn hash(name: &[u8], start: u64) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325 ^ start, |hash, &b| {
        (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    })
}

fn uint(field: Option<Accessor>, record: &[u8]) -> u64 {
    field.and_then(|a| a.uint(record)).unwrap_or(0)
}

/// The fields of an `NVMe` event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NvmeFields {
    disk: Option<Accessor>,
    controller: Option<Accessor>,
    qid: Option<Accessor>,
    cid: Option<Accessor>,
}

impl NvmeFields {
    pub(crate) fn new(format: &EventFormat) -> Self {
        Self {
            disk: format.accessor("disk"),
            controller: format.accessor("ctrl_id"),
            qid: format.accessor("qid"),
            cid: format.accessor("cid"),
        }
    }

    /// A number for the controller's disk, the queue and the tag.
    pub(crate) fn read(&self, record: &[u8]) -> Tag {
        let name = self.disk.and_then(|a| a.text(record)).unwrap_or_default();
        Tag {
            host: hash(name, uint(self.controller, record)),
            queue: uint(self.qid, record) as u32,
            id: uint(self.cid, record) & NVME_TAG,
        }
    }
}

/// What names an entry of `io_uring` from its start to its completion.
#[derive(Debug, Clone, Copy)]
pub(crate) enum UringKey {
    /// The address of its request.
    Request(Accessor),
    /// Its ring and the number that user space gave it: before 5.15 the completion tells no more.
    UserData(Accessor, Accessor),
}

impl UringKey {
    /// `by_request`: whether all events of the trace have the request's address.
    pub(crate) fn new(format: &EventFormat, by_request: bool) -> Option<Self> {
        if by_request {
            return format.accessor("req").map(Self::Request);
        }
        let (ring, number) = (format.accessor("ctx")?, format.accessor("user_data")?);
        Some(Self::UserData(ring, number))
    }

    pub(crate) fn reach(&self) -> Option<usize> {
        match self {
            Self::Request(request) => request.reach(),
            Self::UserData(ring, number) => reach(&[ring, number]),
        }
    }

    pub(crate) fn read(&self, record: &[u8]) -> Option<u64> {
        match self {
            Self::Request(request) => request.uint(record),
            Self::UserData(ring, number) => {
                let number = number.uint(record)?;
                Some(hash(&number.to_le_bytes(), ring.uint(record)?))
            }
        }
    }
}

/// How `ufshcd_command` tells sending from completing.
#[derive(Debug, Clone)]
enum UfsPhase {
    /// A string (4.14 to 5.4).
    Text(Accessor),
    /// A number, and those that mean send and complete (5.15 on).
    Number(Accessor, Vec<u64>, Vec<u64>),
}

/// The fields of `ufshcd_command`.
#[derive(Debug, Clone)]
pub(crate) struct UfsFields {
    phase: UfsPhase,
    tag: Accessor,
    queue: Option<Accessor>,
    /// The host's name (to 6.2), or the address of the SCSI device (6.8 on).
    name: Option<Accessor>,
    device: Option<Accessor>,
}

fn is_send(text: &[u8]) -> bool {
    matches!(text, b"send" | b"send_req")
}

fn is_complete(text: &[u8]) -> bool {
    matches!(text, b"complete" | b"complete_rsp")
}

impl UfsFields {
    pub(crate) fn new(format: &EventFormat) -> Option<Self> {
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
            name: format.accessor("dev_name"),
            device: format.accessor("sdev"),
        })
    }

    pub(crate) fn read(&self, record: &[u8]) -> Option<Kind> {
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
        let name = self.name.and_then(|a| a.text(record)).unwrap_or_default();
        let queue = self.queue.and_then(|a| a.uint(record));
        let tag = Tag {
            host: hash(name, uint(self.device, record)),
            // Without a hardware queue of its own the driver writes -1.
            queue: queue.map_or(NO_QUEUE, |q| q as u32),
            id: self.tag.uint(record)?,
        };
        match (send, complete) {
            (true, _) => Some(Kind::Send(Driver::Ufs, tag)),
            (_, true) => Some(Kind::Done(Driver::Ufs, tag)),
            _ => None,
        }
    }
}

/// The fields of `mmc_request_start` and `mmc_request_done` (4.9 on; 4.4 has no `mrq`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct MmcFields {
    name: Accessor,
    request: Accessor,
}

impl MmcFields {
    pub(crate) fn new(format: &EventFormat) -> Option<Self> {
        Some(Self {
            name: format.accessor("name")?,
            request: format.accessor("mrq")?,
        })
    }

    /// The host's name and the address of its request.
    pub(crate) fn read(&self, record: &[u8]) -> Option<Tag> {
        Some(Tag {
            host: hash(self.name.text(record)?, 1),
            queue: NO_QUEUE,
            id: self.request.uint(record)?,
        })
    }
}

/// The fields of `scsi_dispatch_cmd_start` and `_done`; the tag came with 5.15.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScsiFields {
    host: Accessor,
    channel: Accessor,
    id: Accessor,
    lun: Accessor,
    tag: Option<Accessor>,
}

impl ScsiFields {
    pub(crate) fn new(format: &EventFormat) -> Option<Self> {
        Some(Self {
            host: format.accessor("host_no")?,
            channel: format.accessor("channel")?,
            id: format.accessor("id")?,
            lun: format.accessor("lun")?,
            tag: format.accessor("driver_tag"),
        })
    }

    pub(crate) fn reach(&self) -> Option<usize> {
        let tag = self.tag.as_ref().unwrap_or(&self.host);
        reach(&[&self.host, &self.channel, &self.id, &self.lun, tag])
    }

    /// Host and address, and the tag; without tags the address alone, which tells only one
    /// command at a time.
    pub(crate) fn read(&self, record: &[u8]) -> Option<Tag> {
        let place = [self.host, self.channel, self.id, self.lun];
        let mut key = 2;
        for field in place {
            key = hash(&field.uint(record)?.to_le_bytes(), key);
        }
        Some(Tag {
            host: key,
            queue: NO_QUEUE,
            id: self.tag.map_or(Some(0), |tag| tag.uint(record))?,
        })
    }

    /// Whether commands at the same time are told apart.
    pub(crate) fn has_tag(&self) -> bool {
        self.tag.is_some()
    }
}
