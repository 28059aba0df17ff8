//! How users share places that are not taken back: workers for jobs, slots for programs, threads for
//! searches.
//!
//! The waiting user who holds the fewest places goes first. One user may fill all regular places. Reserve
//! places, which exist beside them, serve users who hold none.

use std::collections::HashMap;
use std::hash::Hash;

/// The rule for a number of regular places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FairShare {
    regular: usize,
}

impl FairShare {
    /// A quarter of this many regular places, and at least one, is the reserve beside them.
    pub const fn of(regular: usize) -> Self {
        Self { regular }
    }

    /// The reserve places.
    pub const fn reserve(self) -> usize {
        if self.regular < 4 { 1 } else { self.regular / 4 }
    }

    /// All places.
    pub const fn places(self) -> usize {
        self.regular.saturating_add(self.reserve())
    }

    /// Whether a user who holds `held` places may take another one while `taken` places are taken in all.
    /// A user who holds fewer may if one who holds more may.
    pub fn admits(self, held: usize, taken: usize) -> bool {
        taken < if held == 0 { self.places() } else { self.regular }
    }
}

/// What each owner holds: places, or an amount of something else that owners share.
#[derive(Debug, Clone)]
pub struct Holdings<K> {
    /// Without owners that hold nothing.
    by_owner: HashMap<K, usize>,
    total: usize,
}

impl<K> Default for Holdings<K> {
    fn default() -> Self {
        Self { by_owner: HashMap::new(), total: 0 }
    }
}

impl<K: Copy + Eq + Hash> Holdings<K> {
    /// What this owner holds.
    pub fn of(&self, owner: K) -> usize {
        self.by_owner.get(&owner).copied().unwrap_or_default()
    }

    /// What all owners hold together.
    pub fn total(&self) -> usize {
        self.total
    }

    /// The owner takes `amount` more.
    pub fn take(&mut self, owner: K, amount: usize) {
        let held = self.by_owner.entry(owner).or_default();
        *held = held.saturating_add(amount);
        self.total = self.total.saturating_add(amount);
    }

    /// The owner gives `amount` back, at most what it holds.
    pub fn give_back(&mut self, owner: K, amount: usize) {
        let held = self.of(owner);
        let left = held.saturating_sub(amount);
        if left == 0 {
            self.by_owner.remove(&owner);
        } else {
            self.by_owner.insert(owner, left);
        }
        self.total = self.total.saturating_sub(held.saturating_sub(left));
    }

    /// The position of the waiting owner who gets the next place: of those who hold the fewest the first to
    /// come. `None` if nobody may take one now. `waiting` is in order of arrival.
    pub fn next(&self, share: FairShare, waiting: impl Iterator<Item = K>) -> Option<usize> {
        let (at, owner) = waiting.enumerate().min_by_key(|(_, owner)| self.of(*owner))?;
        share.admits(self.of(owner), self.total).then_some(at)
    }
}

/// The rank of a ready job in the queue; the least runs first. Waiting for `ageing_ms` counts as much as one
/// priority, so that no job waits for ever; 0 turns it off. `since_ms`: since when it has been ready, at most
/// now.
pub fn queue_rank(priority: u8, since_ms: u64, ageing_ms: u64) -> u64 {
    let level = u64::from(priority);
    match ageing_ms {
        0 => level,
        _ => level.saturating_mul(ageing_ms).saturating_add(since_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_fills_the_regular_places_and_others_get_one_of_the_reserve_each() {
        let share = FairShare::of(16);
        assert_eq!((share.reserve(), share.places()), (4, 20));
        assert!(share.admits(15, 15));
        assert!(!share.admits(16, 16));
        assert!(share.admits(0, 16) && share.admits(0, 19));
        assert!(!share.admits(1, 17), "the reserve is for users who hold nothing");
        assert!(!share.admits(0, 20));
    }

    #[test]
    fn the_smallest_pool_has_a_reserve() {
        assert_eq!(FairShare::of(1).places(), 2);
        assert!(FairShare::of(1).admits(0, 1));
    }

    #[test]
    fn the_next_place_goes_to_the_first_of_those_who_hold_the_fewest() {
        let (share, mut held) = (FairShare::of(2), Holdings::default());
        held.take("ann", 2);
        held.take("bob", 1);
        assert_eq!((held.of("ann"), held.of("cat"), held.total()), (2, 0, 3));
        assert_eq!(held.next(share, ["ann", "bob"].into_iter()), None, "all places are taken");
        held.give_back("ann", 1);
        assert_eq!(held.next(share, ["ann", "bob"].into_iter()), None, "the reserve is for others");
        assert_eq!(held.next(share, ["ann", "cat", "cat"].into_iter()), Some(1));
        held.give_back("bob", 1);
        assert_eq!(held.next(share, ["ann", "bob"].into_iter()), Some(1));
        held.give_back("ann", 1);
        assert!(held.total() == 0 && held.by_owner.is_empty());
    }
}
