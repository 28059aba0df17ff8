//! Accounts, API tokens, invites and usage.

use crate::domain::usage::UsageByModel;
use crate::ports::StoreError;
use crate::store::redb::accounts::invites::InviteRow;
use crate::store::redb::accounts::tokens::TokenRow;
use crate::store::redb::codec::keys::accounts::{
    AccountLookup, AccountLookupBytes, AccountLookupKey, TokenKey, UsageKey,
};
use crate::store::redb::codec::keys::conversations::{TurnKey, conversation_key, key_parts};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::tables::{
    ACCOUNT_LOOKUP, CONVERSATION_USAGE, TOKENS, Tables, USAGE, USAGE_HOURS, USERS,
};
use crate::store::redb::codec::values;
use crate::store::redb::transfer::{EachRow, RedbRow, document, scan};
use crate::store::rows::transfer::accounts::{
    TransferAccount, TransferConversationDay, TransferConversationUsage, TransferInvite, TransferToken,
    TransferUsage, model_digest,
};
use crate::store::rows::transfer::documents::JsonDocument;
use crate::store::rows::usage::day_number;

const MALFORMED_KEY: &str = "its key is malformed";

impl RedbRow for TransferAccount {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(USERS, reading, |_, bytes| each(Self(document(bytes)?)))
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        tables.put_account(&self.0.value)
    }
}

impl RedbRow for TransferToken {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(TOKENS, reading, |_, bytes| {
            let TokenRow { token, digest } = values::decode(bytes)?;
            each(Self { token: JsonDocument::of(token)?, digest })
        })
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let (token, digest) = (self.token.value, self.digest);
        let key = TokenKey { user: token.user, id: token.id }.encode();
        tables.tokens.put_row(&key, &TokenRow { token, digest })?;
        let lookup = AccountLookupKey { by: AccountLookup::Token, digest }.encode();
        tables.account_lookup.insert(&lookup, key.as_slice())?;
        Ok(())
    }
}

impl RedbRow for TransferInvite {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        let (first, last) = AccountLookupKey::ends(AccountLookup::Invite);
        let (first, last) = (first.encode(), last.encode());
        for entry in ACCOUNT_LOOKUP.read(reading)?.range::<&AccountLookupBytes>(&first..=&last)? {
            let (key, bytes) = entry?;
            let digest = key.value().last_chunk().copied();
            let digest = digest.ok_or_else(|| StoreError::Corrupt(MALFORMED_KEY.to_owned()))?;
            each(match values::decode(bytes.value())? {
                InviteRow::Expiry(expires_at_ms) => {
                    Self { digest, created_at_ms: None, expires_at_ms, created_by: None }
                }
                InviteRow::Whole { created_at_ms, expires_at_ms, created_by } => {
                    Self { digest, created_at_ms: Some(created_at_ms), expires_at_ms, created_by }
                }
            })?;
        }
        Ok(())
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let Self { digest, created_at_ms, expires_at_ms, created_by } = self;
        let row = match created_at_ms {
            Some(created_at_ms) => InviteRow::Whole { created_at_ms, expires_at_ms, created_by },
            None => InviteRow::Expiry(expires_at_ms),
        };
        let key = AccountLookupKey { by: AccountLookup::Invite, digest }.encode();
        tables.account_lookup.put_row(&key, &row)?;
        Ok(())
    }
}

impl<const IS_HOUR: bool> RedbRow for TransferUsage<IS_HOUR> {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(if IS_HOUR { USAGE_HOURS } else { USAGE }, reading, |key, bytes| {
            let UsageKey { user, at, .. } = UsageKey::decode(key);
            each(Self { user, at, row: values::decode(bytes)? })
        })
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let Self { user, at, row } = self;
        let key = UsageKey { user, at, model: model_digest(&row.model) }.encode();
        let table = if IS_HOUR { &mut tables.usage_hours } else { &mut tables.usage };
        table.put_row(&key, &row)?;
        Ok(())
    }
}

impl RedbRow for TransferConversationUsage {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(CONVERSATION_USAGE, reading, |key, bytes| {
            let parts = key_parts(key).ok_or_else(|| StoreError::Corrupt(MALFORMED_KEY.to_owned()))?;
            let (user, conversation, number) = parts;
            if number > 0 {
                return Ok(());
            }
            let usage: UsageByModel = values::decode(bytes)?;
            usage.entries().try_for_each(|(model, usage)| {
                let (conversation, model) = (conversation.clone(), model.to_owned());
                each(Self { user, conversation, model, usage })
            })
        })
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let key = conversation_key(self.user, &self.conversation);
        let mut all: UsageByModel = tables.conversation_usage.row(&key)?.unwrap_or_default();
        all.add(&self.model, self.usage);
        tables.conversation_usage.put_row(&key, &all)?;
        Ok(())
    }
}

impl RedbRow for TransferConversationDay {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(CONVERSATION_USAGE, reading, |key, bytes| {
            let parts = key_parts(key).ok_or_else(|| StoreError::Corrupt(MALFORMED_KEY.to_owned()))?;
            let (user, conversation, number) = parts;
            let Some(day) = number.checked_sub(1) else { return Ok(()) };
            let day = u32::try_from(day).map_err(|_| StoreError::Corrupt(MALFORMED_KEY.to_owned()))?;
            each(Self { user, conversation, day, row: values::decode(bytes)? })
        })
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let accept = day_number(self.day);
        let key = TurnKey { user: self.user, conversation: &self.conversation, accept }.encode();
        tables.conversation_usage.put_row(&key, &self.row)?;
        Ok(())
    }
}
