//! Curves: how the server's speed and memory change with what it holds. The results live in
//! `docs/benchmarks/`, beside a picture of each curve, so a run may measure some curves and keep the others.

mod chart;
mod conversation;
mod curve;
mod findings;
mod log;
mod page;
mod queue;
mod readers;
mod users;

use curve::{Curve, MeasuredCurve, full};
pub(crate) use page::{replace_section, section};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::path::Path;

/// All curves in the order of the page.
const CURVES: [Curve; 6] =
    [queue::QUEUE, queue::STORE, log::LOG, conversation::CONVERSATION, users::USERS, readers::READERS];
/// The directory of pictures and results, beside the page.
const DIRECTORY: &str = "docs/benchmarks";
const RESULTS: &str = "growth.json";

/// The names of the curves, for the command line.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    CURVES.iter().map(|curve| curve.key)
}

/// Points that replace those of a curve: `queue=1000,10000`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PointList {
    key: &'static str,
    points: Vec<f64>,
}

impl std::str::FromStr for PointList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, numbers) = text.split_once('=').ok_or("a curve and its points, as in queue=1000,10000")?;
        let key = names().find(|key| *key == name).ok_or(format!("there is no curve '{name}'"))?;
        let point = |number: &str| match number.trim().parse() {
            Ok(point) if point > 0.0 && f64::is_finite(point) => Ok(point),
            _ => Err(format!("'{number}' is not a positive number")),
        };
        Ok(Self { key, points: numbers.split(',').map(point).collect::<Result<_, _>>()? })
    }
}

/// The measured curves by name.
#[derive(Debug, Default)]
pub(crate) struct Growth(BTreeMap<&'static str, MeasuredCurve>);

impl Growth {
    /// The results of earlier runs beside a page; empty if there are none.
    pub(crate) fn read(beside: &Path) -> Self {
        let text = std::fs::read_to_string(beside.join(DIRECTORY).join(RESULTS)).unwrap_or_default();
        let results: Value = serde_json::from_str(&text).unwrap_or_default();
        let curves = CURVES.iter().filter_map(|curve| {
            Some((curve.key, MeasuredCurve::from_json(&results[curve.key], curve.measures.len())?))
        });
        Self(curves.collect())
    }

    /// Measures a curve; returns whether all of its points could be measured.
    pub(crate) fn measure(&mut self, key: &str, options: &GrowthOptions) -> bool {
        let Some(curve) = CURVES.iter().find(|curve| curve.key == key) else { return false };
        let mut points = Vec::new();
        let wanted = options.points(curve);
        for x in &wanted {
            // A point that cannot be measured panics with the reason; the others still run.
            let Ok(point) = catch_unwind(|| (curve.measure)(*x)) else { continue };
            eprintln!("  {} {}: {}", full(point.x), curve.x, page::values(curve, &point).join(", "));
            points.push(point);
        }
        let is_complete = points.len() == wanted.len();
        if !points.is_empty() {
            self.0.insert(curve.key, MeasuredCurve { points, source: options.source.clone() });
        }
        is_complete
    }

    /// Writes results and pictures beside a page.
    pub(crate) fn write(&self, beside: &Path) -> std::io::Result<()> {
        let directory = beside.join(DIRECTORY);
        std::fs::create_dir_all(&directory)?;
        let results: Map<String, Value> =
            self.0.iter().map(|(key, measured)| ((*key).to_owned(), measured.json())).collect();
        std::fs::write(directory.join(RESULTS), format!("{:#}\n", Value::Object(results)))?;
        for (curve, measured) in self.curves() {
            let picture = chart::svg(curve, measured, &findings::findings(curve, measured).join(" "));
            std::fs::write(directory.join(format!("{}.svg", curve.key)), picture)?;
        }
        Ok(())
    }

    /// The measured curves in the order of the page.
    fn curves(&self) -> impl Iterator<Item = (&'static Curve, &MeasuredCurve)> {
        CURVES.iter().filter_map(|curve| Some((curve, self.0.get(curve.key)?)))
    }
}

/// Which points a run measures.
#[derive(Debug)]
pub(crate) struct GrowthOptions {
    pub(crate) is_long: bool,
    pub(crate) lists: Vec<PointList>,
    /// Date, commit and machine, as one line.
    pub(crate) source: String,
}

impl GrowthOptions {
    fn points(&self, curve: &Curve) -> Vec<f64> {
        let listed = self.lists.iter().find(|list| list.key == curve.key).map(|list| list.points.clone());
        let more = if self.is_long { curve.long_points } else { &[] };
        let mut points = listed.unwrap_or_else(|| [curve.points, more].concat());
        points.sort_by(f64::total_cmp);
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use curve::Point;

    fn options(is_long: bool, lists: &[&str]) -> GrowthOptions {
        let lists = lists.iter().map(|list| list.parse().expect("a list of points")).collect();
        GrowthOptions { is_long, lists, source: String::new() }
    }

    #[test]
    fn a_list_of_points_replaces_those_of_its_curve() {
        assert_eq!(options(false, &[]).points(&queue::STORE), [0.1, 1.0]);
        assert_eq!(options(true, &[]).points(&queue::STORE), [0.1, 1.0, 10.0]);
        let listed = options(true, &["store=0.2, 0.1"]);
        assert_eq!(listed.points(&queue::STORE), [0.1, 0.2]);
        assert_eq!(listed.points(&users::USERS), users::USERS.points);
        for wrong in ["store", "disk=1", "store=", "store=0", "store=x"] {
            assert!(wrong.parse::<PointList>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn curves_of_an_earlier_run_stay_beside_new_ones() {
        let directory = tempfile::tempdir().expect("a directory");
        let curve = |x: f64| MeasuredCurve {
            points: vec![Point { x, values: vec![1.0, 2.0] }],
            source: "a machine".to_owned(),
        };
        let mut growth = Growth::read(directory.path());
        growth.0.insert("users", curve(1.0));
        growth.write(directory.path()).expect("written");
        let read = Growth::read(directory.path());
        assert_eq!(read.0, growth.0);
        let picture = directory.path().join(DIRECTORY).join("users.svg");
        assert!(std::fs::read_to_string(picture).expect("a picture").starts_with("<svg"));
    }

    #[test]
    fn curves_have_names_of_their_own_and_growing_points() {
        for (at, curve) in CURVES.iter().enumerate() {
            assert!(CURVES[..at].iter().all(|other| other.key != curve.key), "{}", curve.key);
            let points = [curve.points, curve.long_points].concat();
            assert!(points.is_sorted_by(|a, b| a < b), "{}", curve.key);
        }
    }
}
