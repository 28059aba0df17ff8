//! The formats of a log line. A value can neither end the line nor send control characters to a terminal.

use serde_json::{Map, Value};
use tracing::Level;

/// Longest value, characters; the rest is left out.
const VALUE_CHARS: usize = 8_192;
/// Marks a shortened value.
const CUT: &str = "…";

/// Fields in their order.
pub(super) type LogFields = Map<String, Value>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineFormat {
    /// For people: time, level, message, fields.
    Text {
        /// Whether the level has a colour.
        in_colour: bool,
    },
    /// For the journal, which adds the time: priority (sd-daemon(3)), message, fields.
    Journal,
    /// For programs: an object with `timestamp`, `level`, `message` and the fields.
    Json {
        /// Whether a priority precedes the object.
        for_journal: bool,
    },
}

impl LineFormat {
    /// The line with its newline.
    pub(super) fn line(self, now_ms: u64, level: Level, (message, fields): (&str, &LogFields)) -> String {
        let mut line = match self {
            Self::Journal | Self::Json { for_journal: true } => priority(level).to_owned(),
            Self::Json { .. } => String::new(),
            Self::Text { in_colour: false } => format!("{}  {level:>5} ", timestamp(now_ms)),
            Self::Text { in_colour: true } => {
                let style = colour(level);
                format!("{}  {style}{level:>5}{style:#} ", timestamp(now_ms))
            }
        };
        match self {
            Self::Json { .. } => line.push_str(&json(now_ms, level, (message, fields))),
            Self::Text { .. } | Self::Journal => push_text(&mut line, message, fields),
        }
        line.push('\n');
        line
    }
}

/// The text, shortened to the limit.
pub(super) fn bounded(text: &str) -> String {
    match text.char_indices().nth(VALUE_CHARS) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned() + CUT,
        None => text.to_owned(),
    }
}

fn json(now_ms: u64, level: Level, (message, fields): (&str, &LogFields)) -> String {
    let mut object = Map::new();
    object.insert("timestamp".to_owned(), timestamp(now_ms).into());
    object.insert("level".to_owned(), level.as_str().into());
    object.insert("message".to_owned(), message.into());
    // A field cannot replace these three.
    for (name, value) in fields {
        object.entry(name.clone()).or_insert_with(|| value.clone());
    }
    let json = Value::Object(object).to_string();
    if !json.contains(is_control_or_bidi) {
        return json;
    }
    // These occur only inside JSON strings, and all have four hexadecimal digits.
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if is_control_or_bidi(c) {
            escaped.extend(format!("\\u{:04x}", u32::from(c)).chars());
        } else {
            escaped.push(c);
        }
    }
    escaped
}

fn push_text(line: &mut String, message: &str, fields: &LogFields) {
    push_escaped(line, message);
    for (name, value) in fields {
        line.push(' ');
        line.push_str(name);
        line.push('=');
        match value {
            Value::String(text) if needs_no_quotes(text) => line.push_str(text),
            Value::String(text) => {
                line.push('"');
                push_escaped(line, &text.replace('\\', "\\\\").replace('"', "\\\""));
                line.push('"');
            }
            other => push_escaped(line, &other.to_string()),
        }
    }
}

/// Appends text of clients or models with control characters escaped.
fn push_escaped(line: &mut String, text: &str) {
    for c in text.chars() {
        if is_control_or_bidi(c) { line.extend(c.escape_default()) } else { line.push(c) }
    }
}

/// Whether a character controls a terminal, ends a line for some reader, or changes the direction of text.
fn is_control_or_bidi(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn needs_no_quotes(text: &str) -> bool {
    !text.is_empty()
        && !text.contains(|c: char| c.is_whitespace() || is_control_or_bidi(c) || matches!(c, '"' | '='))
}

fn timestamp(now_ms: u64) -> String {
    let time = i64::try_from(now_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| now_ms.to_string(), |time| format!("{time:.3}"))
}

fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        Level::DEBUG | Level::TRACE => "<7>",
    }
}

fn colour(level: Level) -> anstyle::Style {
    let colour = match level {
        Level::ERROR => anstyle::AnsiColor::Red,
        Level::WARN => anstyle::AnsiColor::Yellow,
        Level::INFO => anstyle::AnsiColor::Green,
        Level::DEBUG | Level::TRACE => anstyle::AnsiColor::Blue,
    };
    colour.on_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line_of(form: LineFormat, message: &str, fields: &Value) -> String {
        let Value::Object(fields) = fields else { panic!("fields") };
        form.line(1_700_000_000_042, Level::WARN, (message, fields))
    }

    #[test]
    fn a_log_line_can_be_text_journal_or_json() {
        let fields = json!({"job": "job_1", "took_ms": 7, "error": "no \"room\""});
        let text = line_of(LineFormat::Text { in_colour: false }, "it is slow", &fields);
        let message = "it is slow job=job_1 took_ms=7 error=\"no \\\"room\\\"\"\n";
        assert_eq!(text, format!("2023-11-14T22:13:20.042Z   WARN {message}"));
        assert_eq!(line_of(LineFormat::Journal, "it is slow", &fields), format!("<4>{message}"));
        let line = line_of(LineFormat::Json { for_journal: false }, "it is slow", &fields);
        let read: Value = serde_json::from_str(&line).expect("JSON");
        let wanted = json!({"timestamp": "2023-11-14T22:13:20.042Z", "level": "WARN", "message": "it is slow",
            "job": "job_1", "took_ms": 7, "error": "no \"room\""});
        assert_eq!(read, wanted);
        assert_eq!(
            line_of(LineFormat::Json { for_journal: true }, "it is slow", &fields),
            format!("<4>{line}")
        );
        assert!(line_of(LineFormat::Text { in_colour: true }, "x", &json!({})).contains("\u{1b}["));
    }

    #[test]
    fn log_values_cannot_break_lines_or_control_the_terminal() {
        let fields =
            json!({"error": "a\nFAKE line\u{1b}[31m\u{9b}31m\u{7f}\u{202e}\u{2028}", "level": "forged"});
        let forms = [
            LineFormat::Text { in_colour: false },
            LineFormat::Journal,
            LineFormat::Json { for_journal: false },
        ];
        for form in forms {
            let line = line_of(form, "one\r\ntwo", &fields);
            assert_eq!(line.matches('\n').count(), 1, "{line:?}");
            let rest = line.strip_suffix('\n').expect("an end");
            assert!(!rest.contains(char::is_control), "{line:?}");
            assert!(!rest.contains(['\u{202e}', '\u{2028}']), "{line:?}");
        }
        let json: Value = serde_json::from_str(&line_of(forms[2], "x", &fields)).expect("JSON");
        assert_eq!((&json["level"], &json["error"]), (&Value::from("WARN"), &fields["error"]));
    }

    #[test]
    fn a_long_log_value_is_truncated() {
        assert_eq!(bounded("short"), "short");
        let cut = bounded(&"é".repeat(VALUE_CHARS + 1));
        assert_eq!((cut.chars().count(), cut.ends_with(CUT)), (VALUE_CHARS + 1, true));
    }
}
