//! Smaller fields of a request, and how the response repeats them.

use crate::domain::model_settings::ResponseFormat;
use crate::http::error::ApiError;
use crate::http::v1::openai::failure::unsupported;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// `stream_options`.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResponseStreamOptions {
    /// Accepted and unused.
    #[serde(rename = "include_obfuscation")]
    _include_obfuscation: Option<bool>,
}

/// `conversation`: its id, alone or in an object.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(untagged))]
#[derive(Debug, Deserialize)]
pub(super) enum ConversationName {
    #[serde(rename = "a string")]
    Id(String),
    #[serde(rename = "an object")]
    Object(NamedConversation),
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedConversation {
    id: String,
}

impl ConversationName {
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Id(id) | Self::Object(NamedConversation { id }) => id,
        }
    }
}

/// `truncation`. Contexts that are too long are summarised in either case.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Truncation {
    Auto,
    Disabled,
}

impl Truncation {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Disabled => "disabled",
        }
    }
}

/// `text`.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TextRequest {
    format: Option<TextFormatRequest>,
    verbosity: Option<Verbosity>,
}

/// Accepted and unused.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verbosity {
    Low,
    Medium,
    High,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TextFormatRequest {
    #[serde(rename = "type")]
    kind: TextFormatKind,
    name: Option<String>,
    description: Option<String>,
    schema: Option<Map<String, Value>>,
    strict: Option<bool>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum TextFormatKind {
    Text,
    JsonObject,
    JsonSchema,
}

impl TextRequest {
    pub(super) fn format(&self) -> Result<Option<ResponseFormat>, ApiError> {
        let Some(format) = &self.format else { return Ok(None) };
        if format.kind != TextFormatKind::JsonSchema && format.schema.is_some() {
            let path = "text.format.schema";
            return Err(unsupported(path, format!("'{path}' belongs to the type json_schema alone")));
        }
        Ok(match format.kind {
            TextFormatKind::Text => None,
            TextFormatKind::JsonObject => Some(ResponseFormat::JsonObject),
            TextFormatKind::JsonSchema => {
                let missing = |path: &str| ApiError::value(path, format!("'{path}' is missing"));
                let schema = format.schema.clone().ok_or_else(|| missing("text.format.schema"))?;
                Some(ResponseFormat::JsonSchema {
                    name: format.name.clone().ok_or_else(|| missing("text.format.name"))?,
                    description: format.description.clone(),
                    schema: Value::Object(schema),
                    strict: format.strict,
                })
            }
        })
    }

    /// `text` in the response.
    pub(super) fn shown(&self) -> Value {
        let format = match &self.format {
            None => json!({"type": "text"}),
            Some(format) if format.kind != TextFormatKind::JsonSchema => json!({"type": format.kind}),
            Some(format) => json!({
                "type": format.kind, "name": format.name, "description": format.description,
                "schema": format.schema, "strict": format.strict.unwrap_or(false),
            }),
        };
        match self.verbosity {
            None => json!({"format": format}),
            Some(verbosity) => json!({"format": format, "verbosity": verbosity}),
        }
    }
}

/// `text` of a request that names none.
pub(super) fn plain_text() -> Value {
    json!({"format": {"type": "text"}})
}

/// A tool in the response: a function has all its fields.
pub(super) fn shown_tool(tool: &Value) -> Value {
    let mut shown = tool.clone();
    if let Value::Object(map) = &mut shown
        && map.get("type").and_then(Value::as_str) == Some("function")
    {
        for name in ["description", "parameters", "strict"] {
            map.entry(name).or_insert(Value::Null);
        }
    }
    shown
}
