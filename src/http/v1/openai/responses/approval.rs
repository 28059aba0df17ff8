//! Approvals of calls in responses: a response that asks for one ends with `mcp_approval_request` items, and
//! the client's next request brings the decisions as `mcp_approval_response` items.

use super::declared_tools::{REQUEST_ID, open_responses};
use super::history::FoundResponse;
use super::ids;
use super::item::ItemContent;
use crate::domain::handed_approvals::{ApprovalRequestRef, DecidedCall};
use crate::domain::id::UserId;
use crate::domain::tool::ToolCall;
use crate::http::error::ApiError;
use crate::http::request::member;
use crate::http::request::quoted::quoted;
use crate::ports::{Store, StoreError};
use serde_json::Value;

/// Characters of a reason for the model.
const REASON_CHARS: usize = 2_000;

/// The calls that the items decide about.
pub(super) fn decided(
    store: &dyn Store,
    user: UserId,
    items: &[Value],
) -> Result<Vec<DecidedCall>, ApiError> {
    let mut decided: Vec<(&str, DecidedCall)> = Vec::new();
    for (place, request, item) in open_responses(items) {
        let path_of_item = format!("input[{place}]");
        let path_id = format!("{path_of_item}.{REQUEST_ID}");
        let Some((asked_by, call)) = asked(store, user, request)? else {
            let text = format!("there is no approval request with the id {}", quoted(request));
            return Err(ApiError::value(&path_id, text));
        };
        if decided.iter().any(|(earlier, _)| *earlier == request) {
            return Err(ApiError::value(&path_id, format!("'{path_id}' was decided by an item before")));
        }
        let approve = member::flag(&path_of_item, item, "approve")?;
        let reason = member::optional_text(&path_of_item, item, "reason")?;
        let reason = reason.filter(|reason| !reason.trim().is_empty());
        let reason = reason.map(|reason| reason.chars().take(REASON_CHARS).collect());
        decided.push((request, DecidedCall { request: Some(asked_by), call, approve, reason }));
    }
    Ok(decided.into_iter().map(|(_, call)| call).collect())
}

/// The request of this id and its call, if it is this user's (P7).
fn asked(
    store: &dyn Store,
    user: UserId,
    request: &str,
) -> Result<Option<(ApprovalRequestRef, ToolCall)>, StoreError> {
    let Some((job, place)) = ids::item_place(request) else { return Ok(None) };
    let Some(found) = FoundResponse::find(store, user, job)? else { return Ok(None) };
    let fold = found.fold(store)?;
    let named = fold.items().find(|item| item.place == place && item.id(job) == request);
    Ok(named.and_then(|item| match &item.content {
        ItemContent::Approval(call) => {
            let place = u64::try_from(place).unwrap_or(u64::MAX);
            Some((ApprovalRequestRef { job, place }, call.clone()))
        }
        _ => None,
    }))
}
