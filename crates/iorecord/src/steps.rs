//! Translates the events of a trace, or of a blktrace run, to steps of the block layer's rows.

use blktrace::Act;
use iosections::{Dev, Kind, Span, Step};
use tracedat::{Accessor, EventFormat, Record, Trace};

use crate::bind::Binding;
use crate::blktrace::rwbs;
use crate::fields::{Header, PlaceFields, SpanFields, dev};

/// Events after which the task works on no inode any more.
const LEAVES: [&str; 5] = [
    "ext4_writepages_result",
    "ext4_sync_file_exit",
    "ext4_direct_IO_exit",
    "f2fs_sync_file_exit",
    "f2fs_direct_IO_exit",
];

/// File systems whose events name device and inode alike.
const FILE_SYSTEMS: [&str; 3] = ["ext4", "f2fs", "xfs"];

/// How one event is translated.
#[derive(Debug, Clone)]
enum Plan {
    BioQueue(SpanFields),
    BioComplete(SpanFields),
    Remap(SpanFields, PlaceFields),
    RequestRemap(SpanFields, PlaceFields),
    Split(PlaceFields),
    Getrq(PlaceFields),
    Insert(PlaceFields),
    Issue(SpanFields, Option<Accessor>),
    Requeue(SpanFields),
    Complete(SpanFields),
    Inode(Accessor, Accessor),
    Leave(Accessor),
    Driver,
}

impl Plan {
    fn new(format: &EventFormat) -> Option<Self> {
        let span = || SpanFields::new(format);
        let place = || PlaceFields::new(format, "dev", "sector");
        let old = || PlaceFields::new(format, "old_dev", "old_sector");
        Some(match (format.system.as_str(), format.name.as_str()) {
            ("block", "block_bio_queue") => Self::BioQueue(span()?),
            ("block", "block_bio_complete") => Self::BioComplete(span()?),
            ("block", "block_bio_remap") => Self::Remap(span()?, old()?),
            ("block", "block_rq_remap") => Self::RequestRemap(span()?, old()?),
            ("block", "block_split") => Self::Split(place()?),
            ("block", "block_getrq") => Self::Getrq(place()?),
            ("block", "block_rq_insert") => Self::Insert(place()?),
            ("block", "block_rq_issue") => Self::Issue(span()?, format.accessor("bytes")),
            ("block", "block_rq_requeue") => Self::Requeue(span()?),
            ("block", "block_rq_complete") => Self::Complete(span()?),
            ("nvme" | "ufs" | "mmc" | "scsi", _) => Self::Driver,
            (system, name) if FILE_SYSTEMS.contains(&system) => {
                let dev = format.accessor("dev")?;
                let inode = format.accessor("ino")?;
                if LEAVES.contains(&name) {
                    Self::Leave(dev)
                } else {
                    Self::Inode(dev, inode)
                }
            }
            _ => return None,
        })
    }
}

/// The translation of a trace.
#[derive(Debug)]
pub(crate) struct Steps {
    binding: Binding,
    header: Header,
    /// By number of the event.
    plans: Vec<Option<Plan>>,
}

impl Steps {
    /// `None` when the trace has no event formats at all.
    pub(crate) fn new(trace: &Trace) -> Option<Self> {
        let binding = Binding::new(trace)?;
        let mut plans = Vec::new();
        for format in trace.formats() {
            let id = usize::from(format.id);
            if plans.len() <= id {
                plans.resize(id + 1, None);
            }
            if let Some(slot) = plans.get_mut(id) {
                *slot = Plan::new(format);
            }
        }
        let header = binding.header;
        Some(Self {
            binding,
            header,
            plans,
        })
    }

    /// The task and the step of a record; `None` when it tells nothing.
    #[inline]
    pub(crate) fn read(&self, record: &Record<'_>) -> Option<(i32, Step)> {
        let (id, pid) = self.header.read(record.data);
        let plan = self.plans.get(usize::from(id))?.as_ref()?;
        Some((pid, self.step(plan, record)?))
    }

    fn step(&self, plan: &Plan, record: &Record<'_>) -> Option<Step> {
        let data = record.data;
        Some(match plan {
            Plan::BioQueue(fields) => Step::BioQueue(fields.read(data)?),
            Plan::BioComplete(fields) => Step::BioComplete(fields.read(data)?),
            Plan::Remap(to, from) => Step::Remap(to.read(data)?, from.read(data)?),
            Plan::RequestRemap(to, from) => Step::RequestRemap(to.read(data)?, from.read(data)?),
            Plan::Split(fields) => of_place(fields, data, Step::Split)?,
            Plan::Getrq(fields) => of_place(fields, data, Step::Getrq)?,
            Plan::Insert(fields) => of_place(fields, data, Step::Insert)?,
            Plan::Issue(fields, bytes) => {
                let bytes = bytes.and_then(|field| field.uint(data));
                Step::Issue(fields.read(data)?, bytes.map_or(0, |n| n as u32))
            }
            Plan::Requeue(fields) => Step::Requeue(fields.read(data)?),
            Plan::Complete(fields) => Step::Complete(fields.read(data)?),
            Plan::Inode(on, inode) => Step::Inode(dev(on.uint(data)?), inode.uint(data)?),
            Plan::Leave(on) => Step::Inode(dev(on.uint(data)?), 0),
            Plan::Driver => match self.binding.event(record).kind {
                Kind::NvmeSetup(tag) => Step::Setup(tag),
                Kind::Send(driver, tag) => Step::Send(tag, driver == iosections::Driver::Scsi),
                Kind::Done(_, tag) => Step::Done(tag),
                _ => return None,
            },
        })
    }
}

fn of_place(fields: &PlaceFields, data: &[u8], step: fn(Dev, u64) -> Step) -> Option<Step> {
    let (dev, sector) = fields.read(data)?;
    Some(step(dev, sector))
}

/// The step of an event of blktrace's.
pub(crate) fn of_blktrace(event: &blktrace::Event<'_>) -> Option<Step> {
    let on = dev(u64::from(event.dev));
    let span = Span {
        dev: on,
        sector: event.sector,
        sectors: event.bytes >> 9,
        rwbs: rwbs(event),
    };
    Some(match event.act {
        Act::Queue => Step::BioQueue(span),
        Act::GetRq => Step::Getrq(on, event.sector),
        Act::Insert => Step::Insert(on, event.sector),
        Act::Issue => Step::Issue(span, event.bytes),
        Act::Requeue => Step::Requeue(span),
        Act::Complete => Step::CompleteAny(span),
        Act::Split => Step::Split(on, event.sector),
        Act::Remap => {
            let remap = event.remap()?;
            let from = (dev(u64::from(remap.from)), remap.sector);
            let to = dev(u64::from(remap.to));
            Step::Remap(Span { dev: to, ..span }, from)
        }
        _ => return None,
    })
}
