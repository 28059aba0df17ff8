//! Accounts and API tokens.

use super::RedbStore;
use crate::domain::account::{Account, ApiToken};
use crate::domain::id::{TokenId, UserId};
use crate::ports::{
    AccountChange, AccountPage, Digest, NewAccount, NewInvite, NewToken, StoreError, Ticket, Users,
};

impl Users for RedbStore {
    fn register(&self, _new: NewAccount) -> Ticket<Account> {
        Ticket::refused(StoreError::Closed)
    }
    fn change_account(&self, _user: UserId, _change: AccountChange) -> Ticket<Option<Account>> {
        Ticket::refused(StoreError::Closed)
    }
    fn keep_token(&self, _new: NewToken, _most: u64) -> Ticket<()> {
        Ticket::refused(StoreError::Closed)
    }
    fn revoke_token(&self, _user: UserId, _token: TokenId) -> Ticket<bool> {
        Ticket::refused(StoreError::Closed)
    }
    fn keep_invite(&self, _invite: NewInvite) -> Ticket<()> {
        Ticket::refused(StoreError::Closed)
    }
    fn account(&self, _user: UserId) -> Result<Option<Account>, StoreError> {
        Err(StoreError::Closed)
    }
    fn account_named(&self, _username: &str) -> Result<Option<Account>, StoreError> {
        Err(StoreError::Closed)
    }
    fn accounts(&self, _after: Option<UserId>, _limit: usize) -> Result<AccountPage, StoreError> {
        Err(StoreError::Closed)
    }
    fn token(&self, _digest: &Digest) -> Result<Option<ApiToken>, StoreError> {
        Err(StoreError::Closed)
    }
    fn tokens(&self, _user: UserId) -> Result<Vec<ApiToken>, StoreError> {
        Err(StoreError::Closed)
    }
}
