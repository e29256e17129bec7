//! Summary of many durations.

/// Buckets below this value hold one value each; above it there are 32 per power of two.
const EXACT: u64 = 64;
const SUB_BITS: u32 = 5;

/// Order statistics, moments and a compact histogram. All quantiles are observed values.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stats {
    /// Number of values; everything else is zero when this is.
    pub count: u64,
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

impl Stats {
    /// Summarises the values, in any order.
    pub fn of(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else {
            return Self::default();
        };
        let count = values.len();
        let cut = count / 10;
        let (mode, mode_count) = mode(&values);
        Self {
            count: count as u64,
            min,
            median: rank(&values, 500),
            trimmed_mean: mean(values.get(cut..count - cut).unwrap_or_default()),
            mean: mean(&values),
            p90: rank(&values, 900),
            p99: rank(&values, 990),
            p99_9: rank(&values, 999),
            max,
            mode,
            mode_count,
            histogram: histogram(&values),
        }
    }
}

/// Nearest rank: the smallest value with at least `per_mille` of all values at or below it.
fn rank(sorted: &[u64], per_mille: usize) -> u64 {
    let rank = (sorted.len() * per_mille).div_ceil(1000).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

fn mean(values: &[u64]) -> f64 {
    let sum: u128 = values.iter().map(|&v| u128::from(v)).sum();
    if values.is_empty() {
        0.0
    } else {
        sum as f64 / values.len() as f64
    }
}

fn mode(sorted: &[u64]) -> (u64, u64) {
    let mut best = (0, 0);
    for run in sorted.chunk_by(|a, b| a == b) {
        if run.len() as u64 > best.1 {
            best = (run.first().copied().unwrap_or(0), run.len() as u64);
        }
    }
    best
}

fn histogram(sorted: &[u64]) -> Vec<(u64, u64, u64)> {
    let mut buckets: Vec<(u64, u64, u64)> = Vec::new();
    for &value in sorted {
        match buckets.last_mut() {
            Some(last) if value < last.1 => last.2 += 1,
            _ => {
                let (low, high) = bucket(value);
                buckets.push((low, high, 1));
            }
        }
    }
    buckets
}

/// The bucket of a value. The last bucket's upper bound saturates.
fn bucket(value: u64) -> (u64, u64) {
    if value < EXACT {
        return (value, value + 1);
    }
    let shift = value.ilog2() - SUB_BITS;
    let low = (value >> shift) << shift;
    (low, low.saturating_add(1 << shift))
}
