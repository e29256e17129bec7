//! Translates records of a trace to events of the measurement, by the formats of the trace.

use iosections::{Call, Class, Driver, Event, Kind, Op};
use tracedat::{Accessor, EventFormat, Record, Trace};

use crate::drivers::{MmcFields, NvmeFields, ScsiFields, UfsFields, UringKey};
use crate::fields::{Header, PagesFields, PlaceFields, SpanFields, dev, is_of_disk, reach};

/// `IORING_ENTER_GETEVENTS`.
const GETEVENTS: u64 = 1;
/// `IORING_ENTER_SQ_WAKEUP`.
const SQ_WAKEUP: u64 = 2;

/// How one event is translated.
#[derive(Debug, Clone)]
pub(crate) enum Decode {
    Enter(Op),
    Exit(Op, Accessor),
    Reaped(Accessor),
    FsBegin,
    DioComplete,
    Begins(Op),
    PageAdd(Accessor),
    PagesGot(PagesFields),
    SyncExit,
    IoDone,
    QueueReturn,
    IrqEntry(Option<Accessor>),
    IrqExit,
    SoftirqExit,
    CallEnter(Call, Accessor),
    UringEnter(Accessor, Accessor),
    CallExit(Call, Accessor),
    UringSubmit(UringKey, Option<Accessor>),
    UringPunt(Accessor),
    UringComplete(UringKey),
    BioQueue(SpanFields),
    Issue(SpanFields),
    Requeue(SpanFields),
    Complete(SpanFields),
    Remap(PlaceFields, PlaceFields),
    Getrq(PlaceFields),
    Insert(PlaceFields),
    Split(Accessor),
    Merge(Accessor),
    NvmeSetup(NvmeFields),
    NvmeSq(NvmeFields),
    NvmeComplete(NvmeFields),
    Ufs(Box<UfsFields>),
    MmcStart(MmcFields),
    MmcDone(MmcFields),
    ScsiStart(ScsiFields),
    ScsiDone(ScsiFields),
    SoftirqEntry(Accessor),
    Waking(Accessor),
    Switch {
        state: Option<Accessor>,
        next: Accessor,
    },
}

impl Decode {
    /// The translation of an event, if it matters and its fields are there.
    fn new(format: &EventFormat, uring_requests: bool) -> Option<Self> {
        let name = format.name.as_str();
        Some(match (format.system.as_str(), name) {
            ("syscalls", _) => return Self::syscall(format),
            ("block", _) => return Self::block(format),
            ("nvme", "nvme_setup_cmd") => Self::NvmeSetup(NvmeFields::new(format)),
            ("nvme", "nvme_sq") => Self::NvmeSq(NvmeFields::new(format)),
            ("nvme", "nvme_complete_rq") => Self::NvmeComplete(NvmeFields::new(format)),
            ("ufs", "ufshcd_command") => Self::Ufs(Box::new(UfsFields::new(format)?)),
            ("mmc", "mmc_request_start") => Self::MmcStart(MmcFields::new(format)?),
            ("mmc", "mmc_request_done") => Self::MmcDone(MmcFields::new(format)?),
            ("scsi", "scsi_dispatch_cmd_start") => Self::ScsiStart(ScsiFields::new(format)?),
            ("scsi", "scsi_dispatch_cmd_done") => {
                // Without a tag it cannot be told whose command is done.
                Self::ScsiDone(ScsiFields::new(format).filter(ScsiFields::has_tag)?)
            }
            // `_sqe` to 6.2, `_req` from 6.5.
            ("io_uring", "io_uring_submit_req" | "io_uring_submit_sqe") => Self::UringSubmit(
                UringKey::new(format, uring_requests)?,
                format.accessor("req"),
            ),
            ("io_uring", "io_uring_queue_async_work") => Self::UringPunt(format.accessor("req")?),
            ("io_uring", "io_uring_complete") => {
                Self::UringComplete(UringKey::new(format, uring_requests)?)
            }
            (_, "iomap_dio_rw_begin") => Self::FsBegin,
            (_, "iomap_dio_complete") => Self::DioComplete,
            ("filemap", "mm_filemap_add_to_page_cache") => Self::PageAdd(format.accessor("s_dev")?),
            ("filemap", "mm_filemap_get_pages") => Self::PagesGot(PagesFields::new(format)?),
            ("ext4", "ext4_da_write_begin") => Self::Begins(Op::PageWrite),
            ("ext4", "ext4_sync_file_enter") => Self::Begins(Op::Fsync),
            ("ext4", "ext4_sync_file_exit") => Self::SyncExit,
            ("irq", "irq_handler_entry") => Self::IrqEntry(format.accessor("irq")),
            ("irq", "irq_handler_exit") => Self::IrqExit,
            ("irq", "softirq_entry") => Self::SoftirqEntry(format.accessor("vec")?),
            ("irq", "softirq_exit") => Self::SoftirqExit,
            ("sched", "sched_waking") => Self::Waking(format.accessor("pid")?),
            ("sched", "sched_switch") => Self::Switch {
                state: format.accessor("prev_state"),
                next: format.accessor("next_pid")?,
            },
            ("iotoll", _) if is_queue_return(name) => Self::QueueReturn,
            _ => return None,
        })
    }

