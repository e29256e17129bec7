//! The fields of block and driver events.

use iosections::{Dev, Driver, Kind, Rwbs, Span, Tag};
use tracedat::{Accessor, EventFormat};

/// The generation in an `NVMe` command id is above these bits (Linux 5.15).
const NVME_TAG: u64 = 0xfff;
/// A driver's event that tells of no hardware queue.
const NO_QUEUE: u32 = u32::MAX;

/// Bytes in front of a record that have all its plain fields: one question about its length for
/// all of them.
const HEAD: usize = 48;

/// `N` bytes of the head at an offset that [`plain`] gave.
#[inline(always)]
#[allow(clippy::inline_always)] // one load
fn array<const N: usize>(head: &[u8; HEAD], at: u32) -> [u8; N] {
    let at = (at as usize).min(HEAD - 8);
    let bytes = head.get(at..at + N).and_then(<[u8]>::first_chunk);
    bytes.copied().unwrap_or([0; N])
}

/// The longest of the shortest records that fields can be read from (bytes), if that is known.
pub(crate) fn reach(fields: &[&Accessor]) -> Option<usize> {
    fields
        .iter()
        .try_fold(0, |most, field| Some(field.reach()?.max(most)))
}

/// Where a field is, if it is in place, in this machine's byte order, of this size and in the
/// record's head.
pub(crate) fn plain(field: Accessor, size: usize) -> Option<u32> {
    let (at, _) = field.native().filter(|f| f.1 == size)?;
    Some(at as u32).filter(|_| at <= HEAD - 8)
}

/// The fields of a block event that has sectors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpanFields {
    dev: Accessor,
    sector: Accessor,
    sectors: Accessor,
    rwbs: Accessor,
    /// Where they are in a trace of such a machine as this one.
    plain: Option<[u32; 4]>,
}

impl SpanFields {
    pub(crate) fn new(format: &EventFormat) -> Option<Self> {
        let (dev, sector) = (format.accessor("dev")?, format.accessor("sector")?);
        let (sectors, rwbs) = (format.accessor("nr_sector")?, format.accessor("rwbs")?);
        let places = || {
            let letters = plain(rwbs, rwbs.native().filter(|f| f.1 >= 8)?.1)?;
            let dev = plain(dev, 4)?;
            Some([dev, plain(sector, 8)?, plain(sectors, 4)?, letters])
        };
        Some(Self {
            dev,
            sector,
            sectors,
            rwbs,
            plain: places(),
        })
    }

    pub(crate) fn reach(&self) -> Option<usize> {
        reach(&[&self.dev, &self.sector, &self.sectors, &self.rwbs])
    }

    #[inline]
    pub(crate) fn read(&self, record: &[u8]) -> Option<Span> {
        if let (Some([dev_at, sector, sectors, rwbs]), Some(head)) =
            (self.plain, record.first_chunk::<HEAD>())
        {
            // Longer letters than eight end the quick way.
            if let Some(rwbs) = Rwbs::short(array(head, rwbs)) {
                return Some(Span {
                    dev: dev(u64::from(u32::from_ne_bytes(array(head, dev_at)))),
                    sector: u64::from_ne_bytes(array(head, sector)),
                    sectors: u32::from_ne_bytes(array(head, sectors)),
                    rwbs,
                });
            }
        }
        self.read_any(record)
    }

    #[inline(never)]
    fn read_any(&self, record: &[u8]) -> Option<Span> {
        Some(Span {
            dev: dev(self.dev.uint(record)?),
            sector: self.sector.uint(record)?,
            sectors: self.sectors.uint(record)? as u32,
            rwbs: Rwbs::new(self.rwbs.bytes(record)?),
        })
    }
}

/// Device and first sector.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlaceFields {
    dev: Accessor,
    sector: Accessor,
    /// As in [`SpanFields`].
    plain: Option<[u32; 2]>,
}

impl PlaceFields {
    pub(crate) fn new(format: &EventFormat, dev: &str, sector: &str) -> Option<Self> {
        let (dev, sector) = (format.accessor(dev)?, format.accessor(sector)?);
        let places = || Some([plain(dev, 4)?, plain(sector, 8)?]);
        Some(Self {
            dev,
            sector,
            plain: places(),
        })
    }

    pub(crate) fn reach(&self) -> Option<usize> {
        reach(&[&self.dev, &self.sector])
    }

    #[inline]
    pub(crate) fn read(&self, record: &[u8]) -> Option<(Dev, u64)> {
        if let (Some([device, sector]), Some(head)) = (self.plain, record.first_chunk::<HEAD>()) {
            let device = u32::from_ne_bytes(array(head, device));
            let sector = u64::from_ne_bytes(array(head, sector));
            return Some((dev(u64::from(device)), sector));
        }
        self.read_any(record)
    }

    #[inline(never)]
    fn read_any(&self, record: &[u8]) -> Option<(Dev, u64)> {
        Some((dev(self.dev.uint(record)?), self.sector.uint(record)?))
    }
}

/// The fields that every event begins with: its number and the current task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    kind: Accessor,
    pid: Accessor,
    /// They are where they are on every machine so far, in this machine's byte order.
    usual: bool,
}

impl Header {
    pub(crate) fn new(format: &EventFormat) -> Option<Self> {
        let (kind, pid) = (
            format.accessor("common_type")?,
            format.accessor("common_pid")?,
        );
        Some(Self {
            kind,
            pid,
            usual: plain(kind, 2) == Some(0) && plain(pid, 4) == Some(4),
        })
    }

    /// The event's number and the task; zeros where the record is too short.
    #[inline(always)]
    #[allow(clippy::inline_always)] // two loads
    pub(crate) fn read(&self, record: &[u8]) -> (u16, i32) {
        if let (true, Some(&[a, b, _, _, p, q, r, s])) = (self.usual, record.first_chunk::<8>()) {
            return (u16::from_ne_bytes([a, b]), i32::from_ne_bytes([p, q, r, s]));
        }
        let kind = self.kind.uint(record).unwrap_or(0);
        (kind as u16, self.pid.int(record).unwrap_or(0) as i32)
    }
}

/// The kernel's internal device number: 12 bits major, 20 bits minor.
pub(crate) fn dev(raw: u64) -> Dev {
    Dev {
        major: (raw >> 20) as u32 & 0xfff,
        minor: raw as u32 & 0xf_ffff,
    }
}

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
