//! The messages of a conversation, a page at a time. Owns where a page begins and how much it holds; refuses to keep any
//! text: a question is what its job was asked, an answer what its job's log tells.

use super::conversation_row;
use super::exchange::{Exchange, Line, job_of, readable};
use super::keys::{LogBytes, LogKey, TurnBytes, TurnKey};
use super::read::{self, listed};
use super::row::Row;
use super::schema::{EXCHANGES, JOBS, LOG, SPECS, TURNS};
use super::value;
use crate::domain::event::SequencedEvent;
use crate::domain::id::{ConversationId, JobId, UserId};
use crate::domain::job::JobSpec;
use crate::domain::message::Message;
use crate::ports::{ChatMessage, MessagePage, MessageRef, StoreError};
use redb::ReadTransaction;

/// A page that holds so much takes no further message.
const PAGE_BYTES: usize = 1024 * 1024;

/// A page in the making.
struct Gathering<'r> {
    reading: &'r ReadTransaction,
    page: MessagePage,
    limit: usize,
    bytes: usize,
}

/// Where a page begins: at the question of this exchange, or behind it.
#[derive(Clone, Copy)]
struct Start {
    accept: u64,
    after_ask: bool,
}

/// At most `limit` messages behind `after`; none of a conversation that the user does not have.
pub(super) fn messages(
    reading: &ReadTransaction,
    (user, id): (UserId, &ConversationId),
    after: Option<MessageRef>,
    limit: usize,
) -> Result<MessagePage, StoreError> {
    let page = MessagePage { messages: Vec::new(), has_more: false };
    let Some(line) = line(reading, user, id)? else { return Ok(page) };
    let Some(start) = start(reading, line, after)? else { return Ok(page) };
    let mut gathering = Gathering { reading, page, limit, bytes: 0 };
    let (first, last) = line.from(start.accept);
    for entry in EXCHANGES.read(reading)?.range::<&TurnBytes>(&first..=&last)? {
        let (key, bytes) = entry?;
        let Some(exchange) = readable(bytes.value()) else { continue };
        let after_ask = start.after_ask && TurnKey::accept(key.value()) == start.accept;
        gathering.add(key.value(), &exchange, after_ask)?;
        if gathering.page.has_more {
            break;
        }
    }
    Ok(gathering.page)
}

/// Whether the conversation has this message, and nobody has deleted it.
pub(super) fn has_message(
    reading: &ReadTransaction,
    (user, id): (UserId, &ConversationId),
    message: MessageRef,
) -> Result<bool, StoreError> {
    let Some(line) = line(reading, user, id)? else { return Ok(false) };
    let (jobs, exchanges) = (JOBS.read(reading)?, EXCHANGES.read(reading)?);
    let found = line.find(&jobs, &exchanges, message)?;
    Ok(found.is_some_and(|(_, exchange)| match message {
        MessageRef::Ask(_) => exchange.shows_ask,
        MessageRef::Answer(_) => exchange.shows_answer,
    }))
}

fn line<'a>(
    reading: &ReadTransaction,
    user: UserId,
    id: &'a ConversationId,
) -> Result<Option<Line<'a>>, StoreError> {
    let floor = match conversation_row::read(reading, user, id) {
        Ok(None) => return Ok(None),
        Ok(Some(row)) => row.floor,
        // Its messages are still there.
        Err(StoreError::Corrupt(_)) => 0,
        Err(error) => return Err(error),
    };
    Ok(Some(Line { user, id, floor }))
}

fn start(
    reading: &ReadTransaction,
    line: Line<'_>,
    after: Option<MessageRef>,
) -> Result<Option<Start>, StoreError> {
    let Some(after) = after else { return Ok(Some(Start { accept: line.floor, after_ask: false })) };
    let (jobs, exchanges) = (JOBS.read(reading)?, EXCHANGES.read(reading)?);
    if let Some((accept, _)) = line.find(&jobs, &exchanges, after)? {
        let after_ask = matches!(after, MessageRef::Ask(_));
        let accept = if after_ask { accept } else { accept.saturating_add(1) };
        return Ok(Some(Start { accept, after_ask }));
    }
    // It was deleted since: ids rise with time, so what comes behind it has a greater one.
    let seen = job_of(after);
    let (first, last) = line.from(0);
    for entry in exchanges.range::<&TurnBytes>(&first..=&last)? {
        let (key, bytes) = entry?;
        if let Some(exchange) = readable(bytes.value()).filter(|exchange| exchange.job > seen) {
            let after_ask = exchange.ask.job() <= seen;
            return Ok(Some(Start { accept: TurnKey::accept(key.value()), after_ask }));
        }
    }
    Ok(None)
}

