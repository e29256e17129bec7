//! The block layer's `rwbs` letters.

/// A leading F (flush first), the operation, then flags (F: forced unit access, S: synchronous,
/// M: metadata, A: read-ahead, …). Ten letters at most (Linux 6.18; eight before).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rwbs {
    /// The first eight letters, the first one in the lowest byte; zeros behind the last.
    low: u64,
    high: u16,
}

const ONES: u64 = 0x0101_0101_0101_0101;

impl Rwbs {
    /// Takes the letters up to the first null, ten at most.
    #[inline]
    pub fn new(letters: &[u8]) -> Self {
        let Some(head) = letters.first_chunk::<8>() else {
            let mut head = [0; 8];
            for (to, &from) in head.iter_mut().zip(letters) {
                *to = from;
            }
            return Self {
                low: up_to_null(u64::from_le_bytes(head)).0,
                high: 0,
            };
        };
        let (low, ended) = up_to_null(u64::from_le_bytes(*head));
        let mut high = 0;
        if !ended {
            let mut rest = letters.iter().skip(8).take(2).take_while(|&&b| b != 0);
            let (first, second) = (rest.next(), rest.next());
            high = u16::from_le_bytes([first.copied().unwrap_or(0), second.copied().unwrap_or(0)]);
        }
        Self { low, high }
    }

    /// Takes the letters up to the first null; `None` without one.
    #[inline]
    pub fn short(letters: [u8; 8]) -> Option<Self> {
        let (low, ended) = up_to_null(u64::from_le_bytes(letters));
        ended.then_some(Self { low, high: 0 })
    }

    fn bytes(self) -> impl Iterator<Item = u8> {
        let bytes = self.low.to_le_bytes().into_iter();
        bytes.chain(self.high.to_le_bytes()).take_while(|&b| b != 0)
    }

    /// The letters; other bytes than letters become `?`.
    pub fn letters(&self) -> String {
        let clean = |b: u8| {
            if b.is_ascii_alphabetic() {
                char::from(b)
            } else {
                '?'
            }
        };
        self.bytes().map(clean).collect()
    }

    /// A flush of the device's cache comes before the data.
    #[inline]
    pub fn preflush(&self) -> bool {
        self.low as u8 == b'F' && self.low > 0xff
    }

    /// The letter of the operation: R, W, D, F (a flush by itself), …
    #[inline]
    pub fn op(&self) -> u8 {
        if self.preflush() {
            (self.low >> 8) as u8
        } else {
            self.low as u8
        }
    }

    /// Whether the operation is the same, whatever the flags.
    #[inline]
    pub(crate) fn same_op(&self, other: &Self) -> bool {
        self.low == other.low || self.op() == other.op()
    }

    /// Forced unit access: a device without it gets a flush after the data.
    #[inline]
    pub fn fua(&self) -> bool {
        // All bits of a byte that is F become zeros; there is none behind the last letter.
        let flags = self.low >> (8 + 8 * u32::from(self.preflush()));
        let is_flag = up_to_null(flags ^ (ONES * u64::from(b'F'))).1;
        is_flag || self.high.to_le_bytes().contains(&b'F')
    }
}

impl std::fmt::Debug for Rwbs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.letters())
    }
}

/// The bytes before the first null byte, and whether there was one.
#[inline]
fn up_to_null(word: u64) -> (u64, bool) {
    let nulls = word.wrapping_sub(ONES) & !word & (ONES << 7);
    if nulls == 0 {
        return (word, false);
    }
    let keep = nulls.trailing_zeros() & !7;
    (word & ((1 << keep) - 1), true)
}

#[cfg(test)]
mod tests {
    use super::Rwbs;

    #[test]
    fn letters_end_at_the_first_null() {
        for (bytes, letters) in [
            (b"WS\0xxxxxxx".as_slice(), "WS"),
            (b"FWFSM\0\0\0", "FWFSM"),
            (b"FWFSMABCDE", "FWFSMABCDE"),
            (b"FWFSMABC\0E", "FWFSMABC"),
            (b"R", "R"),
            (b"\0RRRRRRRRR", ""),
            (b"", ""),
            (b"W\x80S\0", "W?S"),
        ] {
            assert_eq!(Rwbs::new(bytes).letters(), letters);
        }
    }

    #[test]
    fn flags() {
        let flags = |text: &[u8]| {
            let rwbs = Rwbs::new(text);
            (rwbs.preflush(), rwbs.op(), rwbs.fua())
        };
        assert_eq!(flags(b"FWFSM\0\0\0"), (true, b'W', true));
        assert_eq!(flags(b"FF\0\0\0\0\0\0"), (true, b'F', false));
        assert_eq!(flags(b"F\0\0\0\0\0\0\0"), (false, b'F', false));
        assert_eq!(flags(b"WFS\0\0\0\0\0"), (false, b'W', true));
        assert_eq!(flags(b"RA\0\0\0\0\0\0"), (false, b'R', false));
    }
}
