//! Summaries of many durations in bounded memory.

/// Values up to this number are kept one by one; then only how many fall into each narrow bin.
pub const EXACT: usize = 1 << 14;

/// Values that go to their bins together: in one short loop, and not between all the rest.
const TOGETHER: usize = 256;

/// Bins per power of two of what is not exact: a value is known to 1/256 of it.
const SUB_BITS: u32 = 8;
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
#[derive(Debug, Clone)]
pub struct Values {
    /// All of them, or those that are in no bin yet.
    loose: Vec<u64>,
    /// How many of these there may be.
    room: usize,
    bins: Option<Box<Bins>>,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            loose: Vec::new(),
            room: EXACT,
            bins: None,
        }
    }
}

/// Counts by bin, in rows of one power of two each, from the first row that has any to the last.
#[derive(Debug, Clone, Default)]
struct Bins {
    first: usize,
    counts: Vec<u32>,
    sum: u128,
    min: u64,
    max: u64,
}

impl Values {
    /// Adds one.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.loose.push(value);
        if self.loose.len() > self.room {
            self.coarsen();
        }
    }

    /// Adds all of another set.
    pub fn extend(&mut self, other: &Self) {
        if other.bins.is_some() || self.loose.len() + other.loose.len() > EXACT {
            self.coarsen();
        }
        for &value in &other.loose {
            self.add(value);
        }
        if let (Some(into), Some(from)) = (&mut self.bins, &other.bins) {
            into.extend(from);
        }
    }

    /// All of them go to bins; from now on only bins are kept.
    #[inline(never)]
    fn coarsen(&mut self) {
        let bins = self.bins.get_or_insert_with(|| {
            // What is loose takes no more memory than it needs from now on.
            self.room = TOGETHER - 1;
            Box::new(Bins {
                min: u64::MAX,
                ..Bins::default()
            })
        });
        bins.add_all(&self.loose);
        self.loose.clear();
        self.loose.shrink_to(TOGETHER);
    }

    /// Their summary.
    pub fn stats(mut self) -> Stats {
        if self.bins.is_some() {
            self.coarsen();
        }
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
struct Run {
    value: u64,
    /// Lower bound, by which it falls into the published histogram.
    low: u64,
    count: u64,
}

/// The bin of a value, counted from the first one of row 0; without a branch that depends on how
/// large it is, since there is no telling what comes next.
#[inline]
fn bin(value: u64) -> usize {
    const MANTISSA: u32 = f64::MANTISSA_DIGITS - 1;
    const ZERO: u64 = f64::MAX_EXP as u64 - 1;
    // The power of two and the bits below it, as they are in a float: quicker than to count zeros.
    let float = (value.min(1 << MANTISSA) as i64 as f64).to_bits() >> (MANTISSA - SUB_BITS);
    let bin = float.wrapping_sub((ZERO + u64::from(SUB_BITS) - 1) << SUB_BITS);
    if value >> MANTISSA != 0 {
        return high_bin(value);
    }
    let first = value >> SUB_BITS == 0;
    (if first { value } else { bin }) as usize
}

/// The same for values that no float holds exactly: more than 52 days in nanoseconds.
#[cold]
fn high_bin(value: u64) -> usize {
    let row = value.ilog2() + 1 - SUB_BITS;
    let place = value >> (row - 1) & ((1 << SUB_BITS) - 1);
    (row << SUB_BITS) as usize + place as usize
}

/// Lower bound and width of a bin.
fn bounds(row: usize, place: usize) -> (u64, u64) {
    match row {
        0 => (place as u64, 1),
        _ => ((1 << SUB_BITS | place as u64) << (row - 1), 1 << (row - 1)),
    }
}

impl Bins {
    fn add_all(&mut self, values: &[u64]) {
        // Copies, which stay in registers.
        let (mut sum, mut min, mut max) = (self.sum, self.min, self.max);
        for &value in values {
            sum += u128::from(value);
            min = min.min(value);
            max = max.max(value);
        }
        (self.sum, self.min, self.max) = (sum, min, max);
        let mut rest = values.iter();
        while let Some(bin) = self.count(&mut rest) {
            self.add_beyond(bin);
        }
    }

    /// Counts values until one is in none of the rows that are there; the bin of that one.
    fn count(&mut self, values: &mut std::slice::Iter<'_, u64>) -> Option<usize> {
        let (first, counts) = (self.first << SUB_BITS, self.counts.as_mut_slice());
        values.map(|&value| bin(value)).find(|bin| {
            let count = counts.get_mut(bin.wrapping_sub(first));
            count
                .map(|count| *count = count.saturating_add(1))
                .is_none()
        })
    }

    #[cold]
    fn add_beyond(&mut self, bin: usize) {
        self.reach(bin >> SUB_BITS);
        if let Some(count) = self.counts.get_mut(bin - (self.first << SUB_BITS)) {
            *count += 1;
        }
    }

    /// Makes room for a row.
    fn reach(&mut self, row: usize) {
        if self.counts.is_empty() {
            self.first = row;
        }
        if row < self.first {
            let more = (self.first - row) << SUB_BITS;
            self.counts.splice(0..0, std::iter::repeat_n(0, more));
            self.first = row;
        }
        let rows = row - self.first + 1;
        if self.counts.len() < rows << SUB_BITS {
            self.counts.resize(rows << SUB_BITS, 0);
        }
    }

    fn extend(&mut self, other: &Self) {
        let last = other.first + (other.counts.len() >> SUB_BITS);
        if let Some(last) = last.checked_sub(1).filter(|_| !other.counts.is_empty()) {
            self.reach(other.first);
            self.reach(last);
        }
        let from = (other.first.saturating_sub(self.first)) << SUB_BITS;
        for (to, from) in self.counts.iter_mut().skip(from).zip(&other.counts) {
            *to = to.saturating_add(*from);
        }
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    fn stats(&self) -> Stats {
        let counts = self.counts.iter().enumerate();
        let run = |(at, &count): (usize, &u32)| {
            let row = self.first + (at >> SUB_BITS);
            let (low, width) = bounds(row, at & ((1 << SUB_BITS) - 1));
            Run {
                value: (low + width / 2).clamp(self.min, self.max),
                low,
                count: u64::from(count),
            }
        };
        let runs: Vec<Run> = counts.filter(|(_, count)| **count > 0).map(run).collect();
        summarize(&runs, self.sum, (self.min, self.max), false)
    }
}

fn summarize(runs: &[Run], sum: u128, (min, max): (u64, u64), exact: bool) -> Stats {
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
    use super::{EXACT, SUB_BITS, Values, bin, bounds};

    fn of(values: impl Iterator<Item = u64>) -> super::Stats {
        let mut all = Values::default();
        values.for_each(|v| all.add(v));
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
            (from..to).for_each(|v| set.add(v * v));
            set
        };
        for (cut, end) in [(10, 30), (10, 40_000), (30_000, 30_010), (30_000, 70_000)] {
            let mut joined = all(0, cut);
            joined.extend(&all(cut, end));
            assert_eq!(joined.stats(), all(0, end).stats(), "{cut} {end}");
        }
    }

    #[test]
    fn every_value_is_in_its_bin() {
        for value in (0..2000).chain([1 << 20, (1 << 40) + 12345, u64::MAX - 1, u64::MAX]) {
            let bin = bin(value);
            let (low, width) = bounds(bin >> SUB_BITS, bin & ((1 << SUB_BITS) - 1));
            assert!(low <= value && value - low < width, "{value}");
            assert!(width == 1 || width <= value / 256);
        }
    }
}
