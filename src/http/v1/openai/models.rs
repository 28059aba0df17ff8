//! `GET /v1/models` and `/v1/models/{id}`: the configured models. Keys and addresses are not shown.

use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::context::RequestContext;
use crate::http::request::quoted::quoted;
use crate::http::response::{self, HandlerResult, HttpResponse};
use crate::ports::ModelInfo;
use hyper::StatusCode;
use serde::Serialize;
use std::sync::Arc;

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

/// The models, in configured order.
pub(crate) fn list(context: &ServerContext, _: &RequestContext) -> HttpResponse {
    let data = context.app.model.models().into_iter().map(OpenAiModel::of).collect();
    response::json(StatusCode::OK, &ModelListResponse { object: "list", data })
}

/// One model. Its id may contain slashes.
pub(crate) fn show(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let id = request.segment("id");
    let model = context.app.model.model(id).ok_or_else(|| not_found(id, context))?;
    Ok(response::json(StatusCode::OK, &OpenAiModel::of(model)))
}

fn not_found(id: &str, context: &ServerContext) -> ApiError {
    let known: Vec<String> = context.app.model.models().into_iter().map(|model| model.id).collect();
    super::failure::of_request(ApiError::ModelNotFound { name: quoted(id), known: known.join(", ") })
}
