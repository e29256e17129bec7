//! Many durations in bounded memory.

use crate::bins::Bins;
use crate::stats::{Run, Stats, summarize};

/// Values up to this number are kept one by one; then only how many fall into each narrow bin.
pub const EXACT: usize = 1 << 14;
/// I/Os, or rows, whose values are kept one by one: of more, no matter in how many sets their values
/// are, sets that still grow go to bins.
pub(crate) const KEPT: u64 = 4 * EXACT as u64;

/// A growing set of values.
#[derive(Debug, Clone, Default)]
pub struct Values {
    /// All of them, while there are no bins.
    loose: Vec<u64>,
    bins: Option<Box<Bins>>,
}

impl Values {
    /// Adds some.
    pub fn add(&mut self, values: &[u64]) {
        if let Some(bins) = &mut self.bins {
            return bins.add(values);
        }
        self.loose.extend_from_slice(values);
        if self.loose.len() > EXACT {
            self.coarsen();
        }
    }

    /// Adds all of another set.
    pub fn extend(&mut self, other: &Self) {
        self.add(&other.loose);
        if let Some(from) = &other.bins {
            self.coarsen().extend(from);
        }
    }

    /// All of them go to bins; from now on only bins are kept.
    #[inline(never)]
    pub(crate) fn coarsen(&mut self) -> &mut Bins {
        let bins = self.bins.get_or_insert_with(|| Box::new(Bins::new()));
        bins.add(&std::mem::take(&mut self.loose));
        bins
    }

    /// Their summary.
    pub fn stats(mut self) -> Stats {
        if let Some(bins) = self.bins {
            return bins.stats();
        }
        self.loose.sort_unstable();
        let runs = self.loose.chunk_by(|a, b| a == b);
        let runs: Vec<Run> = runs
            .filter_map(|run| {
                let value = *run.first()?;
                Some(Run {
                    value,
                    low: value,
                    count: run.len() as u64,
                })
            })
            .collect();
        let sum = self.loose.iter().map(|&v| u128::from(v)).sum();
        let ends = (self.loose.first().copied(), self.loose.last().copied());
        summarize(&runs, sum, (ends.0.unwrap_or(0), ends.1.unwrap_or(0)), true)
    }
}

#[cfg(test)]
mod tests {
    use super::{EXACT, Values};

    fn of(values: impl Iterator<Item = u64>) -> crate::stats::Stats {
        let mut all = Values::default();
        values.for_each(|v| all.add(&[v]));
        all.stats()
    }

    #[test]
    fn few_values_are_exact() {
        let s = of([7, 1000, 3, 3, 5].into_iter());
        assert_eq!(
            (s.count, s.min, s.median, s.max, s.exact),
            (5, 3, 5, 1000, true)
        );
        assert_eq!((s.mode, s.mode_count, s.p99), (3, 2, 1000));
        assert_eq!(
            s.histogram,
            [(3, 4, 2), (5, 6, 1), (7, 8, 1), (992, 1008, 1)]
        );
        assert_eq!(of(std::iter::empty()), crate::stats::Stats::default());
    }

    #[test]
    fn many_values_are_near() {
        let n = 10 * EXACT as u64;
        let s = of((0..n).map(|v| v * 977 % n * 100));
        assert!(!s.exact);
        assert_eq!((s.count, s.min, s.max), (n, 0, (n - 1) * 100));
        for (got, part) in [(s.median, 0.5), (s.p90, 0.9), (s.p99, 0.99)] {
            let want = n as f64 * 100.0 * part;
            assert!(
                (got as f64 / want - 1.0).abs() < 1.0 / 256.0,
                "{got} {want}"
            );
        }
        assert!((s.mean / (n as f64 * 50.0) - 1.0).abs() < 0.001);
        assert!((s.trimmed_mean / (n as f64 * 50.0) - 1.0).abs() < 0.004);
        assert_eq!(s.histogram.iter().map(|b| b.2).sum::<u64>(), n);
    }

    #[test]
    fn sets_join_to_what_one_set_gives() {
        let all = |from: u64, to: u64| {
            let mut set = Values::default();
            (from..to).for_each(|v| set.add(&[v * v]));
            set
        };
        for (cut, end) in [(10, 30), (10, 40_000), (30_000, 30_010), (30_000, 70_000)] {
            let mut joined = all(0, cut);
            joined.extend(&all(cut, end));
            assert_eq!(joined.stats(), all(0, end).stats(), "{cut} {end}");
        }
    }
}
