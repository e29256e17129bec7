//! The bios of a device that wait for a request, by place.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::slab::Ref;

/// First sector and age.
pub(crate) type Place = (u64, u64);

/// Ordered by place. Mostly there is one bio or none, and a tree is slow at that.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// The only one; then the tree is empty.
    one: Option<(Place, Ref)>,
    tree: BTreeMap<Place, Ref>,
}

impl Waiting {
    pub(crate) fn len(&self) -> usize {
        usize::from(self.one.is_some()) + self.tree.len()
    }

    pub(crate) fn insert(&mut self, place: Place, bio: Ref) {
        if let Some((other, at)) = self.one.take() {
            self.tree.insert(other, at);
        } else if self.tree.is_empty() {
            self.one = Some((place, bio));
            return;
        }
        self.tree.insert(place, bio);
    }

    pub(crate) fn remove(&mut self, place: Place) {
        match self.one {
            Some((one, _)) if one == place => self.one = None,
            Some(_) => {}
            None => _ = self.tree.remove(&place),
        }
    }

    /// Those in a range of places, in order.
    pub(crate) fn range(&self, places: Range<Place>) -> impl Iterator<Item = Ref> {
        let one = self.one.filter(|(place, _)| places.contains(place));
        let more = (self.one.is_none() && !self.tree.is_empty()).then(|| self.tree.range(places));
        let more = more.into_iter().flatten().map(|(_, &at)| at);
        one.map(|(_, at)| at).into_iter().chain(more)
    }

    /// Those with this first sector, oldest first.
    pub(crate) fn at(&self, sector: u64) -> impl Iterator<Item = Ref> {
        self.range((sector, 0)..(sector, u64::MAX))
    }

    /// Takes all out, in order.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (Place, Ref)> {
        let tree = std::mem::take(&mut self.tree);
        self.one.take().into_iter().chain(tree)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::slab::Slab;

    proptest! {
        #[test]
        fn like_a_tree(steps in prop::collection::vec((any::<bool>(), 0..4_u64, 0..3_u64), 0..40)) {
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
                let range = (1, 1)..(3, 0);
                let found: Vec<Ref> = waiting.range(range.clone()).collect();
                let wanted: Vec<Ref> = tree.range(range).map(|(_, &at)| at).collect();
                prop_assert_eq!(found, wanted);
            }
            prop_assert!(waiting.drain().eq(tree));
        }
    }
}
