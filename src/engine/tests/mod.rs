//! Driver, worker and pool against a store, a model, tools and a clock that do as a test tells them.

mod active_leases;
mod answers;
mod approvals;
mod context;
mod crash;
mod drive;
mod faults;

mod fixture;
mod pool;
mod stall_detector;
mod stops;
mod store;

pub(in crate::engine) use store::spec;
