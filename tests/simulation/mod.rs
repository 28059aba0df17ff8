//! The durable engine in a world that a seed has made (P1, P2, P3, P4): one thread, many virtual workers,
//! faults between any two writes; and what must hold after every step. `world` and `acts` say what can
//! happen; `oracle`, `order`, `client_records` and `batches` what must hold.
//!
//! `TEST_SEEDS` sets the number of seeds. `TEST_SEED` runs one; `TEST_TRACE` prints what happens in it.
#![warn(clippy::disallowed_methods, reason = "time comes in through a clock of the test")]

mod approvals;
mod batches;
mod client_actions;
mod client_records;
mod clock;
mod disk_faults;
mod fairness;
mod model;
mod oracle;
mod schedules;
mod server_process;
mod store;
mod tools;
mod world;

mod cases;
