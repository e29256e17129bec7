//! How many values are in each narrow bin.

use crate::stats::{Run, Stats, summarize};

/// Bins per power of two of what is not exact: a value is known to 1/256 of it.
const SUB_BITS: u32 = 8;
/// Values of a block.
pub(crate) const BLOCK: usize = 128;
/// Values between two questions whether the block is at its end.
const STEP: usize = 4;
/// What the values of a block must be below: then floats hold their sum exactly.
const LIMIT: u64 = 1 << 45;

/// Bits of a float behind its highest one.
const MANTISSA: u32 = f64::MANTISSA_DIGITS - 1;
/// The exponent of a half in the bits of floats.
const HALF: u64 = f64::MAX_EXP as u64 - 2;

/// Counts by bin, in rows from the first one that has any to the last. Row 0 has the value 0, row n
/// the values of n bits, each of them or all of the same highest nine bits in a bin of their own.
#[derive(Debug, Clone)]
pub(crate) struct Bins {
    first: usize,
    counts: Vec<u32>,
    /// How many values there are.
    all: u64,
    sum: u128,
    min: u64,
    max: u64,
}

/// The row of a value.
fn row(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()) as usize
}

/// Lower bound and width of a bin.
fn bounds(row: usize, place: usize) -> (u64, u64) {
    let Some(log) = row.checked_sub(1) else {
        return (0, 1);
    };
    let (top, sub) = (1 << SUB_BITS | place as u64, SUB_BITS as usize);
    match log.checked_sub(sub) {
        Some(shift) => (top << shift, 1 << shift),
        None => (top >> (sub - log), 1),
    }
}

/// What the values of a block come to. Each step is one that processors take for two values at
/// once, and none depends on how large they are, since there is no telling what comes next.
struct Block {
    sum: u64,
    min: u64,
    max: u64,
}

impl Block {
    /// Gives the values' bins, too, of which [`HALF`] rows come before row 0: a float's bits begin with
    /// the power of two, and go on with the bits below it. Half of one is added to each value for the
    /// sake of 0; that changes no bin.
    fn of(values: &[u64; BLOCK], bins: &mut [u64; BLOCK]) -> Option<Self> {
        // Whole numbers from here on are the low bits of their floats.
        const WHOLE: f64 = (1_u64 << MANTISSA) as f64;
        let mut sum = [0.0; 2];
        let (mut min, mut max) = ([f64::INFINITY; 2], [0.0; 2]);
        for (bins, values) in bins.chunks_exact_mut(STEP).zip(values.chunks_exact(STEP)) {
            for place in 0..STEP {
                let lane = place % 2;
                let float = f64::from_bits(WHOLE.to_bits().wrapping_add(values[place]));
                let float = float - (WHOLE - 0.5);
                bins[place] = float.to_bits() >> (MANTISSA - SUB_BITS);
                sum[lane] += float;
                min[lane] = if min[lane] < float { min[lane] } else { float };
                max[lane] = if max[lane] > float { max[lane] } else { float };
            }
        }
        let sum = sum[0] + sum[1] - 0.5 * BLOCK as f64;
        let (min, max) = (min[0].min(min[1]), max[0].max(max[1]));
        // What began as a larger value is too large now, below 0, or no number and so is the sum.
        let holds = min > 0.0 && max < LIMIT as f64 && sum.is_finite();
        holds.then_some(Self {
            sum: sum as u64,
            min: min as u64,
            max: max as u64,
        })
    }
}

