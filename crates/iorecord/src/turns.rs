//! The turns of a board's CPUs, and where the trace's clock lies on the board's.
//!
//! A board with several CPUs writes which of them executed when, on its own clock. The trace's
//! clock counts as fast, from a later moment of the board's start: so the two differ by one number
//! for the whole boot. Nothing tells it, but each event of the trace must lie in a turn of its CPU:
//! few differences allow that for all events, and they lie close together.

use std::path::Path;
use std::sync::Arc;

use iosections::Turns;
use tracedat::{Entry, Trace};

use crate::error::Error;

const RECORD: usize = 16;

/// Differences that lie further apart than this are no answer: a turn lasts 10,000.
const WIDEST: u64 = 1_000;

#[derive(Debug, Clone, Copy)]
struct Turn {
    cpu: u32,
    begin: u64,
    end: u64,
}

/// Reads the turns that a board wrote, in the clock of its trace.
pub(crate) fn read(path: &Path, trace: &Trace) -> Result<Arc<Turns>, Error> {
    let wrong = |why: String| Error::Turns {
        path: path.to_owned(),
        why,
    };
    let bytes = std::fs::read(path).map_err(|e| wrong(e.to_string()))?;
    let all = decode(&bytes).map_err(|why| wrong(why.to_owned()))?;
    let mut fit = Fit::new(&all);
    let mut events = trace.events()?;
    while let Some(entry) = events.next()? {
        if let Entry::Event(record) = entry {
            fit.event(record.cpu, record.ts);
        }
    }
    let offset = fit.offset().map_err(|why| wrong(why.to_owned()))?;
    let shifted = all.iter().filter(|turn| turn.end > offset);
    let shifted = shifted.map(|t| (t.cpu, t.begin.saturating_sub(offset), t.end - offset));
    Ok(Arc::new(Turns::new(shifted)))
}

fn decode(bytes: &[u8]) -> Result<Vec<Turn>, &'static str> {
    if bytes.is_empty() || bytes.len() % RECORD != 0 {
        return Err("is cut off; run the boot again");
    }
    let mut turns = Vec::with_capacity(bytes.len() / RECORD);
    let mut last = 0;
    for record in bytes.chunks_exact(RECORD) {
        let mut numbers = record.chunks_exact(8).filter_map(|n| n.try_into().ok());
        let (Some(begin), Some(rest)) = (numbers.next(), numbers.next()) else {
            break;
        };
        let (begin, rest) = (u64::from_le_bytes(begin), u64::from_le_bytes(rest));
        let turn = Turn {
            cpu: (rest & 0xff) as u32,
            begin,
            end: begin.saturating_add(rest >> 8),
        };
        if begin < last || turn.end <= begin {
            return Err("has turns that overlap; run the boot again");
        }
        last = turn.end;
        turns.push(turn);
    }
    Ok(turns)
}

/// The differences between board and trace clock that all events so far allow.
struct Fit {
    cpus: Vec<Vec<(u64, u64)>>,
    /// First and last, rising and apart.
    allowed: Vec<(u64, u64)>,
    next: Vec<(u64, u64)>,
    events: u64,
}

impl Fit {
    fn new(turns: &[Turn]) -> Self {
        let mut cpus: Vec<Vec<(u64, u64)>> = Vec::new();
        for turn in turns {
            let cpu = turn.cpu as usize;
            if cpus.len() <= cpu {
                cpus.resize_with(cpu + 1, Vec::new);
            }
            if let Some(list) = cpus.get_mut(cpu) {
                list.push((turn.begin, turn.end));
            }
        }
        let end = turns.last().map_or(0, |turn| turn.end);
        Self {
            cpus,
            allowed: vec![(0, end)],
            next: Vec::new(),
            events: 0,
        }
    }

