//! Reads accounts and API tokens. The account `default` exists before it is written.

use crate::domain::account::{Account, ApiToken, lookup_name};
use crate::domain::id::{InviteId, TokenId, UserId};
use crate::ports::{
    AccountChange, AccountError, AccountPage, InvitePage, NewAccount, NewInvite, NewToken, PendingInvite,
    SecretDigest, StoreError, Ticket, Users, ValidSetupInvite,
};
use crate::store::redb::accounts::invites;
use crate::store::redb::accounts::tokens::TokenRow;
use crate::store::redb::accounts::write::has_no_passwords;
use crate::store::redb::codec::keys::accounts::{
    AccountBytes, AccountLookup, AccountLookupKey, TokenBytes, TokenKey, account_key, account_of,
};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::tables::{ACCOUNT_LOOKUP, TOKENS, USERS};
use crate::store::redb::codec::values;
use crate::store::redb::store::RedbStore;
use crate::store::redb::writer::write::WriteOptions;
use crate::store::rows::account::default_account;
use std::ops::Bound;

impl Users for RedbStore {
    fn register(&self, new: NewAccount) -> Ticket<Account, AccountError> {
        self.offer(WriteOptions::default(), move |transaction| transaction.register_account(&new))
    }

    fn change_account(&self, user: UserId, change: AccountChange) -> Ticket<Option<Account>, AccountError> {
        self.offer(WriteOptions::default(), move |transaction| transaction.change_account(user, &change))
    }

    fn store_token(&self, new: NewToken, limit: u64) -> Ticket<(), AccountError> {
        self.offer(WriteOptions::default(), move |transaction| transaction.store_token(&new, limit))
    }

    fn revoke_token(&self, user: UserId, id: TokenId) -> Ticket<bool> {
        self.offer(WriteOptions::default(), move |transaction| transaction.revoke_token(user, id))
    }

    fn store_invite(&self, invite: NewInvite) -> Ticket<()> {
        self.offer(WriteOptions::default(), move |transaction| transaction.store_invite(&invite))
    }

    fn store_setup_invite(
        &self,
        invite: NewInvite,
        valid: ValidSetupInvite,
    ) -> Ticket<PendingInvite, AccountError> {
        self.offer(WriteOptions::default(), move |transaction| transaction.store_setup_invite(&invite, valid))
    }

    fn revoke_invite(&self, id: InviteId) -> Ticket<bool> {
        self.offer(WriteOptions::default(), move |transaction| transaction.revoke_invite(id))
    }

    fn has_no_accounts(&self) -> Result<bool, StoreError> {
        self.read(|reading| has_no_passwords(&USERS.read(reading)?))
    }

    fn account(&self, user: UserId) -> Result<Option<Account>, StoreError> {
        self.read(|reading| account(reading, user))
    }

    fn account_named(&self, username: &str) -> Result<Option<Account>, StoreError> {
        // A name that is older than normalisation is found as it was stored.
        let (stored, normal) = (username.trim().to_lowercase(), lookup_name(username));
        self.read(|reading| {
            let lookup = ACCOUNT_LOOKUP.read(reading)?;
            for name in [&stored, &normal] {
                let key = AccountLookupKey::text(AccountLookup::Name, name).encode();
                if let Some(bytes) = lookup.get(&key)? {
                    return account(reading, UserId(values::decode(bytes.value())?));
                }
            }
            let is_default = normal == default_account(0).username.key();
            if is_default { account(reading, UserId::SINGLE) } else { Ok(None) }
        })
    }

    fn accounts(&self, after: Option<UserId>, limit: usize) -> Result<AccountPage, StoreError> {
        self.read(|reading| page(reading, after.unwrap_or(UserId(0)), limit))
    }

    fn invites(&self, after: Option<InviteId>, limit: usize, now_ms: u64) -> Result<InvitePage, StoreError> {
        self.read(|reading| invites::page(reading, after, limit, now_ms))
    }

    fn token(&self, digest: &SecretDigest) -> Result<Option<ApiToken>, StoreError> {
        let key = AccountLookupKey { by: AccountLookup::Token, digest: *digest }.encode();
        self.read(|reading| {
            let Some(found) = ACCOUNT_LOOKUP.read(reading)?.get(&key)? else { return Ok(None) };
            let key = TokenBytes::try_from(found.value());
            let key = key.map_err(|_| StoreError::Corrupt("a token's key has a wrong width".to_owned()))?;
            Ok(TOKENS.read(reading)?.row::<TokenRow>(&key)?.map(|row| row.token))
        })
    }

    fn tokens(&self, user: UserId) -> Result<Vec<ApiToken>, StoreError> {
        let (first, last) = TokenKey::ends(user);
        self.read(|reading| {
            let mut tokens = Vec::new();
            let table = TOKENS.read(reading)?;
            for entry in table.range::<&TokenBytes>(&first.encode()..=&last.encode())? {
                let (_, bytes) = entry?;
                let row = values::decode::<TokenRow>(bytes.value()).map(Some);
                tokens.push(values::listed(user.0, row)?.token);
            }
            Ok(tokens)
        })
    }
}

fn account(reading: &ReadTransaction, user: UserId) -> Result<Option<Account>, StoreError> {
    match USERS.read(reading)?.row(&account_key(user))? {
        Some(account) => Ok(Some(account)),
        None => Ok((user == UserId::SINGLE).then(|| default_account(0))),
    }
}

fn page(reading: &ReadTransaction, after: UserId, limit: usize) -> Result<AccountPage, StoreError> {
    let users = USERS.read(reading)?;
    let mut page = AccountPage { accounts: Vec::new(), has_more: false };
    // The account `default` exists even before an account is written.
    if after < UserId::SINGLE && users.get(&account_key(UserId::SINGLE))?.is_none() {
        page.accounts.push(default_account(0));
    }
    let after = account_key(after);
    for entry in users.range::<&AccountBytes>((Bound::Excluded(&after), Bound::Unbounded))? {
        if page.accounts.len() >= limit {
            page.has_more = true;
            break;
        }
        let (key, bytes) = entry?;
        let found = values::decode(bytes.value()).map(Some);
        page.accounts.push(values::listed(account_of(key.value()).0, found)?);
    }
    Ok(page)
}
