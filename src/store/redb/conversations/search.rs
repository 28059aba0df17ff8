//! Finds words in conversations: in the title, then in the questions and answers that users see, the newest
//! first. There is no index, so a search reads the texts, up to bounds.

use crate::domain::id::JobId;
use crate::domain::job::JobSpec;
use crate::domain::message::Message;
use crate::domain::search_words::{MissingWords, SearchWords};
use crate::ports::StoreError;
use crate::store::redb::codec::keys::conversations::TurnBytes;
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::tables::{MESSAGE_PAIRS, OUTPUTS, SPECS};
use crate::store::redb::codec::values;
use crate::store::redb::conversations::message_pair::{ConversationRange, decode_pair};
use crate::store::rows::conversation::ConversationRow;
use crate::store::rows::conversation::MessagePair;

/// A page ends after the conversation with which so many bytes are read.
const PAGE_BYTES: usize = 16 * 1024 * 1024;
/// The newest bytes of one conversation that are read.
const CONVERSATION_BYTES: usize = 16 * 1024 * 1024;
/// The least that a question with its answer counts: finding it costs as much.
const PAIR_BYTES: usize = 512;

/// The search of one page.
pub(crate) struct ConversationSearch<'r> {
    reading: &'r ReadTransaction,
    words: &'r SearchWords,
    read_bytes: usize,
}

impl<'r> ConversationSearch<'r> {
    pub(crate) fn new(reading: &'r ReadTransaction, words: &'r SearchWords) -> Self {
        Self { reading, words, read_bytes: 0 }
    }

    /// Whether this page has read enough.
    pub(crate) fn is_spent(&self) -> bool {
        self.read_bytes >= PAGE_BYTES
    }

    /// Whether title and messages of the conversation contain all words. Unreadable messages contain none.
    pub(crate) fn finds(&mut self, row: &ConversationRow) -> Result<bool, StoreError> {
        let mut missing = self.words.missing();
        self.read_bytes = self.read_bytes.saturating_add(PAIR_BYTES);
        if missing.read(&row.conversation.title) {
            return Ok(true);
        }
        let most_bytes = self.read_bytes.saturating_add(CONVERSATION_BYTES);
        let (first, last) = ConversationRange::of(row).from(0);
        for entry in MESSAGE_PAIRS.read(self.reading)?.range::<&TurnBytes>(&first..=&last)?.rev() {
            if self.read_bytes >= most_bytes {
                break;
            }
            let Some(message_pair) = decode_pair(entry?.1.value()) else { continue };
            if self.finds_in_pair(&message_pair, &mut missing)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn finds_in_pair(
        &mut self,
        message_pair: &MessagePair,
        missing: &mut MissingWords<'_>,
    ) -> Result<bool, StoreError> {
        self.read_bytes = self.read_bytes.saturating_add(PAIR_BYTES);
        let job = message_pair.job;
        if message_pair.shows_answer {
            let answer = values::skip_unreadable(job, self.answer(job).map(Some))?;
            if missing.read(&answer.unwrap_or_default()) {
                return Ok(true);
            }
        }
        if !message_pair.shows_question {
            return Ok(false);
        }
        let question = values::skip_unreadable(job, self.question(job))?.unwrap_or_default();
        Ok(question.iter().any(|message| match message {
            Message::User { content, .. } | Message::Assistant { content, .. } => missing.read(content),
            Message::System { .. } | Message::Tool { .. } => false,
        }))
    }

    /// The text of the answer; empty while there is none.
    fn answer(&mut self, job: JobId) -> Result<String, StoreError> {
        let outputs = OUTPUTS.read(self.reading)?;
        let Some(bytes) = outputs.get(&job.to_bytes())? else { return Ok(String::new()) };
        self.read_bytes = self.read_bytes.saturating_add(bytes.value().len());
        values::decode_text(bytes.value())
    }

    fn question(&mut self, job: JobId) -> Result<Option<Vec<Message>>, StoreError> {
        let specs = SPECS.read(self.reading)?;
        let Some(bytes) = specs.get(&job.to_bytes())? else { return Ok(None) };
        self.read_bytes = self.read_bytes.saturating_add(bytes.value().len());
        Ok(Some(values::decode::<JobSpec>(bytes.value())?.input))
    }
}
