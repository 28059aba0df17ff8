//! The durable engine in a world that a seed has made (P1, P2, P3, P4): one thread, many virtual workers, faults between
//! any two writes; and what must hold after every step. `world` and `acts` say what can happen; `truth`, `order`, `books`
//! and `batches` what must hold.
//!
//! `NANOCLAW_SIM_SEEDS` says how many seeds; `NANOCLAW_SIM_SEED` runs just one, as a failure tells.

#[cfg(test)]
mod acts;
#[cfg(test)]
mod approvals;
#[cfg(test)]
mod batches;
#[cfg(test)]
mod books;
#[cfg(test)]
mod clock;
#[cfg(test)]
#[path = "../store_kit/disk.rs"]
mod disk;
#[cfg(test)]
mod fate;
#[cfg(test)]
#[path = "../store_kit/mod.rs"]
mod kit;
#[cfg(test)]
mod life;
#[cfg(test)]
mod model;
#[cfg(test)]
mod order;
#[cfg(test)]
mod schedules;
#[cfg(test)]
mod store;
#[cfg(test)]
mod tools;
#[cfg(test)]
mod truth;
#[cfg(test)]
mod world;

#[cfg(test)]
mod cases;
