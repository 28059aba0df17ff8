//! Running jobs. Owns the loop: `turn` decides, `driver` performs (`asking` the model for what `context` puts together, tools
//! report to its `journal`, `aside` asks for summaries and for a `title`), `worker` claims and finishes, `pool` keeps the
//! threads, `setup` is what they are given, `backoff` how long a failed job waits; `timekeeper` makes jobs of schedules
//! that are due; `vigil` names jobs that do not get on, by what `held` knows of their `progress`. Refuses to know any tool, any wire dialect and any file format: all of that comes
//! in through [`crate::ports`].

mod aside;
mod asking;
mod backoff;
mod context;
mod held;
mod journal;
mod progress;
mod setup;
mod title;

pub mod driver;
pub mod pool;
pub mod timekeeper;
pub mod turn;
pub mod vigil;
pub mod worker;

pub use backoff::Backoff;
pub use setup::{DriveLimits, Ports};

#[cfg(test)]
mod tests;