impl Gathering<'_> {
    fn add(&mut self, key: &TurnBytes, exchange: &Exchange, after_ask: bool) -> Result<(), StoreError> {
        if exchange.shows_ask && !after_ask {
            if self.is_full() {
                return Ok(());
            }
            let ask = self.ask(exchange);
            self.push(exchange.job, ask)?;
        }
        // A job that is set aside has no row that could be read, and so no answer.
        let row = listed(exchange.job, read::row(self.reading, exchange.job))?;
        let begun = |row: &Row| row.job.started_at_ms.is_some() || row.job.status.is_terminal();
        if let Some(row) = row.filter(|row| exchange.shows_answer && begun(row)) {
            if self.is_full() {
                return Ok(());
            }
            let answer = self.answer(key, exchange, row);
            self.push(exchange.job, answer)?;
        }
        Ok(())
    }

    /// Whether a message that is there has no room any more; the page then tells so.
    fn is_full(&mut self) -> bool {
        let is_full = self.page.messages.len() >= self.limit || self.bytes >= PAGE_BYTES;
        self.page.has_more |= is_full;
        is_full
    }

    /// What cannot be read must not hide the others.
    fn push(
        &mut self,
        job: JobId,
        message: Result<Option<(ChatMessage, usize)>, StoreError>,
    ) -> Result<(), StoreError> {
        if let Some((message, bytes)) = listed(job, message)? {
            self.bytes = self.bytes.saturating_add(bytes);
            self.page.messages.push(message);
        }
        Ok(())
    }

    fn ask(&self, exchange: &Exchange) -> Result<Option<(ChatMessage, usize)>, StoreError> {
        let Some(bytes) = SPECS.read(self.reading)?.get(&exchange.job.to_bytes())? else {
            return Ok(None);
        };
        let spec: JobSpec = value::decode(bytes.value())?;
        let (id, created_at_ms) = (exchange.ask, exchange.ask_created_at_ms);
        Ok(Some((ChatMessage::Ask { id, created_at_ms, messages: spec.input }, bytes.value().len())))
    }

    fn answer(
        &self,
        key: &TurnBytes,
        exchange: &Exchange,
        row: Row,
    ) -> Result<Option<(ChatMessage, usize)>, StoreError> {
        let (events, mut bytes) = self.events(exchange.job)?;
        // Every log begins with the first event; what retention leaves begins later.
        let is_cut = events.first().is_none_or(|event| event.seq > 1);
        let mut said = Vec::new();
        if is_cut && row.job.status.is_terminal() {
            said = self.said(key, exchange)?;
            bytes = bytes.saturating_add(said.iter().map(Message::bytes).sum());
        }
        Ok(Some((ChatMessage::Answer { job: Box::new(row.job), events, said }, bytes)))
    }

    /// As far as they can be read.
    fn events(&self, job: JobId) -> Result<(Vec<SequencedEvent>, usize), StoreError> {
        let (first, last) = (LogKey { job, seq: 0, sub: 0 }.encode(), LogKey::last(job).encode());
        let (mut events, mut bytes) = (Vec::new(), 0_usize);
        for entry in LOG.read(self.reading)?.range::<&LogBytes>(&first..=&last)? {
            let (key, stored) = entry?;
            let LogKey { seq, sub, .. } = LogKey::decode(key.value());
            if sub > 0 {
                continue;
            }
            bytes = bytes.saturating_add(stored.value().len());
            let event = value::decode(stored.value()).map(Some);
            events.extend(listed(job, event)?.map(|event| SequencedEvent { seq, event }));
        }
        Ok((events, bytes))
    }

    /// The turn holds the question, unless it was deleted, and then the answer.
    fn said(&self, key: &TurnBytes, exchange: &Exchange) -> Result<Vec<Message>, StoreError> {
        let Some(bytes) = TURNS.read(self.reading)?.get(key)? else { return Ok(Vec::new()) };
        let turn: Vec<Message> = value::decode(bytes.value())?;
        if !exchange.shows_ask {
            return Ok(turn);
        }
        let spec = SPECS.read(self.reading)?.get(&exchange.job.to_bytes())?;
        let asked = match spec {
            Some(bytes) => value::decode::<JobSpec>(bytes.value())?.input.len(),
            None => 0,
        };
        Ok(turn.into_iter().skip(asked).collect())
    }
}
