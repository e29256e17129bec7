//! From the ring buffer's time stamps to those that `trace-cmd report` prints.
//!
//! In this order, as libtracecmd does: a guest's stamps are moved to the host's clock (the
//! `TIME_SHIFT` option), ticks become nanoseconds (`TSC2NSEC`, whose own offset libtracecmd does
//! not use either), and the offsets of `trace-cmd record --date` and `--ts-offset` are added.

use crate::error::Result;
use crate::reader::Reader;

/// Flag of `TIME_SHIFT`: offsets between two samples are interpolated.
const INTERPOLATE: u32 = 1;
/// More samples per CPU than any recording has (one each few seconds).
const SAMPLE_LIMIT: u32 = 1 << 20;

/// Conversion of time-stamp counter ticks to nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TscToNs {
    pub(crate) mult: u32,
    pub(crate) shift: u32,
}

impl TscToNs {
    fn apply(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.mult)) >> self.shift.min(127)) as u64
    }
}

/// The distance of the guest's clock from the host's at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sample {
    time: u64,
    offset: i64,
    scaling: u64,
    fraction: u64,
}

/// `TIME_SHIFT`: how the clocks of a guest's CPUs differ from the host's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TimeShift {
    /// Trace identifier of the peer, the host.
    pub(crate) peer: u64,
    interpolate: bool,
    /// Samples by CPU, by time.
    cpus: Vec<Vec<Sample>>,
}

impl TimeShift {
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self> {
        let what = "TIME_SHIFT option";
        let peer = r.u64(what)?;
        let interpolate = r.u32(what)? & INTERPOLATE != 0;
        let mut cpus: Vec<Vec<Sample>> = Vec::new();
        for _ in 0..r.u32(what)? {
            let count = r.u32(what)?;
            if count > SAMPLE_LIMIT || u64::from(count) * 24 > r.left() {
                // Says where the option ends.
                r.skip(u64::from(count) * 24, what)?;
            }
            let mut samples = vec![Sample::default(); count as usize];
            for sample in &mut samples {
                sample.time = r.u64(what)?;
            }
            for sample in &mut samples {
                sample.offset = r.u64(what)? as i64;
            }
            for sample in &mut samples {
                sample.scaling = r.u64(what)?;
            }
            cpus.push(samples);
        }
        // Fraction bits came with trace-cmd 3.0; without them the ratio is whole.
        if !r.is_empty() {
            for sample in cpus.iter_mut().flatten() {
                sample.fraction = r.u64(what)?;
            }
        }
        for samples in &mut cpus {
            samples.sort_by_key(|s| s.time);
            samples.dedup_by_key(|s| s.time);
        }
        Ok(Self {
            peer,
            interpolate,
            cpus,
        })
    }

    fn samples(&self, cpu: u32) -> Vec<Sample> {
        self.cpus.get(cpu as usize).cloned().unwrap_or_default()
    }
}

/// The clock options of a whole file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clocks {
    pub(crate) tsc: Option<TscToNs>,
    pub(crate) shift: Option<TimeShift>,
    /// Sum of the offsets (nanoseconds).
    pub(crate) offset: i64,
}

impl Clocks {
    /// The conversion for one CPU of a buffer with this clock.
    pub(crate) fn of(&self, cpu: u32, clock: &str) -> CpuClock {
        let shift = self.shift.as_ref();
        CpuClock {
            samples: shift.map_or_else(Vec::new, |s| s.samples(cpu)),
            interpolate: shift.is_some_and(|s| s.interpolate),
            tsc: self
                .tsc
                .filter(|_| clock.is_empty() || clock.contains("tsc")),
            offset: self.offset,
        }
    }
}

/// The conversion of one CPU's time stamps.
#[derive(Debug, Clone, Default)]
pub(crate) struct CpuClock {
    samples: Vec<Sample>,
    interpolate: bool,
    tsc: Option<TscToNs>,
    offset: i64,
}

impl CpuClock {
    /// Whether time stamps stay as they are.
    pub(crate) fn is_identity(&self) -> bool {
        self.samples.is_empty() && self.tsc.is_none() && self.offset == 0
    }

