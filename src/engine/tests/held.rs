//! Which leases shutdown can pull.

use super::rig::FakeClock;
use super::store::FakeStore;
use crate::engine::worker::Held;
use crate::ports::{CancelReason, Clock, Lease, Store};
use std::sync::Arc;

fn claim(store: &FakeStore) -> Lease {
    store.claim(1).wait().expect("a claim").pop().expect("a job")
}

#[test]
fn a_fenced_worker_leaves_its_successors_lease_alone() {
    let (store, held) = (FakeStore::new(), Held::default());
    let clock: Arc<dyn Clock> = Arc::new(FakeClock::default());
    let old = claim(&store);
    held.insert(&old, &clock);
    store.raise(CancelReason::LeaseLost);
    let new = claim(&store);
    held.insert(&new, &clock);
    held.remove(&old);
    assert_eq!(held.count(), 1, "the successor's lease is still held");
    held.raise_all(CancelReason::Shutdown);
    assert_eq!(new.cancel.reason(), Some(CancelReason::Shutdown));
}
