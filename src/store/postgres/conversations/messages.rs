//! Reads the messages of a conversation, a page at a time. A question is the input of its job, an answer is
//! read from the log of its job. One statement reads a few pairs with all that belongs to them, so that each
//! of them is as one transaction left it.

use crate::domain::id::{ConversationId, UserId};
use crate::domain::job::JobSpec;
use crate::domain::message::Message;
use crate::ports::{ChatMessage, MessagePage, MessageQuery, MessageRef, ReadMemory, StoreError};
use crate::store::postgres::conversations::message_pair::{PAIR, find_message, read_pair};
use crate::store::postgres::conversations::row::{ConversationRange, find_floor};
use crate::store::postgres::jobs::row::{ROW, read_row};
use crate::store::postgres::session::{Columns, SqlSession, read_document, sql_number};
use crate::store::rows::answer_fold::AnswerFold;
use crate::store::rows::conversation::{MessagePair, job_of};
use crate::store::rows::job::JobRow;
use std::cell::RefCell;
use tokio_postgres::Row;

/// A page ends after so many bytes.
const PAGE_BYTES: usize = 1024 * 1024;
/// Pairs of the first statement of a page; those of later ones follow from their size.
const FIRST_PAIRS: usize = 4;
/// Maximum pairs of a statement.
const MOST_PAIRS: usize = 128;

/// Collects the messages of a page.
struct MessagePageBuilder {
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

/// A pair with what its messages are read from.
struct PairContent {
    accept: u64,
    pair: MessagePair,
    row: JobRow,
    /// Whether retention has left the log alone.
    is_complete: bool,
    /// The request, if its question is shown.
    spec: Option<JobSpec>,
    spec_bytes: usize,
    fold: AnswerFold,
    /// What models read of an ended job whose log was cut.
    turn: Vec<Message>,
    /// How many messages of the turn are the question, if not the whole input.
    question: Option<usize>,
}

/// What a read reports its memory to; it is borrowed between two statements only.
type SharedMemory<'c, 'm> = RefCell<&'c mut ReadMemory<'m>>;

/// The messages of a query; none when the user has no such conversation.
pub(crate) async fn messages(
    session: &SqlSession<'_>,
    query: &MessageQuery<'_>,
    memory: &SharedMemory<'_, '_>,
) -> Result<MessagePage, StoreError> {
    let MessageQuery { user, conversation: id, after, limit } = *query;
    let page = MessagePage { messages: Vec::new(), has_more: false };
    let Some(floor) = find_floor(session, user, id).await? else { return Ok(page) };
    let range = ConversationRange { user, id, floor };
    let Some(start) = start(session, range, after).await? else { return Ok(page) };
    let mut builder = MessagePageBuilder { page, limit, bytes: 0 };
    let (mut from, mut wanted, mut read) = (start.accept, FIRST_PAIRS, 0_usize);
    loop {
        let found = pairs(session, range, from, wanted).await?;
        let found = {
            let memory = &mut **memory.borrow_mut();
            found.iter().map(|row| content(row, memory)).collect::<Result<Vec<_>, _>>()?
        };
        let is_last = found.len() < wanted;
        for content in found {
            from = content.accept.saturating_add(1);
            let after_ask = start.after_ask && content.accept == start.accept;
            builder.add(content, after_ask)?;
            read = read.saturating_add(1);
            if builder.page.has_more {
                return Ok(builder.page);
            }
        }
        if is_last {
            return Ok(builder.page);
        }
        wanted = builder.next_pairs(read);
    }
}

/// Whether the conversation has this message and it is not deleted.
pub(crate) async fn has_message(
    session: &SqlSession<'_>,
    (user, id): (UserId, &ConversationId),
    message: MessageRef,
) -> Result<bool, StoreError> {
    let Some(floor) = find_floor(session, user, id).await? else { return Ok(false) };
    let found = find_message(session, ConversationRange { user, id, floor }, message).await?;
    Ok(found.is_some_and(|(_, pair)| match message {
        MessageRef::Ask(_) => pair.shows_question,
        MessageRef::Answer(_) => pair.shows_answer,
    }))
}

/// Where a page after this message begins; `None` at the end of the conversation.
async fn start(
    session: &SqlSession<'_>,
    range: ConversationRange<'_>,
    after: Option<MessageRef>,
) -> Result<Option<MessagePageStart>, StoreError> {
    let Some(after) = after else {
        return Ok(Some(MessagePageStart { accept: range.floor, after_ask: false }));
    };
    if let Some((accept, _)) = find_message(session, range, after).await? {
        let after_ask = matches!(after, MessageRef::Ask(_));
        let accept = if after_ask { accept } else { accept.saturating_add(1) };
        return Ok(Some(MessagePageStart { accept, after_ask }));
    }
    // It was deleted since. Ids rise with time, so later messages have greater ids.
    let seen = job_of(after);
    let sql = format!(
        "SELECT {PAIR} FROM message_pairs p WHERE p.user_id = $1 AND p.conversation = $2 AND p.accept >= $3 \
         AND p.job > $4 ORDER BY p.accept LIMIT 1"
    );
    let (user, id, floor) = range.params();
    let found = session.row(&sql, &[&user, &id, &floor, &seen.to_string()]).await?;
    found
        .map(|row| {
            let (accept, pair) = read_pair(&row)?;
            Ok(MessagePageStart { accept, after_ask: pair.ask.job() <= seen })
        })
        .transpose()
}

/// At most `limit` pairs from this number on. Columns: those of the pair, of the row of the job, and others.
async fn pairs(
    session: &SqlSession<'_>,
    range: ConversationRange<'_>,
    from: u64,
    limit: usize,
) -> Result<Vec<Row>, StoreError> {
    let sql = format!(
        "SELECT {PAIR}, {ROW}, jobs.retention = 0, CASE WHEN p.shows_question THEN jobs.spec::text END, \
           log.seqs, log.bodies, CASE WHEN coalesce(log.seqs[1] > 1, true) THEN t.messages::text END, i.question \
         FROM message_pairs p JOIN jobs ON jobs.id = p.job \
         CROSS JOIN LATERAL (SELECT array_agg(r.seq ORDER BY r.seq) AS seqs, \
           array_agg(r.body::text ORDER BY r.seq) AS bodies FROM records r \
           WHERE r.job = p.job AND r.sub = 0 AND p.shows_answer) AS log \
         LEFT JOIN turns t ON t.user_id = p.user_id AND t.conversation = p.conversation AND t.accept = p.accept \
           AND p.shows_answer \
         LEFT JOIN conversation_items i ON i.user_id = p.user_id AND i.conversation = p.conversation \
           AND i.accept = p.accept \
         WHERE p.user_id = $1 AND p.conversation = $2 AND p.accept >= $3 ORDER BY p.accept LIMIT $4"
    );
    let (user, id, _) = range.params();
    let from = sql_number(from.max(range.floor));
    session.rows(&sql, &[&user, &id, &from, &sql_number(limit)]).await
}

/// Reads a row of [`pairs`].
fn content(found: &Row, memory: &mut ReadMemory<'_>) -> Result<PairContent, StoreError> {
    let (accept, pair) = read_pair(found)?;
    let row = read_row(found, 6)?;
    let is_unended = row.job.finished_at_ms.is_none();
    let is_complete = row.retried_at_ms.is_none() && (is_unended || found.column(12)?);
    let spec: Option<&str> = found.column(13)?;
    let seqs: Option<Vec<i64>> = found.column(14)?;
    let bodies: Vec<&str> = found.column::<Option<_>>(15)?.unwrap_or_default();
    let turn: Option<&str> = found.column(16)?;
    let question: Option<i32> = found.column(17)?;
    memory(spec.map_or(0, str::len).saturating_add(turn.map_or(0, str::len)))?;
    let mut fold = AnswerFold::default();
    for (seq, body) in seqs.unwrap_or_default().into_iter().zip(bodies) {
        fold.take(u64::try_from(seq).unwrap_or_default(), read_document(body)?, body.len(), memory)?;
    }
    Ok(PairContent {
        accept,
        pair,
        row,
        is_complete,
        spec_bytes: spec.map_or(0, str::len),
        spec: spec.map(read_document).transpose()?,
        fold,
        turn: turn.map(read_document).transpose()?.unwrap_or_default(),
        question: question.map(|question| usize::try_from(question).unwrap_or_default()),
    })
}

impl MessagePageBuilder {
    /// Adds the messages of a pair, as far as the page has room.
    fn add(&mut self, mut content: PairContent, after_ask: bool) -> Result<(), StoreError> {
        let pair = content.pair;
        let question_length = content.spec.as_ref().map_or(0, |spec| spec.input.len());
        if let Some(spec) = content.spec.take().filter(|_| !after_ask) {
            if self.is_full() {
                return Ok(());
            }
            let ask = ChatMessage::Ask {
                id: pair.ask,
                job: pair.job,
                created_at_ms: pair.ask_created_at_ms,
                messages: spec.input,
            };
            self.push(ask, content.spec_bytes);
        }
        let job = &content.row.job;
        let has_begun = job.started_at_ms.is_some() || job.status.is_terminal();
        if pair.shows_answer && has_begun {
            if self.is_full() {
                return Ok(());
            }
            if content.fold.lacks_events(&content.row.job, || Ok(content.is_complete))? {
                return Err(StoreError::Corrupt(format!("the log of {} lacks events", pair.job)));
            }
            let (answer, bytes) = content.into_answer(question_length);
            self.push(answer, bytes);
        }
        Ok(())
    }

