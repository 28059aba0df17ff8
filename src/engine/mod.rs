//! Runs jobs. `turn` decides the next step from the job's log and does no I/O; `driver` performs the step;
//! `worker` claims jobs, `pool` owns the worker threads, `scheduler` makes jobs of due schedules,
//! `stall_detector` logs jobs without progress. Tools, providers and storage come in through
//! [`crate::ports`].

mod active_leases;
mod backoff;
mod preamble;
mod run_progress;
mod setup;

pub mod driver;
pub mod pool;
pub mod scheduler;
pub mod stall_detector;
pub mod turn;
pub mod worker;

pub use active_leases::ActiveLeases;
pub use backoff::Backoff;
pub use preamble::PreambleOptions;
pub use setup::{EngineLimits, EnginePorts};

#[cfg(test)]
mod tests;
