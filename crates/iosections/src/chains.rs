//! Chains of requests by their first sector.

use crate::slab::Ref;

/// More than requests are in flight as a rule, so that a chain rarely has more than one.
pub(crate) const CHAINS: usize = 256;

/// The requests of a device in chains by their place: of each the oldest one; the younger ones
/// hang on it ([`Request::younger`](crate::request::Request::younger)).
#[derive(Debug)]
pub(crate) struct Places {
    oldest: [Option<Ref>; CHAINS],
    pub(crate) count: usize,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            oldest: [None; CHAINS],
            count: 0,
        }
    }
}

impl Places {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub(crate) fn chain(&self, key: u64) -> Option<Ref> {
        self.oldest.get(chain_of(key)).copied().flatten()
    }

    #[inline]
    pub(crate) fn chain_mut(&mut self, key: u64) -> Option<&mut Option<Ref>> {
        self.oldest.get_mut(chain_of(key))
    }
}

/// Multiplied, for sectors are multiples of a power of two.
#[inline]
fn chain_of(key: u64) -> usize {
    usize::from((key.wrapping_mul(0x517c_c1b7_2722_0a95) >> 56) as u8)
}
