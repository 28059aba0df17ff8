//! Reads calls in JSON and in tags, and tells early when a beginning cannot become a call.

use serde_json::{Map, Value};

/// A call that was written as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::llm) struct TextCall {
    /// The tool; one of those on offer.
    pub(in crate::llm) name: String,
    /// A JSON object's text.
    pub(in crate::llm) arguments: String,
}

/// Keys that hold a tool's name.
const NAMES: [&str; 3] = ["name", "tool", "tool_name"];
/// Keys that hold the arguments.
const ARGUMENTS: [&str; 4] = ["arguments", "parameters", "args", "input"];
/// Other keys that a call may begin with.
const OTHERS: [&str; 3] = ["type", "id", "function"];
/// What a call may say of its type.
const TYPES: [&str; 3] = ["function", "function_call", "tool_call"];

/// The calls that a JSON text is: one, or a list of nothing else.
pub(super) fn calls(text: &str, names: &[String]) -> Option<Vec<TextCall>> {
    match serde_json::from_str(text).ok()? {
        Value::Array(list) if !list.is_empty() => list.iter().map(|value| call(value, names)).collect(),
        value => Some(vec![call(&value, names)?]),
    }
}

fn call(value: &Value, names: &[String]) -> Option<TextCall> {
    let inner = value.get("function").filter(|function| function.is_object()).unwrap_or(value);
    let name = NAMES.iter().chain(&["function"]).find_map(|key| inner.get(key)?.as_str())?;
    let given = ARGUMENTS.iter().find_map(|key| inner.get(key))?;
    let is_offered = names.iter().any(|offered| offered == name);
    is_offered.then_some(())?;
    Some(TextCall { name: name.to_owned(), arguments: arguments(given)? })
}

/// The text of arguments that are an object, or the text of one.
fn arguments(value: &Value) -> Option<String> {
    match value {
        Value::Object(_) => Some(value.to_string()),
        Value::String(text) => serde_json::from_str::<Map<String, Value>>(text).ok().map(|_| text.clone()),
        _ => None,
    }
}

/// Arguments as they stand behind a name: an object, or `<parameter=KEY>VALUE</parameter>` in a row.
pub(super) fn arguments_of(text: &str) -> Option<String> {
    let text = text.trim();
    if text.is_empty() {
        return Some("{}".to_owned());
    }
    if text.starts_with('{') {
        return serde_json::from_str::<Map<String, Value>>(text).ok().map(|_| text.to_owned());
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

/// A parameter stands between line breaks of its own; containers are JSON, the rest is text (the tool's schema coerces).
fn parameter(text: &str) -> Value {
    let text = text.strip_prefix('\n').unwrap_or(text);
    let text = text.strip_suffix('\n').unwrap_or(text);
    let is_container = text.trim_start().starts_with(['{', '[']);
    is_container.then(|| serde_json::from_str(text).ok()).flatten().unwrap_or_else(|| Value::from(text))
}

/// The calls between `<tool_call>` and its end.
pub(super) fn tagged(text: &str, names: &[String]) -> Option<Vec<TextCall>> {
    let text = text.trim();
    let Some(function) = text.strip_prefix("<function=") else {
        let objects = text.lines().filter(|line| !line.trim().is_empty());
        return calls(text, names).or_else(|| {
            let each: Option<Vec<_>> = objects.map(|line| calls(line, names)).collect();
            each.map(|found| found.concat()).filter(|found| !found.is_empty())
        });
    };
    let (name, rest) = function.split_once('>')?;
    let rest = rest.trim_end();
    let arguments = arguments_of(rest.strip_suffix("</function>").unwrap_or(rest))?;
    names.iter().any(|offered| offered == name).then(|| vec![TextCall { name: name.to_owned(), arguments }])
}

/// Whether a beginning may become a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallGuess {
    /// It cannot become a call.
    Never,
    /// Too early to say.
    Perhaps,
    /// Only the whole value tells.
    Wait,
}

/// Whether the JSON text that begins so may become a call. It reads the first key and its value only.
pub(super) fn guess(start: &str, names: &[String]) -> CallGuess {
    let inside = start.trim_start_matches(|c: char| c == '[' || c.is_whitespace());
    let depth = start.len().saturating_sub(inside.len());
    let Some(inside) = inside.strip_prefix('{') else {
        let is_list = inside.is_empty() && depth > 0 && start.matches('[').count() <= 1;
        return if is_list { CallGuess::Perhaps } else { CallGuess::Never };
    };
    let keys = || NAMES.iter().chain(&ARGUMENTS).chain(&OTHERS).copied();
    let (key, rest) = match word(inside) {
        JsonWord::No => return CallGuess::Never,
        JsonWord::Begun(part) => return perhaps(keys().any(|key| key.starts_with(part))),
        JsonWord::Whole(key, rest) => (key, rest.trim_start()),
    };
    if !keys().any(|known| known == key) {
        return CallGuess::Never;
    }
    let Some(value) = rest.strip_prefix(':') else { return perhaps(rest.is_empty()) };
    let among = |fits: &dyn Fn(&str) -> bool| match word(value) {
        JsonWord::Begun(part) => perhaps(fits(part)),
        JsonWord::Whole(whole, _) if fits(whole) => CallGuess::Wait,
        JsonWord::Whole(..) | JsonWord::No => CallGuess::Never,
    };
    match key {
        "type" => among(&|part| TYPES.iter().any(|known| known.starts_with(part))),
        key if NAMES.contains(&key) => among(&|part| names.iter().any(|name| name.starts_with(part))),
        _ => CallGuess::Wait,
    }
}

/// The same for text between two tags.
pub(super) fn guess_tagged(start: &str, names: &[String]) -> CallGuess {
    const FUNCTION: &str = "<function=";
    let inside = start.trim_start();
    let Some(name) = inside.strip_prefix(FUNCTION) else {
        return if FUNCTION.starts_with(inside) { CallGuess::Perhaps } else { guess(inside, names) };
    };
    match name.split_once('>') {
        None => perhaps(names.iter().any(|offered| offered.starts_with(name))),
        Some((name, _)) if names.iter().any(|offered| offered == name) => CallGuess::Wait,
        Some(_) => CallGuess::Never,
    }
}

fn perhaps(may: bool) -> CallGuess {
    if may { CallGuess::Perhaps } else { CallGuess::Never }
}

/// A JSON string at the front, as far as it goes. Names have no escapes.
enum JsonWord<'a> {
    No,
    Begun(&'a str),
    Whole(&'a str, &'a str),
}

fn word(text: &str) -> JsonWord<'_> {
    let text = text.trim_start();
    if text.is_empty() {
        return JsonWord::Begun("");
    }
    let Some(inside) = text.strip_prefix('"') else { return JsonWord::No };
    match inside.split_once('"') {
        None => JsonWord::Begun(inside),
        Some((whole, rest)) => JsonWord::Whole(whole, rest),
    }
}
