//! Which leases shutdown can pull.

use super::store::FakeStore;
use crate::engine::worker::Held;
use crate::ports::{Lease, Stop, Store};

fn claim(store: &FakeStore) -> Lease {
    store.claim(1).wait().expect("a claim").pop().expect("a job")
}

#[test]
fn a_fenced_worker_leaves_its_successors_lease_alone() {
    let (store, held) = (FakeStore::new(), Held::default());
    let old = claim(&store);
    held.insert(&old, &clock);
    store.raise(Stop::Fenced);
    let new = claim(&store);
    held.insert(&new, &clock);
    held.remove(&old);
    assert_eq!(held.count(), 1, "the successor's lease is still held");
    held.raise_all(Stop::Shutdown);
    assert_eq!(new.stop.raised(), Some(Stop::Shutdown));
}
