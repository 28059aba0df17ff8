//! The lines of an evaluation: `{"id"?, "checks": [{"contains": "…"}, …], …}` with the fields of a job.

use super::check::{Check, CheckLine};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Longest line, bytes.
const LINE_BYTES: usize = 16 * 1024 * 1024;

/// Faults that are named at once.
const FAULTS: usize = 20;

/// Characters of an id.
const ID_CHARS: usize = 100;

/// A prompt with its checks.
#[derive(Debug)]
pub(super) struct EvalCase {
    /// Its line in the file, from 1.
    pub(super) line: u64,
    pub(super) id: String,
    pub(super) checks: Vec<Check>,
    /// The fields of the job.
    pub(super) job: Map<String, Value>,
}

/// Reads all cases, or says what is wrong with which line. `names_models`: the command line names them.
pub(super) fn read_cases(text: &str, names_models: bool) -> Result<Vec<EvalCase>, Vec<String>> {
    let (mut cases, mut faults, mut ids) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (line, text) in (1..).zip(text.lines()) {
        if text.trim().is_empty() {
            continue;
        }
        let case = read_case(line, text, names_models).and_then(|case| {
            if ids.insert(case.id.clone()) {
                Ok(case)
            } else {
                Err(format!("the id '{}' is there twice", case.id))
            }
        });
        match case {
            Ok(case) => cases.push(case),
            Err(fault) => faults.push(format!("line {line}: {fault}")),
        }
        if faults.len() >= FAULTS {
            break;
        }
    }
    if cases.is_empty() && faults.is_empty() {
        faults.push(
            "line 1: the file has no case; a line is {\"input\":\"…\",\"checks\":[{\"contains\":\"…\"}]}"
                .to_owned(),
        );
    }
    if faults.is_empty() { Ok(cases) } else { Err(faults) }
}

fn read_case(line: u64, text: &str, names_models: bool) -> Result<EvalCase, String> {
    if text.len() > LINE_BYTES {
        return Err(format!("it is longer than {LINE_BYTES} bytes"));
    }
    let read: Value = serde_json::from_str(text).map_err(|error| not_json(&error))?;
    let Value::Object(mut job) = read else {
        return Err("it is no JSON object".to_owned());
    };
    let id = match job.shift_remove("id") {
        None | Some(Value::Null) => format!("line {line}"),
        Some(Value::String(id)) => id,
        Some(_) => return Err("'id' must be a text".to_owned()),
    };
    if id.is_empty() || id.chars().count() > ID_CHARS || id.chars().any(char::is_control) {
        return Err(format!("'id' has 1 to {ID_CHARS} characters, none of them a control character"));
    }
    if !job.contains_key("input") {
        return Err("'input' is missing".to_owned());
    }
    if names_models && job.contains_key("model") {
        return Err("'model' is here and on the command line; leave one of them out".to_owned());
    }
    let checks = match job.shift_remove("checks") {
        Some(Value::Array(checks)) if !checks.is_empty() => checks,
        Some(Value::Array(_)) => return Err("'checks' is empty: name at least one".to_owned()),
        Some(_) => return Err("'checks' must be a list".to_owned()),
        None => return Err("'checks' is missing".to_owned()),
    };
    let check = |(nth, check): (usize, Value)| {
        let read = CheckLine::read(check).and_then(Check::new);
        read.map_err(|fault| format!("check {}: {fault}", nth.saturating_add(1)))
    };
    let checks = checks.into_iter().enumerate().map(check).collect::<Result<_, _>>()?;
    Ok(EvalCase { line, id, checks, job })
}

/// The parser's words, without the number of the line: it sees one line only.
fn not_json(error: &serde_json::Error) -> String {
    let (text, column) = (error.to_string(), error.column());
    let place = format!(" at line {} column {column}", error.line());
    format!("it is no JSON: {} at column {column}", text.strip_suffix(&place).unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str, names_models: bool) -> Vec<String> {
        read_cases(text, names_models).err().unwrap_or_default()
    }

    #[test]
    fn each_bad_line_is_named_with_its_number() {
        let good = r#"{"input":"a","checks":[{"contains":"a"}]}"#;
        let bad = [
            (r#"{"input":"a"}"#, "line 2: 'checks' is missing"),
            (r#"{"input":"a","checks":[]}"#, "line 2: 'checks' is empty"),
            (r#"{"checks":[{"equals":"a"}]}"#, "line 2: 'input' is missing"),
            (r#"{"input":"a","checks":{}}"#, "line 2: 'checks' must be a list"),
            (
                r#"{"input":"a","checks":[{"contain":"a"}]}"#,
                "line 2: check 1: there is no check 'contain', only contains",
            ),
            (
                r#"{"input":"a","checks":[{"contains":"a","regex":"b"}]}"#,
                "line 2: check 1: it must be an object",
            ),
            (r#"{"input":"a","checks":[{"contains":5}]}"#, "line 2: check 1: 'contains' must be a text"),
            (r#"{"id":7,"input":"a","checks":[]}"#, "line 2: 'id' must be a text"),
            (r#"{"input":"a""#, "line 2: it is no JSON: EOF while parsing an object at column 12"),
            ("[]", "line 2: it is no JSON object"),
            (r#"{"input":"a","checks":[{"regex":"("}]}"#, "line 2: check 1: "),
            (r#"{"input":"a","checks":[{"json_schema":{"type":7}}]}"#, "line 2: check 1: "),
            (r#"{"input":"a","checks":[{"program":" "}]}"#, "line 2: check 1: the program is empty"),
            ("nonsense", "line 2: it is no JSON: expected"),
        ];
        for (line, expected) in bad {
            let found = faults(&format!("{good}\n{line}\n\n{good}"), false);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{line}: {found:?}");
        }
        assert_eq!(faults(good, true), Vec::<String>::new());
        assert!(faults("\n \n", false)[0].contains("no case"));
    }

    #[test]
    fn ids_are_unique_and_a_model_is_named_once() {
        let named = |id: &str| format!(r#"{{"id":"{id}","input":"a","checks":[{{"contains":"a"}}]}}"#);
        assert_eq!(faults(&format!("{}\n{}", named("a"), named("b")), false), Vec::<String>::new());
        assert_eq!(
            faults(&format!("{}\n{}", named("a"), named("a")), false),
            ["line 2: the id 'a' is there twice"]
        );
        let model = r#"{"model":"m","input":"a","checks":[{"contains":"a"}]}"#;
        assert!(faults(model, true)[0].starts_with("line 1: 'model' is here"));
        assert!(faults(model, false).is_empty());
    }
}
