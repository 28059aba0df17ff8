//! Figures of the counted metrics for `GET /v1/status`.

use super::family::Family;
use super::meter::{GOOD_OUTCOMES, Metrics};
use super::process::resident_bytes;
use crate::ports::{ModelCalls, Percentiles, ServerFigures};
use prometheus::proto::{Metric, MetricFamily};
use prometheus::{HistogramVec, IntGaugeVec};
use std::collections::BTreeMap;

impl Metrics {
    /// The figures at this moment.
    pub fn figures(&self) -> ServerFigures {
        let families = &self.families;
        ServerFigures {
            started_at_ms: self.started_at_ms,
            workers: self.workers as u64,
            workers_busy: families.workers_busy.value(),
            streams: families.streams.value(),
            memory_bytes: resident_bytes(),
            commit: families.commit_seconds.percentiles(),
            first_token: families.first_token.percentiles(),
            job: families.duration.percentiles(),
            notification_lag: families.database_seconds.percentiles_of(Some("notification")),
            models: self.model_calls(),
        }
    }

    /// Calls that were made, by model.
    fn model_calls(&self) -> Vec<ModelCalls> {
        let mut models: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for metric in metrics_of(&self.families.model_calls.collect()) {
            let label = |wanted| metric.get_label().iter().find(|label| label.name() == wanted);
            let (Some(model), Some(outcome)) = (label("model"), label("outcome")) else { continue };
            let made = metric.get_histogram().get_sample_count();
            let (calls, failures) = models.entry(model.value().to_owned()).or_default();
            *calls = calls.saturating_add(made);
            if !GOOD_OUTCOMES.contains(&outcome.value()) {
                *failures = failures.saturating_add(made);
            }
        }
        let calls = |(model, (calls, failures))| ModelCalls { model, calls, failures };
        models.into_iter().map(calls).collect()
    }
}

fn metrics_of(families: &[MetricFamily]) -> impl Iterator<Item = &Metric> {
    families.iter().flat_map(MetricFamily::get_metric)
}

impl Family<IntGaugeVec> {
    /// The value of a gauge without labels.
    fn value(&self) -> u64 {
        let value = self.series(&[], None).map_or(0, |gauge| gauge.get());
        u64::try_from(value).unwrap_or(0)
    }
}

impl Family<HistogramVec> {
    /// The percentiles of all series together; `None` while nothing was counted.
    fn percentiles(&self) -> Option<Percentiles> {
        self.percentiles_of(None)
    }

    /// The same of the series with this value of a label.
    fn percentiles_of(&self, value: Option<&str>) -> Option<Percentiles> {
        let (mut buckets, mut total): (Vec<(f64, u64)>, u64) = (Vec::new(), 0);
        let is_wanted = |metric: &&Metric| {
            value.is_none_or(|value| metric.get_label().iter().any(|label| label.value() == value))
        };
        for metric in metrics_of(&self.collect()).filter(is_wanted) {
            total = total.saturating_add(metric.get_histogram().get_sample_count());
            for (place, bucket) in metric.get_histogram().get_bucket().iter().enumerate() {
                match buckets.get_mut(place) {
                    Some((_, count)) => *count = count.saturating_add(bucket.cumulative_count()),
                    None => buckets.push((bucket.upper_bound(), bucket.cumulative_count())),
                }
            }
        }
        let ms = |share| Some(quantile_s(&buckets, total, share)? * 1_000.0);
        Some(Percentiles { p50_ms: ms(0.5)?, p99_ms: ms(0.99)? })
    }
}

/// The quantile of cumulative counts, as `histogram_quantile` of Prometheus computes it: linear within a
/// bucket; beyond the last bound, that bound.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn quantile_s(buckets: &[(f64, u64)], total: u64, share: f64) -> Option<f64> {
    if total == 0 {
        return None;
    }
    let rank = total as f64 * share;
    let (mut lower, mut below) = (0.0, 0.0);
    for (bound, count) in buckets {
        let count = *count as f64;
        if count >= rank && count > below {
            return Some(lower + (bound - lower) * ((rank - below) / (count - below)));
        }
        (lower, below) = (*bound, count);
    }
    Some(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated_within_their_bucket() {
        let buckets = [(0.1, 0), (0.2, 50), (0.4, 100)];
        for (total, share, expected) in [
            (100, 0.25, Some(0.15)),
            (100, 0.5, Some(0.2)),
            (100, 0.75, Some(0.3)),
            (200, 0.99, Some(0.4)),
            (0, 0.5, None),
        ] {
            let found = quantile_s(&buckets, total, share);
            let is_near = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 1e-9,
                (found, expected) => found.is_none() && expected.is_none(),
            };
            assert!(is_near, "{total} {share}: {found:?}, not {expected:?}");
        }
    }
}