impl Bins {
    pub(crate) fn new() -> Self {
        Self {
            first: 0,
            counts: Vec::new(),
            all: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }

    pub(crate) fn add(&mut self, values: &[u64]) {
        let mut bins = [0; BLOCK];
        for some in values.chunks(BLOCK) {
            let block = some.try_into().ok();
            let block = block.and_then(|some| Block::of(some, &mut bins));
            self.all += some.len() as u64;
            match block.filter(|_| u32::try_from(self.all).is_ok()) {
                Some(block) => self.add_block(&block, &bins),
                None => self.add_each(some),
            }
        }
    }

    /// Adds values for which no count is too small.
    fn add_block(&mut self, block: &Block, bins: &[u64; BLOCK]) {
        self.sum += u128::from(block.sum);
        self.min = self.min.min(block.min);
        self.max = self.max.max(block.max);
        self.reach(row(block.min));
        self.reach(row(block.max));
        let first = (self.first as u64 + HALF) << SUB_BITS;
        let counts = self.counts.as_mut_slice();
        if block.min == block.max {
            if let Some(count) = counts.get_mut(bins[0].wrapping_sub(first) as usize) {
                *count += BLOCK as u32;
            }
            return;
        }
        for bins in bins.chunks_exact(STEP) {
            for bin in bins {
                if let Some(count) = counts.get_mut(bin.wrapping_sub(first) as usize) {
                    *count += 1;
                }
            }
        }
    }

    /// Adds any values.
    #[inline(never)]
    fn add_each(&mut self, values: &[u64]) {
        for &value in values {
            self.sum += u128::from(value);
            self.min = self.min.min(value);
            self.max = self.max.max(value);
            let row = row(value);
            self.reach(row);
            let first = value.checked_shl(value.leading_zeros() + 1);
            let place = first.unwrap_or(0) >> (u64::BITS - SUB_BITS);
            let bin = (row - self.first) << SUB_BITS | place as usize;
            if let Some(count) = self.counts.get_mut(bin) {
                *count = count.saturating_add(1);
            }
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

    pub(crate) fn extend(&mut self, other: &Self) {
        let last = other.first + (other.counts.len() >> SUB_BITS);
        if let Some(last) = last.checked_sub(1).filter(|_| !other.counts.is_empty()) {
            self.reach(other.first);
            self.reach(last);
        }
        let from = (other.first.saturating_sub(self.first)) << SUB_BITS;
        for (to, from) in self.counts.iter_mut().skip(from).zip(&other.counts) {
            *to = to.saturating_add(*from);
        }
        self.all += other.all;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    pub(crate) fn stats(&self) -> Stats {
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

#[cfg(test)]
mod tests {
    use super::{BLOCK, Bins, LIMIT, SUB_BITS, bounds, row};

    /// A block of values that are up to the limit, of all sizes.
    fn mixed() -> [u64; BLOCK] {
        std::array::from_fn(|at| match at as u64 {
            at @ 0..40 => at * 7,
            at @ 40..86 => (1 << (at - 40)) - 1,
            at => LIMIT / at - at,
        })
    }

    #[test]
    fn every_value_is_in_its_bin() {
        for value in (0..2000).chain([1 << 20, (1 << 40) + 12345, u64::MAX - 1, u64::MAX]) {
            let mut bins = Bins::new();
            bins.add(&[value]);
            let place = bins.counts.iter().take_while(|count| **count == 0).count();
            assert_eq!((bins.first, bins.counts.len()), (row(value), 1 << SUB_BITS));
            let (low, width) = bounds(bins.first, place);
            assert!(low <= value && value - low < width, "{value}");
            assert!(width == 1 || width <= value / 256);
        }
    }

    #[test]
    fn a_block_gives_what_its_values_give() {
        let all = |values: [u64; BLOCK]| {
            let (mut block, mut each) = (Bins::new(), Bins::new());
            block.add(&values);
            for value in &values {
                each.add(&[*value]);
            }
            assert_eq!(block.stats(), each.stats(), "{values:?}");
            (block.sum, block.min, block.max)
        };
        let values = mixed();
        let sum = values.iter().map(|&value| u128::from(value)).sum();
        assert_eq!(all(values), (sum, 0, LIMIT - 1));
        for bits in 0..=64_u32 {
            // What no float holds, or what would be none, among them.
            let large = u64::MAX.checked_shl(bits).unwrap_or(0) >> 1;
            for large in [large, !large, large ^ 1 << 61, large ^ 1 << 52] {
                let mut values = mixed();
                values[bits as usize] = large;
                let new = sum - u128::from(mixed()[bits as usize]) + u128::from(large);
                assert_eq!(all(values).0, new);
                all([large; BLOCK]);
            }
        }
    }
}
