//! Items that clients add to conversations without a job, and items of jobs that they delete. Added items
//! take an acceptance number, so they stand between the jobs; models read them in `turns`, as they read jobs.

use crate::domain::conversation::{Conversation, StoredItems};
use crate::domain::message::Message;
use crate::ports::{ConversationError, ItemsEdit, NewItems, NewWork, StoreError};
use crate::store::postgres::conversations::row::ConversationRange;
use crate::store::postgres::conversations::turn::TurnColumns;
use crate::store::postgres::session::{Columns, document, sql_number, sql_user};
use crate::store::postgres::stored_files::ImageHolder;
use crate::store::postgres::writer::act::Act;
use crate::store::rows::weight::items_bytes;
use tokio_postgres::Row;

/// Rows of added items that one transaction of retention removes.
const SWEEP_ROWS: usize = 200;

/// Places of added items: users, names of conversations and numbers, as parameters.
#[derive(Debug, Default)]
pub(crate) struct ItemPlaces {
    users: Vec<i64>,
    ids: Vec<String>,
    numbers: Vec<i64>,
}

impl ItemPlaces {
    /// Reads user, conversation and number, the first columns of these rows.
    pub(crate) fn read(rows: &[Row]) -> Result<Self, StoreError> {
        let mut places = Self::default();
        for row in rows {
            places.users.push(row.column(0)?);
            places.ids.push(row.column(1)?);
            places.numbers.push(row.column(2)?);
        }
        Ok(places)
    }

    /// How many places there are.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }
}

/// An entry before an edit.
struct EntryBefore {
    edits: u64,
    is_of_job: bool,
    has_images: bool,
    /// The length of its items and its turn.
    bytes: i64,
}

