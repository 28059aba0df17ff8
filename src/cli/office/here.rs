//! Accounts and tokens in a store that no server holds.

use super::Office;
use crate::app::system::SystemEntropy;
use crate::cli::error::CliError;
use crate::domain::account::{Account, PasswordHash};
use crate::domain::id::{IdGenerator, TokenId, UserId};
use crate::domain::limits::Limits;
use crate::domain::secret::Secret;
use crate::http::api_key::{SecretKind, generate};
use crate::http::password::hash_password;
use crate::http::{NewUserRequest, TokenRequest, TokenResponse, UserResponse, change_of};
use crate::ports::{Clock, Entropy, NewToken, StoreError, Users};
use crate::store::RedbStore;
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt::Display;
use std::sync::Arc;

/// Accounts that are read at once.
const PAGE: usize = 1_000;

/// An open store.
pub(super) struct Here {
    store: Arc<RedbStore>,
    clock: Arc<dyn Clock>,
    limits: Limits,
}

impl Here {
    pub(super) fn new(store: Arc<RedbStore>, clock: Arc<dyn Clock>, limits: Limits) -> Self {
        Self { store, clock, limits }
    }

    fn account(&self, user: u32) -> Result<Account, CliError> {
        let found = self.store.account(UserId(user)).map_err(said)?;
        found.ok_or_else(|| {
            CliError::failed("there is no such user").hint("all there are: nanoclaw user list")
        })
    }
}

impl Office for Here {
    fn register(&self, asked: Map<String, Value>) -> Result<Value, CliError> {
        let newcomer = NewUserRequest::read(asked).map_err(said)?;
        let hash = hashed(&newcomer.password)?;
        let made = self.store.register(newcomer.into_account(hash, self.clock.now_ms())).wait();
        shown(UserResponse::of(made.map_err(said)?))
    }

    fn users(&self) -> Result<Vec<Value>, CliError> {
        let (mut users, mut after) = (Vec::new(), None);
        loop {
            let page = self.store.accounts(after, PAGE).map_err(said)?;
            after = page.accounts.last().map(|last| last.id);
            for account in page.accounts {
                users.push(shown(UserResponse::of(account))?);
            }
            if !page.has_more {
                return Ok(users);
            }
        }
    }

    fn named(&self, name: &str) -> Result<Option<Value>, CliError> {
        self.store.account_named(name).map_err(said)?.map(|found| shown(UserResponse::of(found))).transpose()
    }

    fn change(&self, user: u32, asked: Map<String, Value>) -> Result<Value, CliError> {
        let (mut change, password) = change_of(asked, &self.account(user)?).map_err(said)?;
        change.password = password.map(|password| hashed(&password)).transpose()?;
        let changed = self.store.change_account(UserId(user), change).wait().map_err(said)?;
        shown(UserResponse::of(changed.ok_or_else(|| {
            CliError::failed("there is no such user").hint("all there are: nanoclaw user list")
        })?))
    }

    fn tokens(&self, user: u32) -> Result<Vec<Value>, CliError> {
        let tokens = self.store.tokens(UserId(user)).map_err(said)?;
        tokens.into_iter().map(|token| shown(TokenResponse::of(token))).collect()
    }

    fn mint(&self, user: u32, asked: Map<String, Value>) -> Result<Value, CliError> {
        let owner = self.account(user)?;
        let wish = TokenRequest::read(asked).map_err(said)?;
        let minted = generate(SecretKind::Key, &SystemEntropy);
        let now_ms = self.clock.now_ms();
        let id = TokenId::from_bits(IdGenerator::default().mint(now_ms, SystemEntropy.random()));
        let token = wish.into_token((id, owner.id), now_ms, minted.hint);
        let new = NewToken { token: token.clone(), digest: minted.digest };
        self.store.store_token(new, self.limits.tokens).wait().map_err(said)?;
        shown(TokenResponse::of(token).with_key(&minted.secret))
    }

    fn revoke(&self, user: u32, token: &str) -> Result<(), CliError> {
        let gone = || CliError::failed("there is no such token").hint("all there are: nanoclaw token list");
        let id: TokenId = token.parse().map_err(|_| gone())?;
        let was_there: Result<bool, StoreError> = self.store.revoke_token(UserId(user), id).wait();
        if was_there.map_err(said)? { Ok(()) } else { Err(gone()) }
    }
}

fn hashed(password: &Secret) -> Result<PasswordHash, CliError> {
    hash_password(password, SystemEntropy.random()).map_err(said)
}

/// As the API shows it.
fn shown(view: impl Serialize) -> Result<Value, CliError> {
    serde_json::to_value(view).map_err(said)
}

/// As the API would say it.
fn said(error: impl Display) -> CliError {
    CliError::failed(error.to_string())
}
