//! Writing API tokens. Owns that a user has no more of them than allowed; refuses to see a key.

use super::act::Act;
use super::table::ReadableTable;
use super::transaction::Transaction;
use super::user_keys::{By, FoundBy, TokenBytes, TokenKey};
use super::value;
use crate::domain::account::ApiToken;
use crate::domain::id::{JobId, TokenId, UserId};
use crate::ports::{NewToken, SecretDigest, StoreError};
use serde::{Deserialize, Serialize};

/// What the `tokens` table holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TokenRow {
    pub(super) token: ApiToken,
    pub(super) digest: SecretDigest,
}

/// A new token.
pub(super) struct KeepToken {
    pub(super) new: NewToken,
    pub(super) most: u64,
}

impl Act for KeepToken {
    type Out = ();

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        transaction.refuse_low_disk()?;
        let (token, digest) = (&self.new.token, self.new.digest);
        let (kept, expired) = transaction.tokens_of(token.user)?;
        if kept >= self.most {
            return Err(StoreError::TokensFull { limit: self.most });
        }
        for row in expired {
            transaction.forget_token(&row)?;
        }
        let key = TokenKey { user: token.user, id: token.id }.encode();
        let row = TokenRow { token: token.clone(), digest };
        let tables = &mut transaction.tables;
        tables.tokens.insert(&key, value::encode(&row)?.as_slice())?;
        tables.user_finds.insert(&FoundBy { by: By::Token, digest }.encode(), key.as_slice())?;
        transaction.touch();
        Ok(())
    }

    fn jobs(&self) -> Vec<JobId> {
        Vec::new()
    }
}

/// This token of this user is to go.
pub(super) struct RevokeToken {
    pub(super) user: UserId,
    pub(super) id: TokenId,
}

impl Act for RevokeToken {
    type Out = bool;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<bool, StoreError> {
        let key = TokenKey { user: self.user, id: self.id }.encode();
        let row = match transaction.tables.tokens.get(&key)? {
            Some(bytes) => value::decode::<TokenRow>(bytes.value())?,
            None => return Ok(false),
        };
        transaction.forget_token(&row)?;
        Ok(true)
    }

    fn jobs(&self) -> Vec<JobId> {
        Vec::new()
    }
}

impl Transaction<'_> {
    /// How many tokens of the user hold, and those that hold no longer.
    fn tokens_of(&self, user: UserId) -> Result<(u64, Vec<TokenRow>), StoreError> {
        let (first, last) = TokenKey::ends(user);
        let (mut kept, mut expired) = (0_u64, Vec::new());
        for entry in self.tables.tokens.range::<&TokenBytes>(&first.encode()..=&last.encode())? {
            let (_, bytes) = entry?;
            match value::decode::<TokenRow>(bytes.value()) {
                Ok(row) if row.token.expires_at_ms.is_some_and(|at_ms| at_ms <= self.now_ms) => {
                    expired.push(row);
                }
                _ => kept = kept.saturating_add(1),
            }
        }
        Ok((kept, expired))
    }

    fn forget_token(&mut self, row: &TokenRow) -> Result<(), StoreError> {
        let key = TokenKey { user: row.token.user, id: row.token.id }.encode();
        self.tables.tokens.remove(&key)?;
        self.tables.user_finds.remove(&FoundBy { by: By::Token, digest: row.digest }.encode())?;
        self.touch();
        Ok(())
    }
}
