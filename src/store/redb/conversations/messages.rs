//! Reads the messages of a conversation, a page at a time. A question is the input of its job, an answer is
//! read from the log of its job.

use crate::domain::id::{ConversationId, JobId, UserId};
use crate::domain::job::JobSpec;
use crate::domain::message::Message;
use crate::ports::{ChatMessage, MessagePage, MessageQuery, MessageRef, ReadMemory, StoreError};
use crate::store::redb::codec::keys::conversations::{TurnBytes, TurnKey};
use crate::store::redb::codec::keys::jobs::{LogBytes, LogKey};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::tables::{CONVERSATION_ITEMS, JOBS, LOG, MESSAGE_PAIRS, SPECS, TURNS};
use crate::store::redb::codec::values;
use crate::store::redb::conversations::items::question_length;
use crate::store::redb::conversations::message_pair::{ConversationRange, decode_pair};
use crate::store::redb::conversations::row;
use crate::store::redb::jobs::read;
use crate::store::rows::answer_fold::AnswerFold;
use crate::store::rows::conversation::{MessagePair, job_of};
use crate::store::rows::job::JobRow;

/// A page ends after so many bytes.
const PAGE_BYTES: usize = 1024 * 1024;

/// Collects the messages of a page.
struct MessagePageBuilder<'r, 'm> {
    reading: &'r ReadTransaction,
    memory: &'r mut ReadMemory<'m>,
    page: MessagePage,
    limit: usize,
    bytes: usize,
}

/// Start of a page: at the question of this pair, or after it.
#[derive(Clone, Copy)]
struct MessagePageStart {
    accept: u64,
    after_ask: bool,
}

/// The messages of a query; none when the user has no such conversation.
pub(crate) fn messages(
    reading: &ReadTransaction,
    query: &MessageQuery<'_>,
    memory: &mut ReadMemory<'_>,
) -> Result<MessagePage, StoreError> {
    let MessageQuery { user, conversation: id, after, limit } = *query;
    let page = MessagePage { messages: Vec::new(), has_more: false };
    let Some(range) = range_of(reading, user, id)? else { return Ok(page) };
    let Some(start) = start(reading, range, after)? else { return Ok(page) };
    let mut builder = MessagePageBuilder { reading, memory, page, limit, bytes: 0 };
    let (first, last) = range.from(start.accept);
    for entry in MESSAGE_PAIRS.read(reading)?.range::<&TurnBytes>(&first..=&last)? {
        let (key, bytes) = entry?;
        let message_pair: MessagePair = values::decode(bytes.value())?;
        let after_ask = start.after_ask && TurnKey::accept(key.value()) == start.accept;
        builder.add(key.value(), &message_pair, after_ask)?;
        if builder.page.has_more {
            break;
        }
    }
    Ok(builder.page)
}

/// Whether the conversation has this message and it is not deleted.
pub(crate) fn has_message(
    reading: &ReadTransaction,
    (user, id): (UserId, &ConversationId),
    message: MessageRef,
) -> Result<bool, StoreError> {
    let Some(range) = range_of(reading, user, id)? else { return Ok(false) };
    let (jobs, message_pairs) = (JOBS.read(reading)?, MESSAGE_PAIRS.read(reading)?);
    let found = range.find(&jobs, &message_pairs, message)?;
    Ok(found.is_some_and(|(_, message_pair)| match message {
        MessageRef::Ask(_) => message_pair.shows_question,
        MessageRef::Answer(_) => message_pair.shows_answer,
    }))
}

fn range_of<'a>(
    reading: &ReadTransaction,
    user: UserId,
    id: &'a ConversationId,
) -> Result<Option<ConversationRange<'a>>, StoreError> {
    let row = row::read(reading, user, id)?;
    Ok(row.map(|row| ConversationRange { user, id, floor: row.floor }))
}

fn start(
    reading: &ReadTransaction,
    range: ConversationRange<'_>,
    after: Option<MessageRef>,
) -> Result<Option<MessagePageStart>, StoreError> {
    let Some(after) = after else {
        return Ok(Some(MessagePageStart { accept: range.floor, after_ask: false }));
    };
    let (jobs, message_pairs) = (JOBS.read(reading)?, MESSAGE_PAIRS.read(reading)?);
    if let Some((accept, _)) = range.find(&jobs, &message_pairs, after)? {
        let after_ask = matches!(after, MessageRef::Ask(_));
        let accept = if after_ask { accept } else { accept.saturating_add(1) };
        return Ok(Some(MessagePageStart { accept, after_ask }));
    }
    // It was deleted since. Ids rise with time, so later messages have greater ids.
    let seen = job_of(after);
    let (first, last) = range.from(0);
    for entry in message_pairs.range::<&TurnBytes>(&first..=&last)? {
        let (key, bytes) = entry?;
        if let Some(message_pair) = decode_pair(bytes.value()).filter(|message_pair| message_pair.job > seen)
        {
            let after_ask = message_pair.ask.job() <= seen;
            return Ok(Some(MessagePageStart { accept: TurnKey::accept(key.value()), after_ask }));
        }
    }
    Ok(None)
}

