//! What each CPU executed, where the clock alone does not tell it.
//!
//! A virtual board with several CPUs executes them one after the other, a turn each, and its clock
//! counts what all of them execute. So the time between two events of a CPU holds the turns of the
//! others as well. With the turns, what the CPU itself executed can be told.
//!
//! A board may know what the recording of the trace itself executed until each event: what it would
//! execute without being traced is the rest. With several CPUs it then also knows what each of them
//! executed of the rest, and no turns are needed.

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

/// What each CPU executed of something until each of its readings of the trace's clock.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// By CPU: time, and what was executed until then; times rise.
    cpus: Vec<Vec<(u64, u64)>>,
}

impl Counts {
    /// Takes CPU, time, and what the CPU executed until then, in any order.
    pub fn new(marks: impl IntoIterator<Item = (u32, u64, u64)>) -> Self {
        let mut cpus: Vec<Vec<(u64, u64)>> = Vec::new();
        for (cpu, time, count) in marks {
            let cpu = cpu as usize;
            if cpus.len() <= cpu {
                cpus.resize_with(cpu + 1, Vec::new);
            }
            if let Some(list) = cpus.get_mut(cpu) {
                list.push((time, count));
            }
        }
        for list in &mut cpus {
            list.sort_unstable();
        }
        Self { cpus }
    }

    /// Whether a CPU read the clock at this time.
    pub fn has(&self, cpu: u32, time: u64) -> bool {
        let found = |list: &Vec<(u64, u64)>| list.binary_search_by_key(&time, |m| m.0).is_ok();
        self.cpus.get(cpu as usize).is_some_and(found)
    }

    /// What a CPU executed between two times at which it read the clock.
    pub fn between(&self, cpu: u32, from: u64, to: u64) -> u64 {
        self.cpus
            .get(cpu as usize)
            .map_or(0, |list| counted(list, from, to))
    }

    /// What all of them executed, each between its last readings at two times.
    pub fn of_all(&self, from: u64, to: u64) -> u64 {
        self.cpus.iter().map(|list| counted(list, from, to)).sum()
    }
}

fn counted(list: &[(u64, u64)], from: u64, to: u64) -> u64 {
    let until = |time: u64| {
        let place = list.partition_point(|mark| mark.0 <= time);
        let mark = place.checked_sub(1).and_then(|place| list.get(place));
        mark.map_or(0, |mark| mark.1)
    };
    until(to).saturating_sub(until(from))
}

/// What the recording of a trace executed until each reading of its clock.
#[derive(Debug, Clone, Default)]
pub struct Tracing {
    /// Time, and what it executed until then on all CPUs; times rise.
    marks: Vec<(u64, u64)>,
    /// What each CPU executed besides; none on a board with one CPU, whose clock tells that.
    own: Option<Counts>,
}

impl Tracing {
    /// Takes the times and what was executed until each, in any order; of a board with one CPU.
    pub fn new(mut marks: Vec<(u64, u64)>) -> Self {
        marks.sort_unstable();
        Self { marks, own: None }
    }

    /// The same of a board with several CPUs, and what each of them executed besides.
    pub fn of_several(marks: Vec<(u64, u64)>, own: Counts) -> Self {
        Self {
            own: Some(own),
            ..Self::new(marks)
        }
    }

    /// Whether a CPU read the clock at this time.
    pub fn has(&self, cpu: u32, time: u64) -> bool {
        match &self.own {
            Some(own) => own.has(cpu, time),
            None => cpu == 0 && self.marks.binary_search_by_key(&time, |m| m.0).is_ok(),
        }
    }

    /// What it executed between two times at which the clock was read.
    pub fn between(&self, from: u64, to: u64) -> u64 {
        counted(&self.marks, from, to)
    }
}

/// How long code ran.
#[derive(Debug, Clone, Default)]
pub(crate) enum Ran {
    /// By the clock.
    #[default]
    Clock,
    /// By the CPU's turns.
    Turns(Arc<Turns>),
    /// By the clock, less what recorded the trace.
    Untraced(Arc<Tracing>),
    /// By something else that was counted until each reading of the clock.
    Counted(Arc<Counts>),
}

impl Ran {
    #[inline]
    pub(crate) fn between(&self, cpu: u32, from: u64, to: u64) -> u64 {
        match self {
            Self::Clock => to.saturating_sub(from),
            Self::Turns(turns) => turns.ran(cpu, from, to),
            Self::Counted(counts) => counts.between(cpu, from, to),
            Self::Untraced(tracing) => match &tracing.own {
                Some(own) => own.between(cpu, from, to),
                None => self.passed(from, to),
            },
        }
    }

    /// Time that passed, without what recorded the trace meanwhile; or what was counted.
    #[inline]
    pub(crate) fn passed(&self, from: u64, to: u64) -> u64 {
        let all = to.saturating_sub(from);
        match self {
            Self::Untraced(tracing) => all.saturating_sub(tracing.between(from, to)),
            Self::Counted(counts) => counts.of_all(from, to),
            _ => all,
        }
    }

    #[inline]
    pub(crate) fn is_known(&self) -> bool {
        !matches!(self, Self::Clock)
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
    fn what_records_the_trace_is_left_out() {
        let tracing = Tracing::new(vec![(100, 7), (400, 60), (250, 30)]);
        assert!(tracing.has(0, 250) && !tracing.has(0, 251) && !tracing.has(1, 250));
        let ran = Ran::Untraced(Arc::new(tracing));
        assert_eq!(ran.between(0, 100, 250), 150 - 23);
        assert_eq!(ran.between(0, 100, 400), 300 - 53);
        assert_eq!(ran.passed(10, 100), 90 - 7);
        assert_eq!(Ran::Clock.passed(100, 400), 300);
    }

    #[test]
    fn what_was_counted_takes_the_clock_s_place() {
        let marks = [(0, 100, 7), (0, 400, 900), (0, 250, 30), (1, 300, 5)];
        let ran = Ran::Counted(Arc::new(Counts::new(marks)));
        assert_eq!(ran.between(0, 100, 250), 23);
        assert_eq!(ran.between(1, 100, 400), 5);
        assert_eq!(ran.between(2, 100, 400), 0);
        assert_eq!(ran.passed(100, 400), 893 + 5);
        assert_eq!(ran.between(0, 400, 500), 0);
    }

    #[test]
    fn each_of_several_cpus_has_what_it_executed_besides() {
        let own = Counts::new([(0, 100, 40), (1, 150, 10), (0, 400, 90), (1, 500, 70)]);
        let marks = vec![(100, 7), (150, 9), (400, 60), (500, 80)];
        let tracing = Tracing::of_several(marks, own);
        assert!(tracing.has(1, 150) && !tracing.has(0, 150));
        let ran = Ran::Untraced(Arc::new(tracing));
        assert_eq!(ran.between(0, 100, 400), 50);
        assert_eq!(ran.between(1, 150, 500), 60);
        assert_eq!(ran.passed(100, 400), 300 - 53);
    }

    #[test]
    fn without_turns_the_clock_counts() {
        assert_eq!(Ran::default().between(3, 10, 25), 15);
        assert_eq!(Ran::default().between(3, 25, 10), 0);
    }
}