    /// Whether the page is full. Called for another message, so `has_more` is set then.
    fn is_full(&mut self) -> bool {
        let is_full = self.page.messages.len() >= self.limit || self.bytes >= PAGE_BYTES;
        self.page.has_more |= is_full;
        is_full
    }

    /// Adds a message of so many bytes.
    fn push(&mut self, message: ChatMessage, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.page.messages.push(message);
    }

    /// How many pairs may fill the page, if they are as large as the `read` ones so far.
    fn next_pairs(&self, read: usize) -> usize {
        let mean_bytes = self.bytes.checked_div(read).unwrap_or_default().max(1);
        let left_bytes = PAGE_BYTES.saturating_sub(self.bytes);
        let by_bytes = left_bytes.checked_div(mean_bytes).unwrap_or_default();
        let by_count = self.limit.saturating_sub(self.page.messages.len());
        by_bytes.min(by_count).saturating_add(1).min(MOST_PAIRS)
    }
}

impl PairContent {
    /// The answer. `input`: how many messages the job's input has, if its question is shown.
    fn into_answer(self, input: usize) -> (ChatMessage, usize) {
        let (mut answer, mut bytes) = (Vec::new(), self.fold.bytes);
        if self.fold.is_cut() && self.row.job.status.is_terminal() {
            let question = if self.pair.shows_question { self.question.unwrap_or(input) } else { 0 };
            answer = self.turn.into_iter().skip(question).collect();
            bytes = bytes.saturating_add(answer.iter().map(Message::bytes).sum());
        }
        (self.fold.into_message(self.row.job, answer), bytes)
    }
}
