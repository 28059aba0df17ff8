//! Driver, worker and pool against a scripted store, model, tools and clock.

mod active_leases;
mod answers;
mod approvals;
mod client_functions;
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
