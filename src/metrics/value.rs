//! What is counted: counters, gauges and histograms in fixed buckets, each on atomics. Owns how a value is told; refuses
//! labels (`family` has them).

use super::text::{Kind, Text};
use std::fmt::Debug;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Something of which there is one for each set of labels.
pub(super) trait Metric: Debug + Send + Sync {
    const KIND: Kind;
    /// Its samples.
    fn tell(&self, name: &str, labels: &str, text: &mut Text);
}

/// Only rises.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }
}

impl Metric for Counter {
    const KIND: Kind = Kind::Counter;

    fn tell(&self, name: &str, labels: &str, text: &mut Text) {
        text.sample(name, labels, self.0.load(Ordering::Relaxed));
    }
}

/// Rises and falls.
#[derive(Debug, Default)]
pub(super) struct Gauge(AtomicI64);

impl Gauge {
    pub(super) fn add(&self, more: i64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

impl Metric for Gauge {
    const KIND: Kind = Kind::Gauge;

    fn tell(&self, name: &str, labels: &str, text: &mut Text) {
        text.sample(name, labels, self.0.load(Ordering::Relaxed));
    }
}

/// The upper bounds of buckets, rising, and how many of their units make one of what is told: 1,000,000 where
/// microseconds are counted and seconds are told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buckets {
    pub(super) bounds: &'static [u64],
    pub(super) per_unit: u64,
}

impl Buckets {
    #[expect(
        clippy::cast_precision_loss,
        reason = "what is told is a double: sums beyond 2^53 lose their last digits"
    )]
    fn told(self, value: u64) -> f64 {
        value as f64 / self.per_unit as f64
    }
}

/// How often something was how large.
#[derive(Debug)]
pub(super) struct Histogram {
    buckets: Buckets,
    /// One for each bound, and one for what is larger than all; not cumulative.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    pub(super) fn new(buckets: Buckets) -> Self {
        let counts = (0..=buckets.bounds.len()).map(|_| AtomicU64::default()).collect();
        Self { buckets, counts, sum: AtomicU64::default() }
    }

    /// It was so large. A bound belongs to its own bucket.
    pub(super) fn observe(&self, value: u64) {
        let at = self.buckets.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
    }
}

impl Metric for Histogram {
    const KIND: Kind = Kind::Histogram;

    /// The count is the last bucket's, so the two agree whatever is observed meanwhile.
    fn tell(&self, name: &str, labels: &str, text: &mut Text) {
        let comma = if labels.is_empty() { "" } else { "," };
        let bucket = format!("{name}_bucket");
        let bounds = self.buckets.bounds.iter().map(|bound| self.buckets.told(*bound).to_string());
        let mut below = 0_u64;
        for (count, bound) in self.counts.iter().zip(bounds.chain(["+Inf".to_owned()])) {
            below = below.saturating_add(count.load(Ordering::Relaxed));
            text.sample(&bucket, &format!("{labels}{comma}le=\"{bound}\""), below);
        }
        text.sample(&format!("{name}_sum"), labels, self.buckets.told(self.sum.load(Ordering::Relaxed)));
        text.sample(&format!("{name}_count"), labels, below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(metric: &impl Metric, labels: &str) -> String {
        let mut text = Text::default();
        metric.tell("m", labels, &mut text);
        text.into_string()
    }

    #[test]
    fn buckets_are_cumulative_and_a_bound_belongs_to_its_own() {
        let histogram = Histogram::new(Buckets { bounds: &[500, 1_000_000, 2_500_000], per_unit: 1_000_000 });
        for value in [0, 500, 501, 1_000_000, 2_500_001, 90_000_000] {
            histogram.observe(value);
        }
        let expected = "m_bucket{le=\"0.0005\"} 2\nm_bucket{le=\"1\"} 4\nm_bucket{le=\"2.5\"} 4\n\
            m_bucket{le=\"+Inf\"} 6\nm_sum 93.501002\nm_count 6\n";
        assert_eq!(told(&histogram, ""), expected);
        assert!(told(&histogram, "a=\"b\"").contains("m_bucket{a=\"b\",le=\"+Inf\"} 6\nm_sum{a=\"b\"} 93.5"));
    }

    #[test]
    fn a_gauge_falls_below_nothing_and_a_counter_rises() {
        let (gauge, counter) = (Gauge::default(), Counter::default());
        gauge.add(-2);
        counter.add(3);
        counter.add(4);
        assert_eq!((told(&gauge, ""), told(&counter, "")), ("m -2\n".to_owned(), "m 7\n".to_owned()));
        gauge.set(5);
        assert_eq!(told(&gauge, "x=\"y\""), "m{x=\"y\"} 5\n");
    }
}
