//! Conversations, their messages and items, and what is left of removed ones.

use crate::domain::conversation::{Conversation, StoredItems};
use crate::domain::id::{ConversationId, UserId};
use crate::domain::job::ConversationSummary;
use crate::domain::message::Message;
use crate::ports::StoreError;
use crate::store::rows::conversation::{ConversationRow, MessagePair};
use crate::store::rows::transfer::TransferRow;
use crate::store::rows::transfer::documents::JsonDocument;
use crate::store::rows::transfer::text_row::{TextCells, TextRow};

/// A place in a conversation of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConversationPlace {
    pub(crate) user: UserId,
    pub(crate) conversation: ConversationId,
    pub(crate) accept: u64,
}

impl ConversationPlace {
    fn columns(&self) -> TextRow {
        TextRow::default().user(self.user).text(&self.conversation).number(self.accept)
    }

    fn read(cells: &mut TextCells<'_>) -> Result<Self, StoreError> {
        Ok(Self { user: cells.user()?, conversation: cells.conversation()?, accept: cells.text()? })
    }
}

/// A conversation.
pub(crate) struct TransferConversation(pub(crate) ConversationRow);

impl TransferRow for TransferConversation {
    const TABLE: &'static str = "conversations";
    const COLUMNS: &'static [&'static str] = &[
        "user_id",
        "id",
        "floor",
        "edited_through",
        "created_at_ms",
        "updated_at_ms",
        "message_count",
        "project",
        "row",
    ];
    const KEY: usize = 2;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let ConversationRow { conversation, floor, edited_through } = &self.0;
        let row = TextRow::default()
            .user(conversation.user)
            .text(&conversation.id)
            .number(*floor)
            .number(*edited_through)
            .number(conversation.created_at_ms)
            .number(conversation.updated_at_ms)
            .number(conversation.message_count)
            .optional(conversation.settings.project_id);
        // The document is without what the columns hold.
        let conversation = Conversation { updated_at_ms: 0, message_count: 0, ..conversation.clone() };
        row.json(&ConversationRow { conversation, floor: 0, edited_through: 0 })
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        cells.skip(2)?;
        let (floor, edited_through) = (cells.text()?, cells.text()?);
        cells.skip(1)?;
        let (updated_at_ms, message_count) = (cells.text()?, cells.text()?);
        cells.skip(1)?;
        let mut row = cells.document::<ConversationRow>()?.value;
        row.floor = floor;
        row.edited_through = edited_through;
        row.conversation.updated_at_ms = updated_at_ms;
        row.conversation.message_count = message_count;
        Ok(Self(row))
    }
}

/// Question and answer of a job.
pub(crate) struct TransferPair {
    pub(crate) place: ConversationPlace,
    pub(crate) pair: MessagePair,
}

impl TransferRow for TransferPair {
    const TABLE: &'static str = "message_pairs";
    const COLUMNS: &'static [&'static str] = &[
        "user_id",
        "conversation",
        "accept",
        "job",
        "ask",
        "ask_created_at_ms",
        "shows_question",
        "shows_answer",
    ];
    const KEY: usize = 3;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let pair = &self.pair;
        // The column has the id of the first job that had the question.
        let row = self.place.columns().text(pair.job).text(pair.ask.job()).number(pair.ask_created_at_ms);
        Ok(row.flag(pair.shows_question).flag(pair.shows_answer))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        let place = ConversationPlace::read(&mut cells)?;
        let (job, ask): (_, crate::domain::id::JobId) = (cells.text()?, cells.text()?);
        let pair = MessagePair {
            job,
            ask: ask.ask_id(),
            ask_created_at_ms: cells.text()?,
            shows_question: cells.flag()?,
            shows_answer: cells.flag()?,
        };
        Ok(Self { place, pair })
    }
}

/// What models read of an ended job, or of added items.
pub(crate) struct TransferTurn {
    pub(crate) place: ConversationPlace,
    pub(crate) messages: JsonDocument<Vec<Message>>,
}

impl TransferRow for TransferTurn {
    const TABLE: &'static str = "turns";
    const COLUMNS: &'static [&'static str] =
        &["user_id", "conversation", "accept", "message_count", "message_bytes", "messages"];
    const KEY: usize = 3;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let messages = &self.messages.value;
        let bytes: usize = messages.iter().map(Message::bytes).sum();
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        Ok(self.place.columns().number(messages.len()).number(bytes).document(&self.messages))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        let place = ConversationPlace::read(&mut cells)?;
        cells.skip(2)?;
        Ok(Self { place, messages: cells.document()? })
    }
}

/// The summary of a conversation.
pub(crate) struct TransferSummary {
    pub(crate) user: UserId,
    pub(crate) conversation: ConversationId,
    pub(crate) summary: JsonDocument<ConversationSummary>,
}

impl TransferRow for TransferSummary {
    const TABLE: &'static str = "summaries";
    const COLUMNS: &'static [&'static str] = &["user_id", "conversation", "through", "summary"];
    const KEY: usize = 2;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let row = TextRow::default().user(self.user).text(&self.conversation);
        Ok(row.number(self.summary.value.through).document(&self.summary))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        let (user, conversation) = (cells.user()?, cells.conversation()?);
        cells.skip(1)?;
        Ok(Self { user, conversation, summary: cells.document()? })
    }
}

/// Items that a client added, or deleted items of a job.
pub(crate) struct TransferItems {
    pub(crate) place: ConversationPlace,
    pub(crate) items: JsonDocument<StoredItems>,
}

impl TransferRow for TransferItems {
    const TABLE: &'static str = "conversation_items";
    const COLUMNS: &'static [&'static str] =
        &["user_id", "conversation", "accept", "added_at_ms", "has_images", "question", "edits", "items"];
    const KEY: usize = 3;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let items = &self.items.value;
        // Without images there is nothing to release, so a look at them is not worth its price here.
        let row = self.place.columns().optional_number(items.added_at_ms).flag(items.added_at_ms.is_some());
        Ok(row.optional(items.question).number(items.edits).document(&self.items))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        let place = ConversationPlace::read(&mut cells)?;
        cells.skip(4)?;
        Ok(Self { place, items: cells.document()? })
    }
}

/// A part of a conversation that was removed, while its jobs still exist.
pub(crate) struct TransferRemovedConversation {
    /// The last job.
    pub(crate) place: ConversationPlace,
    pub(crate) first_accept: u64,
}

impl TransferRow for TransferRemovedConversation {
    const TABLE: &'static str = "removed_conversations";
    const COLUMNS: &'static [&'static str] = &["user_id", "conversation", "last_accept", "first_accept"];
    const KEY: usize = 3;

    fn columns(&self) -> Result<TextRow, StoreError> {
        Ok(self.place.columns().number(self.first_accept))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        Ok(Self { place: ConversationPlace::read(&mut cells)?, first_accept: cells.text()? })
    }
}
