//! A family of metrics with a bounded number of series (P8).

use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::{HistogramVec, IntCounterVec, IntGaugeVec};
use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

/// Maximum number of series in a family. A route needs about ten, for its methods and statuses.
pub(super) const MAX_SERIES: usize = 1_000;

/// The value of every label of further series.
pub(super) const OTHER: &str = "other";
/// As many labels as any family has.
const OTHERS: [&str; 4] = [OTHER; 4];

/// The common operations of the three types of metrics.
pub(super) trait MetricFamily: Clone {
    type Series: Clone;
    /// The series with these label values; `None` if their number is wrong.
    fn series(&self, values: &[&str]) -> Option<Self::Series>;
}

impl<B: MetricVecBuilder> MetricFamily for MetricVec<B> {
    type Series = B::M;

    fn series(&self, values: &[&str]) -> Option<B::M> {
        self.get_metric_with_label_values(values).ok()
    }
}

pub(super) struct Family<F: MetricFamily> {
    vector: F,
    labels: usize,
    /// By their label values, joined with NUL.
    series: RwLock<HashMap<String, F::Series>>,
}

impl<F: MetricFamily> Debug for Family<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Family").finish_non_exhaustive()
    }
}

impl<F: MetricFamily> Family<F> {
    /// A family without labels has its only series from the start.
    pub(super) fn new(vector: F, labels: usize) -> Self {
        let family = Self { vector, labels, series: RwLock::default() };
        if labels == 0 {
            family.declare(&[]);
        }
        family
    }

    /// All series as they are exposed.
    pub(super) fn collect(&self) -> Vec<prometheus::proto::MetricFamily>
    where
        F: Collector,
    {
        self.vector.collect()
    }

    /// Makes the series visible before its first measurement.
    pub(super) fn declare(&self, values: &[&str]) {
        drop(self.series(values, None));
    }

    /// The series with these label values. Above the limit, the series of `overflow`, which must have few
    /// different values; by default every label of it is `other`.
    pub(super) fn series(&self, values: &[&str], overflow: Option<&[&str]>) -> Option<F::Series> {
        let key = values.join("\0");
        if let Some(existing) = self.series.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Some(existing.clone());
        }
        let mut series_by_key = self.series.write().unwrap_or_else(PoisonError::into_inner);
        let (key, values) = if series_by_key.len() >= MAX_SERIES && !series_by_key.contains_key(&key) {
            let overflow = overflow.or_else(|| OTHERS.get(..self.labels))?;
            (overflow.join("\0"), overflow)
        } else {
            (key, values)
        };
        let series = self.vector.series(values)?;
        Some(series_by_key.entry(key).or_insert(series).clone())
    }
}

impl Family<IntCounterVec> {
    pub(super) fn add(&self, values: &[&str], count: u64) {
        if let Some(counter) = self.series(values, None) {
            counter.inc_by(count);
        }
    }
}

impl Family<IntGaugeVec> {
    pub(super) fn set(&self, values: &[&str], value: i64) {
        if let Some(gauge) = self.series(values, None) {
            gauge.set(value);
        }
    }

    pub(super) fn change(&self, difference: i64) {
        if let Some(gauge) = self.series(&[], None) {
            gauge.add(difference);
        }
    }
}

impl Family<HistogramVec> {
    pub(super) fn observe(&self, values: &[&str], value: f64) {
        if let Some(histogram) = self.series(values, None) {
            histogram.observe(value);
        }
    }

    pub(super) fn observe_us(&self, values: &[&str], us: u64) {
        self.observe(values, Duration::from_micros(us).as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::{Opts, Registry, TextEncoder};

    fn family() -> (Family<IntCounterVec>, Registry) {
        let counters =
            IntCounterVec::new(Opts::new("n_total", "help"), &["tool", "outcome"]).expect("a family");
        let registry = Registry::new();
        registry.register(Box::new(counters.clone())).expect("registered");
        (Family::new(counters, 2), registry)
    }

    fn text(registry: &Registry) -> String {
        TextEncoder::new().encode_to_string(&registry.gather()).expect("text")
    }

    #[test]
    fn a_family_has_one_head_and_an_empty_family_is_left_out() {
        let (family, registry) = family();
        assert_eq!(text(&registry), "");
        family.add(&["b", "ok"], 1);
        family.add(&["a", "ok"], 2);
        family.add(&["b", "ok"], 3);
        let expected = "# HELP n_total help\n# TYPE n_total counter\n\
            n_total{outcome=\"ok\",tool=\"a\"} 2\nn_total{outcome=\"ok\",tool=\"b\"} 4\n";
        assert_eq!(text(&registry), expected);
    }

    #[test]
    fn p8_the_number_of_series_is_bounded_and_every_measurement_is_counted() {
        let (family, registry) = family();
        for number in 0..MAX_SERIES + 500 {
            family.add(&[&format!("tool{number}"), "ok"], 1);
        }
        let rendered = text(&registry);
        assert_eq!(rendered.lines().count(), 2 + MAX_SERIES + 1);
        assert!(rendered.contains("n_total{outcome=\"other\",tool=\"other\"} 500\n"), "{rendered}");
        family.series(&["new", "ok"], Some(&["new", OTHER])).expect("a series").inc_by(1);
        assert!(text(&registry).contains("n_total{outcome=\"other\",tool=\"new\"} 1\n"), "known labels stay");
        family.add(&["tool3", "ok"], 1);
        assert!(text(&registry).contains("n_total{outcome=\"ok\",tool=\"tool3\"} 2\n"), "known series go on");
    }

    #[test]
    fn a_wrong_number_of_labels_is_not_counted() {
        let (family, registry) = family();
        family.add(&["a"], 1);
        assert_eq!(text(&registry), "");
    }
}
