//! Budgets that clients share: bytes of request bodies, requests under way, connections.
//!
//! A client may hold as much as it leaves free: one alone half, two a third each. So a newcomer always finds
//! something, however many hold their share.

use super::auth::{Caller, CallerProof};
use super::request::peer::ClientAddress;
use crate::domain::account::AuthMode;
use crate::domain::fair_share::Holdings;
use crate::domain::id::UserId;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Whose share it is: a user's, or without credentials that of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ShareOwner {
    User(UserId),
    Address(ClientAddress),
}

impl ShareOwner {
    /// The owner of a request's share; `None` where clients cannot be told apart: with one user, and without
    /// credentials behind a proxy that names no addresses.
    pub(crate) fn of(mode: AuthMode, caller: &Caller, address: ClientAddress) -> Option<Self> {
        match (mode, caller.proof) {
            (AuthMode::Multi, CallerProof::Nobody) => Self::of_address(address),
            (mode, _) => Self::of_user(mode, caller.user),
        }
    }

    /// The owner of the share of a user's work.
    pub(crate) fn of_user(mode: AuthMode, user: UserId) -> Option<Self> {
        (mode == AuthMode::Multi).then_some(Self::User(user))
    }

    /// The owner of a connection's share.
    pub(crate) fn of_address(address: ClientAddress) -> Option<Self> {
        address.is_own().then_some(Self::Address(address))
    }
}

/// Why a budget gives nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShareRefusal {
    /// The client holds its share.
    Share,
    /// All of it is taken.
    Full,
}

/// A budget. What it gives is returned when the [`HeldShare`] is dropped.
#[derive(Debug)]
pub(crate) struct SharedBudget {
    whole: usize,
    /// A client may hold this much even if less is free.
    least: usize,
    /// Beyond the whole, for small takes alone.
    reserve: usize,
    held: Mutex<Holdings<Option<ShareOwner>>>,
}

impl SharedBudget {
    /// A budget of `whole`, of which each client may hold at least `least`, with a reserve for small takes.
    pub(crate) fn new(whole: usize, least: usize, reserve: usize) -> Arc<Self> {
        Arc::new(Self { whole, least, reserve, held: Mutex::default() })
    }

    /// The size without the reserve.
    pub(crate) fn whole(&self) -> usize {
        self.whole
    }

    /// Whether at least half is taken.
    pub(crate) fn is_half_taken(&self) -> bool {
        self.lock().total() >= self.whole / 2
    }

    fn take(&self, owner: Option<ShareOwner>, amount: usize, is_small: bool) -> Result<(), ShareRefusal> {
        let mut held = self.lock();
        let most = if is_small { self.whole.saturating_add(self.reserve) } else { self.whole };
        let taken = held.total().saturating_add(amount);
        if taken > most {
            return Err(ShareRefusal::Full);
        }
        let share = most.saturating_sub(taken).max(self.least);
        if owner.is_some() && held.of(owner).saturating_add(amount) > share {
            return Err(ShareRefusal::Share);
        }
        held.take(owner, amount);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Holdings<Option<ShareOwner>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one request or connection holds of a budget.
#[derive(Debug)]
pub(crate) struct HeldShare {
    budget: Arc<SharedBudget>,
    owner: Option<ShareOwner>,
    amount: usize,
}

impl HeldShare {
    /// Holds nothing yet.
    pub(crate) fn new(budget: &Arc<SharedBudget>, owner: Option<ShareOwner>) -> Self {
        Self { budget: Arc::clone(budget), owner, amount: 0 }
    }

    /// Holds nothing yet, of the same budget and owner.
    pub(crate) fn another(&self) -> Self {
        Self::new(&self.budget, self.owner)
    }

    /// One place of a budget of places.
    pub(crate) fn place(budget: &Arc<SharedBudget>, owner: Option<ShareOwner>) -> Result<Self, ShareRefusal> {
        let mut held = Self::new(budget, owner);
        held.grow(1, 0)?;
        Ok(held)
    }

    /// Takes `amount` more. Up to `small` in all it may come from the reserve.
    pub(crate) fn grow(&mut self, amount: usize, small: usize) -> Result<(), ShareRefusal> {
        let held = self.amount.saturating_add(amount);
        self.budget.take(self.owner, amount, held <= small)?;
        self.amount = held;
        Ok(())
    }

    /// Returns everything.
    pub(crate) fn clear(&mut self) {
        let amount = std::mem::take(&mut self.amount);
        if amount > 0 {
            self.budget.lock().give_back(self.owner, amount);
        }
    }

    /// The budget.
    pub(crate) fn budget(&self) -> &SharedBudget {
        &self.budget
    }
}

impl Drop for HeldShare {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVE: Option<ShareOwner> = Some(ShareOwner::User(UserId(1)));
    const BOB: Option<ShareOwner> = Some(ShareOwner::User(UserId(2)));
    const CAY: Option<ShareOwner> = Some(ShareOwner::User(UserId(3)));

    fn taken_by(budget: &Arc<SharedBudget>, owner: Option<ShareOwner>) -> Vec<HeldShare> {
        std::iter::from_fn(|| HeldShare::place(budget, owner).ok()).collect()
    }

    #[test]
    fn a_client_holds_as_much_as_it_leaves_free() {
        let budget = SharedBudget::new(12, 0, 0);
        let eve = taken_by(&budget, EVE);
        assert_eq!(eve.len(), 6);
        assert_eq!(HeldShare::place(&budget, EVE).unwrap_err(), ShareRefusal::Share);
        let bob = taken_by(&budget, BOB);
        assert_eq!((bob.len(), taken_by(&budget, CAY).len()), (3, 1));
        drop(eve);
        assert_eq!(taken_by(&budget, BOB).len(), 3, "what is returned may be taken");
    }

    #[test]
    fn without_accounts_one_client_takes_all() {
        let budget = SharedBudget::new(3, 0, 0);
        let all = taken_by(&budget, None);
        assert_eq!(all.len(), 3);
        assert_eq!(HeldShare::place(&budget, None).unwrap_err(), ShareRefusal::Full);
    }

    #[test]
    fn small_takes_find_the_reserve_and_each_client_the_least() {
        let budget = SharedBudget::new(100, 60, 20);
        let (mut eve, mut bob) = (HeldShare::new(&budget, EVE), HeldShare::new(&budget, BOB));
        assert_eq!(eve.grow(60, 10), Ok(()), "as much as the least, although less is free");
        assert_eq!(eve.grow(1, 10), Err(ShareRefusal::Share));
        assert_eq!(bob.grow(40, 10), Ok(()));
        assert!(budget.is_half_taken());
        let mut small = HeldShare::new(&budget, CAY);
        assert_eq!(small.grow(10, 10), Ok(()), "small");
        assert_eq!(small.grow(1, 10), Err(ShareRefusal::Full), "no longer small");
        eve.clear();
        assert_eq!(small.grow(1, 10), Ok(()));
    }
}
