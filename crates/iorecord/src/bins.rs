//! How many values are in each narrow bin.

use crate::stats::{Run, Stats, summarize};

/// Bins per power of two of what is not exact: a value is known to 1/256 of it.
const SUB_BITS: u32 = 8;
/// Counts by bin, in rows of one power of two each, from the first row that has any to the last.
#[derive(Debug, Clone)]
pub(crate) struct Bins {
    first: usize,
    counts: Vec<u32>,
    sum: u128,
    min: u64,
    max: u64,
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
    pub(crate) fn new() -> Self {
        Self {
            first: 0,
            counts: Vec::new(),
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }

    pub(crate) fn add_all(&mut self, values: &[u64]) {
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
    use super::{SUB_BITS, bin, bounds};

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
