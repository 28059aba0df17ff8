//! The results of a run with their goals and ratios: rows for people, JSON for
//! programs, and the missed goals.

use crate::figures::{FIGURES, FSYNC, Figure, Goal, find};
use crate::unit::{Unit, format_ratio};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Headings of the columns of [`Results::rows`].
pub(crate) const COLUMNS: [&str; 5] = ["figure", "measured", "goal", "met", "better by"];

/// The outcome of one figure.
#[derive(Debug, Clone)]
enum Outcome {
    Measured { value: f64, note: String },
    Skipped(String),
}

/// The outcomes and the versions of the peers of one run.
#[derive(Debug, Default)]
pub(crate) struct Results {
    outcomes: BTreeMap<&'static str, Outcome>,
    peer_versions: Vec<(String, String)>,
}

impl Results {
    /// Stores a value in the figure's unit and prints it on stderr.
    pub(crate) fn record(&mut self, key: &str, value: f64) {
        self.record_with_note(key, value, "");
    }

    /// The same with a note, for example another quantile.
    pub(crate) fn record_with_note(&mut self, key: &str, value: f64, note: &str) {
        let figure = figure_of(key);
        let outcome = Outcome::Measured { value, note: note.to_owned() };
        eprintln!("  {}: {}", figure.name, format_outcome(figure, &outcome));
        self.outcomes.insert(figure.key, outcome);
    }

    /// Records why a figure is missing.
    pub(crate) fn skip(&mut self, key: &str, reason: &str) {
        let figure = figure_of(key);
        eprintln!("  {}: skipped: {reason}", figure.name);
        self.outcomes.insert(figure.key, Outcome::Skipped(reason.to_owned()));
    }

    /// Records a value, or why it is missing.
    pub(crate) fn record_or_skip(&mut self, key: &str, value: Result<f64, String>) {
        match value {
            Ok(value) => self.record(key, value),
            Err(reason) => self.skip(key, &reason),
        }
    }

    /// Skips the figures of a group that have no outcome. Returns whether one of ours is among them.
    pub(crate) fn skip_missing(&mut self, group: &str, with_peers: bool) -> bool {
        let missing: Vec<&Figure> = FIGURES
            .iter()
            .filter(|figure| figure.group() == group && !self.outcomes.contains_key(figure.key))
            .filter(|figure| with_peers || !figure.needs_peers())
            .collect();
        for figure in &missing {
            self.skip(figure.key, "it could not be measured; the run's stderr says why");
        }
        missing.iter().any(|figure| figure.peer_of.is_none())
    }

    /// Records the version of a peer, once.
    pub(crate) fn record_version(&mut self, peer: &str, version: &str) {
        if !self.peer_versions.iter().any(|(name, _)| name == peer) {
            self.peer_versions.push((peer.to_owned(), version.to_owned()));
        }
    }

    /// Names and versions of the peers.
    pub(crate) fn peer_versions(&self) -> &[(String, String)] {
        &self.peer_versions
    }

    /// Whether a figure that needs `--peers` was measured or skipped.
    pub(crate) fn has_peers(&self) -> bool {
        FIGURES.iter().any(|figure| figure.needs_peers() && self.outcomes.contains_key(figure.key))
    }

    pub(crate) fn value(&self, key: &str) -> Option<f64> {
        match self.outcomes.get(key)? {
            Outcome::Measured { value, .. } => Some(*value),
            Outcome::Skipped(_) => None,
        }
    }

    /// The cells of [`COLUMNS`] for each measured or skipped figure, in the order of the list.
    pub(crate) fn rows(&self) -> Vec<[String; 5]> {
        FIGURES.iter().filter_map(|figure| self.row(figure)).collect()
    }

    /// The same for some groups.
    pub(crate) fn rows_of(&self, groups: &[&str]) -> Vec<[String; 5]> {
        let figures = FIGURES.iter().filter(|figure| groups.contains(&figure.group()));
        figures.filter_map(|figure| self.row(figure)).collect()
    }

