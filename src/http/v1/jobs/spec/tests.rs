//! Every field: what it takes, what it refuses, what it is when absent.

use super::*;
use crate::domain::tool::Strictness;
use crate::http::testing::{MemoryStore, app};
use serde_json::json;
use std::sync::Arc;

fn spec(value: Value) -> Result<JobSpec, ApiError> {
    let Value::Object(map) = value else { panic!("an object") };
    from_json(map, &app(&Arc::new(MemoryStore::default())), UserId::SINGLE)
}

/// The spec of `{"input":"x", field: value}`.
fn with(field: &str, value: Value) -> Result<JobSpec, ApiError> {
    let mut object = json!({"input": "x"});
    object[field] = value;
    spec(object)
}

fn param(result: Result<JobSpec, ApiError>) -> String {
    match result {
        Err(ApiError::Invalid { param, .. }) => param.unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn absent_fields_have_their_defaults() {
    let spec = spec(json!({"input": "x", "model": null, "metadata": null})).expect("a job");
    assert_eq!(spec.input, [Message::user("x")]);
    assert_eq!((spec.model.as_str(), spec.max_steps, spec.timeout_s), ("demo", 15, 3_600));
    assert_eq!((spec.tools, spec.thinking, spec.priority), (ToolChoice::Default, false, Priority::DEFAULT));
    assert_eq!((spec.on_disconnect, spec.run_at_ms, spec.max_tokens), (OnDisconnect::Continue, None, None));
}

#[test]
fn given_job_fields_are_used() {
    let spec = spec(json!({
        "input": [{"role": "system", "content": "s"}, {"role": "assistant", "content": ""}, {"role": "user", "content": "u"}],
        "model": "other", "conversation_id": "c-1", "project_id": null, "system_prompt": "sp", "temperature": 2,
        "max_tokens": 5, "thinking": true, "tools": ["calculator", "calculator"], "strictness": "strict", "max_steps": 1,
        "timeout_s": 86_400, "max_total_tokens": u64::MAX, "priority": 0, "run_at": 1_800_000_000, "on_disconnect": "cancel",
        "metadata": {"k": ""},
    }))
    .expect("a job");
    assert_eq!(spec.input.len(), 3);
    assert_eq!(spec.input[1], Message::assistant(""));
    assert_eq!(spec.tools, ToolChoice::Named(vec!["calculator".into()]));
    assert_eq!((spec.strictness, spec.max_steps), (Some(Strictness::Strict), 1));
    assert_eq!((spec.run_at_ms, spec.on_disconnect), (Some(1_800_000_000_000), OnDisconnect::Cancel));
    assert_eq!((spec.temperature, spec.priority.level(), spec.timeout_s), (Some(2.0), 0, 86_400));
}

#[test]
fn invalid_values_are_reported_with_their_field() {
    for (field, value) in [
        ("temperature", json!(2.01)),
        ("temperature", json!(-0.1)),
        ("temperature", json!("1")),
        ("max_tokens", json!(0)),
        ("max_tokens", json!(1.5)),
        ("max_tokens", json!(4_294_967_296_u64)),
        ("max_steps", json!(0)),
        ("max_steps", json!(16)),
        ("timeout_s", json!(0)),
        ("timeout_s", json!(86_401)),
        ("timeout_s", json!(-1)),
        ("max_total_tokens", json!(0)),
        ("priority", json!(10)),
        ("priority", json!(-1)),
        ("thinking", json!(1)),
        ("strictness", json!("lax")),
        ("strictness", json!(["strict"])),
        ("on_disconnect", json!("stop")),
        ("tools", json!("calculator")),
        ("tools", json!({})),
        ("system_prompt", json!(1)),
        ("model", json!(1)),
        ("conversation_id", json!("a b")),
        ("conversation_id", json!("a\u{0}")),
        ("conversation_id", json!("")),
        ("conversation_id", json!(1)),
        ("run_at", json!("tomorrow")),
        ("run_at", json!(-1)),
        ("run_at", json!(1e30)),
        ("run_at", json!("1969-01-01T00:00:00Z")),
        ("run_at", json!("2027-01-01T00:00:00")),
        ("run_at", json!(253_402_207_201_u64)),
        ("metadata", json!([])),
        ("input", json!(1)),
        ("input", json!([])),
        ("input", json!("  ")),
        ("input", json!(null)),
        ("input", json!([{"role": "assistant", "content": "a"}])),
    ] {
        assert_eq!(param(with(field, value.clone())), field, "{field}: {value}");
    }
}

#[test]
fn run_at_accepts_utc_offsets() {
    let at = |text: &str| with("run_at", json!(text)).expect("a time").run_at_ms;
    assert_eq!(at("2027-01-15T08:00:00Z"), Some(1_800_000_000_000));
    assert_eq!(at("2027-01-15T10:00:00.5+02:00"), Some(1_800_000_000_500));
}

#[test]
fn run_at_accepts_fractions_of_a_second() {
    let at = |seconds: f64| with("run_at", json!(seconds)).expect("a time").run_at_ms;
    assert_eq!(at(1_800_000_000.25), Some(1_800_000_000_250));
    assert_eq!(at(1_800_000_000.0), Some(1_800_000_000_000));
}

#[test]
fn errors_inside_lists_and_objects_name_their_path() {
    for (field, value, place) in [
        ("input", json!([{"role": "user", "content": "x"}, 5]), "input[1]"),
        ("input", json!([{"role": "tool", "content": "x"}]), "input[0].role"),
        ("input", json!([{"role": "user"}]), "input[0].content"),
        ("input", json!([{"role": "user", "content": ["x"]}]), "input[0].content"),
        ("input", json!([{"role": "user", "content": "x", "name": "y"}]), "input[0].name"),
        ("tools", json!(["calculator", "calculater"]), "tools[1]"),
        ("tools", json!(["py", "pi"]), "tools[1]"),
        ("tools", json!([1]), "tools[0]"),
        ("metadata", json!({"k": 1}), "metadata.k"),
        ("metadata", json!({"k": "v".repeat(513)}), "metadata.k"),
        ("metadata", json!({"": "v"}), "metadata."),
    ] {
        assert_eq!(param(with(field, value.clone())), place, "{value}");
    }
    let many: Map<String, Value> = (0..17).map(|n| (n.to_string(), json!("v"))).collect();
    assert_eq!(param(with("metadata", Value::Object(many))), "metadata");
}

#[test]
fn unknown_names_get_a_suggestion() {
    let says = |result: Result<JobSpec, ApiError>| result.expect_err("refused").to_string();
    assert!(says(with("temprature", json!(1))).contains("did you mean 'temperature'"));
    assert!(says(with("tools", json!(["calculater"]))).contains("did you mean 'calculator'"));
    assert!(says(with("strictness", json!("strikt"))).contains("did you mean 'strict'"));
    let model = says(with("model", json!("dmo")));
    assert!(model.contains("demo, other"), "{model}");
    assert!(
        matches!(with("project_id", json!("p")), Err(ApiError::NotFound("project"))),
        "no project exists yet"
    );
    assert_eq!(param(with("max_attempts", json!("x"))), "max_attempts", "absent, not faked");
}

#[test]
fn p8_inputs_are_bounded() {
    let mut app = app(&Arc::new(MemoryStore::default()));
    app.limits.input_bytes = 10;
    app.limits.input_messages = 2;
    let read = |value: Value| match value {
        Value::Object(map) => from_json(map, &app, UserId::SINGLE),
        _ => unreachable!(),
    };
    assert!(read(json!({"input": "12345", "system_prompt": "67890"})).is_ok());
    assert!(matches!(
        read(json!({"input": "12345", "system_prompt": "678901"})),
        Err(ApiError::InputTooLarge(10))
    ));
    let messages = vec![json!({"role": "user", "content": "x"}); 3];
    assert_eq!(param(read(json!({"input": messages}))), "input");
}

fn file(name: &str, content: &str) -> Value {
    json!({"name": name, "content": content})
}

#[test]
fn a_user_message_may_have_attachments_instead_of_text() {
    let files = json!([{"name": "a b.py", "extension": "py", "content": "print(1)"}, file("empty", "")]);
    for message in [json!({"role": "user", "content": ""}), json!({"role": "user"})] {
        let mut message = message;
        message["attachments"] = files.clone();
        let spec = spec(json!({"input": [message]})).expect("a job");
        let Some(Message::User { content, attachments, .. }) = spec.input.first() else {
            panic!("{:?}", spec.input)
        };
        assert_eq!((content.as_str(), attachments.len()), ("", 2));
        assert_eq!((attachments[0].name.as_str(), attachments[0].extension.as_str()), ("a b.py", "py"));
        assert_eq!((attachments[0].content.as_str(), attachments[1].content.as_str()), ("print(1)", ""));
    }
    let none = spec(json!({"input": [{"role": "user", "content": "x", "attachments": []}]})).expect("a job");
    assert_eq!(none.input, [Message::user("x")]);
}

#[test]
fn p8_invalid_attachments_are_reported_with_their_path() {
    let message = |files: Value| json!([{"role": "user", "content": "x", "attachments": files}]);
    for (input, named) in [
        (message(json!("a")), "input[0].attachments"),
        (message(json!([5])), "input[0].attachments[0]"),
        (message(json!([file("a", ""), {"name": "b"}])), "input[0].attachments[1].content"),
        (message(json!([{"content": "b"}])), "input[0].attachments[0].name"),
        (message(json!([file("", "b")])), "input[0].attachments[0].name"),
        (message(json!([file(&"é".repeat(256), "b")])), "input[0].attachments[0].name"),
        (message(json!([file("a\nb", "b")])), "input[0].attachments[0].name"),
        (
            message(json!([{"name": "a", "content": "", "extension": "x".repeat(33)}])),
            "input[0].attachments[0].extension",
        ),
        (message(json!([{"name": "a", "content": "", "path": "/etc"}])), "input[0].attachments[0].path"),
        (message(json!([{"name": "a", "content": 5}])), "input[0].attachments[0].content"),
        (message(json!(vec![file("a", "b"); 21])), "input[0].attachments"),
        (
            json!([{"role": "assistant", "content": "x", "attachments": [file("a", "b")]}]),
            "input[0].attachments",
        ),
        (json!([{"role": "user", "attachments": []}]), "input"),
    ] {
        assert_eq!(param(with("input", input.clone())), named, "{input}");
    }
    let most = message(json!(vec![file(&"é".repeat(255), "b"); 20]));
    assert!(with("input", most).is_ok());
    let large = message(json!([file("a", &"x".repeat(4 * 1024 * 1024))]));
    assert!(matches!(with("input", large), Err(ApiError::InputTooLarge(_))), "files count as input");
}
