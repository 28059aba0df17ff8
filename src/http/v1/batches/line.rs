//! A line of a batch: `{"custom_id","body":{job}}`, or a line of `OpenAI` with `method` and `url`, whose body
//! is read as its route reads it. Errors get the number of the line from the caller.

use crate::domain::batch::BatchEndpoint;
use crate::domain::id::UserId;
use crate::domain::job::{JobSpec, OnDisconnect, Priority};
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::json::{self, JsonObjectError};
use crate::http::request::quoted::quoted;
use crate::http::request::typed;
use crate::http::request::values::{BoundedText, WholeNumber};
use crate::http::v1::jobs::spec::JobRequest;
use crate::http::v1::openai::headers::JobHeaders;
use crate::http::v1::openai::{body, chat, responses};
use crate::ports::NewLine;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Default priority of a line: behind interactive jobs.
const PRIORITY: u64 = 7;

/// A line. `body` is read when the URL has told its type.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineRequest {
    custom_id: BoundedText<1, 256>,
    method: Option<String>,
    url: Option<String>,
    body: Map<String, Value>,
}

/// A line. One of a file has to name the endpoint of its batch.
pub(crate) fn parse(
    text: &[u8],
    app: &AppDependencies,
    user: UserId,
    (endpoint, headers): (Option<BatchEndpoint>, &JobHeaders),
) -> Result<NewLine, ApiError> {
    let map = json::object(text, body::most_values(&app.limits)).map_err(|fault| match fault {
        JsonObjectError::Syntax(error) => ApiError::malformed(format!("it is not JSON: {error}")),
        JsonObjectError::NoObject => ApiError::malformed("it must be a JSON object"),
        JsonObjectError::TooMany(most) => {
            ApiError::malformed(format!("it holds more than {most} JSON values"))
        }
    })?;
    if map.contains_key("input_file_id") {
        return Err(ApiError::value(
            "input_file_id",
            "a batch of an uploaded file is a request of its own: send it alone, as application/json with its length",
        ));
    }
    let LineRequest { custom_id, method, url, body } = typed::from_map(map)?;
    if let Some(endpoint) = endpoint.filter(|endpoint| url.as_deref() != Some(endpoint.as_str())) {
        let rule = format!("'url' must be {}, the endpoint of the batch", endpoint.as_str());
        return Err(ApiError::value("url", rule));
    }
    if let Some(method) = method.filter(|method| *method != "POST") {
        return Err(ApiError::value("method", format!("'method' must be POST, not {}", quoted(&method))));
    }
    let read = match url.as_deref() {
        None | Some("/v1/jobs") => {
            let mut job: JobRequest = typed::from_map(body)?;
            if job.after.is_some() {
                let rule = "a line of a batch has no 'after': submit the job alone";
                return Err(ApiError::value("after", rule));
            }
            job.priority.get_or_insert(WholeNumber(PRIORITY));
            return Ok(NewLine { custom_id: custom_id.0, spec: job.into_spec(app, user)? });
        }
        Some("/v1/chat/completions") => chat::line_job,
        Some("/v1/responses") => responses::line_job,
        Some(other) => {
            let known = "/v1/chat/completions, /v1/responses, /v1/jobs";
            return Err(ApiError::value(
                "url",
                format!("'url' must be one of {known}, not {}", quoted(other)),
            ));
        }
    };
    refuse_early_answers(&body)?;
    let mut headers = headers.clone();
    let (run_at, priority) = (headers.run_at.take(), headers.priority);
    let mut spec: JobSpec = read(body, headers, app, user)?;
    spec.run_at_ms = run_at.map(|at| at.0);
    spec.priority = priority.or(Priority::new(PRIORITY)).unwrap_or(spec.priority);
    spec.on_disconnect = OnDisconnect::Continue; // nobody waits
    Ok(NewLine { custom_id: custom_id.0, spec })
}

/// The `custom_id` of a line that has a fault elsewhere.
pub(crate) fn custom_id(text: &[u8]) -> Option<String> {
    /// The one member that is read.
    #[derive(Deserialize)]
    struct NamedLine {
        custom_id: BoundedText<1, 256>,
    }
    serde_json::from_slice::<NamedLine>(text).ok().map(|line| line.custom_id.0)
}

/// A line is answered at its end.
fn refuse_early_answers(body: &Map<String, Value>) -> Result<(), ApiError> {
    for name in ["stream", "background"] {
        if body.get(name) == Some(&Value::Bool(true)) {
            let rule = format!("'{name}' must be false: a line of a batch is answered at its end");
            return Err(ApiError::value(name, rule));
        }
    }
    Ok(())
}
