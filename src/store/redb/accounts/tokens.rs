//! Writes API tokens. A user has at limit `limits.tokens` of them; only the digest of a token is stored.

use crate::domain::account::ApiToken;
use crate::domain::id::{TokenId, UserId};
use crate::ports::{AccountError, NewToken, SecretDigest, StoreError};
use crate::store::redb::codec::keys::accounts::{AccountLookup, AccountLookupKey, TokenBytes, TokenKey};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::values;
use crate::store::redb::writer::transaction::Transaction;
use serde::{Deserialize, Serialize};

/// A row of the table `tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenRow {
    pub(crate) token: ApiToken,
    pub(crate) digest: SecretDigest,
}

impl Transaction<'_> {
    /// Stores a token and removes expired ones of its owner.
    pub(crate) fn store_token(&mut self, new: &NewToken, limit: u64) -> Result<(), AccountError> {
        self.refuse_low_disk()?;
        let (token, digest) = (&new.token, new.digest);
        let (valid, expired) = self.tokens_of(token.user)?;
        if valid >= limit {
            return Err(AccountError::TokensFull { limit });
        }
        for row in expired {
            self.forget_token(&row)?;
        }
        let key = TokenKey { user: token.user, id: token.id }.encode();
        let row = TokenRow { token: token.clone(), digest };
        let tables = &mut self.tables;
        tables.tokens.put_row(&key, &row)?;
        tables
            .account_lookup
            .insert(&AccountLookupKey { by: AccountLookup::Token, digest }.encode(), key.as_slice())?;
        self.mark_dirty();
        Ok(())
    }
}

impl Transaction<'_> {
    /// Removes a token of a user.
    pub(crate) fn revoke_token(&mut self, user: UserId, id: TokenId) -> Result<bool, StoreError> {
        let key = TokenKey { user, id }.encode();
        let Some(row) = self.tables.tokens.row(&key)? else { return Ok(false) };
        self.forget_token(&row)?;
        Ok(true)
    }

    /// The number of the user's valid tokens, and the expired ones.
    fn tokens_of(&self, user: UserId) -> Result<(u64, Vec<TokenRow>), StoreError> {
        let (first, last) = TokenKey::ends(user);
        let (mut valid, mut expired) = (0_u64, Vec::new());
        for entry in self.tables.tokens.range::<&TokenBytes>(&first.encode()..=&last.encode())? {
            let (_, bytes) = entry?;
            match values::decode::<TokenRow>(bytes.value()) {
                Ok(row) if row.token.expires_at_ms.is_some_and(|at_ms| at_ms <= self.now_ms) => {
                    expired.push(row);
                }
                _ => valid = valid.saturating_add(1),
            }
        }
        Ok((valid, expired))
    }

    fn forget_token(&mut self, row: &TokenRow) -> Result<(), StoreError> {
        let key = TokenKey { user: row.token.user, id: row.token.id }.encode();
        self.tables.tokens.remove(&key)?;
        self.tables
            .account_lookup
            .remove(&AccountLookupKey { by: AccountLookup::Token, digest: row.digest }.encode())?;
        self.mark_dirty();
        Ok(())
    }
}