    pub(crate) fn apply(&self, raw: u64) -> u64 {
        let shifted = self.shift(raw);
        let ns = self.tsc.map_or(shifted, |tsc| tsc.apply(shifted));
        ns.saturating_add_signed(self.offset)
    }

    /// Moves a guest's stamp to the host's clock.
    fn shift(&self, raw: u64) -> u64 {
        // The pair of samples around the stamp; the first or last pair outside of all.
        let after = self.samples.partition_point(|s| s.time <= raw);
        let last = self.samples.len().saturating_sub(2);
        let at = after.saturating_sub(1).min(last);
        match self.samples.get(at..).unwrap_or_default() {
            [] => raw,
            [only] => raw.saturating_add_signed(only.offset),
            [from, to, ..] => {
                let correction = if self.interpolate {
                    interpolate(from, to, raw)
                } else {
                    from.offset
                };
                let scaled = u128::from(raw) * u128::from(from.scaling);
                let scaled = scaled >> from.fraction.min(127);
                (scaled as u64).saturating_add_signed(correction)
            }
        }
    }
}

/// The offset at `raw` on the line through two samples, rounded as libtracecmd rounds.
fn interpolate(from: &Sample, to: &Sample, raw: u64) -> i64 {
    let delta = i128::from(to.time) - i128::from(from.time);
    let rise = i128::from(to.offset) - i128::from(from.offset);
    let way = (i128::from(raw) - i128::from(from.time)).saturating_mul(rise);
    let part = way
        .saturating_add(delta / 2)
        .checked_div(delta)
        .unwrap_or(0);
    (i128::from(from.offset) + part) as i64
}

/// A number as `strtoll` with base 0 reads it: sign, `0x`, leading zero for octal, junk behind.
pub(crate) fn number(text: &str) -> i64 {
    let text = text.trim_start();
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (radix, digits) = match hex {
        Some(digits) => (16, digits),
        None if text.starts_with('0') => (8, text),
        None => (10, text),
    };
    let value = digits.chars().map_while(|c| c.to_digit(radix));
    let value = value.fold(0_i64, |sum, digit| {
        let more = sum.saturating_mul(i64::from(radix));
        if negative {
            more.saturating_sub(i64::from(digit))
        } else {
            more.saturating_add(i64::from(digit))
        }
    });
    value
}

#[cfg(test)]
mod tests {
    use super::{CpuClock, Sample, TscToNs, number};

    fn sample(time: u64, offset: i64) -> Sample {
        Sample {
            time,
            offset,
            scaling: 1,
            fraction: 0,
        }
    }

    #[test]
    fn numbers_as_strtoll_reads_them() {
        let cases = [
            ("0x10", 16),
            ("-25", -25),
            ("017", 15),
            ("12abc", 12),
            ("", 0),
            ("0xffffffffffffffff", i64::MAX),
        ];
        for (text, value) in cases {
            assert_eq!(number(text), value, "{text}");
        }
    }

    #[test]
    fn ticks_first_and_then_the_offset() {
        let clock = CpuClock {
            tsc: Some(TscToNs { mult: 3, shift: 1 }),
            offset: -5,
            ..CpuClock::default()
        };
        assert_eq!(clock.apply(100), 145);
    }

    #[test]
    fn samples_of_a_guest() {
        let clock = |samples: &[Sample], interpolate| CpuClock {
            samples: samples.to_vec(),
            interpolate,
            ..CpuClock::default()
        };
        assert_eq!(clock(&[sample(9, 7)], false).apply(100), 107);
        let three = [sample(100, 10), sample(200, 20), sample(300, 60)];
        let steps = clock(&three, false);
        // Before the first, inside, on a sample and after the last but one.
        let got = [50, 150, 200, 250, 999].map(|t| steps.apply(t));
        assert_eq!(got, [60, 160, 220, 270, 1019]);
        let lines = clock(&three, true);
        let got = [50, 150, 200, 250, 400].map(|t| lines.apply(t));
        assert_eq!(got, [56, 165, 220, 290, 500]);
        let half = Sample {
            scaling: 3,
            fraction: 1,
            ..sample(0, 0)
        };
        assert_eq!(clock(&[half, sample(1000, 0)], false).apply(100), 150);
    }
}
