//! The section "Growth" of BENCHMARKS.md: for each curve a picture, sentences, a text written by hand, and
//! the numbers.

use super::curve::{Curve, MeasuredCurve, Point, full};
use super::findings::findings;
use super::{DIRECTORY, Growth};
use crate::markdown::{append_table, note, with_headings, wrapped};

const HEADING: &str = "\n## Growth\n";
const INTRODUCTION: &str = "
`scripts/bench growth` measures these curves. Each one has its own date and commit. x has a logarithmic
scale, and y begins at zero: what grows like log n is a straight line. A curve \"bends\" where one step makes a
measure at least 1.5 × worse.
";

/// The section with its heading; empty without a measured curve.
pub(crate) fn section(growth: &Growth) -> String {
    let mut text = String::new();
    for (curve, measured) in growth.curves() {
        append_curve(&mut text, curve, measured);
    }
    if text.is_empty() { text } else { [HEADING, INTRODUCTION, &text].concat() }
}

/// The page with this section in place of its own, or before its machine.
pub(crate) fn replace_section(page: &str, section: &str) -> String {
    let start = page.find(HEADING).or_else(|| page.find("\n## Machine\n")).unwrap_or(page.len());
    let (before, rest) = page.split_at(start);
    let old = rest.strip_prefix(HEADING);
    let after = old.map_or(rest, |text| text.find("\n## ").map_or("", |end| &text[end..]));
    [before, section, after].concat()
}

fn append_curve(text: &mut String, curve: &Curve, measured: &MeasuredCurve) {
    let sentences = findings(curve, measured);
    let key = curve.key;
    let title = curve.title;
    text.extend(["\n### ", title, "\n\n![Curves: ", title, "](", DIRECTORY, "/", key, ".svg)\n\n"]);
    for sentence in &sentences {
        text.extend(["- ", &wrapped(sentence, "  "), "\n"]);
    }
    if let Some(note) = note(key) {
        text.extend(["\n", note.trim(), "\n"]);
    }
    text.push('\n');
    let mut headings = vec![curve.x];
    headings.extend(curve.measures.iter().map(|measure| measure.name));
    let rows = measured.points.iter().map(|point| {
        let mut row = vec![full(point.x)];
        row.extend(values(curve, point));
        row
    });
    append_table(text, &with_headings(&headings, rows));
    let missing = missing_points(curve, measured);
    let method = format!("Method: {} Measured: {}.{missing}", curve.method, measured.source);
    text.extend(["\n", &wrapped(&method, ""), "\n"]);
}

/// The usual points that were not measured.
fn missing_points(curve: &Curve, measured: &MeasuredCurve) -> String {
    // The exact x of a log differs a little from the wanted one.
    let is_measured = |x: f64| measured.points.iter().any(|point| (point.x / x - 1.0).abs() < 0.2);
    let usual = curve.points.iter().chain(curve.long_points);
    let missing: Vec<String> = usual.filter(|x| !is_measured(**x)).map(|x| full(*x)).collect();
    if missing.is_empty() { String::new() } else { format!(" Not measured: {}.", missing.join(", ")) }
}

/// The values of a point with their units.
pub(super) fn values(curve: &Curve, point: &Point) -> Vec<String> {
    curve.measures.iter().zip(&point.values).map(|(measure, value)| measure.unit.format(*value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::growth::CURVES;

    fn growth(key: &str, points: &[f64]) -> Growth {
        let curve = CURVES.iter().find(|curve| curve.key == key).expect("a curve");
        let points = points.iter().map(|x| Point { x: *x, values: vec![1.0; curve.measures.len()] });
        let measured = MeasuredCurve { points: points.collect(), source: "today, 2 cores".to_owned() };
        Growth([(curve.key, measured)].into())
    }

    #[test]
    fn a_section_has_picture_sentences_and_table() {
        let text = section(&growth("users", &[1.0, 1_000.0]));
        assert!(text.contains("](docs/benchmarks/users.svg)"), "{text}");
        assert!(text.contains("\n- jobs started: 1.0/s at 1, 1.0/s at 1,000, about the same.\n"), "{text}");
        assert!(text.contains("\n| 1,000 | 1.0/s | 1.0 MiB |\n"), "{text}");
        assert!(text.contains(" Not measured: 10, 100.\n"), "{text}");
        assert!(section(&Growth::default()).is_empty());
    }

    #[test]
    fn a_new_section_replaces_the_old_one_and_nothing_else() {
        let page = "# B\n\n## Jobs\n\nx\n\n## Machine\n\ny\n";
        let once = replace_section(page, "\n## Growth\n\nold\n");
        assert_eq!(once, "# B\n\n## Jobs\n\nx\n\n## Growth\n\nold\n\n## Machine\n\ny\n");
        let twice = replace_section(&once, "\n## Growth\n\nnew\n");
        assert_eq!(twice, once.replace("old", "new"));
        assert_eq!(replace_section(&twice, ""), page);
    }
}
