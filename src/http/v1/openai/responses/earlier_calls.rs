//! Calls in a conversation whose results a client sends. Clients know calls of a job by ids that name it;
//! what models read has the model's own ids.

use crate::domain::client_call_id::ClientCallId;
use crate::domain::event::{Event, Record};
use crate::domain::id::{ConversationId, UserId};
use crate::domain::tool::ToolCall;
use crate::http::dependencies::AppDependencies;
use crate::ports::{EntryRef, StoreError};
use serde_json::Value;
use std::collections::HashMap;

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
        for id in results(items) {
            let call = match id.parse() {
                Ok(id) => of_job(app, (user, conversation), id)?,
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

/// The ids of the calls that the items have results of.
fn results(items: &[Value]) -> impl Iterator<Item = &str> {
    let is_result = |item: &&Value| item.get("type").and_then(Value::as_str) == Some("function_call_output");
    let outputs = items.iter().filter(is_result);
    outputs.filter_map(|item| item.get("call_id")?.as_str())
}

/// A call that a job of this conversation has handed to the client.
fn of_job(
    app: &AppDependencies,
    (user, conversation): (UserId, &ConversationId),
    id: ClientCallId,
) -> Result<Option<EarlierCall>, StoreError> {
    if app.conversation_items.entry(user, conversation, EntryRef::Job(id.job))?.is_none() {
        return Ok(None);
    }
    let log = app.store.log(id.job)?;
    let handed = log.into_iter().filter_map(|record| match record {
        Record::Event(Event::ToolCall { call, is_client: true, .. }) => Some(call),
        _ => None,
    });
    let place = usize::try_from(id.place).unwrap_or(usize::MAX);
    Ok(handed.skip(place).map(|ToolCall { id_ref, name, .. }| EarlierCall { id_ref, name }).next())
}
