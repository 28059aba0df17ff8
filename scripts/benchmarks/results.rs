//! The results of a run with their goals and ratios: rows for people, JSON for
//! programs, and the missed goals.

use crate::figures::{self, FSYNC, Figure, Goal, find};
use crate::unit::{Unit, format_ratio};
use crate::work::Work;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Headings of the columns of [`Results::rows`].
pub(crate) const COLUMNS: [&str; 6] = ["figure", "before", "measured", "goal", "met", "better by"];

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
    works: BTreeMap<&'static str, Work>,
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

    /// Takes the outcomes of an earlier run from what [`Results::json`] wrote.
    pub(crate) fn restore(&mut self, figures: &[Value]) {
        for figure in figures {
            let Some(known) = figure["key"].as_str().and_then(find) else { continue };
            let note = figure["note"].as_str().unwrap_or_default().to_owned();
            let outcome = match (figure["value"].as_f64(), figure["skipped"].as_str()) {
                (Some(value), _) => Outcome::Measured { value, note },
                (None, Some(reason)) => Outcome::Skipped(reason.to_owned()),
                (None, None) => continue,
            };
            self.outcomes.insert(known.key, outcome);
            let work = (figure["cores"].as_f64(), figure["per_core_second"].as_f64());
            if let (Some(cores), Some(rate)) = work {
                self.works.insert(known.key, Work { per_second: rate * cores, cores });
            }
        }
    }

    /// Records a rate with its processor time.
    pub(crate) fn record_rate(&mut self, key: &str, work: Work) {
        self.record(key, work.per_second);
        self.record_work(key, work);
    }

    /// Records the processor time of the work behind a figure.
    pub(crate) fn record_work(&mut self, key: &str, work: Work) {
        self.works.insert(figure_of(key).key, work);
    }

    /// The work behind a figure.
    pub(crate) fn work(&self, key: &str) -> Option<Work> {
        self.works.get(key).copied()
    }

    /// Figures whose work was measured, in the order of the list.
    pub(crate) fn works(&self) -> impl Iterator<Item = (&'static Figure, Work)> {
        figures::all().filter_map(|figure| Some((figure, self.work(figure.key)?)))
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

    /// The same for a rate with its processor time.
    pub(crate) fn record_rate_or_skip(&mut self, key: &str, rate: Result<Work, String>) {
        match rate {
            Ok(work) => self.record_rate(key, work),
            Err(reason) => self.skip(key, &reason),
        }
    }

    /// Skips the figures of a group that have no outcome. Returns whether one of ours is among them.
    pub(crate) fn skip_missing(&mut self, group: &str, with_peers: bool) -> bool {
        let missing: Vec<&Figure> = figures::all()
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
        figures::all().any(|figure| figure.needs_peers() && self.outcomes.contains_key(figure.key))
    }

    pub(crate) fn value(&self, key: &str) -> Option<f64> {
        match self.outcomes.get(key)? {
            Outcome::Measured { value, .. } => Some(*value),
            Outcome::Skipped(_) => None,
        }
    }

    /// The cells of [`COLUMNS`] for each measured or skipped figure, in the order of the list. An earlier run
    /// fills the column "before".
    pub(crate) fn rows(&self, before: Option<&Self>) -> Vec<[String; 6]> {
        figures::all().filter_map(|figure| self.row(figure, before)).collect()
    }

    /// The same for some groups.
    pub(crate) fn rows_of(&self, groups: &[&str], before: Option<&Self>) -> Vec<[String; 6]> {
        let figures = figures::all().filter(|figure| groups.contains(&figure.group()));
        figures.filter_map(|figure| self.row(figure, before)).collect()
    }

    /// Name and reason of each skipped figure.
    pub(crate) fn skipped(&self) -> Vec<(String, &str)> {
        let name_and_reason = |figure: &'static Figure| match self.outcomes.get(figure.key)? {
            Outcome::Skipped(reason) => Some((full_name(figure), reason.as_str())),
            Outcome::Measured { .. } => None,
        };
        figures::all().filter_map(name_and_reason).collect()
    }

    /// The figures that miss a goal.
    pub(crate) fn missed_goals(&self) -> Vec<&'static Figure> {
        figures::all().filter(|figure| self.is_met(figure) == Some(false)).collect()
    }

    /// Every measured or skipped figure, as an array of objects.
    pub(crate) fn json(&self) -> Value {
        let object = |figure: &'static Figure| {
            let outcome = self.outcomes.get(figure.key)?;
            let mut object = json!({
                "key": figure.key, "name": figure.name, "unit": format!("{:?}", figure.unit()),
                "goal": self.format_goals(figure), "met": self.is_met(figure), "peer_of": figure.peer_of,
                "better_by": self.better_by(figure),
            });
            match outcome {
                Outcome::Measured { value, note } => {
                    object["value"] = json!(value);
                    object["note"] = json!(note);
                }
                Outcome::Skipped(reason) => object["skipped"] = json!(reason),
            }
            if let Some(work) = self.work(figure.key) {
                object["cores"] = json!(work.cores);
                object["per_core_second"] = json!(work.per_core_second());
            }
            Some(object)
        };
        figures::all().filter_map(object).collect()
    }

    fn row(&self, figure: &'static Figure, before: Option<&Self>) -> Option<[String; 6]> {
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
        let before = before.and_then(|before| before.outcomes.get(figure.key));
        let before = match before {
            Some(Outcome::Measured { .. }) => before.map(|outcome| format_outcome(figure, outcome)),
            _ => None,
        };
        let (measured, goals) = (format_outcome(figure, outcome), self.format_goals(figure));
        Some([name, before.unwrap_or_default(), measured, goals, met.to_owned(), ratio])
    }

    /// The goals as text, with the measured disk time where a goal adds it.
    fn format_goals(&self, figure: &Figure) -> String {
        let sign = if figure.unit.is_larger_better() { '≥' } else { '≤' };
        let format_goal = |goal: &Goal| self.format_goal(figure, sign, goal);
        figure.goals.iter().map(format_goal).collect::<Vec<_>>().join(", ")
    }

    fn format_goal(&self, figure: &Figure, sign: char, goal: &Goal) -> String {
        match *goal {
            Goal::AtMost(bound) | Goal::AtLeast(bound) => {
                format!("{sign} {}", figure.unit.format_goal(bound))
            }
            Goal::AtMostAndFsync(most) => {
                let text = format!("{sign} {} + fdatasync", figure.unit.format_goal(most));
                let sum = self.value(FSYNC).map(|fsync| Unit::Ms.format(most + fsync));
                sum.map_or(text.clone(), |sum| format!("{text} = {sum}"))
            }
            Goal::Times { factor, peer, .. } => format!("{sign} {} × {peer}", format_ratio(factor)),
            Goal::AnyOf(goals) => {
                let goals = goals.iter().map(|goal| self.format_goal(figure, sign, goal));
                goals.collect::<Vec<_>>().join(" or ")
            }
        }
    }

    /// Whether all goals are met that have something to compare with. `None`: there is none.
    fn is_met(&self, figure: &Figure) -> Option<bool> {
        let value = self.value(figure.key)?;
        let met: Vec<bool> = self.met(figure, value, figure.goals);
        (!met.is_empty()).then(|| met.iter().all(|is_met| *is_met))
    }

    /// Whether the value meets each of the goals that have something to compare with.
    fn met(&self, figure: &Figure, value: f64, goals: &[Goal]) -> Vec<bool> {
        goals.iter().filter_map(|goal| self.meets(figure, value, *goal)).collect()
    }

    fn meets(&self, figure: &Figure, value: f64, goal: Goal) -> Option<bool> {
        match goal {
            Goal::AtMost(most) => Some(value <= most),
            Goal::AtLeast(least) => Some(value >= least),
            Goal::AtMostAndFsync(most) => Some(value <= most + self.value(FSYNC)?),
            Goal::Times { factor, key, .. } => {
                let bound = factor * self.value(key)?;
                Some(if figure.unit.is_larger_better() { value >= bound } else { value <= bound })
            }
            Goal::AnyOf(goals) => {
                let met = self.met(figure, value, goals);
                (!met.is_empty()).then(|| met.contains(&true))
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
    use crate::figures::times;

    #[test]
    fn a_goal_of_ratios_must_hold_for_every_measured_peer() {
        let mut results = Results::default();
        results.record("enqueue.64", 3_000.0);
        let figure = figure_of("enqueue.64");
        assert_eq!(results.is_met(figure), None);
        results.record("enqueue.64.bare", 4_000.0);
        assert_eq!(results.is_met(figure), Some(true));
        results.record("enqueue.64.bullmq", 4_000.0);
        assert_eq!(results.is_met(figure), Some(false));
        let missed: Vec<&str> = results.missed_goals().into_iter().map(|figure| figure.key).collect();
        assert_eq!(missed, ["enqueue.64"]);
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
        let rows = results.rows(None);
        assert_eq!(rows[1][3..5], ["≤ 5 ms + fdatasync = 6.50 ms".to_owned(), "yes".to_owned()]);
    }

    #[test]
    fn a_factor_is_an_upper_bound_where_less_is_better() {
        let mut results = Results::default();
        results.record("sandbox.python", 2.0);
        results.record("sandbox.python.plain", 8.0);
        assert_eq!(results.rows(None)[0][3..5], ["≤ 0.25 × python3".to_owned(), "yes".to_owned()]);
        results.record("sandbox.python", 2.1);
        assert_eq!(results.is_met(figure_of("sandbox.python")), Some(false));
    }

    #[test]
    fn each_of_several_goals_must_hold() {
        let both = [Goal::AtLeast(10.0), Goal::Times { factor: 2.0, peer: "bare", key: "enqueue.64.bare" }];
        let figure = Figure { goals: Vec::from(both).leak(), ..*figure_of("enqueue.64") };
        let mut results = Results::default();
        results.record("enqueue.64", 30.0);
        results.record("enqueue.64.bare", 15.0);
        assert_eq!(results.is_met(&figure), Some(true));
        assert_eq!(results.format_goals(&figure), "≥ 10/s, ≥ 2 × bare");
        results.record("enqueue.64.bare", 16.0);
        assert_eq!(results.is_met(&figure), Some(false));
    }

    #[test]
    fn one_of_the_goals_that_stand_for_each_other_is_enough() {
        const GOALS: &[Goal] =
            &[times(5.0, "BullMQ", "enqueue.64.bullmq"), times(2.0, "bare", "enqueue.64.bare")];
        let figure = Figure { goals: &[Goal::AnyOf(GOALS)], ..*figure_of("enqueue.64") };
        let mut results = Results::default();
        results.record("enqueue.64", 30.0);
        assert_eq!(results.is_met(&figure), None);
        results.record("enqueue.64.bare", 16.0);
        assert_eq!(results.is_met(&figure), Some(false));
        results.record("enqueue.64.bullmq", 6.0);
        assert_eq!(results.is_met(&figure), Some(true));
        assert_eq!(results.format_goals(&figure), "≥ 5 × BullMQ or ≥ 2 × bare");
    }

    #[test]
    fn an_earlier_run_fills_its_column_for_figures_and_for_peers() {
        let mut earlier = Results::default();
        earlier.record("enqueue.64", 20_000.0);
        earlier.record("enqueue.64.bare", 40_000.0);
        let mut results = Results::default();
        for key in ["enqueue.1", "enqueue.64", "enqueue.64.bare"] {
            results.record(key, 30_000.0);
        }
        earlier.skip("enqueue.1", "not now");
        let before: Vec<String> =
            results.rows(Some(&earlier)).into_iter().map(|row| row[1].clone()).collect();
        assert_eq!(before, ["", "20,000/s", "40,000/s"]);
    }

    #[test]
    fn figures_without_an_outcome_are_skipped() {
        let mut results = Results::default();
        results.record("size.binary", 1.0);
        assert!(!results.skip_missing("size", true));
        assert!(results.skip_missing("first", false));
        let skipped = results.skipped();
        assert_eq!(skipped.len(), 12, "{skipped:?}");
        assert!(results.skip_missing("start", true));
    }

    #[test]
    fn keys_are_unique_and_peers_name_an_existing_figure() {
        for (at, figure) in figures::all().enumerate() {
            assert!(figures::all().take(at).all(|other| other.key != figure.key), "{}", figure.key);
            if let Some(key) = figure.peer_of {
                assert!(find(key).is_some() && figure.key.starts_with(key), "{}", figure.key);
            }
            let has_peer = |goal: &Goal| match goal {
                Goal::Times { key, .. } => find(key).is_some(),
                _ => true,
            };
            assert!(figure.goals.iter().all(has_peer), "{}", figure.key);
        }
    }
}
