//! The ports [`Conversations`] and [`ConversationItems`] on the store (P7).

use crate::domain::conversation::{Conversation, ConversationChange};
use crate::domain::id::{ConversationId, JobId, ProjectId, UserId};
use crate::domain::job::Job;
use crate::domain::message::Message;
use crate::ports::{
    ConversationEntry, ConversationError, ConversationItems, ConversationPage, ConversationQuery,
    Conversations, EntryPage, EntryQuery, EntryRef, Idempotent, ItemsEdit, MessagePage, MessageQuery,
    MessageRef, NewItems, ReadMemory, RegenerateRequest, StoreError, Ticket,
};
use crate::store::postgres::session::{Columns, SqlSession, sql_user};
use crate::store::postgres::store::PostgresStore;
use crate::store::postgres::writer::act::Act;
use crate::store::postgres::writer::write::WriteOptions;
use crate::store::rows::weight::spec_bytes;
use std::cell::RefCell;
use std::collections::BTreeMap;

pub(crate) mod delete_message;
pub(crate) mod entries;
pub(crate) mod history;
pub(crate) mod items;
pub(crate) mod list;
pub(crate) mod message_pair;
pub(crate) mod messages;
pub(crate) mod regenerate;
pub(crate) mod removal;
pub(crate) mod row;
pub(crate) mod search;
pub(crate) mod titles;
pub(crate) mod turn;

impl Conversations for PostgresStore {
    fn create_conversation(
        &self,
        conversation: Conversation,
        limit: u64,
    ) -> Ticket<Conversation, ConversationError> {
        self.write(async move |act: &mut Act<'_>| act.create_conversation(&conversation, limit).await)
    }

    fn update(
        &self,
        user: UserId,
        id: ConversationId,
        change: ConversationChange,
    ) -> Ticket<Option<Conversation>> {
        self.write(async move |act: &mut Act<'_>| act.change_conversation(user, &id, &change).await)
    }

    fn remove_conversation(&self, user: UserId, id: ConversationId) -> Ticket<bool> {
        let options = WriteOptions::default();
        self.offer(options, async move |act: &mut Act<'_>| act.remove_conversation(user, &id).await)
    }

    fn remove_conversations_of(&self, user: UserId, project: ProjectId) -> Ticket<u64> {
        let options = WriteOptions::default();
        self.offer(options, async move |act: &mut Act<'_>| act.remove_conversations_of(user, project).await)
    }

    fn delete_message(
        &self,
        user: UserId,
        id: ConversationId,
        message: MessageRef,
    ) -> Ticket<bool, ConversationError> {
        let options = WriteOptions::default();
        self.offer(options, async move |act: &mut Act<'_>| act.delete_message(user, &id, message).await)
    }

    fn regenerate(
        &self,
        user: UserId,
        id: ConversationId,
        request: RegenerateRequest,
    ) -> Ticket<Option<Idempotent<Job>>, ConversationError> {
        let options = WriteOptions::weighing(spec_bytes(&request.job.spec));
        self.offer(options, async move |act: &mut Act<'_>| act.regenerate_answer(user, &id, &request).await)
    }

    fn conversation(&self, user: UserId, id: &ConversationId) -> Result<Option<Conversation>, StoreError> {
        let row = self.read(async |session: &SqlSession<'_>| row::find(session, user, id).await)?;
        Ok(row.map(|row| row.conversation))
    }

    fn conversations(&self, query: &ConversationQuery) -> Result<ConversationPage, StoreError> {
        self.read(async |session: &SqlSession<'_>| list::conversations(session, query).await)
    }

    fn counts_by_project(&self, user: UserId) -> Result<BTreeMap<ProjectId, u64>, StoreError> {
        self.read(async |session: &SqlSession<'_>| list::counts_by_project(session, user).await)
    }

    fn messages(
        &self,
        query: &MessageQuery<'_>,
        memory: &mut ReadMemory<'_>,
    ) -> Result<MessagePage, StoreError> {
        let memory = RefCell::new(memory);
        self.read(async |session: &SqlSession<'_>| messages::messages(session, query, &memory).await)
    }

    fn has_message(
        &self,
        user: UserId,
        id: &ConversationId,
        message: MessageRef,
    ) -> Result<bool, StoreError> {
        self.read(async |session: &SqlSession<'_>| messages::has_message(session, (user, id), message).await)
    }

    fn unfinished(&self, user: UserId, id: &ConversationId) -> Result<Vec<JobId>, StoreError> {
        // Ids rise with time.
        let sql = "SELECT id FROM jobs WHERE user_id = $1 AND conversation = $2 \
                   AND status IN ('queued', 'running', 'waiting') ORDER BY id DESC";
        self.read(async |session: &SqlSession<'_>| {
            let found = session.rows(sql, &[&sql_user(user), &id.to_string()]).await?;
            found.iter().map(|row| row.parsed(0)).collect()
        })
    }
}

impl ConversationItems for PostgresStore {
    fn add_items(&self, items: NewItems) -> Ticket<Conversation, ConversationError> {
        self.write(async move |act: &mut Act<'_>| act.add_items(&items).await)
    }

    fn edit_items(&self, edit: ItemsEdit) -> Ticket<bool> {
        self.write(async move |act: &mut Act<'_>| act.edit_items(&edit).await)
    }

    fn entries(&self, user: UserId, id: &ConversationId, query: EntryQuery) -> Result<EntryPage, StoreError> {
        self.read(async |session: &SqlSession<'_>| entries::entries(session, (user, id), query).await)
    }

    fn entry(
        &self,
        user: UserId,
        id: &ConversationId,
        entry: EntryRef<'_>,
    ) -> Result<Option<ConversationEntry>, StoreError> {
        self.read(async |session: &SqlSession<'_>| entries::entry(session, (user, id), entry).await)
    }

    fn turn(&self, user: UserId, id: &ConversationId, number: u64) -> Result<Vec<Message>, StoreError> {
        self.read(async |session: &SqlSession<'_>| entries::turn(session, (user, id), number).await)
    }

    fn called_tool(
        &self,
        user: UserId,
        id: &ConversationId,
        call: &str,
    ) -> Result<Option<String>, StoreError> {
        self.read(async |session: &SqlSession<'_>| entries::called_tool(session, (user, id), call).await)
    }
}
