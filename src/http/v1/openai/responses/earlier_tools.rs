//! Tools that items of earlier responses have brought. A response stores those of the responses before it, so
//! the last response of a chain has them all.

use super::history::FoundResponse;
use super::{ids, loaded_tools};
use crate::domain::id::{ConversationId, JobId, UserId};
use crate::domain::response_request::ResponseRequest;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::ports::{EntryQuery, StoreError};
use serde_json::Value;

/// How far back a conversation is searched for a response.
const ENTRIES: usize = 32;

/// What a request continues: an earlier response, or a conversation.
pub(super) type EarlierRef<'a> = (Option<&'a str>, Option<&'a ConversationId>);

/// The tools that a request inherits; `kept` is a response that its connection keeps.
pub(super) fn of(
    app: &AppDependencies,
    (user, kept): (UserId, Option<JobId>),
    earlier: EarlierRef<'_>,
) -> Result<Vec<Value>, ApiError> {
    let tools = match earlier {
        (Some(id), _) => of_response(app, (user, kept), id)?,
        (None, Some(id)) => of_conversation(app, user, id)?,
        (None, None) => Vec::new(),
    };
    let most = app.limits.input_bytes;
    let bytes = tools.iter().map(|tool| tool.to_string().len()).fold(0, usize::saturating_add);
    if bytes > most { Err(ApiError::InputTooLarge(most)) } else { Ok(tools) }
}

/// Those of a response and of the responses before it.
fn all_of(request: &ResponseRequest) -> Vec<Value> {
    loaded_tools::of_items((&request.loaded_before, &request.input), &[])
}

fn of_response(
    app: &AppDependencies,
    (user, kept): (UserId, Option<JobId>),
    id: &str,
) -> Result<Vec<Value>, StoreError> {
    let Some(job) = ids::job_of(id) else { return Ok(Vec::new()) };
    let found = FoundResponse::find_with((&*app.store, user), job, kept)?;
    Ok(found.map(|found| all_of(&found.request)).unwrap_or_default())
}

/// Those of the newest response, and of items that were added behind it.
fn of_conversation(
    app: &AppDependencies,
    user: UserId,
    id: &ConversationId,
) -> Result<Vec<Value>, StoreError> {
    let query = EntryQuery { from: None, is_newest_first: true, limit: ENTRIES };
    let (mut tools, mut added) = (Vec::new(), Vec::new());
    for entry in app.conversation_items.entries(user, id, query)?.entries {
        match entry.job {
            None => added.push(entry.items.added),
            Some(job) => {
                if let Some(found) = FoundResponse::find(&*app.store, user, job.id)? {
                    tools = all_of(&found.request);
                    break;
                }
            }
        }
    }
    let added: Vec<Value> = added.into_iter().rev().flatten().collect();
    Ok(loaded_tools::of_items((&tools, &added), &[]))
}
