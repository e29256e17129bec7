//! One row for every request, and for every bio of a device without requests.
//!
//! The [`Engine`](crate::Engine) measures what users asked for; this looks at the block layer alone,
//! and needs no event besides its own: write-back, journals, swap, kernel threads, passthrough, and
//! devices on devices (device mapper, md, zram, loop, `NVMe` multipath) all have rows. What no event
//! tells is absent from a row; nothing is inferred.
//!
//! Its memory depends on what is in flight (`blockstate`).

use crate::blockrow::{BlockRow, RowSink};
use crate::blockstate::{At, BlockRows};
use crate::event::{Dev, Span, Tag};

/// What an event tells of the block layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// `block_bio_queue`.
    BioQueue(Span),
    /// `block_bio_complete`: the end of a bio; of those that requests carry, too, on some kernels.
    BioComplete(Span),
    /// `block_bio_remap`: a bio (its place now) comes from another device or a partition.
    Remap(Span, (Dev, u64)),
    /// `block_rq_remap`: a request (its place now) comes from one of another device.
    RequestRemap(Span, (Dev, u64)),
    /// `block_split`: the bio goes on in two pieces.
    Split(Dev, u64),
    /// `block_getrq`.
    Getrq(Dev, u64),
    /// `block_rq_insert`.
    Insert(Dev, u64),
    /// `block_rq_issue`, with its bytes where the event has them.
    Issue(Span, u32),
    /// `block_rq_requeue`.
    Requeue(Span),
    /// `block_rq_complete`.
    Complete(Span),
    /// blktrace's C: of a request, or of a bio.
    CompleteAny(Span),
    /// A driver sets up the command of the request that it is given next.
    Setup(Tag),
    /// A driver sends the request that the task issued last; whether another one below it is still
    /// to do so, too.
    Send(Tag, bool),
    /// A driver reports the completion.
    Done(Tag),
    /// A file system names the inode that the task works on; 0: it is done with that.
    Inode(Dev, u64),
}

impl<S: RowSink> BlockRows<S> {
    /// Takes the next step.
    pub fn push(&mut self, at: At, step: &Step) {
        match *step {
            Step::BioQueue(span) => self.queue(at, span),
            Step::BioComplete(span) => _ = self.bio_complete(at, &span),
            Step::Remap(span, from) => self.remap(at, span, from),
            Step::RequestRemap(span, from) => self.request_remap(at, span, from),
            Step::Split(dev, sector) => self.split(dev, sector),
            Step::Getrq(dev, sector) => self.moment(dev, sector, |row| row.getrq = at.ts),
            Step::Insert(dev, sector) => self.moment(dev, sector, |row| row.insert = at.ts),
            Step::Issue(span, bytes) => self.issue(at, span, bytes),
            Step::Requeue(span) => self.requeue(&span),
            Step::Complete(span) => self.complete(at, &span, false),
            Step::CompleteAny(span) => self.complete(at, &span, true),
            Step::Setup(tag) => self.task(at).setup = Some((at.ts, tag)),
            Step::Send(tag, above) => self.send(at, tag, above),
            Step::Done(tag) => self.driver_done(at, tag),
            Step::Inode(dev, inode) => self.task(at).inode = (dev, inode),
        }
    }

    /// Events are missing: what is in flight goes as it is.
    pub fn gap(&mut self) {
        self.give_all(true);
    }

    /// Ends. Gives the sink, after what was still in flight.
    pub fn finish(mut self) -> S {
        self.give_all(false);
        self.sink
    }

