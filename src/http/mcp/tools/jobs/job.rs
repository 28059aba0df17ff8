//! A job as an argument and as a result of tools.

use crate::domain::id::JobId;
use crate::domain::job_object::JobObject;
use crate::http::error::ApiError;
use crate::http::mcp::client_request::McpClientRequest;
use crate::http::v1::jobs::view;
use serde_json::{Map, Value, json};

/// The argument that names a job.
pub(super) const JOB_ID: &str = "job_id";

pub(super) fn job_id_schema() -> Value {
    json!({"type": "string", "description": "Id of the job, job_…"})
}

pub(super) fn job_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "status": {"enum": ["queued", "running", "waiting", "succeeded", "failed", "cancelled"]},
            "output_text": {"type": ["string", "null"], "description": "The answer; null before the end"},
            "last_event_id": {"type": "integer"},
        },
        "required": ["id", "status"],
    })
}

/// The id of a job. A malformed one is unknown, as is one of somebody else (P7).
pub(super) fn job_id(text: &str) -> Result<JobId, ApiError> {
    text.parse().map_err(|_| ApiError::NotFound("job"))
}

/// The job as structured content.
pub(super) fn job_fields(job: &JobObject) -> Result<Map<String, Value>, ApiError> {
    match serde_json::to_value(job) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err(ApiError::Internal),
    }
}

/// The job in its current state.
pub(super) async fn shown(request: &McpClientRequest, id: JobId) -> Result<Map<String, Value>, ApiError> {
    job_fields(&view::look(&request.context, request.caller.user, id).await?)
}
