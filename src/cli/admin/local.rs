//! Accounts and tokens in a store that no server has open.

use super::account_admin::AccountAdmin;
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

/// Accounts read at once.
const PAGE: usize = 1_000;

pub(crate) struct LocalAdmin {
    store: Arc<RedbStore>,
    clock: Arc<dyn Clock>,
    limits: Limits,
}

impl LocalAdmin {
    pub(crate) fn new(store: Arc<RedbStore>, clock: Arc<dyn Clock>, limits: Limits) -> Self {
        Self { store, clock, limits }
    }

    fn account(&self, user: u32) -> Result<Account, CliError> {
        let found = self.store.account(UserId(user)).map_err(failed)?;
        found.ok_or_else(|| {
            CliError::failed("there is no such user").hint("all there are: nanoclaw user list")
        })
    }
}

impl AccountAdmin for LocalAdmin {
    fn register(&self, body: Map<String, Value>) -> Result<Value, CliError> {
        let newcomer = NewUserRequest::read(body).map_err(failed)?;
        let hash = hashed(&newcomer.password)?;
        let made = self.store.register(newcomer.into_account(hash, self.clock.now_ms())).wait();
        to_json(UserResponse::of(made.map_err(failed)?))
    }

    fn users(&self) -> Result<Vec<Value>, CliError> {
        let (mut users, mut after) = (Vec::new(), None);
        loop {
            let page = self.store.accounts(after, PAGE).map_err(failed)?;
            after = page.accounts.last().map(|last| last.id);
            for account in page.accounts {
                users.push(to_json(UserResponse::of(account))?);
            }
            if !page.has_more {
                return Ok(users);
            }
        }
    }

    fn named(&self, name: &str) -> Result<Option<Value>, CliError> {
        self.store
            .account_named(name)
            .map_err(failed)?
            .map(|found| to_json(UserResponse::of(found)))
            .transpose()
    }

    fn change(&self, user: u32, body: Map<String, Value>) -> Result<Value, CliError> {
        let (mut change, password) = change_of(body, &self.account(user)?).map_err(failed)?;
        change.password = password.map(|password| hashed(&password)).transpose()?;
        let changed = self.store.change_account(UserId(user), change).wait().map_err(failed)?;
        to_json(UserResponse::of(changed.ok_or_else(|| {
            CliError::failed("there is no such user").hint("all there are: nanoclaw user list")
        })?))
    }

    fn tokens(&self, user: u32) -> Result<Vec<Value>, CliError> {
        let tokens = self.store.tokens(UserId(user)).map_err(failed)?;
        tokens.into_iter().map(|token| to_json(TokenResponse::of(token))).collect()
    }

    fn mint(&self, user: u32, body: Map<String, Value>) -> Result<Value, CliError> {
        let owner = self.account(user)?;
        let wish = TokenRequest::read(body).map_err(failed)?;
        let minted = generate(SecretKind::Key, &SystemEntropy);
        let now_ms = self.clock.now_ms();
        let id = TokenId::from_bits(IdGenerator::default().mint(now_ms, SystemEntropy.random()));
        let token = wish.into_token((id, owner.id), now_ms, minted.hint);
        let new = NewToken { token: token.clone(), digest: minted.digest };
        self.store.store_token(new, self.limits.tokens).wait().map_err(failed)?;
        to_json(TokenResponse::of(token).with_key(&minted.secret))
    }

    fn revoke(&self, user: u32, token: &str) -> Result<(), CliError> {
        let gone = || CliError::failed("there is no such token").hint("all there are: nanoclaw token list");
        let id: TokenId = token.parse().map_err(|_| gone())?;
        let was_there: Result<bool, StoreError> = self.store.revoke_token(UserId(user), id).wait();
        if was_there.map_err(failed)? { Ok(()) } else { Err(gone()) }
    }
}

fn hashed(password: &Secret) -> Result<PasswordHash, CliError> {
    hash_password(password, SystemEntropy.random()).map_err(failed)
}

/// As the HTTP API shows it.
fn to_json(view: impl Serialize) -> Result<Value, CliError> {
    serde_json::to_value(view).map_err(failed)
}

/// The message that the HTTP API would send.
fn failed(error: impl Display) -> CliError {
    CliError::failed(error.to_string())
}
