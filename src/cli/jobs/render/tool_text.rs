//! A tool's arguments and result as a few lines that fit the terminal.

use serde_json::{Map, Value};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Lines shown of one argument, such as a program.
const ARGUMENT_LINES: usize = 24;

/// Lines shown of a result.
const RESULT_LINES: usize = 12;

/// Lines shown of a whole object.
const OBJECT_LINES: usize = 40;

/// The lines of a call.
pub(crate) fn call(name: &str, arguments: &str, columns: usize) -> Vec<String> {
    let head = format!("→ {name}");
    match serde_json::from_str(arguments) {
        Ok(Value::Object(map)) => object(&head, &map, (ARGUMENT_LINES, columns)),
        _ if arguments.trim().is_empty() => vec![head],
        _ => vec![cut(&format!("{head}  {}", one_line(arguments)), columns)],
    }
}

/// Whether a result is a success, and its lines.
pub(crate) fn result(name: &str, content: &str, columns: usize) -> (bool, Vec<String>) {
    let parsed: Value = serde_json::from_str(content).unwrap_or_default();
    let Some(is_success) = parsed.get("success").and_then(Value::as_bool) else {
        return (true, text(&format!("← {name}"), content, columns));
    };
    let symbol = if is_success { '✓' } else { '✗' };
    let head = format!("← {name} {symbol}{}", time(&parsed));
    let payload = if is_success { parsed.get("data") } else { parsed.get("error") };
    let lines = match payload {
        None | Some(Value::Null) => vec![head],
        Some(Value::Object(map)) => object(&head, map, (RESULT_LINES, columns)),
        Some(Value::String(string)) => text(&head, string, columns),
        Some(other) => text(&head, &other.to_string(), columns),
    };
    (is_success, lines)
}

/// The duration, from 0.05 s on.
fn time(result: &Value) -> String {
    match result.get("execution_time").and_then(Value::as_f64) {
        Some(seconds) if seconds >= 0.05 => format!(" ({seconds:.1} s)"),
        _ => String::new(),
    }
}

/// Text after the head if it fits on the line, else below.
fn text(head: &str, content: &str, columns: usize) -> Vec<String> {
    let short = format!("{head}  {}", content.trim_end());
    if !content.trim_end().contains('\n') && short.width() <= columns {
        return vec![short];
    }
    let mut lines = vec![head.to_owned()];
    lines.extend(block(content, "    ", (RESULT_LINES, columns)));
    lines
}

/// An object's members after the head if they fit on the line, else on lines of their own.
fn object(head: &str, map: &Map<String, Value>, (max_lines, columns): (usize, usize)) -> Vec<String> {
    let members: Vec<(&str, String)> = map
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| (key.as_str(), value_text(value)))
        .collect();
    if members.is_empty() {
        return vec![head.to_owned()];
    }
    let pairs: Vec<String> = members.iter().map(|(key, value)| format!("{key}: {value}")).collect();
    let short = format!("{head}  {}", pairs.join(", "));
    if !short.contains('\n') && short.width() <= columns {
        return vec![short];
    }
    let mut lines = vec![head.to_owned()];
    for (key, value) in &members {
        if value.trim_end().contains('\n') {
            lines.push(cut(&format!("    {key}:"), columns));
            lines.extend(block(value, "      │ ", (max_lines, columns)));
        } else {
            lines.push(cut(&format!("    {key}: {}", value.trim_end()), columns));
        }
    }
    shorten(lines, OBJECT_LINES, "    ")
}

/// A value; strings without quotation marks.
fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The first lines of a text, each cut to the width.
fn block(text: &str, margin: &str, (max_lines, columns): (usize, usize)) -> Vec<String> {
    let lines = text.trim_end().lines().map(|line| cut(&format!("{margin}{line}"), columns));
    shorten(lines.collect(), max_lines, margin)
}

fn shorten(mut lines: Vec<String>, max_lines: usize, margin: &str) -> Vec<String> {
    let omitted = lines.len().saturating_sub(max_lines);
    // The note would take as much room as a single omitted line.
    if omitted > 1 {
        lines.truncate(max_lines);
        lines.push(format!("{margin}… {omitted} more lines"));
    }
    lines
}

/// The text on one line, with single spaces.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The line, cut to the width.
pub(crate) fn cut(line: &str, columns: usize) -> String {
    let line = line.replace('\t', "    ");
    if line.width() <= columns {
        return line;
    }
    let mut used = 1; // the ellipsis
    let fits = |c: &char| {
        used += c.width().unwrap_or(1);
        used <= columns
    };
    line.chars().take_while(fits).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_calls_and_results_take_one_line() {
        assert_eq!(call("calculator", r#"{"expression": "6*7"}"#, 80), ["→ calculator  expression: 6*7"]);
        assert_eq!(call("now", "{}", 80), ["→ now"]);
        assert_eq!(call("odd", "{not json", 80), ["→ odd  {not json"]);
        let good = r#"{"success":true,"data":{"result":42},"error":null,"execution_time":0.0}"#;
        assert_eq!(result("calculator", good, 80), (true, vec!["← calculator ✓  result: 42".to_owned()]));
        let bad = r#"{"success":false,"data":null,"error":"no such file","execution_time":1.26}"#;
        assert_eq!(result("read", bad, 80), (false, vec!["← read ✗ (1.3 s)  no such file".to_owned()]));
        assert_eq!(result("foreign", "plain text", 80), (true, vec!["← foreign  plain text".to_owned()]));
    }

    #[test]
    fn code_arguments_are_shown_as_a_truncated_block() {
        let code = (1..=30).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
        let arguments = serde_json::json!({"code": code, "timeout": 5}).to_string();
        let lines = call("execute_python", &arguments, 80);
        assert_eq!(lines[..3], ["→ execute_python", "    code:", "      │ line 1"]);
        assert_eq!(lines[26..], ["      │ … 6 more lines", "    timeout: 5"]);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let wide = "日本語".repeat(100);
        let arguments = serde_json::json!({"code": format!("{wide}\n{wide}"), "x": wide}).to_string();
        let content = serde_json::json!({"success": true, "data": {"output": wide}}).to_string();
        let lines = [call("t", &arguments, 50), result("t", &content, 50).1, call("t", &wide, 50)].concat();
        assert!(lines.iter().all(|line| line.width() <= 50), "{lines:?}");
        assert!(lines.iter().any(|line| line.ends_with('…')), "{lines:?}");
    }
}
