//! The measured values with their goals and ratios: rows for people, JSON for programs, and the missed goals.

use crate::list::{FIGURES, FSYNC, Figure, Goal, Unit, find};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Heads of the columns that [`Sheet::rows`] has.
pub(crate) const COLUMNS: [&str; 5] = ["figure", "measured", "goal", "met", "better by"];

/// What became of one figure.
#[derive(Debug, Clone)]
enum Found {
    Measured { value: f64, note: String },
    Skipped(String),
}

/// Everything that one run has found.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    found: BTreeMap<&'static str, Found>,
    versions: Vec<(String, String)>,
}

impl Sheet {
    /// Stores a value in the figure's unit and prints it on stderr.
    pub(crate) fn put(&mut self, key: &str, value: f64) {
        self.put_noted(key, value, "");
    }

    /// The same with a note, for example another quantile.
    pub(crate) fn put_noted(&mut self, key: &str, value: f64, note: &str) {
        let figure = known(key);
        let found = Found::Measured { value, note: note.to_owned() };
        eprintln!("  {}: {}", figure.name, shown(figure, &found));
        self.found.insert(figure.key, found);
    }

    /// Records why a figure is missing.
    pub(crate) fn skip(&mut self, key: &str, why: &str) {
        let figure = known(key);
        eprintln!("  {}: skipped: {why}", figure.name);
        self.found.insert(figure.key, Found::Skipped(why.to_owned()));
    }

    /// Marks the figures that a group should have measured but has not. Returns whether one of ours is
    /// among them.
    pub(crate) fn close(&mut self, group: &str, with_peers: bool) -> bool {
        let left: Vec<&Figure> = FIGURES
            .iter()
            .filter(|figure| figure.group() == group && !self.found.contains_key(figure.key))
            .filter(|figure| with_peers || !figure.is_foreign())
            .collect();
        for figure in &left {
            self.skip(figure.key, "it could not be measured; the run's stderr says why");
        }
        left.iter().any(|figure| figure.beside.is_none())
    }

    /// Records the version of a peer, once.
    pub(crate) fn met(&mut self, peer: &str, version: &str) {
        if !self.versions.iter().any(|(name, _)| name == peer) {
            self.versions.push((peer.to_owned(), version.to_owned()));
        }
    }

    /// Names and versions of the peers.
    pub(crate) fn versions(&self) -> &[(String, String)] {
        &self.versions
    }

    /// Whether a peer that needs `--peers` was measured or tried.
    pub(crate) fn has_peers(&self) -> bool {
        FIGURES.iter().any(|figure| figure.is_foreign() && self.found.contains_key(figure.key))
    }

    pub(crate) fn value(&self, key: &str) -> Option<f64> {
        match self.found.get(key)? {
            Found::Measured { value, .. } => Some(*value),
            Found::Skipped(_) => None,
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
        let reason = |figure: &'static Figure| match self.found.get(figure.key)? {
            Found::Skipped(why) => Some((full_name(figure), why.as_str())),
            Found::Measured { .. } => None,
        };
        FIGURES.iter().filter_map(reason).collect()
    }

    /// Names of the figures that miss their goal.
    pub(crate) fn missed(&self) -> Vec<&'static str> {
        FIGURES.iter().filter(|figure| self.is_met(figure) == Some(false)).map(|figure| figure.name).collect()
    }

    /// Every measured or skipped figure, as an array of objects.
    pub(crate) fn json(&self) -> Value {
        let object = |figure: &'static Figure| {
            let found = self.found.get(figure.key)?;
            let mut object = json!({
                "key": figure.key, "name": figure.name, "unit": format!("{:?}", figure.unit()),
                "goal": self.goal(figure), "met": self.is_met(figure), "beside": figure.beside,
                "better_by": self.better_by(figure),
            });
            match found {
                Found::Measured { value, note } => {
                    object["value"] = json!(value);
                    object["note"] = json!(note);
                }
                Found::Skipped(why) => object["skipped"] = json!(why),
            }
            Some(object)
        };
        FIGURES.iter().filter_map(object).collect()
    }

    fn row(&self, figure: &'static Figure) -> Option<[String; 5]> {
        let found = self.found.get(figure.key)?;
        let name =
            if figure.beside.is_some() { format!("peer: {}", figure.name) } else { figure.name.to_owned() };
        let met = match self.is_met(figure) {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "",
        };
        let ratio = self.better_by(figure).map_or(String::new(), |ratio| format!("{} ×", digits(ratio)));
        Some([name, shown(figure, found), self.goal(figure), met.to_owned(), ratio])
    }

    /// The goal in words, including the disk's time where it counts.
    fn goal(&self, figure: &Figure) -> String {
        match figure.goal {
            Goal::None => String::new(),
            Goal::AtMost(most) => format!("≤ {}", bound(figure.unit, most)),
            Goal::AtLeast(least) => format!("≥ {}", bound(figure.unit, least)),
            Goal::AtMostAndFsync(most) => match self.value(FSYNC) {
                Some(fsync) => {
                    format!("≤ {} + fdatasync = {}", bound(figure.unit, most), Unit::Ms.show(most + fsync))
                }
                None => format!("≤ {} + fdatasync", bound(figure.unit, most)),
            },
            Goal::Times(peers) => {
                let each: Vec<String> =
                    peers.iter().map(|(times, name, _)| format!("≥ {} × {name}", digits(*times))).collect();
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
                let known: Vec<bool> = peers
                    .iter()
                    .filter_map(|(times, _, key)| Some(value >= times * self.value(key)?))
                    .collect();
                (!known.is_empty()).then(|| known.iter().all(|met| *met))
            }
        }
    }

    /// By which factor our figure is better than this peer's; below 1 the peer is better.
    fn better_by(&self, figure: &Figure) -> Option<f64> {
        let key = figure.beside?;
        let (ours, theirs) = (self.value(key)?, self.value(figure.key)?);
        let ratio = if figure.unit().grows() { ours / theirs } else { theirs / ours };
        // A difference of two medians may be zero or negative.
        (ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }
}