impl MessagePageBuilder<'_, '_> {
    fn add(
        &mut self,
        key: &TurnBytes,
        message_pair: &MessagePair,
        after_ask: bool,
    ) -> Result<(), StoreError> {
        if message_pair.shows_question && !after_ask {
            if self.is_full() {
                return Ok(());
            }
            let ask = self.ask(message_pair);
            self.push(message_pair.job, ask)?;
        }
        let row = values::listed(message_pair.job, read::row(self.reading, message_pair.job))?;
        let has_begun = row.job.started_at_ms.is_some() || row.job.status.is_terminal();
        if message_pair.shows_answer && has_begun {
            if self.is_full() {
                return Ok(());
            }
            let answer = self.answer(key, message_pair, row);
            self.push(message_pair.job, answer)?;
        }
        Ok(())
    }

    /// Whether the page is full. Called for another message, so `has_more` is set then.
    fn is_full(&mut self) -> bool {
        let is_full = self.page.messages.len() >= self.limit || self.bytes >= PAGE_BYTES;
        self.page.has_more |= is_full;
        is_full
    }

    fn push(
        &mut self,
        job: JobId,
        message: Result<Option<(ChatMessage, usize)>, StoreError>,
    ) -> Result<(), StoreError> {
        let (message, bytes) = values::listed(job, message)?;
        self.bytes = self.bytes.saturating_add(bytes);
        self.page.messages.push(message);
        Ok(())
    }

    fn ask(&mut self, message_pair: &MessagePair) -> Result<Option<(ChatMessage, usize)>, StoreError> {
        let Some(bytes) = SPECS.read(self.reading)?.get(&message_pair.job.to_bytes())? else {
            return Ok(None);
        };
        (self.memory)(bytes.value().len())?;
        let spec: JobSpec = values::decode(bytes.value())?;
        let ask = ChatMessage::Ask {
            id: message_pair.ask,
            job: message_pair.job,
            created_at_ms: message_pair.ask_created_at_ms,
            messages: spec.input,
        };
        Ok(Some((ask, bytes.value().len())))
    }

    fn answer(
        &mut self,
        key: &TurnBytes,
        message_pair: &MessagePair,
        row: JobRow,
    ) -> Result<Option<(ChatMessage, usize)>, StoreError> {
        let job = message_pair.job;
        let fold = self.fold(job)?;
        if fold.lacks_events(&row.job, || read::is_complete(self.reading, job))? {
            return Err(StoreError::Corrupt(format!("the log of {job} lacks events")));
        }
        let (mut answer, mut bytes) = (Vec::new(), fold.bytes);
        if fold.is_cut() && row.job.status.is_terminal() {
            answer = self.stored_answer(key, message_pair)?;
            let of_answer = answer.iter().map(Message::bytes).sum();
            (self.memory)(of_answer)?;
            bytes = bytes.saturating_add(of_answer);
        }
        Ok(Some((fold.into_message(row.job, answer), bytes)))
    }

    fn fold(&mut self, job: JobId) -> Result<AnswerFold, StoreError> {
        let (first, last) = (LogKey { job, seq: 0, sub: 0 }.encode(), LogKey::last(job).encode());
        let mut fold = AnswerFold::default();
        for entry in LOG.read(self.reading)?.range::<&LogBytes>(&first..=&last)? {
            let (key, stored) = entry?;
            let LogKey { seq, sub, .. } = LogKey::decode(key.value());
            if sub == 0 {
                fold.take(seq, values::decode(stored.value())?, stored.value().len(), self.memory)?;
            }
        }
        Ok(fold)
    }

    /// The messages of the turn after the question, which may be deleted.
    fn stored_answer(&self, key: &TurnBytes, message_pair: &MessagePair) -> Result<Vec<Message>, StoreError> {
        let Some(bytes) = TURNS.read(self.reading)?.get(key)? else { return Ok(Vec::new()) };
        let turn: Vec<Message> = values::decode(bytes.value())?;
        if !message_pair.shows_question {
            return Ok(turn);
        }
        let spec = SPECS.read(self.reading)?.get(&message_pair.job.to_bytes())?;
        let question = match spec {
            Some(bytes) => values::decode::<JobSpec>(bytes.value())?.input.len(),
            None => 0,
        };
        let question = question_length(&CONVERSATION_ITEMS.read(self.reading)?, key, question)?;
        Ok(turn.into_iter().skip(question).collect())
    }
}
