//! Damaged, cut-off and hostile files: gaps are told, everything else is read.
#![allow(missing_docs, clippy::unwrap_used, clippy::pedantic)]

mod common;

use blktrace::{Lost, Reason};
use common::{PLAIN, Rec, Seen, entries, file, shapes};
use proptest::prelude::*;

fn many(cpu: u32, count: u32) -> Vec<Rec> {
    let record = |n| Rec::queue(cpu, n, u64::from(n) * 10);
    (1..=count).map(record).collect()
}

fn sequences(seen: &[Seen]) -> Vec<u32> {
    let sequence = |s: &Seen| match s {
        Seen::Event(_, _, sequence, _) => Some(*sequence),
        _ => None,
    };
    seen.iter().filter_map(sequence).collect()
}

fn losses(seen: &[Seen]) -> Vec<Lost> {
    seen.iter().filter_map(Seen::lost).collect()
}

#[test]
fn a_gap_in_the_sequence() {
    let mut records = many(0, 6);
    records.drain(2..4);
    let seen = entries(vec![(0, file(&PLAIN, &records))]);
    let gap = Lost {
        cpu: 0,
        from: Some(20),
        to: 50,
        count: Some(2),
        reason: Reason::Sequence,
        offset: 96,
    };
    assert_eq!(losses(&seen), [gap]);
    assert_eq!(seen[2], Seen::Lost(gap));
}

#[test]
fn the_start_of_a_file_is_missing() {
    let seen = entries(vec![(0, file(&PLAIN, &many(0, 9)[4..]))]);
    let lost = losses(&seen)[0];
    assert_eq!((lost.from, lost.to, lost.count), (None, 50, Some(4)));
    assert_eq!(seen[0], Seen::Lost(lost));
}

#[test]
fn the_sequence_wraps_and_unnumbered_events_pass() {
    let numbers = [u32::MAX - 1, u32::MAX, 0, 1, 0, 0];
    let records: Vec<Rec> = (1..)
        .zip(numbers)
        .map(|(ts, n)| Rec::queue(0, n, ts))
        .collect();
    let seen = entries(vec![(0, file(&PLAIN, &records))]);
    assert_eq!(losses(&seen).len(), 1, "only the start: {seen:?}");
    let other_cpu = [
        Rec::queue(0, 1, 1),
        Rec::queue(5, 900, 2),
        Rec::queue(0, 2, 3),
    ];
    assert!(losses(&entries(vec![(0, file(&PLAIN, &other_cpu))])).is_empty());
}

#[test]
fn a_gap_comes_before_later_events_of_other_cpus() {
    let mut cpu0 = many(0, 4);
    cpu0.drain(1..3);
    let cpu1: Vec<Rec> = (1..=30)
        .map(|n| Rec::queue(1, n, 11 + u64::from(n)))
        .collect();
    let seen = entries(vec![(0, file(&PLAIN, &cpu0)), (1, file(&PLAIN, &cpu1))]);
    assert!(matches!(seen[0], Seen::Event(0, 10, ..)));
    assert!(matches!(seen[1], Seen::Lost(lost) if lost.from == Some(10) && lost.to == 40));
}

#[test]
fn bytes_that_are_no_record() {
    for shape in shapes() {
        let records = many(0, 20);
        let size = records[0].write(&shape).len();
        let mut bytes = file(&shape, &records);
        bytes[5 * size..7 * size + 9].fill(0);
        let seen = entries(vec![(0, bytes)]);
        let lost = losses(&seen);
        assert_eq!(lost.len(), 1, "{seen:?}");
        assert_eq!((lost[0].reason, lost[0].count), (Reason::Damaged, Some(3)));
        assert_eq!((lost[0].from, lost[0].to), (Some(50), 90));
        let mut wanted: Vec<u32> = (1..=20).collect();
        wanted.drain(5..8);
        assert_eq!(sequences(&seen), wanted);
    }
}

