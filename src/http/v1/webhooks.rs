//! `/v1/webhooks`: what is to be reported and what became of it, newest first; and the wish to try again. Refuses to show
//! the query of a URL, which often holds a token.

use crate::domain::id::DeliveryId;
use crate::domain::nearest::hint;
use crate::domain::webhook::{Delivery, DeliveryState};
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::quoted::quoted;
use crate::http::reply::{self, Reply};
use crate::http::router::Call;
use crate::http::v1::page::{self, List};
use crate::ports::DeliveryQuery;
use hyper::StatusCode;
use serde::Serialize;
use std::sync::Arc;

/// The delivery object.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct View {
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

impl View {
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
pub(crate) async fn list(door: &Arc<Door>, call: &Call) -> Result<Reply, Error> {
    let limits = &door.room.limits;
    let query = Query::parse(call.query.as_deref(), &["state", "limit", "cursor"])?;
    let wanted = DeliveryQuery {
        user: call.user,
        state: query.text("state").map(state).transpose()?,
        before: page::cursor(&query)?,
        limit: page::limit(&query, limits)?,
    };
    let outbox = Arc::clone(&door.room.outbox);
    let page = door.read(move |_| outbox.deliveries(&wanted)).await?;
    let next_cursor = page.deliveries.last().filter(|_| page.has_more).map(|delivery| delivery.id);
    let data = page.deliveries.into_iter().map(View::of).collect();
    Ok(reply::json(StatusCode::OK, &List::new(data, next_cursor)))
}

/// `GET /v1/webhooks/{id}`.
pub(crate) fn show(door: &Door, call: &Call, id: &str) -> Result<Reply, Error> {
    let id = parse_id(id)?;
    Query::parse(call.query.as_deref(), &[])?;
    // One row, as in `wait`: not worth a thread change.
    let found = door.room.outbox.delivery(call.user, id)?.ok_or(NOT_FOUND)?;
    Ok(reply::json(StatusCode::OK, &View::of(found)))
}

/// `POST /v1/webhooks/{id}/retry`: tried now; one given up begins anew.
pub(crate) async fn retry(door: &Arc<Door>, call: &Call, id: &str) -> Result<Reply, Error> {
    let id = parse_id(id)?;
    Query::parse(call.query.as_deref(), &[])?;
    let found = door.room.outbox.again(call.user, id).await?.ok_or(NOT_FOUND)?;
    match found.state {
        DeliveryState::Delivered => Err(Error::Delivered),
        DeliveryState::Pending | DeliveryState::Dead => {
            Ok(reply::json(StatusCode::ACCEPTED, &View::of(found)))
        }
    }
}

const NOT_FOUND: Error = Error::NotFound("webhook delivery");

fn parse_id(text: &str) -> Result<DeliveryId, Error> {
    text.parse().map_err(|_| NOT_FOUND)
}

fn state(text: &str) -> Result<DeliveryState, Error> {
    let words = || DeliveryState::ALL.iter().map(|state| state.as_str());
    DeliveryState::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| {
        let known = words().collect::<Vec<_>>().join(", ");
        let meant = hint(text, words());
        Error::value("state", format!("'state' must be one of {known}, not {}{meant}", quoted(text)))
    })
}
