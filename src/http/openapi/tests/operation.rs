//! One operation of the document, in short words.

use super::Drawing;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

/// What a route is asked and what it answers.
pub(super) struct Operation {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    parameters: Vec<Value>,
    body: Option<Value>,
    replies: Map<String, Value>,
    security: Option<Value>,
}

/// `application/json` with this schema.
#[allow(clippy::needless_pass_by_value, reason = "callers make the schema on the spot")]
pub(super) fn json_of(schema: Value) -> Value {
    json!({"application/json": {"schema": schema}})
}

/// A reference to a component.
pub(super) fn named(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// The job's events.
pub(super) fn events() -> Value {
    json!({"text/event-stream": {"schema": named("EventFrame")}, "application/x-ndjson": {"schema": {"type": "string"}}})
}

#[allow(clippy::needless_pass_by_value, reason = "callers make the schema on the spot")]
impl Operation {
    pub(super) fn new(method: &'static str, path: &'static str, summary: &'static str) -> Self {
        let (parameters, replies) = (Vec::new(), Map::new());
        Self { method, path, summary, parameters, body: None, replies, security: None }
    }

    /// Nobody has to have come in.
    pub(super) fn public(mut self) -> Self {
        self.security = Some(json!([]));
        self
    }

    /// A credential is not needed, but makes a difference.
    pub(super) fn optional(mut self) -> Self {
        self.security = Some(json!([{}, {"bearer": []}, {"api_key": []}, {"session": []}]));
        self
    }

    /// A query parameter.
    pub(super) fn query(mut self, name: &str, schema: Value) -> Self {
        self.parameters.push(json!({"name": name, "in": "query", "schema": schema}));
        self
    }

    /// A header.
    pub(super) fn header(mut self, name: &str, schema: Value) -> Self {
        self.parameters.push(json!({"name": name, "in": "header", "schema": schema}));
        self
    }

    /// A header that must be there.
    pub(super) fn needed_header(mut self, name: &str, schema: Value) -> Self {
        self.parameters.push(json!({"name": name, "in": "header", "required": true, "schema": schema}));
        self
    }

    /// A segment of the path whose form is more than "a text".
    pub(super) fn segment(mut self, name: &str, schema: Value) -> Self {
        self.parameters.push(json!({"name": name, "in": "path", "required": true, "schema": schema}));
        self
    }

    /// What is sent: media types with their schemas.
    pub(super) fn takes(mut self, content: Value) -> Self {
        self.body = Some(json!({"required": true, "content": content}));
        self
    }

    /// What may be sent: no body is an empty object.
    pub(super) fn may_take(mut self, content: Value) -> Self {
        self.body = Some(json!({"required": false, "content": content}));
        self
    }

    /// An answer: media types with their schemas.
    pub(super) fn says(mut self, status: u16, summary: &str, content: Value) -> Self {
        let told = if content.is_null() {
            json!({"description": summary})
        } else {
            json!({"description": summary, "content": content})
        };
        self.replies.insert(status.to_string(), told);
        self
    }

    /// An answer with a type of the server's own.
    pub(super) fn answers<T: JsonSchema>(self, drawing: &mut Drawing, status: u16, summary: &str) -> Self {
        let schema = drawing.shape::<T>();
        self.says(status, summary, json_of(schema))
    }

    /// Path, method, and the operation as the document tells it.
    pub(super) fn told(mut self, _drawing: &mut Drawing) -> (String, String, Value) {
        let path = self.path.replace("{*", "{");
        for name in path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')) {
            let is_told = self.parameters.iter().any(|told| told["in"] == "path" && told["name"] == name);
            if !is_told {
                let schema = json!({"type": "string", "minLength": 1});
                self.parameters.push(json!({"name": name, "in": "path", "required": true, "schema": schema}));
            }
        }
        let error = match path.as_str() {
            path if path.starts_with("/api/") => named("ApiErrorResponse"),
            path if path.starts_with("/v1/messages") => named("AnthropicErrorResponse"),
            path if path.starts_with("/v1/models") => {
                json!({"anyOf": [named("ErrorResponse"), named("AnthropicErrorResponse")]})
            }
            _ => named("ErrorResponse"),
        };
        for (status, summary) in [
            ("4XX", "Not as asked: the message says what to change"),
            ("5XX", "Not now, or a fault of the server"),
        ] {
            self.replies.insert(
                status.to_owned(),
                json!({"description": summary, "content": json_of(error.clone())}),
            );
        }
        let words: String = path
            .split(['/', '{', '}', '-', '_', '.'])
            .filter(|word| !word.is_empty())
            .flat_map(capital)
            .collect();
        let mut told = json!({
            "operationId": format!("{}{words}", self.method.to_lowercase()),
            "summary": self.summary,
            "tags": [path.split('/').nth(if path.starts_with("/api/") { 2 } else { 1 }).unwrap_or_default()],
            "parameters": self.parameters,
            "responses": self.replies,
        });
        let map = told.as_object_mut().expect("an object");
        if let Some(body) = self.body {
            map.insert("requestBody".to_owned(), body);
        }
        if let Some(security) = self.security {
            map.insert("security".to_owned(), security);
        }
        (path, self.method.to_lowercase(), told)
    }
}

fn capital(word: &str) -> impl Iterator<Item = char> {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters.collect::<Vec<_>>())
}
