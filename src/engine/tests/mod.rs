//! Driver, worker and pool against a store, a model, tools and a clock that do as a test tells them.

mod answers;
mod approvals;
mod context;
mod crash;
mod drive;
mod faults;
mod held;
mod pool;
mod rig;
mod stops;
mod store;
mod vigil;

pub(in crate::engine) use store::spec;
