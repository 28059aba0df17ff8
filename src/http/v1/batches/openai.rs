//! Translates batch lines of `OpenAI` (`/v1/chat/completions`, `/v1/responses`) into jobs. A field that would
//! change the answer and has no counterpart is an error: nothing is dropped silently.

use crate::http::error::ApiError;
use crate::http::request::fields::{ObjectFields, wrong};
use serde_json::{Map, Value};

/// Fields that do not change the answer; ignored.
const IDLE: [&str; 7] = [
    "user",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "stream_options",
    "background",
];

/// Fields that both endpoints have.
const COMMON: [&str; 3] = ["stream", "tools", "tool_choice"];

/// Fields that a job takes under the same name.
const SAME: [&str; 3] = ["model", "temperature", "metadata"];

pub(crate) fn chat(body: Map<String, Value>) -> Result<Map<String, Value>, ApiError> {
    let own = ["messages", "max_tokens", "max_completion_tokens", "reasoning_effort", "n"];
    let mut fields = fields(body, &own)?;
    let messages =
        fields.take("messages").ok_or_else(|| ApiError::value("messages", "'messages' is missing"))?;
    let mut job = start(&mut fields)?;
    job.insert("input".to_owned(), job_messages("messages", messages)?);
    let most = fields.take("max_completion_tokens").or(fields.take("max_tokens"));
    put(&mut job, "max_tokens", most);
    if let Some(other) = fields.take("n").filter(|n| n.as_u64() != Some(1)) {
        return Err(wrong("n", "1: a job has one answer", &other));
    }
    put(&mut job, "thinking", thinking(fields.take("reasoning_effort")));
    Ok(job)
}

pub(crate) fn responses(body: Map<String, Value>) -> Result<Map<String, Value>, ApiError> {
    let mut fields = fields(body, &["input", "instructions", "max_output_tokens", "reasoning"])?;
    let input = fields.take("input").ok_or_else(|| ApiError::value("input", "'input' is missing"))?;
    let mut job = start(&mut fields)?;
    job.insert("input".to_owned(), job_messages("input", input)?);
    put(&mut job, "system_prompt", fields.take("instructions"));
    put(&mut job, "max_tokens", fields.take("max_output_tokens"));
    let effort = fields.take("reasoning").and_then(|reasoning| reasoning.get("effort").cloned());
    put(&mut job, "thinking", thinking(effort));
    Ok(job)
}

fn fields(body: Map<String, Value>, own: &[&str]) -> Result<ObjectFields, ApiError> {
    let known: Vec<&str> = own.iter().chain(&COMMON).chain(&SAME).chain(&IDLE).copied().collect();
    let mut fields = ObjectFields::new(body, &known)?;
    if fields.flag("stream")? == Some(true) {
        return Err(ApiError::value("stream", "'stream' must be false: a batch has results, not streams"));
    }
    Ok(fields)
}

fn start(fields: &mut ObjectFields) -> Result<Map<String, Value>, ApiError> {
    let mut job = Map::new();
    for name in SAME {
        put(&mut job, name, fields.take(name));
    }
    put(&mut job, "tools", no_tools(fields)?);
    Ok(job)
}

fn put(job: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        job.insert(name.to_owned(), value);
    }
}

/// A line may switch the tools of this server off. It cannot bring its own.
fn no_tools(fields: &mut ObjectFields) -> Result<Option<Value>, ApiError> {
    let (tools, choice) = (fields.take("tools"), fields.text("tool_choice")?);
    match tools {
        Some(Value::Array(list)) if !list.is_empty() => Err(ApiError::value(
            "tools",
            "'tools' must be empty or absent: this server's own tools are used; a line for /v1/jobs can name some of them",
        )),
        Some(Value::Array(_)) => Ok(Some(false.into())),
        Some(other) => Err(wrong("tools", "a list", &other)),
        None => Ok((choice.as_deref() == Some("none")).then(|| false.into())),
    }
}

fn thinking(effort: Option<Value>) -> Option<Value> {
    effort.map(|effort| (!matches!(effort.as_str(), Some("none" | "minimal"))).into())
}

/// Messages in the form of a job: text parts joined, `developer` as `system`.
fn job_messages(name: &str, input: Value) -> Result<Value, ApiError> {
    let Value::Array(list) = input else { return Ok(input) };
    let messages = list.into_iter().enumerate().map(|(at, message)| {
        let Value::Object(mut message) = message else { return Ok(message) };
        if message.get("role").and_then(Value::as_str) == Some("developer") {
            message.insert("role".to_owned(), "system".into());
        }
        message.remove("name");
        if message.get("type").and_then(Value::as_str) == Some("message") {
            message.remove("type");
        }
        if let Some(Value::Array(parts)) = message.get("content") {
            let text = parts.iter().map(|part| text(&format!("{name}[{at}].content"), part));
            let text = text.collect::<Result<String, ApiError>>()?;
            message.insert("content".to_owned(), text.into());
        }
        Ok(Value::Object(message))
    });
    messages.collect::<Result<Vec<_>, ApiError>>().map(Value::Array)
}

fn text<'p>(place: &str, part: &'p Value) -> Result<&'p str, ApiError> {
    let kind = part.get("type").and_then(Value::as_str);
    match (kind, part.get("text").and_then(Value::as_str)) {
        (Some("text" | "input_text" | "output_text"), Some(text)) => Ok(text),
        _ => Err(ApiError::value(place, format!("'{place}' must hold text parts only"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            other => panic!("{other} is no object"),
        }
    }

    #[test]
    fn a_chat_completion_is_a_job() {
        let body = json!({
            "model": "demo", "temperature": 0.5, "max_completion_tokens": 9, "user": "u", "n": 1, "stream": false,
            "reasoning_effort": "high", "metadata": {"a": "b"},
            "messages": [
                {"role": "developer", "content": "be brief"},
                {"role": "user", "name": "ann", "content": [{"type":"text","text":"a"},{"type":"text","text":"b"}]},
            ],
        });
        assert_eq!(
            Value::Object(chat(map(body)).expect("a job")),
            json!({
                "model": "demo", "temperature": 0.5, "metadata": {"a": "b"}, "max_tokens": 9, "thinking": true,
                "input": [{"role":"system","content":"be brief"},{"role":"user","content":"ab"}],
            })
        );
    }

    #[test]
    fn a_response_is_a_job() {
        let body = json!({"input": "hi", "instructions": "be brief", "max_output_tokens": 5, "reasoning": {"effort":"none"}});
        assert_eq!(
            Value::Object(responses(map(body)).expect("a job")),
            json!({"input": "hi", "system_prompt": "be brief", "max_tokens": 5, "thinking": false})
        );
    }

    #[test]
    fn fields_that_would_change_the_answer_are_refused_by_name() {
        for (body, word) in [
            (json!({"messages": [], "top_p": 0.1}), "top_p"),
            (json!({"messages": [], "n": 2}), "'n'"),
            (json!({"messages": [], "stream": true}), "'stream'"),
            (json!({}), "'messages' is missing"),
            (json!({"messages": [{"role":"user","content":[{"type":"image_url"}]}]}), "text parts only"),
        ] {
            let error = chat(map(body)).expect_err("refused");
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
