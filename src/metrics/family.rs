//! A family of metrics: one name, and a value for each set of labels. Owns the bound on how many of these there are: what
//! comes later is counted under `other` (P8).

use super::text::{Text, labels};
use super::value::Metric;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Sets of labels that one family keeps. A route has some ten with its methods and statuses, a tool or a model two.
pub(super) const SERIES: usize = 1_000;

/// What stands for every label of what comes too late.
pub(super) const OTHER: &str = "other";
/// As many as any family has labels.
const OTHERS: [&str; 4] = [OTHER; 4];

/// What a family is called.
#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) labels: &'static [&'static str],
}

/// The family.
#[derive(Debug)]
pub(super) struct Family<M> {
    about: About,
    make: fn() -> M,
    /// By their labels as they are told.
    series: RwLock<BTreeMap<String, Arc<M>>>,
}

impl<M: Metric> Family<M> {
    pub(super) fn new(about: About, make: fn() -> M) -> Self {
        Self { about, make, series: RwLock::default() }
    }

    /// The value of these labels, as many as the family has.
    pub(super) fn of(&self, values: &[&str]) -> Arc<M> {
        self.of_or(values, &OTHERS)
    }

    /// The same; what comes too late is counted under `late`, of which there must be few.
    pub(super) fn of_or(&self, values: &[&str], late: &[&str]) -> Arc<M> {
        let key = labels(self.about.labels, values);
        if let Some(found) = self.series.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Arc::clone(found);
        }
        let mut series = self.series.write().unwrap_or_else(PoisonError::into_inner);
        let is_late = series.len() >= SERIES && !series.contains_key(&key);
        let key = if is_late { labels(self.about.labels, late) } else { key };
        Arc::clone(series.entry(key).or_insert_with(|| Arc::new((self.make)())))
    }

    /// All of it; nothing while there is no value.
    pub(super) fn tell(&self, text: &mut Text) {
        let series = self.series.read().unwrap_or_else(PoisonError::into_inner);
        if series.is_empty() {
            return;
        }
        text.head(self.about.name, M::KIND, self.about.help);
        for (labels, metric) in series.iter() {
            metric.tell(self.about.name, labels, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::value::Counter;
    use super::*;

    fn family() -> Family<Counter> {
        let about = About { name: "n_total", help: "what", labels: &["tool", "outcome"] };
        Family::new(about, Counter::default)
    }

    fn told(family: &Family<Counter>) -> String {
        let mut text = Text::default();
        family.tell(&mut text);
        text.into_string()
    }

    #[test]
    fn head_stands_once_and_an_empty_family_says_nothing() {
        let family = family();
        assert_eq!(told(&family), "");
        family.of(&["b", "ok"]).add(1);
        family.of(&["a", "ok"]).add(2);
        family.of(&["b", "ok"]).add(3);
        let expected = "# HELP n_total what\n# TYPE n_total counter\n\
            n_total{tool=\"a\",outcome=\"ok\"} 2\nn_total{tool=\"b\",outcome=\"ok\"} 4\n";
        assert_eq!(told(&family), expected);
    }

    #[test]
    fn p8_the_number_of_series_is_bounded_and_nothing_goes_uncounted() {
        let family = family();
        for number in 0..SERIES + 500 {
            family.of(&[&format!("tool{number}"), "ok"]).add(1);
        }
        let text = told(&family);
        assert_eq!(text.lines().count(), 2 + SERIES + 1);
        assert!(
            text.contains("n_total{tool=\"other\",outcome=\"other\"} 500\n"),
            "the rest stands under other"
        );
        family.of_or(&["new", "ok"], &["new", OTHER]).add(1);
        assert!(told(&family).contains("n_total{tool=\"new\",outcome=\"other\"} 1\n"), "what is known stays");
        family.of(&["tool3", "ok"]).add(1);
        assert!(told(&family).contains("n_total{tool=\"tool3\",outcome=\"ok\"} 2\n"), "the known go on");
    }
}
