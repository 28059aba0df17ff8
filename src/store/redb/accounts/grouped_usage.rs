//! Usage of a range of days by user, and by conversation.

use crate::domain::id::{ConversationId, UserId};
use crate::domain::usage::{GroupUsage, LargestGroups, Usage};
use crate::ports::{StoreError, TitledConversation, UsageGroups};
use crate::store::redb::accounts::hourly_usage::user_from;
use crate::store::redb::accounts::usage::lines;
use crate::store::redb::codec::keys::conversations::{
    TurnBytes, TurnKey, all_of, conversation_key, key_parts,
};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::tables::{CONVERSATION_USAGE, CONVERSATIONS, USAGE};
use crate::store::redb::codec::values;
use crate::store::rows::conversation::ConversationRow;
use crate::store::rows::usage::{ConversationDayRow, day_number};

/// The usage of one user, or of all.
pub(crate) fn by_user(
    reading: &ReadTransaction,
    user: Option<UserId>,
    (from, to): (u32, u32),
    limit: usize,
) -> Result<UsageGroups<UserId>, StoreError> {
    let table = USAGE.read(reading)?;
    let mut groups = LargestGroups::new(limit);
    let mut next = match user {
        Some(user) => Some(user),
        None => user_from(&table, 0)?,
    };
    while let Some(owner) = next {
        let mut sum = GroupUsage { group: owner, usage: Usage::default(), jobs: 0 };
        for (_, row) in lines(&table, owner, from, to)? {
            sum.usage += row.usage;
            sum.jobs = sum.jobs.saturating_add(row.jobs);
        }
        groups.add(sum);
        next = match (user, owner.0.checked_add(1)) {
            (None, Some(following)) => user_from(&table, following)?,
            _ => None,
        };
    }
    Ok(groups.into_sorted())
}

/// The usage in a user's conversations.
pub(crate) fn by_conversation(
    reading: &ReadTransaction,
    user: UserId,
    (from, to): (u32, u32),
    limit: usize,
) -> Result<UsageGroups<TitledConversation>, StoreError> {
    let (first, last) = all_of(user);
    let days = day_number(from)..=day_number(to);
    let mut groups: LargestGroups<ConversationId> = LargestGroups::new(limit);
    // The days of a conversation are neighbours.
    let mut open: Option<GroupUsage<ConversationId>> = None;
    for entry in CONVERSATION_USAGE.read(reading)?.range::<&TurnBytes>(&first..=&last)? {
        let (key, bytes) = entry?;
        if !days.contains(&TurnKey::accept(key.value())) {
            continue;
        }
        let Some((_, id, _)) = key_parts(key.value()) else { continue };
        let day: ConversationDayRow = values::decode(bytes.value())?;
        let mut sum = match open.take() {
            Some(sum) if sum.group == id => sum,
            other => {
                if let Some(ended) = other {
                    groups.add(ended);
                }
                GroupUsage { group: id, usage: Usage::default(), jobs: 0 }
            }
        };
        sum.usage += day.usage;
        sum.jobs = sum.jobs.saturating_add(day.jobs);
        open = Some(sum);
    }
    if let Some(ended) = open {
        groups.add(ended);
    }
    let (groups, is_cut) = groups.into_sorted();
    let titled = |GroupUsage { group: id, usage, jobs }| {
        let group = TitledConversation { title: title(reading, user, &id)?, id };
        Ok(GroupUsage { group, usage, jobs })
    };
    Ok((groups.into_iter().map(titled).collect::<Result<_, StoreError>>()?, is_cut))
}

/// The title; empty if its row cannot be read.
fn title(reading: &ReadTransaction, user: UserId, id: &ConversationId) -> Result<String, StoreError> {
    match CONVERSATIONS.read(reading)?.row::<ConversationRow>(&conversation_key(user, id)) {
        Err(StoreError::Corrupt(_)) => Ok(String::new()),
        found => Ok(found?.map(|row| row.conversation.title).unwrap_or_default()),
    }
}
