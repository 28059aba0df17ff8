//! Draws a curve as SVG: a panel for each measure, x with a logarithmic scale, y from zero. The colours
//! follow the reader's light or dark scheme.

use super::curve::{Curve, Measure, MeasuredCurve, short};
use crate::unit::Unit;
use std::fmt::Write;

/// Size of a panel and of the plot within it, in pixels.
const PANEL: (f64, f64) = (360.0, 216.0);
const PLOT: Plot = Plot { left: 58.0, top: 42.0, width: 278.0, height: 124.0 };
const COLUMNS: usize = 2;
const STYLE: &str = "\
.page{fill:#fff}.name{fill:#1f2328;font-weight:600}.text{fill:#59636e}.grid{stroke:#e3e6ea}\
.axis{stroke:#8c959f}.line{stroke:#0969da;fill:none;stroke-width:2}.dot{fill:#0969da;stroke:#fff;stroke-width:2}\
.value{fill:#1f2328}text{font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}\
@media(prefers-color-scheme:dark){.page{fill:#0d1117}.name,.value{fill:#e6edf3}.text{fill:#9198a1}\
.grid{stroke:#21262d}.axis{stroke:#656c76}.line{stroke:#58a6ff}.dot{fill:#58a6ff;stroke:#0d1117}}";

struct Plot {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl Plot {
    fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

/// The picture. The text for readers who do not see it is in `summary`.
pub(crate) fn svg(curve: &Curve, measured: &MeasuredCurve, summary: &str) -> String {
    let panels = curve.measures.len();
    let (columns, rows) = (panels.min(COLUMNS), panels.div_ceil(COLUMNS));
    let (width, height) = (PANEL.0 * columns as f64, PANEL.1 * rows as f64);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-labelledby=\"title summary\">\n<title id=\"title\">{}</title>\n\
         <desc id=\"summary\">{}</desc>\n<style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n",
        escaped(curve.title),
        escaped(summary)
    );
    for (at, measure) in curve.measures.iter().enumerate() {
        let (x, y) = (PANEL.0 * (at % COLUMNS) as f64, PANEL.1 * (at / COLUMNS) as f64);
        writeln!(out, "<g transform=\"translate({x} {y})\">").expect("memory");
        panel(&mut out, measure, &measured.series(at), curve.x);
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

fn panel(out: &mut String, measure: &Measure, series: &[(f64, f64)], x_name: &str) {
    let most = series.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let step = nice_step(most / 3.5);
    let top = step * (most / step).ceil().max(1.0);
    let height_of = |value: f64| PLOT.bottom() - PLOT.height * value / top;
    text(out, "name", (14.0, 22.0), "start", &format!("{} ({})", measure.name, measure.unit.name()));
    let mut tick = 0.0;
    while tick <= top * 1.001 {
        let (y, class) = (height_of(tick), if tick == 0.0 { "axis" } else { "grid" });
        let end = PLOT.left + PLOT.width;
        writeln!(out, "<path class=\"{class}\" d=\"M{:.1} {y:.1}H{end:.1}\"/>", PLOT.left).expect("memory");
        text(out, "text", (PLOT.left - 6.0, y + 4.0), "end", &tick_label(measure.unit, tick, top));
        tick += step;
    }
    let places: Vec<(f64, f64)> =
        x_places(series).into_iter().zip(series).map(|(x, (_, value))| (x, height_of(*value))).collect();
    for (place, (x, _)) in places.iter().zip(series) {
        text(out, "text", (place.0, PLOT.bottom() + 17.0), "middle", &short(*x));
    }
    let middle = PLOT.left + PLOT.width / 2.0;
    text(out, "text", (middle, PLOT.bottom() + 36.0), "middle", &format!("{x_name} (log scale)"));
    let line: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    writeln!(out, "<path class=\"line\" d=\"M{}\"/>", line.join("L")).expect("memory");
    for (x, y) in &places {
        writeln!(out, "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>").expect("memory");
    }
    let last = places.len().saturating_sub(1);
    for (at, neighbour, anchor, shift) in [(0, 1, "start", -4.0), (last, last.saturating_sub(1), "end", 4.0)]
    {
        let (Some((x, y)), Some((_, value))) = (places.get(at), series.get(at)) else { continue };
        // Beside a line that rises from the point, the value stands below it.
        let is_below = places.get(neighbour).is_some_and(|(_, other)| other + 6.0 < *y);
        let y = if is_below { (y + 19.0).min(PLOT.bottom() - 4.0) } else { (y - 9.0).max(PLOT.top - 6.0) };
        text(out, "value", (x + shift, y), anchor, &measure.unit.format(*value));
    }
}

/// Places of the points within the plot, with room at both ends.
fn x_places(series: &[(f64, f64)]) -> Vec<f64> {
    let room = 20.0;
    let logs: Vec<f64> = series.iter().map(|(x, _)| x.log10()).collect();
    let (first, last) = (logs.first().copied().unwrap_or(0.0), logs.last().copied().unwrap_or(0.0));
    let share = |log: f64| if last > first { (log - first) / (last - first) } else { 0.5 };
    logs.iter().map(|log| PLOT.left + room + (PLOT.width - 2.0 * room) * share(*log)).collect()
}

/// 1, 2 or 5 times a power of ten, at least this large.
fn nice_step(least: f64) -> f64 {
    if least <= 0.0 || !least.is_finite() {
        return 1.0;
    }
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|step| *step >= least).unwrap_or(least)
}

fn tick_label(unit: Unit, tick: f64, top: f64) -> String {
    match tick {
        0.0 => "0".to_owned(),
        _ if top >= 10_000.0 => short(tick),
        _ => unit.format_goal(tick).split(' ').next().unwrap_or_default().trim_end_matches("/s").to_owned(),
    }
}

fn text(out: &mut String, class: &str, (x, y): (f64, f64), anchor: &str, content: &str) {
    let content = escaped(content);
    writeln!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{content}</text>"
    )
    .expect("memory");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        let steps = [0.3, 1.0, 1.2, 23.0, 7_100.0].map(|least| nice_step(least).to_string());
        assert_eq!(steps, ["0.5", "1", "2", "50", "10000"]);
    }

    #[test]
    fn points_of_equal_factors_have_equal_distances() {
        let places = x_places(&[(10.0, 0.0), (100.0, 0.0), (1_000.0, 0.0)]);
        assert!((places[2] - places[1] - (places[1] - places[0])).abs() < 1e-6, "{places:?}");
        assert!(places[0] > PLOT.left && places[2] < PLOT.left + PLOT.width);
    }
}
