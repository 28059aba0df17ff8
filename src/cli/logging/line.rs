//! How a line looks. Owns the forms (text, JSON, the journal's) and that a line is one line, whatever is told; refuses to
//! know where it goes.

use serde_json::{Map, Value};
use tracing::Level;

/// More characters of one value are left out.
const VALUE_CHARS: usize = 8_192;
/// What stands for them.
const CUT: &str = "…";

/// What a line tells beside its message, in order.
pub(super) type Fields = Map<String, Value>;

/// For whom a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// People: time, level, message, fields.
    Text {
        /// The level in colour.
        in_colour: bool,
    },
    /// The journal, which knows the time: the priority of sd-daemon(3), message, fields.
    Journal,
    /// Programs: an object with `timestamp`, `level`, `message` and the fields.
    Json {
        /// With the priority before it.
        for_journal: bool,
    },
}

impl Form {
    /// The whole line, its end included.
    pub(super) fn line(self, now_ms: u64, level: Level, (message, fields): (&str, &Fields)) -> String {
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

/// What does not fit is left out.
pub(super) fn bounded(text: &str) -> String {
    match text.char_indices().nth(VALUE_CHARS) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned() + CUT,
        None => text.to_owned(),
    }
}

fn json(now_ms: u64, level: Level, (message, fields): (&str, &Fields)) -> String {
    let mut object = Map::new();
    object.insert("timestamp".to_owned(), timestamp(now_ms).into());
    object.insert("level".to_owned(), level.as_str().into());
    object.insert("message".to_owned(), message.into());
    // A field never takes the place of these three.
    for (name, value) in fields {
        object.entry(name.clone()).or_insert_with(|| value.clone());
    }
    let json = Value::Object(object).to_string();
    if !json.contains(is_unruly) {
        return json;
    }
    // Outside its strings JSON has none of these, and none lies beyond four digits.
    let mut plain = String::with_capacity(json.len());
    for c in json.chars() {
        if is_unruly(c) {
            plain.extend(format!("\\u{:04x}", u32::from(c)).chars());
        } else {
            plain.push(c);
        }
    }
    plain
}

fn push_text(line: &mut String, message: &str, fields: &Fields) {
    push_plain(line, message);
    for (name, value) in fields {
        line.push(' ');
        line.push_str(name);
        line.push('=');
        match value {
            Value::String(text) if is_bare(text) => line.push_str(text),
            Value::String(text) => {
                line.push('"');
                push_plain(line, &text.replace('\\', "\\\\").replace('"', "\\\""));
                line.push('"');
            }
            other => push_plain(line, &other.to_string()),
        }
    }
}

/// What a client or a model has said must neither begin a line nor steer a terminal.
fn push_plain(line: &mut String, text: &str) {
    for c in text.chars() {
        if is_unruly(c) { line.extend(c.escape_default()) } else { line.push(c) }
    }
}

/// What steers a terminal, ends a line in some reader, or turns the order of what stands around it.
fn is_unruly(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn is_bare(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || is_unruly(c) || matches!(c, '"' | '='))
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

    fn said(form: Form, message: &str, fields: &Value) -> String {
        let Value::Object(fields) = fields else { panic!("fields") };
        form.line(1_700_000_000_042, Level::WARN, (message, fields))
    }

    #[test]
    fn a_line_for_people_a_line_for_the_journal_and_a_line_for_programs() {
        let fields = json!({"job": "job_1", "took_ms": 7, "error": "no \"room\""});
        let text = said(Form::Text { in_colour: false }, "it is slow", &fields);
        let told = "it is slow job=job_1 took_ms=7 error=\"no \\\"room\\\"\"\n";
        assert_eq!(text, format!("2023-11-14T22:13:20.042Z   WARN {told}"));
        assert_eq!(said(Form::Journal, "it is slow", &fields), format!("<4>{told}"));
        let line = said(Form::Json { for_journal: false }, "it is slow", &fields);
        let read: Value = serde_json::from_str(&line).expect("JSON");
        let wanted = json!({"timestamp": "2023-11-14T22:13:20.042Z", "level": "WARN", "message": "it is slow",
            "job": "job_1", "took_ms": 7, "error": "no \"room\""});
        assert_eq!(read, wanted);
        assert_eq!(said(Form::Json { for_journal: true }, "it is slow", &fields), format!("<4>{line}"));
        assert!(said(Form::Text { in_colour: true }, "x", &json!({})).contains("\u{1b}["));
    }

    #[test]
    fn whatever_is_told_a_line_is_one_line_and_steers_no_terminal() {
        let fields =
            json!({"error": "a\nFAKE line\u{1b}[31m\u{9b}31m\u{7f}\u{202e}\u{2028}", "level": "forged"});
        let forms = [Form::Text { in_colour: false }, Form::Journal, Form::Json { for_journal: false }];
        for form in forms {
            let line = said(form, "one\r\ntwo", &fields);
            assert_eq!(line.matches('\n').count(), 1, "{line:?}");
            let rest = line.strip_suffix('\n').expect("an end");
            assert!(!rest.contains(char::is_control), "{line:?}");
            assert!(!rest.contains(['\u{202e}', '\u{2028}']), "{line:?}");
        }
        let json: Value = serde_json::from_str(&said(forms[2], "x", &fields)).expect("JSON");
        assert_eq!((&json["level"], &json["error"]), (&Value::from("WARN"), &fields["error"]));
    }

    #[test]
    fn a_value_has_a_bound() {
        assert_eq!(bounded("short"), "short");
        let cut = bounded(&"é".repeat(VALUE_CHARS + 1));
        assert_eq!((cut.chars().count(), cut.ends_with(CUT)), (VALUE_CHARS + 1, true));
    }
}