    fn event(&mut self, cpu: u32, ts: u64) {
        self.events += 1;
        let turns = self.cpus.get(cpu as usize).map_or(&[][..], Vec::as_slice);
        self.next.clear();
        for &(low, high) in &self.allowed {
            let first = turns.partition_point(|&(_, end)| end < ts.saturating_add(low));
            for &(begin, end) in turns.get(first..).unwrap_or_default() {
                if begin > ts.saturating_add(high) {
                    break;
                }
                let from = low.max(begin.saturating_sub(ts));
                let to = high.min(end.saturating_sub(ts));
                if from <= to && end >= ts {
                    self.next.push((from, to));
                }
            }
        }
        std::mem::swap(&mut self.allowed, &mut self.next);
    }

    fn offset(&self) -> Result<u64, &'static str> {
        let (Some(&(low, _)), Some(&(_, high))) = (self.allowed.first(), self.allowed.last())
        else {
            return Err(
                "does not belong to this trace: no difference of their clocks has each \
                        event in a turn of its CPU",
            );
        };
        if self.events == 0 || high - low > WIDEST {
            return Err("cannot be laid beside this trace: it has too few events");
        }
        Ok(low + (high - low) / 2)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)] // a test may panic
mod tests {
    use super::*;

    fn bytes(turns: &[(u32, u64, u64)]) -> Vec<u8> {
        let mut all = Vec::new();
        for &(cpu, begin, end) in turns {
            all.extend(begin.to_le_bytes());
            all.extend(((end - begin) << 8 | u64::from(cpu)).to_le_bytes());
        }
        all
    }

    /// Turns of three CPUs of uneven lengths, with idle times, and an event near each one's ends.
    fn board(offset: u64) -> (Vec<Turn>, Vec<(u32, u64)>) {
        let (mut turns, mut events, mut at) = (Vec::new(), Vec::new(), 5_000_000);
        for n in 0..3_000_u64 {
            let length = 500 + n * n * 7_919 % 9_500;
            let cpu = (n % 3) as u32;
            turns.push((cpu, at, at + length));
            if at > offset {
                events.push((cpu, at + 3 + n % 200 - offset));
                events.push((cpu, at + length - 2 - n % 150 - offset));
            }
            at += length + if n % 11 == 0 { n * 131 % 4_000 } else { 0 };
        }
        (decode(&bytes(&turns)).unwrap(), events)
    }

    #[test]
    fn the_difference_is_found_to_a_few_instructions() {
        let (turns, events) = board(5_123_457);
        let mut fit = Fit::new(&turns);
        for &(cpu, ts) in &events {
            fit.event(cpu, ts);
        }
        let found = fit.offset().unwrap();
        assert!(found.abs_diff(5_123_457) <= 5, "{found}");
    }

    #[test]
    fn turns_of_another_boot_fit_nowhere() {
        let (turns, events) = board(5_123_457);
        let mut fit = Fit::new(&turns);
        for &(cpu, ts) in &events {
            fit.event((cpu + u32::from(ts % 5 == 0)) % 3, ts);
        }
        assert!(fit.offset().unwrap_err().contains("does not belong"));
    }

    #[test]
    fn few_events_are_no_answer() {
        let (turns, events) = board(5_123_457);
        let mut fit = Fit::new(&turns);
        assert!(fit.offset().is_err());
        fit.event(events[0].0, events[0].1);
        assert!(fit.offset().unwrap_err().contains("too few"));
    }

    #[test]
    fn files_that_are_cut_off_or_wrong_are_refused() {
        let whole = bytes(&[(0, 10, 20), (1, 20, 30)]);
        assert_eq!(decode(&whole).unwrap().len(), 2);
        assert!(decode(&whole[..17]).unwrap_err().contains("cut off"));
        assert!(decode(&[]).unwrap_err().contains("cut off"));
        let wrong = bytes(&[(0, 10, 20), (1, 15, 30)]);
        assert!(decode(&wrong).unwrap_err().contains("overlap"));
    }
}
