//! Simulates the durable engine from a seed (P1, P2, P3, P4): one thread, many virtual workers, faults
//! between any two writes, and invariants that are checked after every step. `world` and `client_actions`
//! contain the actions; `oracle`, `known_job`, `fairness`,
//! `client_records` and `batches` contain the invariants.
//!
//! The store is a file on a simulated disk, or `PostgreSQL` behind a proxy that makes faults. In the second
//! case the threads of the store, its sockets and the server are real: heartbeats and retention run at their
//! own times, so a seed repeats nearly always, not always.
//!
//! `TEST_SEEDS` and `TEST_DATABASE_SEEDS` set the number of seeds. `TEST_SEED` runs one seed; `TEST_TRACE`
//! prints its events.
#![warn(clippy::disallowed_methods, reason = "time comes in through a clock of the test")]

mod approvals;
mod batches;
mod client_actions;
mod client_records;
mod clock;
mod disk_faults;
mod fairness;
mod known_job;
mod model;
mod oracle;
mod process_faults;
mod schedules;
mod server_process;
mod store;
mod tools;
mod world;

mod cases;
