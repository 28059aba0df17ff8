//! Conversations, their messages and items, and what is left of removed ones.

use crate::ports::StoreError;
use crate::store::redb::codec::keys::conversations::{
    TurnBytes, TurnKey, added_key, conversation_key, key_parts,
};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::tables::{
    CONVERSATION_ITEMS, CONVERSATIONS, MESSAGE_PAIRS, REMOVED_CONVERSATIONS, SUMMARIES, TURNS, Tables,
};
use crate::store::redb::codec::values;
use crate::store::redb::transfer::{EachRow, RedbRow, document, scan, stored};
use crate::store::rows::transfer::conversations::{
    ConversationPlace, TransferConversation, TransferItems, TransferPair, TransferRemovedConversation,
    TransferSummary, TransferTurn,
};

/// The place that a key names.
fn place(key: &TurnBytes) -> Result<ConversationPlace, StoreError> {
    let parts = key_parts(key).ok_or_else(|| StoreError::Corrupt("its key is malformed".to_owned()))?;
    let (user, conversation, accept) = parts;
    Ok(ConversationPlace { user, conversation, accept })
}

fn key(place: &ConversationPlace) -> TurnBytes {
    let ConversationPlace { user, conversation, accept } = place;
    TurnKey { user: *user, conversation, accept: *accept }.encode()
}

impl RedbRow for TransferConversation {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(CONVERSATIONS, reading, |_, bytes| each(Self(values::decode(bytes)?)))
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let key = conversation_key(self.0.conversation.user, &self.0.conversation.id);
        tables.conversations.put_row(&key, &self.0)?;
        tables.conversations_by_time.insert(&self.0.recent().encode(), ())?;
        Ok(())
    }
}

impl RedbRow for TransferPair {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(MESSAGE_PAIRS, reading, |key, bytes| {
            each(Self { place: place(key)?, pair: values::decode(bytes)? })
        })
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        tables.message_pairs.put_row(&key(&self.place), &self.pair)?;
        Ok(())
    }
}

impl RedbRow for TransferTurn {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(TURNS, reading, |key, bytes| each(Self { place: place(key)?, messages: document(bytes)? }))
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        tables.turns.insert(&key(&self.place), stored(&self.messages).as_slice())?;
        Ok(())
    }
}

impl RedbRow for TransferSummary {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(SUMMARIES, reading, |key, bytes| {
            let ConversationPlace { user, conversation, .. } = place(key)?;
            each(Self { user, conversation, summary: document(bytes)? })
        })
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let key = conversation_key(self.user, &self.conversation);
        tables.summaries.insert(&key, stored(&self.summary).as_slice())?;
        Ok(())
    }
}

impl RedbRow for TransferItems {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(CONVERSATION_ITEMS, reading, |key, bytes| {
            each(Self { place: place(key)?, items: document(bytes)? })
        })
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let key = key(&self.place);
        tables.conversation_items.insert(&key, stored(&self.items).as_slice())?;
        if let Some(at_ms) = self.items.value.added_at_ms {
            tables.added_items.insert(&added_key(at_ms, &key), ())?;
        }
        Ok(())
    }
}

impl RedbRow for TransferRemovedConversation {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(REMOVED_CONVERSATIONS, reading, |key, first_accept| {
            each(Self { place: place(key)?, first_accept })
        })
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        tables.removed_conversations.insert(&key(&self.place), self.first_accept)?;
        Ok(())
    }
}
