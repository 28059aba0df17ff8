//! A line of a batch: `{"custom_id","body":{job}}`, or a line of `OpenAI` with `method` and `url`. Errors
//! name the line.

use super::openai;
use crate::domain::id::UserId;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::fields::{ObjectFields, wrong};
use crate::http::request::json::{self, JsonObjectError};
use crate::http::request::quoted::quoted;
use crate::http::v1::jobs::spec;
use crate::ports::NewLine;
use serde_json::{Map, Value};

/// The longest `custom_id`, characters.
const CUSTOM_ID_CHARS: usize = 256;

/// Default priority of a line: behind interactive jobs.
const PRIORITY: u64 = 7;

pub(crate) fn parse(
    number: u64,
    text: &[u8],
    app: &AppDependencies,
    user: UserId,
) -> Result<NewLine, ApiError> {
    read(text, app, user).map_err(|error| error.at_line(number))
}

fn read(text: &[u8], app: &AppDependencies, user: UserId) -> Result<NewLine, ApiError> {
    let map = json::object(text, json::most_values(&app.limits)).map_err(|fault| match fault {
        JsonObjectError::Syntax(error) => ApiError::malformed(format!("it is not JSON: {error}")),
        JsonObjectError::NoObject => ApiError::malformed("it must be a JSON object"),
        JsonObjectError::TooMany(most) => {
            ApiError::malformed(format!("it holds more than {most} JSON values"))
        }
    })?;
    if map.contains_key("input_file_id") {
        return Err(ApiError::value(
            "input_file_id",
            "there are no uploaded files here: send the lines themselves (curl -T jobs.jsonl …/v1/batches)",
        ));
    }
    let mut fields = ObjectFields::new(map, &["custom_id", "method", "url", "body"])?;
    let custom_id = fields.text("custom_id")?.ok_or_else(|| missing("custom_id", "a name of your own"))?;
    if custom_id.is_empty() || custom_id.chars().count() > CUSTOM_ID_CHARS {
        let rule = format!("'custom_id' must have 1 to {CUSTOM_ID_CHARS} characters");
        return Err(ApiError::value("custom_id", rule));
    }
    let (method, url) = (fields.text("method")?, fields.text("url")?);
    let body = match fields.take("body") {
        Some(Value::Object(body)) => body,
        Some(other) => return Err(wrong("body", "an object with a job's fields", &other)),
        None => return Err(missing("body", "an object with a job's fields")),
    };
    let mut job = job(method.as_deref(), url.as_deref(), body)?;
    if job.get("priority").is_none_or(Value::is_null) {
        job.insert("priority".to_owned(), PRIORITY.into());
    }
    Ok(NewLine { custom_id, spec: spec::from_json(job, app, user)? })
}

fn job(
    method: Option<&str>,
    url: Option<&str>,
    body: Map<String, Value>,
) -> Result<Map<String, Value>, ApiError> {
    if let Some(method) = method.filter(|method| *method != "POST") {
        return Err(ApiError::value("method", format!("'method' must be POST, not {}", quoted(method))));
    }
    match url {
        None | Some("/v1/jobs") => Ok(body),
        Some("/v1/chat/completions") => openai::chat(body),
        Some("/v1/responses") => openai::responses(body),
        Some(other) => {
            let known = "/v1/chat/completions, /v1/responses, /v1/jobs";
            Err(ApiError::value("url", format!("'url' must be one of {known}, not {}", quoted(other))))
        }
    }
}

fn missing(name: &str, what: &str) -> ApiError {
    ApiError::value(name, format!("'{name}' is missing: {what}"))
}
