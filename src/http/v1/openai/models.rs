//! `GET /v1/models` and `/v1/models/{id}`: the configured models, in the shape that the client expects. Keys
//! and addresses are not shown.

use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::context::RequestContext;
use crate::http::request::quoted::quoted;
use crate::http::response::error::expects_anthropic;
use crate::http::response::{self, HandlerResult};
use crate::http::v1::anthropic::models::{AnthropicModel, AnthropicModelPage};
use crate::ports::ModelInfo;
use hyper::StatusCode;
use serde::Serialize;
use std::sync::Arc;

/// Parameters of Anthropic's pages.
const PAGING: [&str; 3] = ["limit", "after_id", "before_id"];

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct ModelListResponse {
    object: &'static str,
    data: Vec<OpenAiModel>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct OpenAiModel {
    id: String,
    object: &'static str,
    /// Always 0: the configuration holds no time.
    created: u64,
    owned_by: &'static str,
}

impl OpenAiModel {
    fn of(model: ModelInfo) -> Self {
        Self { id: model.id, object: "model", created: 0, owned_by: "nanoclaw" }
    }
}

/// The models, in configured order. Anthropic's shape has pages.
pub(crate) fn list(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let models = context.app.model.models();
    if expects_anthropic(&request.headers) {
        let page = AnthropicModelPage::of(models, &request.query)?;
        return Ok(response::json(StatusCode::OK, &page));
    }
    if let Some(name) = PAGING.into_iter().find(|name| request.query.text(name).is_some()) {
        let text = format!("'{name}' needs the header anthropic-version: OpenAI's list has one page");
        return Err(ApiError::value(name, text));
    }
    let data = models.into_iter().map(OpenAiModel::of).collect();
    Ok(response::json(StatusCode::OK, &ModelListResponse { object: "list", data }))
}

/// One model. Its id may contain slashes.
pub(crate) fn show(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let id = request.segment("id");
    let model = context.app.model.model(id).ok_or_else(|| not_found(id, context))?;
    Ok(if expects_anthropic(&request.headers) {
        response::json(StatusCode::OK, &AnthropicModel::of(model))
    } else {
        response::json(StatusCode::OK, &OpenAiModel::of(model))
    })
}

fn not_found(id: &str, context: &ServerContext) -> ApiError {
    let known: Vec<String> = context.app.model.models().into_iter().map(|model| model.id).collect();
    super::failure::of_request(ApiError::ModelNotFound { name: quoted(id), known: known.join(", ") })
}
