//! Summaries of many durations in bounded memory.

use crate::bins::{BLOCK, Bins};

/// Values up to this number are kept one by one; then only how many fall into each narrow bin.
pub const EXACT: usize = 1 << 14;

/// Bins per power of two in the published histogram.
const SHOWN_BITS: u32 = 5;

/// Order statistics, moments and a compact histogram.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stats {
    /// Number of values; everything else is zero when this is.
    pub count: u64,
    /// Whether all quantiles are observed values; else they are middles of bins of 1/256.
    pub exact: bool,
    /// Smallest value (clock units, as all below).
    pub min: u64,
    /// 50th percentile by nearest rank.
    pub median: u64,
    /// Mean of what is left after 10 % of the values (rounded down) is cut off at either end.
    pub trimmed_mean: f64,
    /// Mean.
    pub mean: f64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p99_9: u64,
    /// Largest value.
    pub max: u64,
    /// Most frequent value, the smallest of them if several.
    pub mode: u64,
    /// How often it occurs.
    pub mode_count: u64,
    /// Non-empty buckets: (lower bound, exclusive upper bound, count), rising.
    pub histogram: Vec<(u64, u64, u64)>,
}

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
        if self.loose.len() >= EXACT / 8 {
            // As much as there may be, at once: they are not copied time and again.
            let most = EXACT + BLOCK;
            self.loose
                .reserve_exact(most.saturating_sub(self.loose.len()));
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
    fn coarsen(&mut self) -> &mut Bins {
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

/// Values that are equal, or not told apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) value: u64,
    /// Lower bound, by which it falls into the published histogram.
    pub(crate) low: u64,
    pub(crate) count: u64,
}

pub(crate) fn summarize(runs: &[Run], sum: u128, (min, max): (u64, u64), exact: bool) -> Stats {
    let count: u64 = runs.iter().map(|run| run.count).sum();
    if count == 0 {
        return Stats::default();
    }
    let mode = runs
        .iter()
        .max_by_key(|run| (run.count, std::cmp::Reverse(run.value)));
    Stats {
        count,
        exact,
        min,
        median: rank(runs, count, 500),
        trimmed_mean: trimmed_mean(runs, count),
        mean: sum as f64 / count as f64,
        p90: rank(runs, count, 900),
        p99: rank(runs, count, 990),
        p99_9: rank(runs, count, 999),
        max,
        mode: mode.map_or(0, |run| run.value),
        mode_count: mode.map_or(0, |run| run.count),
        histogram: histogram(runs),
    }
}

/// Nearest rank: the smallest value with at least `per_mille` of all values at or below it.
fn rank(runs: &[Run], count: u64, per_mille: u64) -> u64 {
    let rank = (count * per_mille).div_ceil(1000).max(1);
    let mut seen = 0;
    let run = runs.iter().find(|run| {
        seen += run.count;
        seen >= rank
    });
    run.map_or(0, |run| run.value)
}

fn trimmed_mean(runs: &[Run], count: u64) -> f64 {
    let cut = count / 10;
    let (mut seen, mut sum) = (0, 0_u128);
    for run in runs {
        let from = seen.max(cut);
        seen += run.count;
        let kept = seen.min(count - cut).saturating_sub(from);
        sum += u128::from(run.value) * u128::from(kept);
    }
    sum as f64 / (count - 2 * cut) as f64
}

fn histogram(runs: &[Run]) -> Vec<(u64, u64, u64)> {
    let mut buckets: Vec<(u64, u64, u64)> = Vec::new();
    for run in runs {
        match buckets.last_mut() {
            Some(last) if run.low < last.1 => last.2 += run.count,
            _ => {
                let (low, high) = bucket(run.low);
                buckets.push((low, high, run.count));
            }
        }
    }
    buckets
}

/// The published bucket of a value. The last bucket's upper bound saturates.
fn bucket(value: u64) -> (u64, u64) {
    if value < 2 << SHOWN_BITS {
        return (value, value + 1);
    }
    let shift = value.ilog2() - SHOWN_BITS;
    let low = (value >> shift) << shift;
    (low, low.saturating_add(1 << shift))
}

#[cfg(test)]
mod tests {
    use super::{EXACT, Values};

    fn of(values: impl Iterator<Item = u64>) -> super::Stats {
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
        assert_eq!(of(std::iter::empty()), super::Stats::default());
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
