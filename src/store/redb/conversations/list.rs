//! Lists the conversations of a user, newest first (P7).

use crate::domain::conversation::Conversation;
use crate::domain::id::{ProjectId, UserId};
use crate::ports::{ConversationCursor, ConversationPage, ConversationQuery, StoreError};
use crate::store::redb::codec::keys::conversations::{RecentConversationKey, TurnBytes, all_of, recent};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::{CONVERSATIONS, CONVERSATIONS_BY_TIME};
use crate::store::redb::codec::values;
use crate::store::redb::conversations::search::ConversationSearch;
use crate::store::rows::conversation::ConversationRow;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A page ends after so many bytes.
const PAGE_BYTES: usize = 1024 * 1024;

/// A page of a user's conversations. The list is read until the page is full or the search has read enough. A
/// filter by project may read all conversations of the user, which are bounded.
pub(crate) fn conversations(
    reading: &ReadTransaction,
    query: &ConversationQuery,
) -> Result<ConversationPage, StoreError> {
    let (first, last) = all_of(query.user);
    let from = match &query.before {
        None => Bound::Included(first),
        Some(cursor) => {
            let (user, updated_at_ms) = (query.user, cursor.updated_at_ms);
            Bound::Excluded(RecentConversationKey { user, updated_at_ms, conversation: &cursor.id }.encode())
        }
    };
    let (rows, by_time) = (CONVERSATIONS.read(reading)?, CONVERSATIONS_BY_TIME.read(reading)?);
    let mut page = ConversationPage { conversations: Vec::new(), next: None };
    let mut search = query.search.as_ref().map(|words| ConversationSearch::new(reading, words));
    let (mut bytes, mut last_read) = (0_usize, None);
    for entry in by_time.range::<&TurnBytes>((from.as_ref(), Bound::Included(&last)))? {
        let (updated_at_ms, key) = recent(entry?.0.value());
        let row = row(&rows, &key)?;
        let found = &row.conversation;
        // An unreadable row that was replaced may have left a stale entry.
        if found.updated_at_ms != updated_at_ms || !is_of(found, query.project) {
            continue;
        }
        let is_searched = search.as_ref().is_some_and(ConversationSearch::is_spent);
        if page.conversations.len() >= query.limit || bytes >= PAGE_BYTES || is_searched {
            page.next = last_read;
            break;
        }
        last_read = Some(ConversationCursor::from(found));
        if let Some(search) = &mut search
            && !search.finds(&row)?
        {
            continue;
        }
        bytes = bytes.saturating_add(found.title.len()).saturating_add(found.settings.system_prompt.len());
        page.conversations.push(row.conversation);
    }
    Ok(page)
}

/// How many conversations of a user belong to each project.
pub(crate) fn counts_by_project(
    reading: &ReadTransaction,
    user: UserId,
) -> Result<BTreeMap<ProjectId, u64>, StoreError> {
    let (first, last) = all_of(user);
    let mut counts: BTreeMap<ProjectId, u64> = BTreeMap::new();
    for entry in CONVERSATIONS.read(reading)?.range::<&TurnBytes>(&first..=&last)? {
        let found = values::decode::<ConversationRow>(entry?.1.value())?;
        if let Some(project) = found.conversation.settings.project_id {
            let count = counts.entry(project).or_default();
            *count = count.saturating_add(1);
        }
    }
    Ok(counts)
}

/// Whether it matches the project filter, if there is one.
pub(crate) fn is_of(conversation: &Conversation, project: Option<ProjectId>) -> bool {
    project.is_none() || conversation.settings.project_id == project
}

fn row(
    rows: &impl ReadableTable<&'static TurnBytes, &'static [u8]>,
    key: &TurnBytes,
) -> Result<ConversationRow, StoreError> {
    let found = rows.get(key)?.map(|bytes| values::decode::<ConversationRow>(bytes.value())).transpose();
    values::listed("(a conversation)", found)
}