    fn block(format: &EventFormat) -> Option<Self> {
        Some(match format.name.as_str() {
            "block_bio_queue" => Self::BioQueue(SpanFields::new(format)?),
            "block_rq_issue" => Self::Issue(SpanFields::new(format)?),
            "block_rq_requeue" => Self::Requeue(SpanFields::new(format)?),
            "block_rq_complete" => Self::Complete(SpanFields::new(format)?),
            "block_bio_remap" => Self::Remap(
                PlaceFields::new(format, "old_dev", "old_sector")?,
                PlaceFields::new(format, "dev", "sector")?,
            ),
            "block_getrq" => Self::Getrq(PlaceFields::new(format, "dev", "sector")?),
            "block_rq_insert" => Self::Insert(PlaceFields::new(format, "dev", "sector")?),
            "block_io_done" => Self::IoDone,
            "block_split" => Self::Split(format.accessor("dev")?),
            "block_bio_backmerge" | "block_bio_frontmerge" | "block_rq_merge" => {
                Self::Merge(format.accessor("dev")?)
            }
            _ => return None,
        })
    }

    fn syscall(format: &EventFormat) -> Option<Self> {
        if let Some(name) = format.name.strip_prefix("sys_enter_") {
            return Some(match name {
                "io_submit" => Self::CallEnter(Call::Submit, format.accessor("nr")?),
                "io_uring_enter" => {
                    let flags = format.accessor("flags")?;
                    Self::UringEnter(format.accessor("to_submit")?, flags)
                }
                _ => Self::Enter(Op::from_name(name)?),
            });
        }
        let name = format.name.strip_prefix("sys_exit_")?;
        Some(match name {
            "io_submit" => Self::CallExit(Call::Submit, format.accessor("ret")?),
            "io_uring_enter" => Self::CallExit(Call::Uring, format.accessor("ret")?),
            "io_getevents" | "io_pgetevents" => Self::Reaped(format.accessor("ret")?),
            _ => Self::Exit(Op::from_name(name)?, format.accessor("ret")?),
        })
    }
}

impl Decode {
    /// What the kind of the event tells, whatever its fields hold.
    fn class(&self) -> Class {
        match self {
            Self::Getrq(_)
            | Self::Insert(_)
            | Self::Merge(_)
            | Self::Split(_)
            | Self::Remap(..)
            | Self::Waking(_) => Class::Noted,
            Self::IoDone => Class::IoDone,
            Self::FsBegin => Class::FsBegin,
            Self::DioComplete => Class::DioComplete,
            Self::SoftirqEntry(_) => Class::Softirq,
            Self::Begins(_) | Self::PageAdd(_) | Self::PagesGot(_) | Self::SyncExit => {
                Class::Uncalled
            }
            _ => Class::Boundary,
        }
    }

    /// Length (bytes) of the shortest record that can be translated for sure. Where it is not
    /// known, or more is to be done with the event, none is long enough.
    fn reach(&self) -> usize {
        let reach = match self {
            Self::Enter(_)
            | Self::Begins(_)
            | Self::SyncExit
            | Self::FsBegin
            | Self::DioComplete
            | Self::IoDone
            | Self::QueueReturn
            | Self::IrqEntry(None)
            | Self::IrqExit
            | Self::SoftirqExit
            | Self::NvmeSetup(_)
            | Self::NvmeSq(_)
            | Self::NvmeComplete(_) => Some(0),
            Self::Exit(_, field)
            | Self::Reaped(field)
            | Self::PageAdd(field)
            | Self::IrqEntry(Some(field))
            | Self::CallEnter(_, field)
            | Self::CallExit(_, field)
            | Self::UringPunt(field)
            | Self::Split(field)
            | Self::Merge(field)
            | Self::SoftirqEntry(field)
            | Self::Waking(field) => field.reach(),
            Self::UringEnter(count, flags) => reach(&[count, flags]),
            Self::UringSubmit(key, _) | Self::UringComplete(key) => key.reach(),
            Self::BioQueue(fields)
            | Self::Issue(fields)
            | Self::Requeue(fields)
            | Self::Complete(fields) => fields.reach(),
            Self::Remap(from, to) => {
                let both = from.reach().zip(to.reach());
                both.map(|(from, to)| from.max(to))
            }
            Self::Getrq(fields) | Self::Insert(fields) => fields.reach(),
            Self::PagesGot(fields) => fields.reach(),
            Self::ScsiStart(fields) | Self::ScsiDone(fields) => fields.reach(),
            Self::Ufs(_) | Self::MmcStart(_) | Self::MmcDone(_) | Self::Switch { .. } => None,
        };
        reach.unwrap_or(usize::MAX)
    }
}

