//! `GET /api/models`: id and name of each model; keys and addresses are nobody's business.

use super::envelope;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::router::Call;
use serde::Serialize;

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ApiModel"))]
#[derive(Serialize)]
pub(crate) struct View {
    id: String,
    name: String,
}

/// The models, in configured order.
pub(crate) fn models(door: &Door, call: &Call) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let models = door.room.model.models().into_iter().map(|model| View { id: model.id, name: model.name });
    Ok(envelope::data(models.collect::<Vec<_>>()))
}
