//! Storage with stable, checked references, and a fast hash map for small integer keys.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::num::{NonZeroU32, NonZeroU64};

/// A reference that notices when its element is gone: its index, then its generation. That is never
/// zero, so that an absent one takes no more room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ref(NonZeroU64);

impl Ref {
    #[inline]
    fn new(index: u32, generation: NonZeroU32) -> Self {
        Self(NonZeroU64::from(generation) | u64::from(index) << 32)
    }

    #[inline]
    fn index(self) -> usize {
        (self.0.get() >> 32) as usize
    }

    #[inline]
    fn generation(self) -> u32 {
        self.0.get() as u32
    }
}

/// `None` of a kind that is not expected: what follows from it is kept apart from the usual code.
#[cold]
#[inline]
pub(crate) fn unusual<T>() -> Option<T> {
    None
}

/// Elements that come and go.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<(NonZeroU32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> Ref {
        if let Some(index) = self.free.pop() {
            if let Some(slot) = self.slots.get_mut(index as usize) {
                slot.0 = slot.0.checked_add(1).unwrap_or(NonZeroU32::MIN);
                slot.1 = Some(value);
                return Ref::new(index, slot.0);
            }
        }
        let generation = NonZeroU32::MIN;
        self.slots.push((generation, Some(value)));
        Ref::new(self.slots.len() as u32 - 1, generation)
    }

    #[inline]
    pub(crate) fn get(&self, at: Ref) -> Option<&T> {
        match self.slots.get(at.index()) {
            Some(slot) if slot.0.get() == at.generation() => slot.1.as_ref(),
            _ => unusual(),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: Ref) -> Option<&mut T> {
        match self.slots.get_mut(at.index()) {
            Some(slot) if slot.0.get() == at.generation() => slot.1.as_mut(),
            _ => unusual(),
        }
    }

    pub(crate) fn remove(&mut self, at: Ref) -> Option<T> {
        self.remove_if(at, |_| true)
    }

    /// Removes an element that is accepted.
    #[inline]
    pub(crate) fn remove_if(&mut self, at: Ref, accept: impl FnOnce(&T) -> bool) -> Option<T> {
        let slot = self.slots.get_mut(at.index())?;
        if slot.0.get() != at.generation() || !slot.1.as_ref().is_some_and(accept) {
            return None;
        }
        let value = slot.1.take()?;
        self.free.push(at.index() as u32);
        Some(value)
    }

    /// Changes an element; if the change tells that it is over, removes it where it is.
    #[inline]
    pub(crate) fn change(&mut self, at: Ref, change: impl FnOnce(&mut T) -> bool) {
        if let Some(slot) = self.slots.get_mut(at.index()) {
            if slot.0.get() == at.generation() && slot.1.as_mut().is_some_and(change) {
                slot.1 = None;
                self.free.push(at.index() as u32);
            }
        }
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Removes all elements, oldest slot first.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> {
        let free = &mut self.free;
        self.slots
            .iter_mut()
            .enumerate()
            .filter_map(|(index, slot)| {
                let value = slot.1.take()?;
                free.push(index as u32);
                Some(value)
            })
    }

    /// All elements, oldest slot first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Ref, &T)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(index, (generation, value))| {
                let at = Ref::new(index as u32, *generation);
                Some((at, value.as_ref()?))
            })
    }
}

/// Multiplicative hashing of integers: the keys are task numbers, tags and sectors.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct IntHasher(u64);

impl Hasher for IntHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_i32(&mut self, value: i32) {
        self.write_u64(u64::from(value as u32));
    }
}

pub(crate) type IntMap<K, V> = HashMap<K, V, BuildHasherDefault<IntHasher>>;
