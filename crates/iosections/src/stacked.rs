//! Stacked devices: a bio of one device becomes one of another.

use crate::block::{Block, IoBio};
use crate::event::Dev;
use crate::slab::Ref;

impl Block {
    /// The oldest bio that waits with this first sector.
    #[inline(never)]
    pub(crate) fn waiting_at(&mut self, dev: Dev, sector: u64) -> Option<Ref> {
        if !self.knows(dev) && !self.aliases.contains_key(&dev) {
            return None;
        }
        let device = self.device(dev)?;
        self.devices.get(device)?.waiting.at(sector).next()
    }

    /// A bio of a stacked device becomes one of the device below. `None` without such a bio.
    pub(crate) fn remapped(&mut self, from: (Dev, u64), to: (Dev, u64)) -> Option<Ref> {
        let at = match self.waiting_at(from.0, from.1) {
            Some(at) => at,
            None => self.flush_at(from)?,
        };
        let (above, below) = (self.device(from.0)?, self.device(to.0)?);
        let bio = self.bios.get_mut(at)?;
        let on = self.devices.get_mut(above)?;
        on.waiting.remove((bio.span.sector, bio.serial));
        let flushes = on.flushes.iter().position(|&f| f == at);
        let flushes = flushes.and_then(|place| on.flushes.remove(place));
        on.out.bios = on.out.bios.saturating_sub(1);
        (bio.span.dev, bio.span.sector) = to;
        let (key, sectors) = ((bio.span.sector, bio.serial), bio.span.sectors);
        let on = self.devices.get_mut(below)?;
        on.out.bios += 1;
        on.flushes.extend(flushes);
        if sectors > 0 {
            on.waiting.insert(key, at);
            on.longest = on.longest.max(u64::from(sectors));
        }
        Some(at)
    }

    /// The youngest bio of a device that is a flush and nothing else.
    fn flush_at(&mut self, (dev, sector): (Dev, u64)) -> Option<Ref> {
        if !self.knows(dev) {
            return None;
        }
        let device = self.device(dev)?;
        let bios = &self.bios;
        let bare = |at: &&Ref| {
            let bio = bios.get(**at);
            bio.is_some_and(|b| b.span.sectors == 0 && b.span.sector == sector && !b.flushing)
        };
        self.devices
            .get(device)?
            .flushes
            .iter()
            .rev()
            .find(bare)
            .copied()
    }

    /// A bio goes on as another one: its place in an I/O.
    pub(crate) fn replaced(&mut self, at: Ref) -> Option<IoBio> {
        let bio = self.bios.remove(at)?;
        let device = self.device(bio.span.dev)?;
        let on = self.devices.get_mut(device)?;
        on.waiting.remove((bio.span.sector, bio.serial));
        on.out.bios = on.out.bios.saturating_sub(1);
        bio.io
    }
}