fn known(key: &str) -> &'static Figure {
    find(key).unwrap_or_else(|| panic!("the list has no figure '{key}'"))
}

fn full_name(figure: &Figure) -> String {
    match figure.beside.and_then(find) {
        Some(ours) => format!("{}: {}", ours.name, figure.name),
        None => figure.name.to_owned(),
    }
}

fn shown(figure: &Figure, found: &Found) -> String {
    match found {
        Found::Measured { value, note } if note.is_empty() => figure.unit().show(*value),
        Found::Measured { value, note } => format!("{} ({note})", figure.unit().show(*value)),
        Found::Skipped(_) => "skipped".to_owned(),
    }
}

/// A goal's bound, without trailing zeros.
fn bound(unit: Unit, value: f64) -> String {
    let exact = unit.show(value);
    match exact.split_once('.') {
        Some((whole, rest)) if value.fract() == 0.0 => {
            format!("{whole}{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        Some((whole, rest)) => {
            let (decimals, unit) =
                rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
            format!("{whole}.{}{unit}", decimals.trim_end_matches('0'))
        }
        None => exact,
    }
}

/// A ratio with about three digits.
fn digits(ratio: f64) -> String {
    let text = if ratio >= 100.0 {
        return format!("{ratio:.0}");
    } else if ratio >= 10.0 {
        format!("{ratio:.1}")
    } else {
        format!("{ratio:.2}")
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_of_ratios_is_met_by_all_peers_that_were_measured() {
        let mut sheet = Sheet::default();
        sheet.put("enqueue.64", 3_000.0);
        let figure = known("enqueue.64");
        assert_eq!(sheet.is_met(figure), None);
        sheet.put("enqueue.64.bare", 5_000.0);
        assert_eq!(sheet.is_met(figure), Some(true));
        sheet.put("enqueue.64.bullmq", 2_000.0);
        assert_eq!(sheet.is_met(figure), Some(false));
        assert_eq!(sheet.missed(), vec!["durable enqueue, 64 clients"]);
    }

    #[test]
    fn better_is_above_one_in_either_direction() {
        let mut sheet = Sheet::default();
        sheet.put("enqueue.64", 3_000.0);
        sheet.put("enqueue.64.bullmq", 1_000.0);
        sheet.put("sandbox.python", 2.0);
        sheet.put("sandbox.python.bwrap", 10.0);
        assert_eq!(sheet.better_by(known("enqueue.64.bullmq")), Some(3.0));
        assert_eq!(sheet.better_by(known("sandbox.python.bwrap")), Some(5.0));
    }

    #[test]
    fn the_disk_belongs_to_the_goal_and_to_its_words() {
        let mut sheet = Sheet::default();
        sheet.put("first.event", 6.0);
        assert_eq!(sheet.is_met(known("first.event")), None);
        sheet.put(FSYNC, 1.5);
        assert_eq!(sheet.is_met(known("first.event")), Some(true));
        let rows = sheet.rows();
        assert_eq!(rows[1][2..4], ["≤ 5 ms + fdatasync = 6.50 ms".to_owned(), "yes".to_owned()]);
    }

    #[test]
    fn bounds_have_no_idle_digits() {
        assert_eq!(bound(Unit::Ms, 3.5), "3.5 ms");
        assert_eq!(bound(Unit::Mib, 16.0), "16 MiB");
        assert_eq!(bound(Unit::PerSecond, 100_000.0), "100,000/s");
        assert_eq!(bound(Unit::Cores, 1.0), "1 cores");
    }

    #[test]
    fn what_a_group_owes_is_said() {
        let mut sheet = Sheet::default();
        sheet.put("size.binary", 1.0);
        assert!(!sheet.close("size", true));
        assert!(sheet.close("first", false));
        let skipped = sheet.skipped();
        assert_eq!(skipped.len(), 3, "{skipped:?}");
        assert!(sheet.close("start", true));
    }

    #[test]
    fn keys_are_unique_and_peers_stand_beside_something() {
        for (at, figure) in FIGURES.iter().enumerate() {
            assert!(!FIGURES[..at].iter().any(|other| other.key == figure.key), "{}", figure.key);
            if let Some(key) = figure.beside {
                assert!(find(key).is_some() && figure.key.starts_with(key), "{}", figure.key);
            }
            if let Goal::Times(peers) = figure.goal {
                assert!(peers.iter().all(|(_, _, key)| find(key).is_some()), "{}", figure.key);
            }
        }
    }
}
