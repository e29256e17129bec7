//! Summaries of many durations.

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
