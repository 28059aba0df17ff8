//! What a request may set of its model calls beside temperature, length and thinking, and the functions that
//! its client runs itself.

use super::tool::{ToolDefinition, ToolSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Optional settings of all model calls of a job. What is absent is left to the provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelSettings {
    /// Whether the model must call something. It applies until the model has called something: a job whose
    /// every answer had to be a call would not end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_mode: Option<CallMode>,
    /// Whether an answer may hold several calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// The form of the answer's text; absent for free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_format: Option<ResponseFormat>,
    /// Whether the model is asked once for another answer if one does not have that form.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub checks_answer: bool,
    /// Texts that end the answer before them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// 0.0 to 1.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Only the most likely tokens are chosen from, this many, where a provider supports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// The same seed gives similar answers, where a provider supports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// -2.0 to 2.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    /// -2.0 to 2.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// How much the model thinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<ReasoningEffort>,
    /// The most tokens of reasoning, which are then a part of the answer's limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u32>,
}

impl ModelSettings {
    /// Whether nothing is set.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether the model must call a tool or a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallMode {
    /// At least one.
    Required,
    /// This one.
    Named(String),
}

/// The form of an answer's text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResponseFormat {
    /// Any JSON object.
    JsonObject,
    /// A JSON value that matches a schema.
    JsonSchema {
        /// Name of the schema for the model.
        name: String,
        /// What the value is for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// The schema.
        schema: Value,
        /// Whether the provider must enforce the schema.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        strict: Option<bool>,
    },
}

impl ResponseFormat {
    /// The instruction for models whose provider does not know the format.
    pub fn instruction(&self) -> String {
        const ALONE: &str = "Answer with the JSON alone: no text around it and no code fence.";
        match self {
            Self::JsonObject => format!("Your answer must be one JSON object. {ALONE}"),
            Self::JsonSchema { name, description, schema, .. } => {
                let purpose = description.as_deref().map(|text| format!(" ({text})")).unwrap_or_default();
                format!(
                    "Your answer must be one JSON value that matches the JSON Schema '{name}'{purpose}. {ALONE} \
                     The schema: {schema}"
                )
            }
        }
    }
}

/// How much a model thinks before it answers.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningEffort {
    /// Not at all.
    None,
    /// As little as possible.
    Minimal,
    /// Little.
    Low,
    /// The provider's usual amount.
    Medium,
    /// Much.
    High,
    /// More than that.
    Xhigh,
    /// As much as possible.
    Max,
}

impl ReasoningEffort {
    /// Name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// Whether the model thinks at all.
    pub fn thinks(self) -> bool {
        !matches!(self, Self::None | Self::Minimal)
    }
}

/// A function that the client runs itself. A call of it ends the job; the client sends the result with its
/// next request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientFunction {
    /// Name; unique within the request.
    pub name: String,
    /// Description for the model.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// JSON Schema of the arguments; an object schema.
    pub parameters: Value,
    /// Whether the provider must enforce the schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// Examples of arguments, for providers that take them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input_examples: Vec<Value>,
}

impl ClientFunction {
    /// The definition for the model.
    pub fn definition(&self) -> ToolDefinition {
        let (name, description) = (self.name.clone().into(), self.description.clone().into());
        let spec = ToolSpec { name, description, parameters: self.parameters.clone() };
        let definition = ToolDefinition::from(spec).with_strict(self.strict);
        if self.input_examples.is_empty() {
            return definition;
        }
        definition.with_examples(Value::from(self.input_examples.clone()).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_are_stored_without_absent_fields_and_an_empty_object_is_the_default() {
        assert_eq!(serde_json::to_string(&ModelSettings::default()).expect("JSON"), "{}");
        assert!(serde_json::from_str::<ModelSettings>("{}").expect("settings").is_default());
        let settings = ModelSettings {
            call_mode: Some(CallMode::Named("f".to_owned())),
            response_format: Some(ResponseFormat::JsonSchema {
                name: "n".to_owned(),
                description: None,
                schema: json!({"type": "object"}),
                strict: Some(true),
            }),
            stop: vec!["\n".to_owned()],
            seed: Some(-1),
            reasoning_effort: Some(ReasoningEffort::Xhigh),
            ..ModelSettings::default()
        };
        let text = serde_json::to_string(&settings).expect("JSON");
        assert_eq!(serde_json::from_str::<ModelSettings>(&text).expect("settings"), settings, "{text}");
    }
}
