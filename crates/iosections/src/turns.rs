//! What each of several CPUs executed, where they take turns and share one clock.
//!
//! A virtual board with several CPUs executes them one after the other, a turn each, and its clock
//! counts what all of them execute. So the time between two events of a CPU holds the turns of the
//! others as well. With the turns, what the CPU itself executed can be told.

use std::sync::Arc;

/// A turn of one CPU.
#[derive(Debug, Clone, Copy)]
struct Turn {
    begin: u64,
    end: u64,
    /// What the CPU executed before it.
    before: u64,
}

/// All turns of a board, in the trace's clock.
#[derive(Debug, Clone, Default)]
pub struct Turns {
    cpus: Vec<Vec<Turn>>,
}

impl Turns {
    /// Takes the turns: CPU, begin and end, in order of time.
    pub fn new(turns: impl IntoIterator<Item = (u32, u64, u64)>) -> Self {
        let mut cpus: Vec<Vec<Turn>> = Vec::new();
        for (cpu, begin, end) in turns {
            let cpu = cpu as usize;
            if cpus.len() <= cpu {
                cpus.resize_with(cpu + 1, Vec::new);
            }
            if let Some(list) = cpus.get_mut(cpu) {
                let before = list.last().map_or(0, |t| t.before + (t.end - t.begin));
                let end = end.max(begin);
                list.push(Turn { begin, end, before });
            }
        }
        Self { cpus }
    }

    /// What a CPU executed between two times.
    pub fn ran(&self, cpu: u32, from: u64, to: u64) -> u64 {
        let list = self.cpus.get(cpu as usize);
        let list = list.map_or(&[][..], Vec::as_slice);
        until(list, to).saturating_sub(until(list, from))
    }
}

fn until(list: &[Turn], time: u64) -> u64 {
    let place = list.partition_point(|turn| turn.begin <= time);
    let turn = place.checked_sub(1).and_then(|place| list.get(place));
    turn.map_or(0, |turn| turn.before + time.min(turn.end) - turn.begin)
}

/// How long code ran: by the CPU's turns where they are known, else by the clock.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ran(pub(crate) Option<Arc<Turns>>);

impl Ran {
    #[inline]
    pub(crate) fn between(&self, cpu: u32, from: u64, to: u64) -> u64 {
        match &self.0 {
            None => to.saturating_sub(from),
            Some(turns) => turns.ran(cpu, from, to),
        }
    }

    #[inline]
    pub(crate) fn is_known(&self) -> bool {
        self.0.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Turns {
        Turns::new([(0, 100, 200), (1, 200, 260), (0, 260, 300), (0, 400, 450)])
    }

    #[test]
    fn a_cpu_s_own_turns_count() {
        let turns = two();
        assert_eq!(turns.ran(0, 100, 450), 100 + 40 + 50);
        assert_eq!(turns.ran(0, 150, 280), 50 + 20);
        assert_eq!(turns.ran(1, 150, 280), 60);
    }

    #[test]
    fn idle_time_and_other_cpus_count_nothing() {
        let turns = two();
        assert_eq!(turns.ran(0, 200, 260), 0);
        assert_eq!(turns.ran(0, 300, 400), 0);
        assert_eq!(turns.ran(0, 0, 100), 0);
        assert_eq!(turns.ran(1, 260, 9_999), 0);
        assert_eq!(turns.ran(7, 0, 9_999), 0);
    }

    #[test]
    fn parts_add_up() {
        let turns = two();
        for cut in 90..460 {
            let parts = turns.ran(0, 90, cut) + turns.ran(0, cut, 460);
            assert_eq!(parts, turns.ran(0, 90, 460), "at {cut}");
        }
    }

    #[test]
    fn without_turns_the_clock_counts() {
        assert_eq!(Ran::default().between(3, 10, 25), 15);
        assert_eq!(Ran::default().between(3, 25, 10), 0);
    }
}
