//! Finds words in conversations: in the title, then in the questions and answers that users see, the newest
//! first. There is no index, so a search reads the texts, up to bounds.

use crate::domain::id::UserId;
use crate::domain::job::JobSpec;
use crate::domain::message::Message;
use crate::domain::search_words::{MissingWords, SearchWords};
use crate::ports::StoreError;
use crate::store::postgres::session::{Columns, SqlSession, read_document, sql_number, sql_user};
use crate::store::rows::conversation::ConversationRow;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use tokio_postgres::Row;

/// A page ends after the conversation with which so many bytes are read.
const PAGE_BYTES: usize = 16 * 1024 * 1024;
/// The newest bytes of one conversation that are read.
const CONVERSATION_BYTES: usize = 16 * 1024 * 1024;
/// The least that a question with its answer counts: finding it costs as much.
const PAIR_BYTES: usize = 512;
/// Pairs of the first statement; those of later ones follow from their size.
const FIRST_PAIRS: usize = 8;
/// Maximum pairs of a statement.
const MOST_PAIRS: usize = 512;
/// About how many bytes a statement reads.
const STATEMENT_BYTES: usize = 2 * 1024 * 1024;

/// The texts of the newest pairs of some conversations, in their order.
const PAIRS: &str = "SELECT p.nth, p.accept, CASE WHEN p.shows_answer THEN j.output::text END, \
    CASE WHEN p.shows_question THEN j.spec::text END \
    FROM (SELECT u.nth, p.accept, p.job, p.shows_question, p.shows_answer \
      FROM unnest($2::text[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS u(id, floor, below, nth) \
      JOIN message_pairs p ON p.user_id = $1 AND p.conversation = u.id AND p.accept >= u.floor AND p.accept < u.below \
      ORDER BY u.nth, p.accept DESC LIMIT $5) AS p \
    JOIN jobs j ON j.id = p.job ORDER BY p.nth, p.accept DESC";

/// The search of one page. It reads the texts of several conversations at once.
pub(crate) struct ConversationSearch<'s, 't> {
    session: &'s SqlSession<'t>,
    words: &'s SearchWords,
    read_bytes: usize,
    user: UserId,
    /// Names and first numbers of the conversations that are searched.
    conversations: Vec<(String, i64)>,
    /// How many of them were begun.
    begun: usize,
    /// Pairs that are read and not searched yet.
    pairs: VecDeque<PairTexts>,
    /// The place of the newest pair that was read.
    newest_read: Option<(usize, i64)>,
    /// Whether no pair follows.
    is_at_end: bool,
    /// How many pairs were read, and their bytes.
    totals: (usize, usize),
}

/// The texts of a pair that users see, as documents.
struct PairTexts {
    /// The number of the conversation, from 1.
    nth: usize,
    answer: Option<String>,
    question: Option<String>,
}

impl<'s, 't> ConversationSearch<'s, 't> {
    /// A search for these words that has read nothing.
    pub(crate) fn new(session: &'s SqlSession<'t>, words: &'s SearchWords) -> Self {
        Self {
            session,
            words,
            read_bytes: 0,
            user: UserId(0),
            conversations: Vec::new(),
            begun: 0,
            pairs: VecDeque::new(),
            newest_read: None,
            is_at_end: false,
            totals: (0, 0),
        }
    }

    /// Takes the conversations that are searched from now on.
    pub(crate) fn begin(&mut self, user: UserId, rows: &[ConversationRow]) {
        let place = |row: &ConversationRow| (row.conversation.id.to_string(), sql_number(row.floor));
        self.conversations = rows.iter().map(place).collect();
        self.pairs.clear();
        (self.user, self.begun, self.newest_read, self.is_at_end) = (user, 0, None, false);
    }

    /// Whether this page has read enough.
    pub(crate) fn is_spent(&self) -> bool {
        self.read_bytes >= PAGE_BYTES
    }

