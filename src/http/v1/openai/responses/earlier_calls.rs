//! Calls in a conversation whose results a client sends. Clients know calls of a job by ids that name it;
//! what models read has the model's own ids.

use super::{custom_tool, loaded_tools};
use crate::domain::client_call_id::ClientCallId;
use crate::domain::event::{Event, Record};
use crate::domain::id::{ConversationId, JobId, UserId};
use crate::domain::tool::ToolCall;
use crate::http::dependencies::AppDependencies;
use crate::ports::{EntryRef, StoreError};
use serde_json::Value;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// A call, as models read it.
#[derive(Debug, Clone)]
pub(super) struct EarlierCall {
    pub(super) id_ref: String,
    pub(super) name: String,
}

/// The calls by the ids that the client has.
#[derive(Debug, Clone, Default)]
pub(super) struct EarlierCalls(HashMap<String, EarlierCall>);

impl EarlierCalls {
    /// Those whose results are among the items, as far as the conversation has them.
    pub(super) fn of(
        app: &AppDependencies,
        (user, conversation): (UserId, &ConversationId),
        items: &[Value],
    ) -> Result<Self, StoreError> {
        let mut found = HashMap::new();
        // The log of a job is read once for all of its calls.
        let mut handed: HashMap<JobId, Vec<EarlierCall>> = HashMap::new();
        for id in results(items) {
            let call = match id.parse() {
                Ok(ClientCallId { job, place, .. }) => {
                    let calls = match handed.entry(job) {
                        Entry::Occupied(known) => known.into_mut(),
                        Entry::Vacant(new) => new.insert(of_job(app, (user, conversation), job)?),
                    };
                    usize::try_from(place).ok().and_then(|place| calls.get(place)).cloned()
                }
                Err(_) => None,
            };
            let call = match call {
                Some(call) => Some(call),
                None => app
                    .conversation_items
                    .called_tool(user, conversation, id)?
                    .map(|name| EarlierCall { id_ref: id.to_owned(), name }),
            };
            found.extend(call.map(|call| (id.to_owned(), call)));
        }
        Ok(Self(found))
    }

    /// The same with a name for each result whose call is gone. Models do not read such a result.
    pub(super) fn with_missing(mut self, items: &[Value]) -> Self {
        for id in results(items) {
            let unnamed = || EarlierCall { id_ref: id.to_owned(), name: "function".to_owned() };
            self.0.entry(id.to_owned()).or_insert_with(unnamed);
        }
        self
    }

    pub(super) fn get(&self, id: &str) -> Option<&EarlierCall> {
        self.0.get(id)
    }
}

/// Whether the item is the result of a call that the client answers.
pub(super) fn is_result(item: &Value) -> bool {
    const TYPES: [&str; 4] =
        ["function_call_output", custom_tool::RESULT, loaded_tools::RESULT, "local_shell_call_output"];
    item.get("type").and_then(Value::as_str).is_some_and(|kind| TYPES.contains(&kind))
}

/// The ids of the calls that the items have results of.
fn results(items: &[Value]) -> impl Iterator<Item = &str> {
    items.iter().filter(|item| is_result(item)).filter_map(|item| item.get("call_id")?.as_str())
}

/// The calls that a job of this conversation has handed to the client.
fn of_job(
    app: &AppDependencies,
    (user, conversation): (UserId, &ConversationId),
    job: JobId,
) -> Result<Vec<EarlierCall>, StoreError> {
    if app.conversation_items.entry(user, conversation, EntryRef::Job(job))?.is_none() {
        return Ok(Vec::new());
    }
    let log = app.store.log(job)?;
    let handed = log.into_iter().filter_map(|record| match record {
        Record::Event(Event::ToolCall { call, is_client: true, .. }) => Some(call),
        _ => None,
    });
    Ok(handed.map(|ToolCall { id_ref, name, .. }| EarlierCall { id_ref, name }).collect())
}
