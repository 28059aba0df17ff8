//! `submit_job`: the body of `POST /v1/jobs` as arguments.

use super::job::job_fields;
use crate::domain::canonical::canonical;
use crate::domain::job_object::JobObject;
use crate::http::error::ApiError;
use crate::http::mcp::client_request::McpClientRequest;
use crate::http::mcp::tools::definition::object;
use crate::http::quota;
use crate::http::v1::idempotency::{self, RequestFingerprint};
use crate::http::v1::jobs::spec;
use crate::http::v1::jobs::store::store;
use crate::ports::{NewJob, NewWork};
use serde_json::{Map, Value, json};
use std::sync::Arc;

const KEY: &str = "idempotency_key";

/// The fields that most jobs need. Others of the API are accepted, too.
pub(super) fn schema() -> Value {
    let text = |about: &str| json!({"type": "string", "description": about});
    let whole = |about: &str| json!({"type": "integer", "minimum": 1, "description": about});
    let tools = json!({
        "description": "Tools that the agent may use: names and groups (files, web, code, agents, custom, mcp), true for all, \
                        false for none. Default: the server's set",
        "anyOf": [{"type": "boolean"}, {"type": "array", "items": {"type": "string"}}],
    });
    let mut schema = object(
        &json!({
            "input": text("The task"),
            "model": text("Model. Default: the server's"),
            "system_prompt": text("Instructions of the agent"),
            "tools": tools,
            "project_id": text("Project whose files it uses"),
            "conversation_id": text("Conversation that it continues, or a name for a new one"),
            "max_steps": whole("Model calls before the closing answer"),
            "timeout_s": whole("Seconds after which it fails"),
            "max_total_tokens": whole("Tokens of all its model calls together"),
            "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
            KEY: text("Calls with the same key and arguments are one job"),
        }),
        &["input"],
    );
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("additionalProperties".to_owned(), true.into());
    }
    schema
}

/// Stores the job and returns it.
pub(super) async fn submit(
    request: &McpClientRequest,
    mut arguments: Map<String, Value>,
) -> Result<Map<String, Value>, ApiError> {
    let (context, user) = (&request.context, request.caller.user);
    let given = match arguments.shift_remove(KEY) {
        None | Some(Value::Null) => None,
        Some(Value::String(key)) => Some(idempotency::of_text(&key)?),
        Some(_) => return Err(ApiError::value(KEY, format!("'{KEY}' must be a string"))),
    };
    let text = canonical(&Value::Object(arguments.clone()));
    quota::check(context, user, given, NewWork::job(text.len())).await?;
    let key = given.map(|key| {
        let mut fingerprint = RequestFingerprint::new("mcp job");
        fingerprint.update(text.as_bytes());
        key.of(fingerprint)
    });
    let app = Arc::clone(&context.app);
    let spec = context.app.blocking(user, move || spec::from_json(arguments, &app, user)).await??;
    let created_at_ms = context.app.clock.now_ms();
    let id = context.app.job_id(created_at_ms);
    let job = NewJob { id, user, created_at_ms, spec, in_existing: false };
    let (job, _) = store(context, job, key).await?;
    job_fields(&JobObject::fresh(job))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::UserId;
    use crate::http::testing::{MemoryStore, app};

    #[test]
    fn the_schema_names_only_fields_of_a_job() {
        let app = app(&Arc::new(MemoryStore::default()));
        let schema = schema();
        for name in schema["properties"].as_object().expect("properties").keys().filter(|name| *name != KEY) {
            let fields = Map::from_iter([(name.clone(), json!({"odd": {}}))]);
            let error = spec::from_json(fields, &app, UserId::SINGLE).map(drop);
            let text = error.map_or_else(|error| error.to_string(), |()| String::new());
            assert!(!text.contains("unknown field"), "{name}: {text}");
        }
    }
}
