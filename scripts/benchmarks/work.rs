//! Work done per core-second: how much work a process tree does with one second of processor time. A rate
//! alone hides the cores that it takes, because clients and providers share them.

use crate::process::tree_cpu_s;
use crate::results::Results;
use crate::unit::{Unit, format_ratio};
use std::time::Instant;

/// Headings of the columns of [`rows`].
pub(crate) const COLUMNS: [&str; 5] = ["work", "a second", "cores", "per core-second", "better by"];

/// The rate of some work, and the processor time of the process tree that did it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Work {
    pub(crate) per_second: f64,
    /// User and system time, divided by time.
    pub(crate) cores: f64,
}

impl Work {
    /// Measures the tree of this process while `work` runs, which returns a rate.
    pub(crate) fn measure(root: u32, work: impl FnOnce() -> f64) -> Self {
        Self::measure_all(&[root], work)
    }

    /// The same for several processes.
    pub(crate) fn measure_all(roots: &[u32], work: impl FnOnce() -> f64) -> Self {
        let spent_s = || roots.iter().map(|root| tree_cpu_s(*root)).sum::<f64>();
        let (began, cpu_s) = (Instant::now(), spent_s());
        let per_second = work();
        Self { per_second, cores: (spent_s() - cpu_s) / began.elapsed().as_secs_f64() }
    }

    /// The better one of two rounds.
    pub(crate) fn max(self, other: Self) -> Self {
        if other.per_second > self.per_second { other } else { self }
    }

    pub(crate) fn per_core_second(self) -> f64 {
        self.per_second / self.cores
    }
}

/// The cells of [`COLUMNS`] for each figure whose work was measured, in the order of the list.
pub(crate) fn rows(results: &Results) -> Vec<[String; 5]> {
    let row = |(figure, work): (&'static crate::figures::Figure, Work)| {
        let ours = figure.peer_of.and_then(|key| results.work(key));
        let ratio = ours.map(|ours| ours.per_core_second() / work.per_core_second());
        let ratio = ratio.filter(|ratio| ratio.is_finite());
        let name = figure.name.trim_end_matches(", p50");
        [
            if figure.peer_of.is_some() { format!("peer: {name}") } else { name.to_owned() },
            Unit::PerSecond.format(work.per_second),
            format!("{:.2}", work.cores),
            Unit::PerSecond.format(work.per_core_second()).trim_end_matches("/s").to_owned(),
            ratio.map_or(String::new(), |ratio| format!("{} ×", format_ratio(ratio))),
        ]
    };
    results.works().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_needs_twice_the_time_is_half_as_good() {
        let mut results = Results::default();
        results.record_work("enqueue.64", Work { per_second: 3_000.0, cores: 0.5 });
        results.record_work("enqueue.64.bare", Work { per_second: 6_000.0, cores: 2.0 });
        let rows = rows(&results);
        assert_eq!(rows[0], ["durable enqueue, 64 clients", "3,000/s", "0.50", "6,000", ""]);
        assert_eq!(rows[1], ["peer: bare hyper + redb", "6,000/s", "2.00", "3,000", "2 ×"]);
    }
}
