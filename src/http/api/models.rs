//! `GET /api/models`: id and name of each model. Keys and addresses are not shown.

use super::envelope;
use crate::http::context::ServerContext;
use crate::http::request::context::RequestContext;
use crate::http::response::HttpResponse;
use serde::Serialize;

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ApiModel"))]
#[derive(Serialize)]
pub(crate) struct ModelResponse {
    id: String,
    name: String,
}

/// The models, in configured order.
pub(crate) fn models(context: &ServerContext, _: &RequestContext) -> HttpResponse {
    let models =
        context.app.model.models().into_iter().map(|model| ModelResponse { id: model.id, name: model.name });
    envelope::data(models.collect::<Vec<_>>())
}