#[test]
fn a_file_that_is_damaged_at_its_start_is_read_like_the_others() {
    let mut bytes = file(&PLAIN, &many(0, 5));
    bytes[0] = 0;
    let seen = entries(vec![(0, bytes), (1, file(&PLAIN, &many(1, 5)))]);
    assert_eq!(sequences(&seen).len(), 9);
    assert_eq!(losses(&seen)[0].count, Some(1));
}

#[test]
fn records_from_before_their_predecessors_are_left_out() {
    let mut records = many(0, 6);
    records[2].ts = 5;
    records[3].ts = 6;
    let seen = entries(vec![(0, file(&PLAIN, &records))]);
    assert_eq!(sequences(&seen), [1, 2, 5, 6]);
    let lost = losses(&seen)[0];
    assert_eq!((lost.reason, lost.count), (Reason::BackInTime, Some(2)));
}

#[test]
fn cut_off_at_every_byte() {
    for shape in shapes() {
        let mut records = many(0, 3);
        records[1].pdu = vec![7; 20];
        let bytes = file(&shape, &records);
        let ends: Vec<usize> = (0..=3).map(|n| file(&shape, &records[..n]).len()).collect();
        for cut in 4..=bytes.len() {
            let seen = entries(vec![(0, bytes[..cut].to_vec())]);
            let whole = ends.iter().filter(|&&end| end <= cut).count() - 1;
            assert_eq!(sequences(&seen).len(), whole, "cut at {cut}");
            let lost = losses(&seen);
            assert_eq!(lost.is_empty(), ends.contains(&cut), "cut at {cut}");
            if let Some(lost) = lost.first() {
                assert_eq!((lost.reason, lost.to), (Reason::CutOff, u64::MAX));
            }
        }
    }
}

#[test]
fn headers_that_all_state_a_long_pdu() {
    // The look-ahead of every one of them must not move the buffer.
    let mut record = Rec::queue(0, 1, 1).write(&PLAIN);
    record[46..48].fill(0xff);
    let bytes = [vec![7], record.repeat(100_000)].concat();
    let mut first = file(&PLAIN, &many(1, 1));
    first.truncate(48);
    let seen = entries(vec![(0, bytes), (1, first)]);
    assert!(sequences(&seen).len() <= 100_001);
}

proptest! {
    /// Overwriting bytes inside some records changes nothing but those and what their pdu_len covers.
    #[test]
    fn damage_stays_where_it_is(at in 0_usize..100, count in 1_usize..20, byte in any::<u8>()) {
        let records = many(0, 120);
        let mut bytes = file(&PLAIN, &records);
        bytes[at * 48..(at + count) * 48].fill(byte);
        let seen = entries(vec![(0, bytes), (1, file(&PLAIN, &many(1, 1)))]);
        let mut wanted: Vec<u32> = (1..=120).collect();
        wanted.drain(at..at + count);
        let mut got = sequences(&seen);
        got.remove(got.iter().position(|&n| n == 1).unwrap()); // that of CPU 1
        prop_assert_eq!(got, wanted);
        prop_assert_eq!(losses(&seen)[0].count, Some(count as u64));
    }

    /// No bytes make it panic, hang or go back in time.
    #[test]
    fn any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..600), big in any::<bool>(),
                 magics in proptest::collection::vec(0_usize..600, 0..12)) {
        let magic: [u8; 4] = if big { [0x65, 0x61, 0x74, 7] } else { [7, 0x74, 0x61, 0x65] };
        for at in magics.into_iter().chain([0]) {
            if let Some(place) = bytes.get_mut(at..at + 4) {
                place.copy_from_slice(&magic);
            }
        }
        let Ok(mut run) = blktrace::Run::from_bytes(vec![(0, bytes.clone()), (1, bytes)]) else {
            return Ok(());
        };
        let mut last = 0;
        while let Some(entry) = run.next().unwrap() {
            let ts = match entry {
                blktrace::Entry::Event(event) => event.ts,
                blktrace::Entry::Note(note) => note.ts,
                blktrace::Entry::Lost(_) => continue,
            };
            prop_assert!(ts >= last);
            last = ts;
        }
    }
}
