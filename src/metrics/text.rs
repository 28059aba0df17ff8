//! The text format 0.0.4: one HELP and one TYPE before the samples of a family, a sample a line. Owns the escaping; refuses
//! to order families (its callers do).

use std::fmt::Display;

/// What a family's samples are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A text in the making.
#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Text {
    /// Begins a family.
    pub(super) fn head(&mut self, name: &str, kind: Kind, help: &str) {
        self.put(format_args!("# HELP {name} "));
        escape(&mut self.0, help, false);
        self.put(format_args!("\n# TYPE {name} {}\n", kind.word()));
    }

    /// A sample; `labels` as [`labels`] writes them.
    pub(super) fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        match labels {
            "" => self.put(format_args!("{name} {value}\n")),
            _ => self.put(format_args!("{name}{{{labels}}} {value}\n")),
        }
    }

    /// A family of one sample.
    pub(super) fn single(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.head(name, kind, help);
        self.sample(name, "", value);
    }

    /// The whole text.
    pub(super) fn into_string(self) -> String {
        self.0
    }

    fn put(&mut self, what: std::fmt::Arguments<'_>) {
        self.0.push_str(&what.to_string());
    }
}

/// `name="value",…`; a name without a value is left out.
pub(super) fn labels(names: &[&str], values: &[&str]) -> String {
    let mut text = String::new();
    for (name, value) in names.iter().zip(values) {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        escape(&mut text, value, true);
        text.push('"');
    }
    text
}

/// Quotes are escaped in labels alone: in a help text the format knows no `\"`.
fn escape(text: &mut String, given: &str, is_label: bool) {
    for char in given.chars() {
        match char {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '"' if is_label => text.push_str("\\\""),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_break_a_line_is_escaped() {
        let mut text = Text::default();
        text.head("a_total", Kind::Counter, "back\\slash \"quoted\"\nnext");
        text.sample("a_total", &labels(&["l", "m"], &["x\"y\\z\n", ""]), 3);
        text.single("b", Kind::Gauge, "plain", 0.5);
        let expected = "# HELP a_total back\\\\slash \"quoted\"\\nnext\n# TYPE a_total counter\n\
            a_total{l=\"x\\\"y\\\\z\\n\",m=\"\"} 3\n# HELP b plain\n# TYPE b gauge\nb 0.5\n";
        assert_eq!(text.into_string(), expected);
    }
}
