//! Answers whose calls were handed to a client come back as the client saw them: without signed reasoning and
//! without the server's own calls and results. The log of their job has all of it, so it replaces them.

use crate::domain::client_call_id::ClientCallId;
use crate::domain::event::{Event, Record};
use crate::domain::id::{JobId, UserId};
use crate::domain::job::JobStatus;
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::engine::turn::TurnState;
use crate::ports::{Store, StoreError};
use std::collections::HashMap;

/// The newest answers that are replaced; each one takes a read of a log.
const ANSWERS: usize = 32;

/// The input with such answers replaced; `None` if there are none. An answer that the client has changed, or
/// whose job is gone or belongs to another user (P7), stays as it is.
pub(super) fn restored(
    store: &dyn Store,
    user: UserId,
    input: &[Message],
) -> Result<Option<Vec<Message>>, StoreError> {
    let mut answers: HashMap<usize, HandedAnswer> = HashMap::new();
    for (at, message) in input.iter().enumerate().rev() {
        if answers.len() >= ANSWERS {
            break;
        }
        if let Some(answer) = HandedAnswer::find(store, user, message)? {
            answers.insert(at, answer);
        }
    }
    if answers.is_empty() {
        return Ok(None);
    }
    let (mut messages, mut ids) = (Vec::new(), HashMap::new());
    for (at, message) in input.iter().enumerate() {
        match (answers.remove(&at), message) {
            (Some(answer), _) => {
                messages.extend(answer.messages);
                ids = answer.ids;
            }
            (None, Message::Tool { id_ref, name, content }) if ids.contains_key(id_ref) => {
                let id_ref = ids.get(id_ref).unwrap_or(id_ref).clone();
                messages.push(Message::Tool { id_ref, name: name.clone(), content: content.clone() });
            }
            (None, message) => messages.push(message.clone()),
        }
    }
    Ok(Some(messages))
}

/// An answer as its job's log has it.
struct HandedAnswer {
    messages: Vec<Message>,
    /// From the ids that the client got to the model's own.
    ids: HashMap<String, String>,
}

impl HandedAnswer {
    fn find(store: &dyn Store, user: UserId, message: &Message) -> Result<Option<Self>, StoreError> {
        let Message::Assistant { content, tool_calls, .. } = message else { return Ok(None) };
        let first = tool_calls.first().and_then(|call| call.id_ref.parse::<ClientCallId>().ok());
        let Some(ClientCallId { job, .. }) = first else { return Ok(None) };
        match store.job(user, job)? {
            Some(found) if found.status == JobStatus::Succeeded => {}
            Some(_) | None => return Ok(None),
        }
        let log = store.log(job)?;
        let messages = TurnState::fold(&log).messages().to_vec();
        let ids = unchanged_calls(job, &log, tool_calls);
        Ok(ids.filter(|_| is_unchanged(content, &messages)).map(|ids| Self { messages, ids }))
    }
}

/// The ids of the job's calls for the client, if these are all of them, unchanged.
fn unchanged_calls(job: JobId, log: &[Record], given: &[ToolCall]) -> Option<HashMap<String, String>> {
    let handed = log.iter().filter_map(|record| match record {
        Record::Event(Event::ToolCall { call, is_client: true, .. }) => Some(call),
        _ => None,
    });
    let handed: Vec<&ToolCall> = handed.collect();
    let is_same = |(place, (call, handed)): (u32, (&ToolCall, &&ToolCall))| {
        let has_same = |a: &str, b: &str| a == b || ToolCall::object_of(a) == ToolCall::object_of(b);
        let is_place = |id: ClientCallId| (id.job, id.place) == (job, place);
        call.id_ref.parse().is_ok_and(is_place)
            && call.name == handed.name
            && has_same(&call.arguments, &handed.arguments)
    };
    let all_same = handed.len() == given.len() && (0..).zip(given.iter().zip(&handed)).all(is_same);
    let ids = || given.iter().zip(&handed).map(|(call, handed)| (call.id_ref.clone(), handed.id_ref.clone()));
    all_same.then(|| ids().collect())
}

/// Whether the client's text is that of the answer, or was left out as some clients do.
fn is_unchanged(given: &str, messages: &[Message]) -> bool {
    let texts = messages.iter().filter_map(|message| match message {
        Message::Assistant { content, .. } if !content.is_empty() => Some(content.as_str()),
        _ => None,
    });
    let texts: Vec<&str> = texts.collect();
    let last = texts.last().copied().unwrap_or_default();
    given.is_empty() || given == last || given == texts.join("\n\n")
}
