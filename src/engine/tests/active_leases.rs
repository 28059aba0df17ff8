//! Which leases shutdown can cancel.

use super::fixture::FakeClock;
use super::store::FakeStore;
use crate::engine::ActiveLeases;
use crate::ports::{CancelReason, Clock, Lease, Store};
use std::sync::Arc;

fn claim(store: &FakeStore) -> Lease {
    store.claim(1).wait().expect("a claim").pop().expect("a job")
}

#[test]
fn a_fenced_worker_does_not_remove_the_lease_of_its_successor() {
    let (store, leases) = (FakeStore::new(Arc::new(FakeClock::default())), ActiveLeases::default());
    let clock: Arc<dyn Clock> = Arc::new(FakeClock::default());
    let old = claim(&store);
    leases.insert(&old, &clock);
    store.cancel_lease(CancelReason::LeaseLost);
    let new = claim(&store);
    leases.insert(&new, &clock);
    leases.remove(&old);
    assert_eq!(leases.count(), 1, "the successor's lease is still active");
    leases.cancel_all(CancelReason::Shutdown);
    assert_eq!(new.cancel.reason(), Some(CancelReason::Shutdown));
}
