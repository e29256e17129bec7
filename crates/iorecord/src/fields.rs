//! The fields of block events, and those that all events have.

use iosections::{Dev, Rwbs, Span};
use tracedat::{Accessor, EventFormat};

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

    /// Each field comes in a register: put together in memory, and taken from there at once, they
    /// would wait for each other.
    #[inline(always)]
    #[allow(clippy::inline_always)] // as above
    pub(crate) fn read(&self, record: &[u8]) -> Option<Span> {
        let quick = || {
            let ([dev, sector, sectors, rwbs], head) = (self.plain?, record.first_chunk::<HEAD>()?);
            // Longer letters than eight end the quick way.
            let rwbs = Rwbs::short(array(head, rwbs))?;
            let (dev, sectors) = (array(head, dev), array(head, sectors));
            let (dev, sectors) = (u32::from_ne_bytes(dev), u32::from_ne_bytes(sectors));
            Some((dev, u64::from_ne_bytes(array(head, sector)), sectors, rwbs))
        };
        let (device, sector, sectors, rwbs) = match quick() {
            Some(found) => found,
            None => (
                number(&self.dev, record)? as u32,
                number(&self.sector, record)?,
                number(&self.sectors, record)? as u32,
                Rwbs::new(self.rwbs.bytes(record)?),
            ),
        };
        Some(Span {
            dev: dev(u64::from(device)),
            sector,
            sectors,
            rwbs,
        })
    }
}

/// The rare way to a number.
#[cold]
#[inline(never)]
fn number(field: &Accessor, record: &[u8]) -> Option<u64> {
    field.uint(record)
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

    #[cold]
    fn read_any(&self, record: &[u8]) -> Option<(Dev, u64)> {
        Some((dev(self.dev.uint(record)?), self.sector.uint(record)?))
    }
}

/// Whether pages are a file's on a disk: `s_dev` of a file system in memory, and of the block
/// devices' own pages (ext4's metadata), has no major number.
pub(crate) fn is_of_disk(s_dev: u64) -> bool {
    dev(s_dev).major != 0
}

/// The fields of `mm_filemap_get_pages`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PagesFields {
    s_dev: Accessor,
    first: Accessor,
    last: Accessor,
}

impl PagesFields {
    pub(crate) fn new(format: &EventFormat) -> Option<Self> {
        Some(Self {
            s_dev: format.accessor("s_dev")?,
            first: format.accessor("index")?,
            last: format.accessor("last_index")?,
        })
    }

    pub(crate) fn reach(&self) -> Option<usize> {
        reach(&[&self.s_dev, &self.first, &self.last])
    }

    /// The device, as in [`is_of_disk`], and how many bytes the pages have, each of 4 KiB.
    pub(crate) fn read(&self, record: &[u8]) -> Option<(u64, i64)> {
        let (first, last) = (self.first.uint(record)?, self.last.uint(record)?);
        let pages = last.checked_sub(first)?.saturating_add(1);
        let bytes = i64::try_from(pages.saturating_mul(4096)).ok()?;
        Some((self.s_dev.uint(record)?, bytes))
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
        self.read_any(record)
    }

    #[cold]
    fn read_any(&self, record: &[u8]) -> (u16, i32) {
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
