//! Reads calls in JSON and between tags.

use serde_json::{Map, Value};

/// A call that was written as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::llm) struct TextCall {
    /// The name of an offered tool.
    pub(in crate::llm) name: String,
    /// The text of a JSON object.
    pub(in crate::llm) arguments: String,
}

/// Keys of the tool's name.
const NAMES: [&str; 3] = ["name", "tool", "tool_name"];
/// Keys of the arguments.
const ARGUMENTS: [&str; 4] = ["arguments", "parameters", "args", "input"];
/// Other keys that a call may begin with.
const OTHERS: [&str; 2] = ["id", "function"];
/// Values of `type` that a call may begin with.
const TYPES: [&str; 3] = ["function", "function_call", "tool_call"];
const FUNCTION: &str = "<function=";

/// How a call of these tools may begin, without white space.
pub(super) fn starts(names: &[String]) -> Vec<String> {
    let by_key = ARGUMENTS.iter().chain(&OTHERS).map(|key| format!("{{\"{key}\":"));
    let by_type = TYPES.iter().map(|value| format!("{{\"type\":\"{value}\""));
    let by_name =
        NAMES.iter().flat_map(|key| names.iter().map(move |name| format!("{{\"{key}\":\"{name}\"")));
    let tagged = names.iter().map(|name| format!("{FUNCTION}{name}>"));
    by_key.chain(by_type).chain(by_name).chain(tagged).collect()
}

/// Finds the end of a JSON object or list.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JsonScan {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl JsonScan {
    /// Takes the next character; returns whether the value ends with it.
    pub(super) fn ends_with(&mut self, c: char) -> bool {
        if self.in_string {
            self.in_string = c != '"' || self.is_escaped;
            self.is_escaped = c == '\\' && !self.is_escaped;
            return false;
        }
        match c {
            '"' => self.in_string = true,
            '{' | '[' => self.depth = self.depth.saturating_add(1),
            '}' | ']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.depth == 0
    }
}

/// The calls that a JSON text consists of: one, or a list of calls.
pub(super) fn json_calls(text: &str, names: &[String]) -> Option<Vec<TextCall>> {
    match serde_json::from_str(text).ok()? {
        Value::Array(list) if !list.is_empty() => list.iter().map(|value| call(value, names)).collect(),
        value => Some(vec![call(&value, names)?]),
    }
}

fn call(value: &Value, names: &[String]) -> Option<TextCall> {
    let inner = value.get("function").filter(|function| function.is_object()).unwrap_or(value);
    let name = NAMES.iter().chain(&["function"]).find_map(|key| inner.get(key)?.as_str())?;
    let arguments = match ARGUMENTS.iter().find_map(|key| inner.get(key))? {
        object @ Value::Object(_) => object.to_string(),
        Value::String(text) => json_object(text)?,
        _ => return None,
    };
    offered(name, arguments, names)
}

fn offered(name: &str, arguments: String, names: &[String]) -> Option<TextCall> {
    let is_offered = names.iter().any(|offered| offered == name);
    is_offered.then(|| TextCall { name: name.to_owned(), arguments })
}

fn json_object(text: &str) -> Option<String> {
    serde_json::from_str::<Map<String, Value>>(text).ok().map(|_| text.to_owned())
}

/// The calls in the content of a tag: JSON, JSON on each line, or `<function=NAME>` with its arguments.
pub(super) fn tagged_calls(text: &str, names: &[String]) -> Option<Vec<TextCall>> {
    let text = text.trim();
    if let Some(function) = text.strip_prefix(FUNCTION) {
        let (name, rest) = function.split_once('>')?;
        let rest = rest.trim_end();
        let arguments = arguments(rest.strip_suffix("</function>").unwrap_or(rest).trim())?;
        return Some(vec![offered(name, arguments, names)?]);
    }
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let on_lines = || lines.map(|line| json_calls(line, names)).collect::<Option<Vec<_>>>();
    json_calls(text, names)
        .or_else(|| on_lines().map(|calls| calls.concat()).filter(|calls| !calls.is_empty()))
}

/// Arguments after a name: a JSON object, or a row of `<parameter=KEY>VALUE</parameter>`.
fn arguments(text: &str) -> Option<String> {
    if text.starts_with('{') {
        return json_object(text);
    }
    let (mut rest, mut map) = (text, Map::new());
    while !rest.is_empty() {
        let (key, after) = rest.strip_prefix("<parameter=")?.split_once('>')?;
        let (value, after) = after.split_once("</parameter>").unwrap_or((after, ""));
        map.insert(key.trim().to_owned(), parameter(value));
        rest = after.trim_start();
    }
    Some(Value::Object(map).to_string())
}

/// A parameter stands between line breaks of its own. Objects and lists are JSON; the schema of the tool
/// converts the rest.
fn parameter(text: &str) -> Value {
    let text = text.strip_prefix('\n').unwrap_or(text);
    let text = text.strip_suffix('\n').unwrap_or(text);
    let is_container = text.trim_start().starts_with(['{', '[']);
    is_container.then(|| serde_json::from_str(text).ok()).flatten().unwrap_or_else(|| Value::from(text))
}
