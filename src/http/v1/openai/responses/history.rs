//! Earlier responses as history of a new one.

use super::fold::{ResponseFold, added_bytes};
use super::input::{self, MessageBuilder};
use super::open_calls::ClientCall;
use super::{ids, open_calls};
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{Job, JobSpec};
use crate::domain::message::Message;
use crate::domain::response_request::ResponseRequest;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::member;
use crate::http::request::quoted::quoted;
use crate::ports::{EventPage, ReadMemory, Store, StoreError};
use serde_json::Value;
use std::collections::BTreeMap;

/// Events read at once.
pub(super) const PAGE_EVENTS: usize = 1_024;

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
        Self::find_with((store, user), job, None)
    }

    /// The same, with a response that is not stored, but that a connection keeps.
    pub(super) fn find_with(
        (store, user): (&dyn Store, UserId),
        job: JobId,
        kept: Option<JobId>,
    ) -> Result<Option<Self>, StoreError> {
        let is_kept = kept == Some(job);
        let (Some(job), Some(mut spec)) = (store.job(user, job)?, store.request(user, job)?) else {
            return Ok(None);
        };
        let request = spec.response.take().filter(|request| request.is_stored || is_kept);
        Ok(request.map(|request| Self { job, spec, request }))
    }

    /// The response as far as its log is there.
    pub(super) fn fold(&self, store: &dyn Store) -> Result<ResponseFold, StoreError> {
        self.fold_in(store, &mut |_| Ok(()))
    }

    /// The same, whose memory counts.
    pub(super) fn fold_in(
        &self,
        store: &dyn Store,
        memory: &mut ReadMemory<'_>,
    ) -> Result<ResponseFold, StoreError> {
        fold(store, ResponseFold::new(&self.job, &self.request), &self.job, memory)
    }
}

/// Folds what is there of a job's log.
pub(super) fn fold(
    store: &dyn Store,
    mut fold: ResponseFold,
    job: &Job,
    memory: &mut ReadMemory<'_>,
) -> Result<ResponseFold, StoreError> {
    fold.see_row(job);
    let mut after = 0;
    loop {
        let EventPage { events, last_seq } = store.events(job.id, after, PAGE_EVENTS)?;
        let Some(last) = events.last() else { break };
        after = last.seq;
        for event in events {
            memory(added_bytes(&event.event))?;
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

/// What a response that continues an earlier one has of it.
#[derive(Debug, Default)]
pub(super) struct EarlierResponse {
    /// The messages that it began with and ended with.
    pub(super) messages: Vec<Message>,
    /// The calls that it has handed to the client. One that broke off waits for no results.
    pub(super) handed: Vec<ClientCall>,
}

/// The earlier response of this id.
pub(super) fn earlier(
    (store, user): (&dyn Store, UserId),
    id: &str,
    kept: Option<JobId>,
) -> Result<EarlierResponse, ApiError> {
    let found = match ids::job_of(id) {
        Some(job) => FoundResponse::find_with((store, user), job, kept)?,
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
    let handed = if fold.state() == "completed" { open_calls::calls(&items) } else { Vec::new() };
    let searches = fold.items().filter_map(|item| Some((item.id(found.job.id), item.found()?.to_owned())));
    let builder = MessageBuilder::after(found.spec.input).with_found(searches.collect());
    let builder = builder.extend("previous_response_id", &items)?;
    Ok(EarlierResponse { messages: builder.finish(), handed })
}

/// The items, with the items that references name in their places. Those may be as large together as the
/// input of a job: a short reference may name a long text, and name it often.
pub(super) fn resolved(
    app: &AppDependencies,
    (user, kept): (UserId, Option<JobId>),
    path: &str,
    mut items: Vec<Value>,
) -> Result<Vec<Value>, ApiError> {
    let missing = |index: usize, id: &str| {
        let path = format!("{path}[{index}].id");
        ApiError::value(&path, format!("'{path}': there is no item with the id {}", quoted(id)))
    };
    let mut wanted: BTreeMap<JobId, Vec<(usize, usize)>> = BTreeMap::new();
    for (index, item) in items.iter().enumerate().filter(|(_, item)| input::kind(item) == "item_reference") {
        let id = member::text(&format!("{path}[{index}]"), item, "id")?;
        let (job, place) = ids::item_place(id).ok_or_else(|| missing(index, id))?;
        wanted.entry(job).or_default().push((index, place));
    }
    let (mut bytes, most) = (0_usize, app.limits.input_bytes);
    for (job, references) in wanted {
        let found = FoundResponse::find_with((&*app.store, user), job, kept)?;
        let fold = found.map(|found| found.fold(&*app.store)).transpose()?;
        for (index, place) in references {
            let Some(item) = items.get_mut(index) else { continue };
            let named = fold.as_ref().and_then(|fold| fold.items().find(|item| item.place == place));
            let Some(named) = named else {
                return Err(missing(index, item.get("id").and_then(Value::as_str).unwrap_or_default()));
            };
            bytes = bytes.saturating_add(named.bytes());
            if bytes > most {
                return Err(ApiError::InputTooLarge(most));
            }
            *item = named.to_json(job);
        }
    }
    Ok(items)
}