/// How one event is translated and passed.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Records of at least this length (bytes) are translated for sure, by `decode`.
    pub(crate) reach: usize,
    pub(crate) class: Class,
    decode: Decode,
}

impl Plan {
    fn new(decode: Decode) -> Self {
        Self {
            reach: decode.reach(),
            class: decode.class(),
            decode,
        }
    }

    /// Calls `take` with what an event tells; `None` when its fields are not there.
    ///
    /// Each kind has a call of its own, so that `take`, when inlined, need not ask for the kind.
    #[inline(always)]
    #[allow(clippy::inline_always)] // worth nothing otherwise
    pub(crate) fn tell<R>(&self, data: &[u8], take: impl Take<R>) -> Option<R> {
        decode(&self.decode, data, take)
    }
}

/// `queue_rq_return`, or the like for `queue_rqs`.
pub(crate) fn is_queue_return(name: &str) -> bool {
    name.starts_with("queue_rq") && name.ends_with("return")
}

/// Takes what an event tells. A trait, since a closure cannot be made to be inlined.
pub(crate) trait Take<R> {
    fn take(self, kind: Kind) -> R;
}

/// Just tells.
struct Tell;

impl Take<Kind> for Tell {
    fn take(self, kind: Kind) -> Kind {
        kind
    }
}

/// The translation of a whole trace.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) header: Header,
    /// By number of the event.
    plans: Vec<Option<Plan>>,
    /// Number of `sched_switch`, and its field with the next task's name.
    switch: Option<(u16, Accessor)>,
}

impl Binding {
    /// `None` when the trace has no event formats at all.
    pub(crate) fn new(trace: &Trace) -> Option<Self> {
        let first = trace.formats().first()?;
        // The address of the request came with 5.15; without it in one event, none is linked by it.
        let without = |f: &EventFormat| {
            let name = f.name.as_str();
            let linked = matches!(name, "io_uring_submit_req" | "io_uring_submit_sqe")
                || name == "io_uring_complete";
            f.system == "io_uring" && linked && f.accessor("req").is_none()
        };
        let uring_requests = !trace.formats().iter().any(without);
        let mut plans = Vec::new();
        for format in trace.formats() {
            let id = usize::from(format.id);
            if plans.len() <= id {
                plans.resize(id + 1, None);
            }
            if let (Some(decode), Some(slot)) =
                (Decode::new(format, uring_requests), plans.get_mut(id))
            {
                *slot = Some(Plan::new(decode));
            }
        }
        let switch = trace.format("sched", "sched_switch");
        Some(Self {
            header: Header::new(first)?,
            plans,
            switch: switch.and_then(|f| Some((f.id, f.accessor("next_comm")?))),
        })
    }

    /// Translates one record. An event that is too short for its format counts as any other.
    pub(crate) fn event(&self, record: &Record<'_>) -> Event {
        let (name, pid) = self.header.read(record.data);
        Event {
            ts: record.ts,
            cpu: record.cpu,
            pid,
            name,
            kind: self
                .plan(name)
                .and_then(|plan| plan.tell(record.data, Tell))
                .unwrap_or(Kind::Other),
        }
    }

    /// How an event of this number is translated; `None` when it tells nothing.
    #[inline]
    pub(crate) fn plan(&self, name: u16) -> Option<&Plan> {
        self.plans.get(usize::from(name))?.as_ref()
    }

    /// The name of the task that a `sched_switch` goes to.
    pub(crate) fn next_comm<'r>(&self, name: u16, data: &'r [u8]) -> Option<&'r [u8]> {
        let (id, comm) = self.switch?;
        (id == name).then(|| comm.text(data))?
    }
}

