//! Sentences about a curve that follow from its numbers: how much worse a measure becomes, and where
//! it bends.

use super::curve::{Curve, MeasuredCurve, full, short};
use crate::unit::{Unit, format_ratio};

/// A smaller change over the whole curve is noise.
const NOISE: f64 = 1.25;
/// A curve bends where one step makes a measure worse by this factor.
const BEND: f64 = 1.5;

/// One sentence for each measure.
pub(crate) fn findings(curve: &Curve, measured: &MeasuredCurve) -> Vec<String> {
    let sentences = curve.measures.iter().enumerate().filter_map(|(at, measure)| {
        let sentence = finding(&measured.series(at), measure.unit)?;
        Some(format!("{}: {sentence}", measure.name))
    });
    sentences.collect()
}

/// `None`: a curve needs two points.
fn finding(series: &[(f64, f64)], unit: Unit) -> Option<String> {
    let ((first_x, first), (last_x, last)) = (*series.first()?, *series.last()?);
    if series.len() < 2 {
        return None;
    }
    let range =
        format!("{} at {}, {} at {}", unit.format(first), full(first_x), unit.format(last), full(last_x));
    let whole = worse_by(unit, first, last);
    let change = match whole {
        _ if !whole.is_finite() || whole <= 0.0 => String::new(),
        NOISE.. => format!(", {} × worse", format_ratio(whole)),
        _ if whole < 1.0 / NOISE => format!(", {} × better", format_ratio(1.0 / whole)),
        _ => ", about the same".to_owned(),
    };
    let bends: Vec<String> = series
        .windows(2)
        .filter(|step| worse_by(unit, step[0].1, step[1].1) >= BEND)
        .map(|step| {
            let factor = format_ratio(worse_by(unit, step[0].1, step[1].1));
            format!("{} to {} ({factor} ×)", short(step[0].0), short(step[1].0))
        })
        .collect();
    let bend = if bends.is_empty() {
        String::new()
    } else {
        format!("; it bends from {}", bends.join(" and from "))
    };
    Some(format!("{range}{change}{bend}."))
}

/// The factor by which the second value is worse.
fn worse_by(unit: Unit, first: f64, second: f64) -> f64 {
    if unit.is_larger_better() { first / second } else { second / first }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_curve_does_not_bend() {
        let text = finding(&[(1e3, 20_000.0), (1e6, 18_000.0)], Unit::PerSecond);
        assert_eq!(text.as_deref(), Some("20,000/s at 1,000, 18,000/s at 1,000,000, about the same."));
    }

    #[test]
    fn a_bend_is_named_with_its_points_and_factor() {
        let text = finding(&[(10.0, 1.0), (100.0, 1.1), (1e3, 3.3)], Unit::Ms).expect("points");
        assert!(text.ends_with("3.3 × worse; it bends from 100 to 1k (3 ×)."), "{text}");
        let better = finding(&[(10.0, 4.0), (100.0, 2.0)], Unit::Ms).expect("points");
        assert!(better.ends_with("2 × better."), "{better}");
        assert_eq!(finding(&[(10.0, 1.0)], Unit::Ms), None);
    }
}