    fn give_all(&mut self, lost: bool) {
        let mut left: Vec<BlockRow> = self.requests.drain().map(|live| live.row).collect();
        left.extend(
            self.bios
                .drain()
                .filter_map(super::blockstate::Bio::unissued),
        );
        left.sort_by_key(|row| (row.queued.max(row.issued), row.sector));
        for mut row in left {
            row.lost |= lost;
            self.sink.row(&row);
        }
        for disk in &mut self.disks {
            disk.waiting.clear();
            disk.live.clear();
        }
        self.ages.clear();
        self.tags.clear();
        self.tasks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blockrow::RowKind;
    use crate::rwbs::Rwbs;

    const DISK: Dev = Dev { major: 8, minor: 0 };
    const PART: Dev = Dev { major: 8, minor: 3 };

    #[derive(Debug, Default)]
    struct Kept(Vec<BlockRow>);

    impl RowSink for Kept {
        fn row(&mut self, row: &BlockRow) {
            self.0.push(*row);
        }
    }

    fn span(dev: Dev, sector: u64) -> Span {
        Span {
            dev,
            sector,
            sectors: 8,
            rwbs: Rwbs::new(b"W"),
        }
    }

    /// Steps one tick after the other, from 1 on.
    fn rows(steps: &[Step]) -> Vec<BlockRow> {
        let mut made = BlockRows::new(Kept::default());
        for (step, ts) in steps.iter().zip(1..) {
            made.push(
                At {
                    ts,
                    cpu: 2,
                    pid: 40,
                },
                step,
            );
        }
        made.finish().0
    }

    #[test]
    fn g4_1_a_request_needs_no_system_call() {
        let place = span(DISK, 100);
        let made = rows(&[
            Step::BioQueue(place),
            Step::Getrq(DISK, 100),
            Step::Issue(place, 4096),
            Step::Complete(place),
        ]);
        assert_eq!(made.len(), 1);
        let row = made[0];
        assert_eq!((row.kind, row.dev, row.pid), (RowKind::Request, DISK, 40));
        assert_eq!((row.bios, row.bytes), (1, 4096));
        assert_eq!((row.queued, row.getrq, row.issued, row.done), (1, 2, 3, 4));
        assert_eq!(
            (row.q2d(), row.d2c(), row.q2c()),
            (Some(2), Some(1), Some(3))
        );
    }

    #[test]
    fn g4_1_a_request_without_its_bio_has_no_time_of_queue() {
        let place = span(DISK, 100);
        let made = rows(&[Step::Issue(place, 4096), Step::Complete(place)]);
        assert_eq!(made.len(), 1);
        assert_eq!((made[0].bios, made[0].queued), (0, 0));
        assert_eq!((made[0].q2d(), made[0].d2c()), (None, Some(1)));
    }

    #[test]
    fn g4_3_a_remap_names_the_partition() {
        let place = span(DISK, 2148);
        let made = rows(&[
            Step::Remap(place, (PART, 100)),
            Step::BioQueue(place),
            Step::Issue(place, 4096),
            Step::Complete(place),
        ]);
        assert_eq!(made.len(), 1);
        assert_eq!((made[0].dev, made[0].part), (DISK, Some(PART)));
        assert_eq!((made[0].queued, made[0].q2c()), (2, Some(2)));
    }

    #[test]
    fn g4_4_md_on_a_partition_is_announced_by_the_disks_number() {
        let md = Dev { major: 9, minor: 0 };
        let (announced, place) = (span(DISK, 100), span(DISK, 2148));
        let made = rows(&[
            Step::BioQueue(span(md, 100)),
            Step::Remap(announced, (md, 100)),
            Step::Remap(place, (PART, 100)),
            Step::BioQueue(place),
            Step::Issue(place, 4096),
            Step::Complete(place),
            Step::BioComplete(span(md, 100)),
        ]);
        assert_eq!(made.len(), 2);
        let (request, bio) = (made[0], made[1]);
        assert_eq!((request.dev, request.part), (DISK, Some(PART)));
        assert_eq!(
            (request.top, request.top_queued, request.queued),
            (md, 1, 4)
        );
        assert_eq!(
            (bio.kind, bio.dev, bio.below),
            (RowKind::Bio, md, Some(DISK))
        );
        assert_eq!((bio.below_span, bio.done), ((2, 6), 7));
    }

    #[test]
    fn g4_1_a_passthrough_request_completes_at_no_place() {
        let rwbs = Rwbs::new(b"N");
        let at = |sector, sectors| Span {
            dev: DISK,
            sector,
            sectors,
            rwbs,
        };
        let made = rows(&[
            Step::Issue(at(0, 0), 4096),
            Step::Issue(at(0, 0), 512),
            Step::Complete(at(u64::MAX, 8)),
            Step::Complete(at(u64::MAX, 1)),
        ]);
        let ends: Vec<_> = made.iter().map(|r| (r.bytes, r.issued, r.done)).collect();
        assert_eq!(ends, [(4096, 1, 3), (512, 2, 4)]);
        assert!(made.iter().all(|r| !r.ambiguous && r.sector == u64::MAX));
    }

    #[test]
    fn g4_4_a_device_without_requests_has_rows_of_bios() {
        let place = span(DISK, 100);
        let made = rows(&[Step::BioQueue(place), Step::BioComplete(place)]);
        assert_eq!(made.len(), 1);
        assert_eq!((made[0].kind, made[0].q2c()), (RowKind::Bio, Some(1)));
    }

    #[test]
    fn g4_5_a_request_without_completion_has_no_end() {
        let place = span(DISK, 100);
        let made = rows(&[Step::BioQueue(place), Step::Issue(place, 4096)]);
        assert_eq!(made.len(), 1);
        assert_eq!(
            (made[0].done, made[0].d2c(), made[0].lost),
            (0, None, false)
        );
    }

    #[test]
    fn a_gap_marks_what_is_in_flight() {
        let place = span(DISK, 100);
        let mut made = BlockRows::new(Kept::default());
        let at = At {
            ts: 1,
            cpu: 0,
            pid: 1,
        };
        made.push(at, &Step::Issue(place, 4096));
        made.gap();
        made.push(at, &Step::Complete(place));
        let made = made.finish().0;
        assert!(made[0].lost && made[0].done == 0);
        assert_eq!((made[1].issued, made[1].done), (0, 1));
    }

    #[test]
    fn of_two_requests_of_one_place_neither_has_a_guessed_end() {
        let place = span(DISK, 100);
        let issue = Step::Issue(place, 4096);
        let complete = Step::Complete(place);
        let made = rows(&[issue, issue, complete, complete]);
        assert_eq!(made.len(), 2);
        assert!(made.iter().all(|row| row.ambiguous && row.done == 0));
    }
}
