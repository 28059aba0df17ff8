//! `GET /metrics`: counts [`crate::ports::Measurement`]s and reads the state of the store for each scrape.
//!
//! A family keeps a bounded number of series (P8). No label names a user or data of a user (P7).

mod families;
mod family;
mod figures;
mod meter;
mod process;
mod scrape;
#[cfg(test)]
mod testing;

pub use meter::{Metrics, ServerInfo};
pub use prometheus::Error as MetricsError;
pub use scrape::Scrape;

#[cfg(test)]
mod tests;