impl Act<'_> {
    /// Adds items at the end of a conversation.
    pub(crate) async fn add_items(&mut self, new: &NewItems) -> Result<Conversation, ConversationError> {
        let work = NewWork::bytes(items_bytes(new));
        self.admit_work::<ConversationError>(new.user, work).await?;
        if let Some((conversation, limit)) = &new.creates {
            self.create_conversation(conversation, *limit).await?;
        }
        let found = self.find_conversation(new.user, &new.conversation).await?;
        let Some(mut found) = found else { return Err(ConversationError::NoConversation) };
        if new.items.is_empty() {
            return Ok(found.conversation);
        }
        let added = StoredItems {
            added: new.items.clone(),
            added_at_ms: Some(self.now_ms),
            ..StoredItems::default()
        };
        let (items, turn) = (document(&added)?, TurnColumns::of(&new.messages.iter().collect::<Vec<_>>())?);
        let has_images = new.messages.iter().any(has_image);
        let sql = "WITH number AS (SELECT nextval('accept_numbers') AS accept), \
                   item AS (INSERT INTO conversation_items (user_id, conversation, accept, added_at_ms, has_images, edits, \
                     items) SELECT $1, $2, accept, $3, $4, 0, $5::text::json FROM number), \
                   turn AS (INSERT INTO turns SELECT $1, $2, accept, $6, $7, $8::text::json FROM number) \
                   UPDATE conversations SET updated_at_ms = $3 FROM number WHERE user_id = $1 AND id = $2 \
                   RETURNING number.accept";
        let (user, id, _) = ConversationRange::of(&found).params();
        let TurnColumns { message_count, message_bytes, text } = &turn;
        let now_ms = sql_number(self.now_ms);
        let row = self
            .session
            .one(sql, &[&user, &id, &now_ms, &has_images, &items, message_count, message_bytes, text])
            .await?;
        if has_images {
            self.keep_images(new.user, ImageHolder::of_items(row.number(0)?), &new.messages).await?;
        }
        self.count_bytes(new.user, sql_number(items.len().saturating_add(turn.text.len())));
        found.conversation.updated_at_ms = self.now_ms;
        Ok(found.conversation)
    }

    /// Writes another state of an entry; `false`: it is not as it was read.
    pub(crate) async fn edit_items(&mut self, edit: &ItemsEdit) -> Result<bool, StoreError> {
        let Some(found) = self.find_conversation(edit.user, &edit.conversation).await? else {
            return Ok(false);
        };
        let range = ConversationRange::of(&found);
        let Some(before) = self.entry_before(range, edit.number).await? else { return Ok(false) };
        if before.edits.checked_add(1) != Some(u64::from(edit.items.edits)) {
            return Ok(false);
        }
        self.drop_summary(range, edit.number).await?;
        if !before.is_of_job && edit.items.added.is_empty() {
            let places = ItemPlaces {
                users: vec![sql_user(edit.user)],
                ids: vec![edit.conversation.to_string()],
                numbers: vec![sql_number(edit.number)],
            };
            self.forget_added(&places).await?;
        } else {
            self.put_entry(range, edit, &before).await?;
        }
        self.note_edit(range, 0).await?;
        Ok(true)
    }

    /// An entry of a conversation that has a turn: a job that runs again has none.
    async fn entry_before(
        &self,
        range: ConversationRange<'_>,
        number: u64,
    ) -> Result<Option<EntryBefore>, StoreError> {
        let sql = "SELECT coalesce(i.edits, 0), p.job IS NOT NULL, coalesce(i.has_images, false), \
                     (octet_length(t.messages::text) + coalesce(octet_length(i.items::text), 0))::bigint \
                   FROM turns t LEFT JOIN conversation_items i ON i.user_id = t.user_id \
                     AND i.conversation = t.conversation AND i.accept = t.accept \
                   LEFT JOIN message_pairs p ON p.user_id = t.user_id AND p.conversation = t.conversation \
                     AND p.accept = t.accept \
                   WHERE t.user_id = $1 AND t.conversation = $2 AND t.accept = $4 AND t.accept >= $3 \
                     AND (i.accept IS NOT NULL OR p.accept IS NOT NULL)";
        let (user, id, floor) = range.params();
        let found = self.session.row(sql, &[&user, &id, &floor, &sql_number(number)]).await?;
        found
            .map(|row| {
                Ok(EntryBefore {
                    edits: row.number(0)?,
                    is_of_job: row.column(1)?,
                    has_images: row.column(2)?,
                    bytes: row.column(3)?,
                })
            })
            .transpose()
    }

    /// Writes items and turn of an entry, and the images that they need.
    async fn put_entry(
        &mut self,
        range: ConversationRange<'_>,
        edit: &ItemsEdit,
        before: &EntryBefore,
    ) -> Result<(), StoreError> {
        let (items, turn) = (document(&edit.items)?, TurnColumns::of(&edit.turn.iter().collect::<Vec<_>>())?);
        let has_images = !before.is_of_job && edit.turn.iter().any(has_image);
        // Retention may have removed added items since.
        let sql = "WITH turn AS (UPDATE turns SET message_count = $4, message_bytes = $5, messages = $6::text::json \
                     WHERE user_id = $1 AND conversation = $2 AND accept = $3 RETURNING accept) \
                   INSERT INTO conversation_items (user_id, conversation, accept, has_images, question, edits, items) \
                   SELECT $1, $2, accept, $7, $8, $9, $10::text::json FROM turn \
                   ON CONFLICT (user_id, conversation, accept) DO UPDATE SET has_images = $7, question = $8, edits = $9, \
                     items = $10::text::json";
        let (user, id, _) = range.params();
        let question = edit.items.question.map(|question| i32::try_from(question).unwrap_or(i32::MAX));
        let numbers = (sql_number(edit.number), i64::from(edit.items.edits));
        let TurnColumns { message_count, message_bytes, text } = &turn;
        self.session
            .send(
                sql,
                &[
                    &user,
                    &id,
                    &numbers.0,
                    message_count,
                    message_bytes,
                    text,
                    &has_images,
                    &question,
                    &numbers.1,
                    &items,
                ],
            )
            .await?;
        if before.has_images || has_images {
            // In one transaction, so those that stay are never free.
            self.release_images(edit.user, ImageHolder::of_items(edit.number)).await?;
            self.keep_images(edit.user, ImageHolder::of_items(edit.number), &edit.turn).await?;
        }
        let bytes = sql_number(items.len().saturating_add(turn.text.len()));
        self.count_bytes(edit.user, bytes.saturating_sub(before.bytes));
        Ok(())
    }

    /// Removes added items and what models read of them.
    pub(crate) async fn forget_added(&mut self, places: &ItemPlaces) -> Result<(), StoreError> {
        if places.len() == 0 {
            return Ok(());
        }
        let sql = "WITH gone AS (SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[]) \
                     AS g(user_id, conversation, accept)), \
                   turn AS (DELETE FROM turns t USING gone g WHERE t.user_id = g.user_id \
                     AND t.conversation = g.conversation AND t.accept = g.accept \
                     RETURNING t.user_id, t.accept, false AS has_images, octet_length(t.messages::text) AS bytes), \
                   item AS (DELETE FROM conversation_items i USING gone g WHERE i.user_id = g.user_id \
                     AND i.conversation = g.conversation AND i.accept = g.accept \
                     RETURNING i.user_id, i.accept, i.has_images, octet_length(i.items::text) AS bytes) \
                   SELECT user_id, accept, has_images, bytes::bigint FROM turn \
                   UNION ALL SELECT user_id, accept, has_images, bytes::bigint FROM item";
        for row in self.session.rows(sql, &[&places.users, &places.ids, &places.numbers]).await? {
            let user = row.user(0)?;
            self.count_bytes(user, row.column::<i64>(3)?.saturating_neg());
            if row.column(2)? {
                self.release_images(user, ImageHolder::of_items(row.number(1)?)).await?;
            }
        }
        self.forget_summaries(places).await
    }

    /// Removes the summaries of conversations that have no turn any more, because they contain their text.
    async fn forget_summaries(&mut self, places: &ItemPlaces) -> Result<(), StoreError> {
        // Turns of an earlier conversation with this name do not count.
        let sql = "DELETE FROM summaries s USING (SELECT DISTINCT user_id, conversation \
                     FROM unnest($1::bigint[], $2::text[]) AS g(user_id, conversation)) AS g \
                   WHERE s.user_id = g.user_id AND s.conversation = g.conversation AND NOT EXISTS \
                     (SELECT FROM turns t WHERE t.user_id = s.user_id AND t.conversation = s.conversation \
                     AND t.accept >= coalesce((SELECT c.floor FROM conversations c WHERE c.user_id = s.user_id \
                     AND c.id = s.conversation), 0)) RETURNING s.user_id, octet_length(s.summary::text)::bigint";
        for row in self.session.rows(sql, &[&places.users, &places.ids]).await? {
            self.count_bytes(row.user(0)?, row.column::<i64>(1)?.saturating_neg());
        }
        Ok(())
    }

    /// The places of added items in a range of a conversation, at most `limit`.
    pub(crate) async fn added_from(
        &self,
        range: ConversationRange<'_>,
        (from, last): (u64, u64),
        limit: usize,
    ) -> Result<ItemPlaces, StoreError> {
        let sql = "SELECT user_id, conversation, accept FROM conversation_items WHERE user_id = $1 \
                   AND conversation = $2 AND accept BETWEEN $3 AND $4 AND added_at_ms IS NOT NULL \
                   ORDER BY accept LIMIT $5";
        let (user, id, _) = range.params();
        let bounds = (sql_number(from.max(range.floor)), sql_number(last), sql_number(limit));
        let found = self.session.rows(sql, &[&user, &id, &bounds.0, &bounds.1, &bounds.2]).await?;
        ItemPlaces::read(&found)
    }

    /// Removes some items that were added before this time. Returns whether there may be more.
    pub(crate) async fn forget_old_items(&mut self, before_ms: u64) -> Result<bool, StoreError> {
        let sql = "SELECT user_id, conversation, accept FROM conversation_items WHERE added_at_ms < $1 \
                   ORDER BY added_at_ms LIMIT $2 FOR UPDATE SKIP LOCKED";
        let params = (sql_number(before_ms), sql_number(SWEEP_ROWS));
        let found = self.session.rows(sql, &[&params.0, &params.1]).await?;
        self.forget_added(&ItemPlaces::read(&found)?).await?;
        Ok(found.len() >= SWEEP_ROWS)
    }
}

/// Whether the message has one.
fn has_image(message: &Message) -> bool {
    matches!(message, Message::User { images, .. } if !images.is_empty())
}