    /// Whether title and messages of the next conversation contain all words.
    pub(crate) async fn finds_next(&mut self, title: &str) -> Result<bool, StoreError> {
        self.begun = self.begun.saturating_add(1);
        let mut missing = self.words.missing();
        self.read_bytes = self.read_bytes.saturating_add(PAIR_BYTES);
        if missing.read(title) {
            return Ok(true);
        }
        let most_bytes = self.read_bytes.saturating_add(CONVERSATION_BYTES);
        while self.read_bytes < most_bytes {
            let Some(pair) = self.next_pair().await? else { return Ok(false) };
            let texts = [&pair.answer, &pair.question].map(|text| text.as_ref().map_or(0, String::len));
            let bytes = texts.iter().fold(PAIR_BYTES, |sum, bytes| sum.saturating_add(*bytes));
            self.read_bytes = self.read_bytes.saturating_add(bytes);
            if finds_in(&pair, &mut missing) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The next pair of the conversation that was begun last.
    async fn next_pair(&mut self) -> Result<Option<PairTexts>, StoreError> {
        loop {
            // Those of earlier conversations need not be searched.
            while self.pairs.front().is_some_and(|pair| pair.nth < self.begun) {
                self.pairs.pop_front();
            }
            match self.pairs.front() {
                Some(pair) if pair.nth > self.begun => return Ok(None),
                Some(_) => return Ok(self.pairs.pop_front()),
                None if self.is_at_end => return Ok(None),
                None => self.read_pairs().await?,
            }
        }
    }

    /// Reads pairs from the conversation on that was begun last.
    async fn read_pairs(&mut self) -> Result<(), StoreError> {
        let before = self.begun.saturating_sub(1);
        let (mut ids, mut floors, mut below) = (Vec::new(), Vec::new(), Vec::new());
        for (id, floor) in self.conversations.iter().skip(before) {
            ids.push(id.as_str());
            floors.push(*floor);
            below.push(i64::MAX);
        }
        let read_up_to = self.newest_read.filter(|(nth, _)| *nth == self.begun);
        if let (Some(first), Some((_, accept))) = (below.first_mut(), read_up_to) {
            *first = accept;
        }
        let limit = self.next_limit();
        let params = (sql_user(self.user), sql_number(limit));
        let found = self.session.rows(PAIRS, &[&params.0, &ids, &floors, &below, &params.1]).await?;
        self.is_at_end = found.len() < limit;
        for row in &found {
            let pair = self.take(row, before)?;
            self.pairs.push_back(pair);
        }
        Ok(())
    }

    /// Reads a row of [`PAIRS`]. `before`: how many conversations the statement leaves out.
    fn take(&mut self, row: &Row, before: usize) -> Result<PairTexts, StoreError> {
        let nth = usize::try_from(row.number(0)?).unwrap_or(usize::MAX).saturating_add(before);
        self.newest_read = Some((nth, row.column(1)?));
        let (answer, question): (Option<String>, Option<String>) = (row.column(2)?, row.column(3)?);
        let bytes = [&answer, &question].map(|text| text.as_ref().map_or(0, String::len));
        let (pairs, sum) = self.totals;
        let sum = bytes.iter().fold(sum, |sum, bytes| sum.saturating_add(*bytes));
        self.totals = (pairs.saturating_add(1), sum);
        Ok(PairTexts { nth, answer, question })
    }

    /// How many pairs a statement reads, if they are as large as those so far.
    fn next_limit(&self) -> usize {
        let (pairs, bytes) = self.totals;
        match bytes.checked_div(pairs) {
            None => FIRST_PAIRS,
            Some(mean) => STATEMENT_BYTES.checked_div(mean).unwrap_or(MOST_PAIRS).clamp(1, MOST_PAIRS),
        }
    }
}

/// Whether the texts contain the missing words. Unreadable texts contain none.
fn finds_in(pair: &PairTexts, missing: &mut MissingWords<'_>) -> bool {
    if let Some(answer) = pair.answer.as_deref().and_then(readable::<String>)
        && missing.read(&answer)
    {
        return true;
    }
    let Some(question) = pair.question.as_deref().and_then(readable::<JobSpec>) else { return false };
    question.input.iter().any(|message| match message {
        Message::User { content, .. } | Message::Assistant { content, .. } => missing.read(content),
        Message::System { .. } | Message::Tool { .. } => false,
    })
}

/// Reads a document; an unreadable one is logged.
fn readable<T: DeserializeOwned>(text: &str) -> Option<T> {
    read_document(text)
        .inspect_err(|error| tracing::error!(%error, "message cannot be read; the search skips it"))
        .ok()
}
