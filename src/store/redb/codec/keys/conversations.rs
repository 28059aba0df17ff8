//! Keys of conversations. Those of a user are listed newest first.

use crate::domain::id::{ConversationId, UserId};
use crate::store::redb::codec::keys::jobs::FairBytes;
use crate::store::redb::codec::keys::reader::{KeyReader, join};

/// Bytes of a [`TurnKey`].
pub(crate) type TurnBytes = [u8; 76];

/// A job's position in a conversation of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TurnKey<'a> {
    pub(crate) user: UserId,
    pub(crate) conversation: &'a ConversationId,
    pub(crate) accept: u64,
}

impl TurnKey<'_> {
    /// A name contains no zero byte, so padding with zeros keeps names distinct and in order.
    pub(crate) fn encode(self) -> TurnBytes {
        let mut name = [0; ConversationId::MAX_BYTES];
        for (slot, byte) in name.iter_mut().zip(self.conversation.as_str().bytes()) {
            *slot = byte;
        }
        join(&[&self.user.0.to_be_bytes(), &name, &self.accept.to_be_bytes()])
    }

    /// The acceptance number inside an encoded key.
    pub(crate) fn accept(bytes: &TurnBytes) -> u64 {
        let mut reader = KeyReader(bytes);
        let _name: [u8; 68] = reader.take();
        reader.part()
    }

    /// The first and the last key that the conversation of an encoded key can have.
    pub(crate) fn conversation_range(member: &TurnBytes) -> (TurnBytes, TurnBytes) {
        let name: [u8; 68] = KeyReader(member).take();
        (join(&[&name, &u64::MIN.to_be_bytes()]), join(&[&name, &u64::MAX.to_be_bytes()]))
    }
}

/// Bytes of an [`added_key`].
pub(crate) type AddedBytes = [u8; 84];

/// Key of added items, by the time at which they were added.
pub(crate) fn added_key(added_at_ms: u64, turn: &TurnBytes) -> AddedBytes {
    join(&[&added_at_ms.to_be_bytes(), turn])
}

/// The position in its conversation inside an [`added_key`].
pub(crate) fn added_turn(bytes: &AddedBytes) -> TurnBytes {
    let mut reader = KeyReader(bytes);
    let _at_ms: u64 = reader.part();
    reader.take()
}

/// Key of a conversation's row, summary and cost.
pub(crate) fn conversation_key(user: UserId, conversation: &ConversationId) -> TurnBytes {
    TurnKey { user, conversation, accept: 0 }.encode()
}

/// The first and the last key that anything of a user's conversations can have, in any of their tables.
pub(crate) fn all_of(user: UserId) -> (TurnBytes, TurnBytes) {
    let user = user.0.to_be_bytes();
    (join(&[&user, &[u8::MIN; 72]]), join(&[&user, &[u8::MAX; 72]]))
}

/// Key of the number of a user's conversations.
pub(crate) fn count_key(user: UserId) -> FairBytes {
    join(&[&[0], &user.0.to_be_bytes()])
}

/// A conversation in its user's list: the one that changed last sorts first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecentConversationKey<'a> {
    pub(crate) user: UserId,
    pub(crate) updated_at_ms: u64,
    pub(crate) conversation: &'a ConversationId,
}

impl RecentConversationKey<'_> {
    pub(crate) fn encode(self) -> TurnBytes {
        let mut name = [0; ConversationId::MAX_BYTES];
        for (slot, byte) in name.iter_mut().zip(self.conversation.as_str().bytes()) {
            *slot = byte;
        }
        join(&[&self.user.0.to_be_bytes(), &(!self.updated_at_ms).to_be_bytes(), &name])
    }
}

/// The contents of a list entry: the time of the change, and the key of the row.
pub(crate) fn recent(bytes: &TurnBytes) -> (u64, TurnBytes) {
    let mut reader = KeyReader(bytes);
    let (user, inverted): (u32, u64) = (reader.part(), reader.part());
    let name: [u8; ConversationId::MAX_BYTES] = reader.take();
    (!inverted, join(&[&user.to_be_bytes(), &name, &[0; 8]]))
}

/// User, conversation and number of a [`TurnKey`]; `None` when malformed.
pub(crate) fn key_parts(bytes: &TurnBytes) -> Option<(UserId, ConversationId, u64)> {
    let mut reader = KeyReader(bytes);
    let user: UserId = reader.part();
    let name: [u8; ConversationId::MAX_BYTES] = reader.take();
    let name: Vec<u8> = name.into_iter().take_while(|byte| *byte != 0).collect();
    let id = ConversationId::try_from(String::from_utf8(name).ok()?).ok()?;
    Some((user, id, reader.part()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name() -> impl Strategy<Value = ConversationId> {
        "[-_0-9A-Za-z]{1,64}".prop_map(|name| ConversationId::try_from(name).unwrap())
    }

    proptest! {
        #[test]
        fn p7_recent_conversation_keys_sort_by_user_newest_first(
            a in (any::<u32>(), any::<u64>(), name()),
            b in (any::<u32>(), any::<u64>(), name()),
            same_user: bool,
        ) {
            let other = if same_user { a.0 } else { b.0 };
            let key = |user, updated_at_ms, conversation| RecentConversationKey { user: UserId(user), updated_at_ms, conversation };
            let (one, two) = (key(a.0, a.1, &a.2).encode(), key(other, b.1, &b.2).encode());
            let order = (a.0, std::cmp::Reverse(a.1), &a.2).cmp(&(other, std::cmp::Reverse(b.1), &b.2));
            prop_assert_eq!(one.cmp(&two), order);
            prop_assert_eq!(recent(&one), (a.1, conversation_key(UserId(a.0), &a.2)));
            let turn = TurnKey { user: UserId(a.0), conversation: &a.2, accept: a.1 }.encode();
            prop_assert_eq!(key_parts(&turn), Some((UserId(a.0), a.2.clone(), a.1)));
            let (first, last) = all_of(UserId(a.0));
            prop_assert_eq!((first..=last).contains(&two), a.0 == other);
        }
    }
}
