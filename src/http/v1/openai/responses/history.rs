//! Earlier responses as history of a new one.

use super::fold::ResponseFold;
use super::ids;
use super::input::{self, MessageBuilder};
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{Job, JobSpec};
use crate::domain::message::Message;
use crate::domain::response_request::ResponseRequest;
use crate::http::error::ApiError;
use crate::http::request::quoted::quoted;
use crate::ports::{EventPage, Store, StoreError};
use serde_json::Value;

/// Events read at once.
const PAGE_EVENTS: usize = 1_024;

/// A response of this user that can be read later.
#[derive(Debug)]
pub(super) struct FoundResponse {
    pub(super) job: Job,
    pub(super) spec: JobSpec,
    pub(super) request: ResponseRequest,
}

impl FoundResponse {
    /// `None` for jobs that came another way, and for responses with `store: false`.
    pub(super) fn find(store: &dyn Store, user: UserId, job: JobId) -> Result<Option<Self>, StoreError> {
        let (Some(job), Some(mut spec)) = (store.job(user, job)?, store.request(user, job)?) else {
            return Ok(None);
        };
        let request = spec.response.take().filter(|request| request.is_stored);
        Ok(request.map(|request| Self { job, spec, request }))
    }

    /// The response as far as its log is there.
    pub(super) fn fold(&self, store: &dyn Store) -> Result<ResponseFold, StoreError> {
        fold(store, ResponseFold::new(&self.job, &self.request), &self.job)
    }
}

/// Folds what is there of a job's log.
pub(super) fn fold(store: &dyn Store, mut fold: ResponseFold, job: &Job) -> Result<ResponseFold, StoreError> {
    fold.see_row(job);
    let mut after = 0;
    loop {
        let EventPage { events, last_seq } = store.events(job.id, after, PAGE_EVENTS)?;
        let Some(last) = events.last() else { break };
        after = last.seq;
        for event in events {
            fold.take(event);
        }
        if after >= last_seq {
            break;
        }
    }
    if job.status.is_terminal() {
        fold.restore_text(store.output(job.id)?.unwrap_or_default());
    }
    Ok(fold)
}

/// The messages that an earlier response began with and ended with.
pub(super) fn messages(store: &dyn Store, user: UserId, id: &str) -> Result<Vec<Message>, ApiError> {
    let found = match ids::job_of(id) {
        Some(job) => FoundResponse::find(store, user, job)?,
        None => None,
    };
    let refused = |text: String, code: &'static str| ApiError::Invalid {
        message: text,
        param: Some("previous_response_id".to_owned()),
        code,
    };
    let Some(found) = found else {
        let text = format!("previous response with id {} not found", quoted(id));
        return Err(refused(text, "previous_response_not_found"));
    };
    if !found.job.status.is_terminal() {
        let text = format!("the previous response is {}: wait for its end", found.job.status.as_str());
        return Err(refused(text, "previous_response_not_completed"));
    }
    let fold = found.fold(store)?;
    let items: Vec<Value> = fold.items().map(|item| item.to_json(found.job.id)).collect();
    Ok(MessageBuilder::after(found.spec.input).extend("previous_response_id", &items)?.finish())
}

/// The items, with the items that references name in their places.
pub(super) fn resolved(store: &dyn Store, user: UserId, items: Vec<Value>) -> Result<Vec<Value>, ApiError> {
    let mut resolved = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        if input::kind(&item) != "item_reference" {
            resolved.push(item);
            continue;
        }
        let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
        let place = ids::item_place(id);
        let found = match place {
            Some((job, _)) => FoundResponse::find(store, user, job)?,
            None => None,
        };
        let mut named = None;
        if let (Some(found), Some((job, place))) = (found, place) {
            let fold = found.fold(store)?;
            named = fold.items().find(|item| item.place == place).map(|item| item.to_json(job));
        }
        let error = || {
            let path = format!("input[{index}].id");
            ApiError::value(&path, format!("there is no item with the id {}", quoted(id)))
        };
        resolved.push(named.ok_or_else(error)?);
    }
    Ok(resolved)
}
