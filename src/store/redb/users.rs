//! Reading accounts and API tokens, and the port that they stand behind. Owns every query about them, and the account
//! `default`, which is there before it is written.

use super::RedbStore;
use super::read;
use super::schema::{TOKENS, USER_FINDS, USERS};
use super::token_write::{KeepToken, RevokeToken, TokenRow};
use super::user_keys::{AccountBytes, By, FoundBy, TokenBytes, TokenKey, account_key, account_of};
use super::user_write::{ChangeAccount, KeepInvite, Register, nobody_has_password};
use super::value;
use crate::domain::account::{Account, ApiToken, Quota, Role, Username};
use crate::domain::id::{TokenId, UserId};
use crate::ports::{
    AccountChange, AccountPage, NewAccount, NewInvite, NewToken, SecretDigest, StoreError, Ticket, Users,
};
use redb::ReadTransaction;
use std::ops::Bound;

/// What the account [`UserId::SINGLE`] is until somebody changes it.
pub(super) fn single(created_at_ms: u64) -> Account {
    let name = Username::try_from("default".to_owned());
    Account {
        id: UserId::SINGLE,
        username: name.unwrap_or_else(|why| unreachable!("the name of the one user {why}")),
        email: None,
        avatar: None,
        role: Role::Admin,
        is_active: true,
        created_at_ms,
        last_login_at_ms: None,
        password: None,
        generation: 0,
        quota: Quota::default(),
    }
}

impl Users for RedbStore {
    fn register(&self, new: NewAccount) -> Ticket<Account> {
        self.offer(Register(new))
    }

    fn change_account(&self, user: UserId, change: AccountChange) -> Ticket<Option<Account>> {
        self.offer(ChangeAccount { user, change })
    }

    fn store_token(&self, new: NewToken, most: u64) -> Ticket<()> {
        self.offer(KeepToken { new, most })
    }

    fn revoke_token(&self, user: UserId, id: TokenId) -> Ticket<bool> {
        self.offer(RevokeToken { user, id })
    }

    fn store_invite(&self, invite: NewInvite) -> Ticket<()> {
        self.offer(KeepInvite(invite))
    }

    fn has_no_accounts(&self) -> Result<bool, StoreError> {
        self.shared.handle.read(|reading| nobody_has_password(&USERS.read(reading)?))
    }

    fn account(&self, user: UserId) -> Result<Option<Account>, StoreError> {
        self.shared.handle.read(|reading| account(reading, user))
    }

    fn account_named(&self, username: &str) -> Result<Option<Account>, StoreError> {
        let name = username.trim().to_lowercase();
        self.shared.handle.read(|reading| {
            let finds = USER_FINDS.read(reading)?;
            let user = match finds.get(&FoundBy::text(By::Name, &name).encode())? {
                Some(bytes) => UserId(value::decode(bytes.value())?),
                None if name == single(0).username.key() => UserId::SINGLE,
                None => return Ok(None),
            };
            account(reading, user)
        })
    }

    fn accounts(&self, after: Option<UserId>, limit: usize) -> Result<AccountPage, StoreError> {
        self.shared.handle.read(|reading| page(reading, after.unwrap_or(UserId(0)), limit))
    }

    fn token(&self, digest: &SecretDigest) -> Result<Option<ApiToken>, StoreError> {
        let key = FoundBy { by: By::Token, digest: *digest }.encode();
        self.shared.handle.read(|reading| {
            let Some(found) = USER_FINDS.read(reading)?.get(&key)? else { return Ok(None) };
            let place = TokenBytes::try_from(found.value());
            let place = place.map_err(|_| StoreError::Corrupt("a token's place is none".to_owned()))?;
            let Some(bytes) = TOKENS.read(reading)?.get(&place)? else { return Ok(None) };
            value::decode::<TokenRow>(bytes.value()).map(|row| Some(row.token))
        })
    }

    fn tokens(&self, user: UserId) -> Result<Vec<ApiToken>, StoreError> {
        let (first, last) = TokenKey::ends(user);
        self.shared.handle.read(|reading| {
            let mut tokens = Vec::new();
            let table = TOKENS.read(reading)?;
            for entry in table.range::<&TokenBytes>(&first.encode()..=&last.encode())? {
                let (_, bytes) = entry?;
                let row = value::decode::<TokenRow>(bytes.value()).map(Some);
                tokens.extend(read::listed(user.0, row)?.map(|row| row.token));
            }
            Ok(tokens)
        })
    }
}

fn account(reading: &ReadTransaction, user: UserId) -> Result<Option<Account>, StoreError> {
    match USERS.read(reading)?.get(&account_key(user))? {
        Some(bytes) => value::decode(bytes.value()).map(Some),
        None => Ok((user == UserId::SINGLE).then(|| single(0))),
    }
}

fn page(reading: &ReadTransaction, after: UserId, limit: usize) -> Result<AccountPage, StoreError> {
    let users = USERS.read(reading)?;
    let mut page = AccountPage { accounts: Vec::new(), has_more: false };
    // A store to which nobody ever wrote an account has the one all the same.
    if after < UserId::SINGLE && users.get(&account_key(UserId::SINGLE))?.is_none() {
        page.accounts.push(single(0));
    }
    let after = account_key(after);
    for entry in users.range::<&AccountBytes>((Bound::Excluded(&after), Bound::Unbounded))? {
        if page.accounts.len() >= limit {
            page.has_more = true;
            break;
        }
        let (key, bytes) = entry?;
        let found = value::decode(bytes.value()).map(Some);
        page.accounts.extend(read::listed(account_of(key.value()).0, found)?);
    }
    Ok(page)
}
