//! Flushes of a device's cache: requests without sectors, for the bios that wait for one.

use crate::block::{Block, Completed};
use crate::event::Span;
use crate::request::Parts;

impl Block {
    /// The bios that a new flush serves.
    pub(crate) fn take_flushers(&mut self, device: usize, parts: &mut Parts) {
        let Some(on) = self.devices.get_mut(device) else {
            return;
        };
        let bios = &mut self.bios;
        let mut written = Parts::new();
        for &at in &on.flushes {
            match bios.get(at) {
                Some(b) if b.flushing => {}
                Some(b) if b.needs_flush => parts.push(at),
                Some(b) if b.span.rwbs.fua() && b.to_finish == 0 => written.push(at),
                _ => {}
            }
        }
        if parts.is_empty() && !written.is_empty() {
            on.flush_after = true;
        }
        if on.flush_after {
            parts.append(&mut written);
        }
        for &at in &*parts {
            if let Some(bio) = bios.get_mut(at) {
                bio.flushing = true;
            }
        }
        // What is finished and got no further flush will get none.
        on.flushes.retain(|&at| {
            let keep = bios
                .get(at)
                .is_some_and(|b| b.flushing || b.needs_flush || b.to_finish > 0);
            if !keep {
                bios.remove(at);
            }
            keep
        });
    }

    /// `block_rq_complete` without sectors and without a request: the end of a flush bio.
    pub(crate) fn flush_end(&mut self, device: usize, span: &Span) -> Completed {
        let Some(on) = self.devices.get_mut(device) else {
            return Completed::Nothing;
        };
        let place = on.flushes.iter().position(|&at| {
            self.bios.get(at).is_some_and(|b| {
                b.span.rwbs.op() == span.rwbs.op()
                    && !b.needs_flush
                    && b.to_finish == 0
                    && (b.span.sectors == 0 || b.span.sector == span.sector)
            })
        });
        let Some(at) = place.and_then(|place| on.flushes.remove(place)) else {
            return Completed::Nothing;
        };
        let io = self.bios.remove(at).and_then(|bio| bio.io);
        io.map_or(Completed::Nothing, Completed::FlushEnd)
    }
}
