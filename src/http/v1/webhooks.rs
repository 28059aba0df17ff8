//! `/v1/webhooks`: deliveries, newest first, and their retry. The query of a URL is masked, because it
//! often holds a token.

use super::page::{self, ListResponse};
use crate::domain::id::DeliveryId;
use crate::domain::nearest::hint;
use crate::domain::webhook::{Delivery, DeliveryState};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::context::RequestContext;
use crate::http::request::quoted::quoted;
use crate::http::response::{self, HandlerResult};
use crate::ports::DeliveryQuery;
use hyper::StatusCode;
use serde::Serialize;
use std::sync::Arc;

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct DeliveryResponse {
    id: DeliveryId,
    object: &'static str,
    state: DeliveryState,
    url: String,
    subject: String,
    tries: u32,
    created_at: u64,
    next_try_at: Option<u64>,
    last_status: Option<u16>,
    last_error: Option<String>,
}

impl DeliveryResponse {
    fn of(delivery: Delivery) -> Self {
        Self {
            id: delivery.id,
            object: "webhook_delivery",
            state: delivery.state,
            url: delivery.url.masked(),
            subject: delivery.subject.to_string(),
            tries: delivery.tries,
            created_at: delivery.created_at_ms / 1_000,
            next_try_at: delivery.next_try_ms.map(|millis| millis / 1_000),
            last_status: delivery.last_status,
            last_error: delivery.last_error,
        }
    }
}

/// `GET /v1/webhooks`: a page of this user's deliveries.
pub(crate) async fn list(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let limits = &context.app.limits;
    let query = &request.query;
    let wanted = DeliveryQuery {
        user: request.user,
        state: query.text("state").map(state).transpose()?,
        before: page::cursor(query)?,
        limit: page::limit(query, limits)?,
    };
    let outbox = Arc::clone(&context.app.outbox);
    let page = context.read(request.user, move |_| outbox.deliveries(&wanted)).await?;
    let next_cursor = page.deliveries.last().filter(|_| page.has_more).map(|delivery| delivery.id);
    let data = page.deliveries.into_iter().map(DeliveryResponse::of).collect();
    Ok(response::json(StatusCode::OK, &ListResponse::new(data, next_cursor)))
}

/// `GET /v1/webhooks/{id}`.
pub(crate) fn show(context: &ServerContext, request: &RequestContext) -> HandlerResult {
    let id: DeliveryId = request.id(DELIVERY)?;
    // One cached row: no blocking thread is needed.
    let found = context.app.outbox.delivery(request.user, id)?.ok_or(ApiError::NotFound(DELIVERY))?;
    Ok(response::json(StatusCode::OK, &DeliveryResponse::of(found)))
}

/// `POST /v1/webhooks/{id}/retry`: sends it now. One that was given up starts over.
pub(crate) async fn retry(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let id: DeliveryId = request.id(DELIVERY)?;
    let found = context.app.outbox.again(request.user, id).await?.ok_or(ApiError::NotFound(DELIVERY))?;
    match found.state {
        DeliveryState::Delivered => Err(ApiError::Delivered),
        DeliveryState::Pending | DeliveryState::Dead => {
            Ok(response::json(StatusCode::ACCEPTED, &DeliveryResponse::of(found)))
        }
    }
}

const DELIVERY: &str = "webhook delivery";

fn state(text: &str) -> Result<DeliveryState, ApiError> {
    let words = || DeliveryState::ALL.iter().map(|state| state.as_str());
    DeliveryState::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| {
        let known = words().collect::<Vec<_>>().join(", ");
        let meant = hint(text, words());
        ApiError::value("state", format!("'state' must be one of {known}, not {}{meant}", quoted(text)))
    })
}