    /// Name and reason of each skipped figure.
    pub(crate) fn skipped(&self) -> Vec<(String, &str)> {
        let name_and_reason = |figure: &'static Figure| match self.outcomes.get(figure.key)? {
            Outcome::Skipped(reason) => Some((full_name(figure), reason.as_str())),
            Outcome::Measured { .. } => None,
        };
        FIGURES.iter().filter_map(name_and_reason).collect()
    }

    /// Names of the figures that miss their goal.
    pub(crate) fn missed_goals(&self) -> Vec<&'static str> {
        FIGURES.iter().filter(|figure| self.is_met(figure) == Some(false)).map(|figure| figure.name).collect()
    }

    /// Every measured or skipped figure, as an array of objects.
    pub(crate) fn json(&self) -> Value {
        let object = |figure: &'static Figure| {
            let outcome = self.outcomes.get(figure.key)?;
            let mut object = json!({
                "key": figure.key, "name": figure.name, "unit": format!("{:?}", figure.unit()),
                "goal": self.format_goal(figure), "met": self.is_met(figure), "peer_of": figure.peer_of,
                "better_by": self.better_by(figure),
            });
            match outcome {
                Outcome::Measured { value, note } => {
                    object["value"] = json!(value);
                    object["note"] = json!(note);
                }
                Outcome::Skipped(reason) => object["skipped"] = json!(reason),
            }
            Some(object)
        };
        FIGURES.iter().filter_map(object).collect()
    }

    fn row(&self, figure: &'static Figure) -> Option<[String; 5]> {
        let outcome = self.outcomes.get(figure.key)?;
        let name =
            if figure.peer_of.is_some() { format!("peer: {}", figure.name) } else { figure.name.to_owned() };
        let met = match self.is_met(figure) {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "",
        };
        let ratio =
            self.better_by(figure).map_or(String::new(), |ratio| format!("{} ×", format_ratio(ratio)));
        Some([name, format_outcome(figure, outcome), self.format_goal(figure), met.to_owned(), ratio])
    }

    /// The goal as text, with the measured disk time where the goal adds it.
    fn format_goal(&self, figure: &Figure) -> String {
        match figure.goal {
            Goal::None => String::new(),
            Goal::AtMost(most) => format!("≤ {}", figure.unit.format_goal(most)),
            Goal::AtLeast(least) => format!("≥ {}", figure.unit.format_goal(least)),
            Goal::AtMostAndFsync(most) => match self.value(FSYNC) {
                Some(fsync) => {
                    format!(
                        "≤ {} + fdatasync = {}",
                        figure.unit.format_goal(most),
                        Unit::Ms.format(most + fsync)
                    )
                }
                None => format!("≤ {} + fdatasync", figure.unit.format_goal(most)),
            },
            Goal::Times(peers) => {
                let each: Vec<String> = peers
                    .iter()
                    .map(|(times, name, _)| format!("≥ {} × {name}", format_ratio(*times)))
                    .collect();
                each.join(", ")
            }
        }
    }

    /// Whether the goal is met. `None`: no goal, or nothing to compare with.
    fn is_met(&self, figure: &Figure) -> Option<bool> {
        let value = self.value(figure.key)?;
        match figure.goal {
            Goal::None => None,
            Goal::AtMost(most) => Some(value <= most),
            Goal::AtLeast(least) => Some(value >= least),
            Goal::AtMostAndFsync(most) => Some(value <= most + self.value(FSYNC)?),
            Goal::Times(peers) => {
                let met: Vec<bool> = peers
                    .iter()
                    .filter_map(|(times, _, key)| Some(value >= times * self.value(key)?))
                    .collect();
                (!met.is_empty()).then(|| met.iter().all(|is_met| *is_met))
            }
        }
    }

    /// The factor by which our figure is better than this peer's; below 1 the peer is better.
    fn better_by(&self, figure: &Figure) -> Option<f64> {
        let key = figure.peer_of?;
        let (ours, theirs) = (self.value(key)?, self.value(figure.key)?);
        let ratio = if figure.unit().is_larger_better() { ours / theirs } else { theirs / ours };
        // A difference of two medians may be zero or negative.
        (ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }
}

fn figure_of(key: &str) -> &'static Figure {
    find(key).unwrap_or_else(|| panic!("the list has no figure '{key}'"))
}

fn full_name(figure: &Figure) -> String {
    match figure.peer_of.and_then(find) {
        Some(ours) => format!("{}: {}", ours.name, figure.name),
        None => figure.name.to_owned(),
    }
}

fn format_outcome(figure: &Figure, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Measured { value, note } if note.is_empty() => figure.unit().format(*value),
        Outcome::Measured { value, note } => format!("{} ({note})", figure.unit().format(*value)),
        Outcome::Skipped(_) => "skipped".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_of_ratios_must_hold_for_every_measured_peer() {
        let mut results = Results::default();
        results.record("enqueue.64", 3_000.0);
        let figure = figure_of("enqueue.64");
        assert_eq!(results.is_met(figure), None);
        results.record("enqueue.64.bare", 5_000.0);
        assert_eq!(results.is_met(figure), Some(true));
        results.record("enqueue.64.bullmq", 2_000.0);
        assert_eq!(results.is_met(figure), Some(false));
        assert_eq!(results.missed_goals(), vec!["durable enqueue, 64 clients"]);
    }

    #[test]
    fn a_ratio_above_one_means_better_for_rates_and_for_times() {
        let mut results = Results::default();
        results.record("enqueue.64", 3_000.0);
        results.record("enqueue.64.bullmq", 1_000.0);
        results.record("sandbox.python", 2.0);
        results.record("sandbox.python.bwrap", 10.0);
        assert_eq!(results.better_by(figure_of("enqueue.64.bullmq")), Some(3.0));
        assert_eq!(results.better_by(figure_of("sandbox.python.bwrap")), Some(5.0));
    }

    #[test]
    fn the_time_of_the_disk_counts_in_the_goal_and_in_its_text() {
        let mut results = Results::default();
        results.record("first.event", 6.0);
        assert_eq!(results.is_met(figure_of("first.event")), None);
        results.record(FSYNC, 1.5);
        assert_eq!(results.is_met(figure_of("first.event")), Some(true));
        let rows = results.rows();
        assert_eq!(rows[1][2..4], ["≤ 5 ms + fdatasync = 6.50 ms".to_owned(), "yes".to_owned()]);
    }

    #[test]
    fn figures_without_an_outcome_are_skipped() {
        let mut results = Results::default();
        results.record("size.binary", 1.0);
        assert!(!results.skip_missing("size", true));
        assert!(results.skip_missing("first", false));
        let skipped = results.skipped();
        assert_eq!(skipped.len(), 3, "{skipped:?}");
        assert!(results.skip_missing("start", true));
    }

    #[test]
    fn keys_are_unique_and_peers_name_an_existing_figure() {
        for (at, figure) in FIGURES.iter().enumerate() {
            assert!(!FIGURES[..at].iter().any(|other| other.key == figure.key), "{}", figure.key);
            if let Some(key) = figure.peer_of {
                assert!(find(key).is_some() && figure.key.starts_with(key), "{}", figure.key);
            }
            if let Goal::Times(peers) = figure.goal {
                assert!(peers.iter().all(|(_, _, key)| find(key).is_some()), "{}", figure.key);
            }
        }
    }
}
