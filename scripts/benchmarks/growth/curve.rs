//! A curve: measures of the server against the amount of something that it holds.

use crate::unit::{Unit, format_ratio, with_commas};
use serde_json::{Value, json};

/// A measure beside a curve's x: one panel of the picture, one column of the table.
#[derive(Debug)]
pub(crate) struct Measure {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
}

/// What a curve shows, and how it is measured.
#[derive(Debug)]
pub(crate) struct Curve {
    /// The name of the group for the command line, and of the picture's file.
    pub(crate) key: &'static str,
    pub(crate) title: &'static str,
    /// The meaning of x, with its unit.
    pub(crate) x: &'static str,
    /// The points of a run, and those that `--long` adds.
    pub(crate) points: &'static [f64],
    pub(crate) long_points: &'static [f64],
    pub(crate) measures: &'static [Measure],
    pub(crate) method: &'static str,
    /// Returns the values of all measures at a point, and the exact x.
    pub(crate) measure: fn(f64) -> Point,
}

/// The values of a curve's measures at one x, in their units.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) values: Vec<f64>,
}

/// The measured points of a curve, in the order of x, and where they come from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MeasuredCurve {
    pub(crate) points: Vec<Point>,
    /// Date, commit and machine, as one line.
    pub(crate) source: String,
}

impl MeasuredCurve {
    /// The values of one measure with their x.
    pub(crate) fn series(&self, measure: usize) -> Vec<(f64, f64)> {
        self.points.iter().filter_map(|point| Some((point.x, *point.values.get(measure)?))).collect()
    }

    pub(crate) fn json(&self) -> Value {
        let points = self.points.iter().map(|point| json!({"x": point.x, "values": point.values}));
        json!({"source": self.source, "points": points.collect::<Vec<_>>()})
    }

    /// `None`: the curve has other measures now.
    pub(crate) fn from_json(json: &Value, measures: usize) -> Option<Self> {
        let point = |point: &Value| {
            let values: Vec<f64> = point["values"].as_array()?.iter().filter_map(Value::as_f64).collect();
            (values.len() == measures).then_some(Point { x: point["x"].as_f64()?, values })
        };
        let points: Option<Vec<Point>> = json["points"].as_array()?.iter().map(point).collect();
        Some(Self { points: points?, source: json["source"].as_str()?.to_owned() })
    }
}

/// A number of things at an x.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an x is positive and small")]
pub(crate) fn whole(x: f64) -> usize {
    x as usize
}

/// An x in few characters: 0.1, 20, 1k, 20k, 1M.
pub(crate) fn short(x: f64) -> String {
    match x {
        1_000_000.0.. => format!("{}M", format_ratio(x / 1e6)),
        1_000.0.. => format!("{}k", format_ratio(x / 1e3)),
        _ => format_ratio(x),
    }
}

/// An x in full.
pub(crate) fn full(x: f64) -> String {
    if x < 10.0 { format_ratio(x) } else { with_commas(x) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_x_has_few_characters() {
        assert_eq!([0.05, 0.1, 20.0, 1_003.0, 2e4, 1e6].map(short), ["0.05", "0.1", "20", "1k", "20k", "1M"]);
    }

    #[test]
    fn a_measured_curve_survives_its_file_unless_its_measures_have_changed() {
        let points = vec![Point { x: 10.0, values: vec![1.0, 2.5] }];
        let curve = MeasuredCurve { points, source: "today".to_owned() };
        assert_eq!(MeasuredCurve::from_json(&curve.json(), 2), Some(curve.clone()));
        assert_eq!(MeasuredCurve::from_json(&curve.json(), 3), None);
    }
}