#[inline(always)]
#[allow(clippy::inline_always)] // as `Plan::tell`
fn decode<R>(decoder: &Decode, data: &[u8], taker: impl Take<R>) -> Option<R> {
    Some(match decoder {
        Decode::Enter(op) => taker.take(Kind::SyscallEnter(*op)),
        Decode::Reaped(ret) => taker.take(Kind::Reaped(ret.int(data)?)),
        Decode::FsBegin => taker.take(Kind::FsBegin),
        Decode::DioComplete => taker.take(Kind::DioComplete),
        Decode::Begins(op) => taker.take(Kind::Begins(*op)),
        Decode::PageAdd(dev) => taker.take(if is_of_disk(dev.uint(data)?) {
            Kind::Begins(Op::PageRead)
        } else {
            Kind::Other
        }),
        Decode::PagesGot(fields) => taker.take(match fields.read(data)? {
            (dev, bytes) if is_of_disk(dev) => Kind::PagesGot(bytes),
            _ => Kind::Other,
        }),
        Decode::SyncExit => taker.take(Kind::SyncExit),
        Decode::IoDone => taker.take(Kind::IoDone),
        Decode::QueueReturn => taker.take(Kind::QueueReturn),
        Decode::IrqEntry(number) => {
            let number = number.and_then(|field| field.uint(data));
            taker.take(Kind::IrqEntry(number.map_or(u32::MAX, |n| n as u32)))
        }
        Decode::IrqExit => taker.take(Kind::IrqExit),
        Decode::SoftirqExit => taker.take(Kind::SoftirqExit),
        Decode::Exit(op, ret) => taker.take(Kind::SyscallExit(*op, ret.int(data)?)),
        // The kernel passes arguments as long; these two are 32 bits wide.
        Decode::CallEnter(call, count) => {
            taker.take(Kind::CallEnter(*call, count.uint(data)? as u32, false))
        }
        Decode::UringEnter(count, flags) => {
            // A call that wakes a submission thread submits nothing by itself.
            let flags = flags.uint(data)?;
            let wakes = flags & SQ_WAKEUP != 0;
            let count = if wakes { 0 } else { count.uint(data)? as u32 };
            taker.take(Kind::CallEnter(Call::Uring, count, flags & GETEVENTS != 0))
        }
        Decode::CallExit(call, ret) => taker.take(Kind::CallExit(*call, ret.int(data)?)),
        Decode::UringSubmit(key, request) => {
            let request = request.and_then(|a| a.uint(data));
            taker.take(Kind::UringSubmit(key.read(data)?, request))
        }
        Decode::UringPunt(request) => taker.take(Kind::UringPunt(request.uint(data)?)),
        Decode::UringComplete(request) => taker.take(Kind::UringComplete(request.read(data)?)),
        Decode::BioQueue(fields) => taker.take(Kind::BioQueue(fields.read(data)?)),
        Decode::Issue(fields) => taker.take(Kind::Issue(fields.read(data)?)),
        Decode::Requeue(fields) => taker.take(Kind::Requeue(fields.read(data)?)),
        Decode::Complete(fields) => taker.take(Kind::Complete(fields.read(data)?)),
        Decode::Remap(from, to) => taker.take(Kind::Remap {
            from: from.read(data)?,
            to: to.read(data)?,
        }),
        Decode::Getrq(fields) => {
            let (dev, at) = fields.read(data)?;
            taker.take(Kind::Getrq(dev, at))
        }
        Decode::Insert(fields) => {
            let (dev, at) = fields.read(data)?;
            taker.take(Kind::Insert(dev, at))
        }
        Decode::Split(field) => taker.take(Kind::Split(dev(field.uint(data)?))),
        Decode::Merge(field) => taker.take(Kind::Merge(dev(field.uint(data)?))),
        Decode::NvmeSetup(fields) => taker.take(Kind::NvmeSetup(fields.read(data))),
        Decode::NvmeSq(fields) => taker.take(Kind::NvmeSq(fields.read(data).host)),
        Decode::NvmeComplete(fields) => taker.take(Kind::Done(Driver::Nvme, fields.read(data))),
        Decode::Ufs(fields) => taker.take(fields.read(data)?),
        Decode::MmcStart(fields) => taker.take(Kind::Send(Driver::Mmc, fields.read(data)?)),
        Decode::MmcDone(fields) => taker.take(Kind::Done(Driver::Mmc, fields.read(data)?)),
        Decode::ScsiStart(fields) => taker.take(Kind::Send(Driver::Scsi, fields.read(data)?)),
        Decode::ScsiDone(fields) => taker.take(Kind::Done(Driver::Scsi, fields.read(data)?)),
        Decode::SoftirqEntry(vector) => taker.take(Kind::SoftirqEntry(vector.uint(data)? as u32)),
        Decode::Waking(pid) => taker.take(Kind::Waking(pid.int(data)? as i32)),
        Decode::Switch { state, next } => taker.take(Kind::Switch {
            // The low byte holds the sleeping states; above it is "preempted".
            blocked: state
                .and_then(|s| s.uint(data))
                .is_none_or(|s| s & 0xff != 0),
            next: next.int(data)? as i32,
        }),
    })
}
