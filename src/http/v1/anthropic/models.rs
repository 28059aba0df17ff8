//! Models and lists of them in Anthropic's shape.

use crate::http::error::ApiError;
use crate::http::request::query::QueryString;
use crate::http::request::quoted::quoted;
use crate::ports::ModelInfo;
use serde::Serialize;

/// Models on a page, unless asked for otherwise, and at most.
const MODELS: u64 = 20;
pub(crate) const MODELS_MAX: u64 = 1_000;
/// Anthropic's value for an unknown date: the configuration holds no time.
const UNKNOWN_TIME: &str = "1970-01-01T00:00:00Z";

/// A page of models.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct AnthropicModelPage {
    data: Vec<AnthropicModel>,
    /// More follow, or with `before_id` stand before.
    has_more: bool,
    first_id: Option<String>,
    last_id: Option<String>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct AnthropicModel {
    #[serde(rename = "type")]
    kind: &'static str,
    id: String,
    display_name: String,
    /// Always 1970: the configuration holds no time.
    created_at: &'static str,
    lifecycle: &'static str,
    /// Tokens of a request and its answer together, where known.
    max_input_tokens: Option<u32>,
    /// Tokens of one answer.
    max_tokens: Option<u32>,
}

impl AnthropicModel {
    pub(crate) fn of(model: ModelInfo) -> Self {
        Self {
            kind: "model",
            id: model.id,
            display_name: model.name,
            created_at: UNKNOWN_TIME,
            lifecycle: "active",
            max_input_tokens: model.context_window,
            max_tokens: model.max_output_tokens,
        }
    }
}

impl AnthropicModelPage {
    /// The page that the query asks for, in configured order.
    pub(crate) fn of(models: Vec<ModelInfo>, query: &QueryString) -> Result<Self, ApiError> {
        let limit = query.whole("limit", 1..=MODELS_MAX)?.unwrap_or(MODELS);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let place_of = |name: &str, id: &str| {
            let unknown = || ApiError::value(name, format!("'{name}': there is no model {}", quoted(id)));
            models.iter().position(|model| model.id == id).ok_or_else(unknown)
        };
        let (range, has_more) = match (query.text("after_id"), query.text("before_id")) {
            (Some(_), Some(_)) => {
                let text = "'after_id' and 'before_id' exclude each other";
                return Err(ApiError::value("before_id", text));
            }
            (None, Some(before)) => {
                let end = place_of("before_id", before)?;
                let start = end.saturating_sub(limit);
                (start..end, start > 0)
            }
            (after, None) => {
                let after = after.map(|after| place_of("after_id", after)).transpose()?;
                let start = after.map_or(0, |place| place.saturating_add(1));
                let end = start.saturating_add(limit).min(models.len());
                (start..end, end < models.len())
            }
        };
        let on_page = models.into_iter().skip(range.start).take(range.len());
        let data: Vec<_> = on_page.map(AnthropicModel::of).collect();
        let id = |model: Option<&AnthropicModel>| model.map(|model| model.id.clone());
        let (first_id, last_id) = (id(data.first()), id(data.last()));
        Ok(Self { data, has_more, first_id, last_id })
    }
}
