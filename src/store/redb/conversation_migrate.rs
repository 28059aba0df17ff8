//! 2 → 3: conversations have rows, and jobs their places in them. Owns what is made of the jobs that there are; refuses to
//! lose a job whose row or question cannot be read.

use super::conversation_keys::count_key;
use super::conversation_row::ConversationRow;
use super::exchange::Exchange;
use super::keys::TurnKey;
use super::schema::{CONVERSATION_COUNTS, CONVERSATIONS, CONVERSATIONS_BY_TIME, EXCHANGES, JOBS, SPECS};
use super::table::ReadableTable;
use super::value;
use crate::domain::conversation::{Conversation, ConversationSettings};
use crate::domain::id::{ConversationId, JobId, ProjectId, UserId};
use crate::domain::job::JobStatus;
use crate::domain::message::Message;
use crate::ports::StoreError;
use redb::WriteTransaction;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Characters of the first question that make a title.
const TITLE_CHARS: usize = 30;

/// What the step reads of a row of version 2.
#[derive(Deserialize)]
struct Row2 {
    job: Job2,
    accept: u64,
}

#[derive(Deserialize)]
struct Job2 {
    id: JobId,
    user: UserId,
    status: JobStatus,
    created_at_ms: u64,
    finished_at_ms: Option<u64>,
    model: String,
    conversation_id: Option<ConversationId>,
}

/// What it reads of what was asked.
#[derive(Deserialize)]
struct Spec2 {
    input: Vec<Message>,
    temperature: Option<f64>,
    max_tokens: Option<u32>,
    thinking: bool,
    #[serde(default)]
    project_id: Option<ProjectId>,
}

/// A conversation in the making.
struct Draft {
    first: (u64, JobId),
    model: String,
    created_at_ms: u64,
    updated_at_ms: u64,
    messages: u64,
}

/// Rows and exchanges for all jobs that name a conversation.
pub(super) fn rows_and_exchanges(writing: &WriteTransaction) -> Result<(), StoreError> {
    let mut drafts = BTreeMap::new();
    {
        let (jobs, mut exchanges) = (JOBS.write(writing)?, EXCHANGES.write(writing)?);
        for entry in jobs.iter()? {
            // One that cannot be read is set aside by whoever comes upon it.
            let Ok(Row2 { job, accept }) = value::decode(entry?.1.value()) else { continue };
            let Some(conversation) = job.conversation_id.clone() else { continue };
            let exchange = Exchange {
                job: job.id,
                ask: job.id.ask_id(),
                ask_created_at_ms: job.created_at_ms,
                shows_ask: true,
                shows_answer: true,
            };
            let key = TurnKey { user: job.user, conversation: &conversation, accept }.encode();
            exchanges.insert(&key, value::encode(&exchange)?.as_slice())?;
            let draft = drafts.entry((job.user, conversation)).or_insert_with(|| Draft::of(&job, accept));
            draft.take(&job, accept);
        }
    }
    for ((user, id), draft) in drafts {
        write(writing, user, id, &draft)?;
    }
    Ok(())
}

impl Draft {
    fn of(job: &Job2, accept: u64) -> Self {
        let (model, created_at_ms) = (job.model.clone(), job.created_at_ms);
        Self { first: (accept, job.id), model, created_at_ms, updated_at_ms: created_at_ms, messages: 0 }
    }

    fn take(&mut self, job: &Job2, accept: u64) {
        self.first = self.first.min((accept, job.id));
        self.created_at_ms = self.created_at_ms.min(job.created_at_ms);
        let changed_ms = job.finished_at_ms.unwrap_or(job.created_at_ms);
        self.updated_at_ms = self.updated_at_ms.max(changed_ms);
        let more = if job.status.is_terminal() { 2 } else { 1 };
        self.messages = self.messages.saturating_add(more);
    }
}

fn write(
    writing: &WriteTransaction,
    user: UserId,
    id: ConversationId,
    draft: &Draft,
) -> Result<(), StoreError> {
    let (_, first) = draft.first;
    let spec = SPECS.write(writing)?.get(&first.to_bytes())?.map(|bytes| value::decode(bytes.value()));
    let spec: Option<Spec2> = spec.and_then(Result::ok);
    let said = spec.as_ref().and_then(|spec| spec.input.iter().find_map(said_by_user)).unwrap_or_default();
    let spec = spec.as_ref();
    let settings = ConversationSettings {
        model: draft.model.clone(),
        system_prompt: String::new(),
        temperature: spec.and_then(|spec| spec.temperature),
        max_tokens: spec.and_then(|spec| spec.max_tokens),
        thinking_enabled: spec.is_some_and(|spec| spec.thinking),
        project_id: spec.and_then(|spec| spec.project_id),
    };
    let conversation = Conversation {
        id,
        user,
        title: said.chars().take(TITLE_CHARS).collect(),
        settings,
        created_at_ms: draft.created_at_ms,
        updated_at_ms: draft.updated_at_ms,
        message_count: draft.messages,
    };
    let row = ConversationRow { conversation, floor: 0, edited_through: 0 };
    let key = TurnKey { user, conversation: &row.conversation.id, accept: 0 }.encode();
    CONVERSATIONS.write(writing)?.insert(&key, value::encode(&row)?.as_slice())?;
    CONVERSATIONS_BY_TIME.write(writing)?.insert(&row.recent().encode(), [].as_slice())?;
    let mut counts = CONVERSATION_COUNTS.write(writing)?;
    let count = counts.get(&count_key(user))?.map_or(0, |count| count.value());
    counts.insert(&count_key(user), count.saturating_add(1))?;
    Ok(())
}

fn said_by_user(message: &Message) -> Option<String> {
    match message {
        Message::User { content, attachments } => Some(Message::user_text(content, attachments)),
        _ => None,
    }
}
