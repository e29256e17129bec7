//! The bios of a device that wait for a request, by place.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::slab::Ref;

/// First sector and age.
pub(crate) type Place = (u64, u64);

/// Bios kept in a list; more of them are in a tree, which is slow for a few.
const FEW: usize = 32;

/// Ordered by place.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// Rising; then the tree is empty.
    few: Vec<(Place, Ref)>,
    tree: BTreeMap<Place, Ref>,
}

impl Waiting {
    pub(crate) fn len(&self) -> usize {
        self.few.len() + self.tree.len()
    }

    /// The only one in a range of places, and its number; `None` also where it is not quickly told.
    #[inline]
    pub(crate) fn only(&self, places: &Range<Place>) -> Option<(usize, Ref)> {
        // As a rule there is no other.
        if let [(place, at)] = self.few.as_slice() {
            return places.contains(place).then_some((0, *at));
        }
        let numbers = self.few_in(places);
        let [(_, at)] = self.few.get(numbers.clone())? else {
            return None;
        };
        Some((numbers.start, *at))
    }

    #[inline(never)]
    fn few_in(&self, places: &Range<Place>) -> Range<usize> {
        let from = self.few.partition_point(|few| few.0 < places.start);
        let rest = self.few.get(from..).unwrap_or_default();
        // As a rule there are few of them.
        let beyond = rest.iter().position(|few| few.0 >= places.end);
        from..from + beyond.unwrap_or(rest.len())
    }

    #[inline]
    pub(crate) fn insert(&mut self, place: Place, bio: Ref) {
        let is_last = self.few.last().is_none_or(|last| last.0 < place);
        if is_last && self.few.len() < FEW && self.tree.is_empty() {
            self.few.push((place, bio));
        } else {
            self.insert_among(place, bio);
        }
    }

    #[inline(never)]
    fn insert_among(&mut self, place: Place, bio: Ref) {
        if self.few.len() >= FEW {
            self.tree.extend(self.few.drain(..));
        }
        if !self.tree.is_empty() {
            self.tree.insert(place, bio);
            return;
        }
        match self.few.binary_search_by_key(&place, |few| few.0) {
            Ok(number) => {
                if let Some(few) = self.few.get_mut(number) {
                    few.1 = bio;
                }
            }
            Err(number) => self.few.insert(number, (place, bio)),
        }
    }

    pub(crate) fn remove(&mut self, place: Place) {
        if let Some(number) = self.few.iter().position(|few| few.0 == place) {
            self.remove_number(number);
        } else if !self.tree.is_empty() {
            self.tree.remove(&place);
        }
    }

    /// Removes one that [`Waiting::only`] gave.
    #[inline]
    pub(crate) fn remove_number(&mut self, number: usize) {
        if number + 1 == self.few.len() {
            self.few.pop();
        } else if number < self.few.len() {
            self.few.remove(number);
        }
    }

    /// Those in a range of places, in order.
    pub(crate) fn range(&self, places: Range<Place>) -> impl DoubleEndedIterator<Item = Ref> {
        let few = self.few.get(self.few_in(&places)).unwrap_or_default();
        let more = (!self.tree.is_empty()).then(|| self.tree.range(places));
        let more = more.into_iter().flatten().map(|(_, &at)| at);
        few.iter().map(|few| few.1).chain(more)
    }

    /// Those with this first sector, oldest first.
    pub(crate) fn at(&self, sector: u64) -> impl Iterator<Item = Ref> {
        self.range((sector, 0)..(sector, u64::MAX))
    }

    /// Takes all out, in order.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (Place, Ref)> {
        let (few, tree) = (
            std::mem::take(&mut self.few),
            std::mem::take(&mut self.tree),
        );
        few.into_iter().chain(tree)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::slab::Slab;

    proptest! {
        #[test]
        fn like_a_tree(steps in prop::collection::vec((any::<bool>(), 0..9_u64, 0..9_u64), 0..200)) {
            let (mut slab, mut waiting, mut tree) = (Slab::default(), Waiting::default(), BTreeMap::new());
            for (add, sector, age) in steps {
                if add {
                    let at = slab.insert(());
                    waiting.insert((sector, age), at);
                    tree.insert((sector, age), at);
                } else {
                    waiting.remove((sector, age));
                    tree.remove(&(sector, age));
                }
                prop_assert_eq!(waiting.len(), tree.len());
                let range = (1, 1)..(5, 0);
                let found: Vec<Ref> = waiting.range(range.clone()).collect();
                let wanted: Vec<Ref> = tree.range(range).map(|(_, &at)| at).collect();
                prop_assert_eq!(found, wanted);
            }
            prop_assert!(waiting.drain().eq(tree));
        }
    }
}
