//! What `GET /metrics` says. Owns the names, labels and buckets of all metrics, the counting (`meter`), and Prometheus' text
//! format 0.0.4 (`text`); refuses to know what it counts: the rooms note it through [`crate::ports::Meter`], and what stands
//! in the store is asked for when somebody comes to fetch it (`scrape`).
//!
//! A family keeps a bounded number of series (`family`, P8); no label names a user or what is a user's (P7).

mod buckets;
mod families;
mod family;
mod meter;
mod process;
mod scrape;
#[cfg(test)]
mod testing;
mod text;
mod value;

pub use meter::{Facts, Metrics};
pub use scrape::Scrape;

#[cfg(test)]
mod tests;
