//! Accounts and tokens in a store that no server has open.

use super::account_admin::AccountAdmin;
use crate::app::renew_setup_invite;
use crate::app::system::SystemEntropy;
use crate::cli::error::CliError;
use crate::config::Config;
use crate::domain::account::{Account, AuthMode, PasswordHash};
use crate::domain::id::{IdGenerator, TokenId, UserId};
use crate::domain::secret::Secret;
use crate::http::api_key::{SecretKind, generate};
use crate::http::password::hash_password;
use crate::http::{NewUserRequest, TokenRequest, TokenResponse, UserChangeRequest, UserResponse, from_map};
use crate::ports::{Clock, Entropy, NewToken, NodeStore};
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt::Display;
use std::sync::Arc;

/// Accounts read at once.
const PAGE: usize = 1_000;

pub(crate) struct LocalAdmin {
    pub(super) store: Arc<dyn NodeStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) config: Config,
}

impl LocalAdmin {
    fn account(&self, user: u32) -> Result<Account, CliError> {
        self.store.account(UserId(user)).map_err(failed)?.ok_or_else(no_such_user)
    }
}

impl AccountAdmin for LocalAdmin {
    fn register(&self, body: Map<String, Value>) -> Result<Value, CliError> {
        let request: NewUserRequest = from_map(body).map_err(failed)?;
        let hash = hashed(&request.password.0)?;
        let account = self.store.register(request.into_account(hash, self.clock.now_ms())).wait();
        to_json(UserResponse::of(account.map_err(failed)?))
    }

    fn users(&self) -> Result<Vec<Value>, CliError> {
        let (mut users, mut after) = (Vec::new(), None);
        loop {
            let page = self.store.accounts(after, PAGE).map_err(failed)?;
            after = page.accounts.last().map(|last| last.id);
            users.extend(page.accounts.into_iter().map(UserResponse::of));
            if !page.has_more {
                return users.into_iter().map(to_json).collect();
            }
        }
    }

    fn user_named(&self, name: &str) -> Result<Option<Value>, CliError> {
        let account = self.store.account_named(name).map_err(failed)?;
        account.map(|account| to_json(UserResponse::of(account))).transpose()
    }

    fn change(&self, user: u32, body: Map<String, Value>) -> Result<Value, CliError> {
        let body: UserChangeRequest = from_map(body).map_err(failed)?;
        let (mut change, password) = body.into_change(self.account(user)?.quota);
        change.password = password.map(|password| hashed(&password)).transpose()?;
        let changed = self.store.change_account(UserId(user), change).wait().map_err(failed)?;
        to_json(UserResponse::of(changed.ok_or_else(no_such_user)?))
    }

    fn tokens(&self, user: u32) -> Result<Vec<Value>, CliError> {
        let tokens = self.store.tokens(UserId(user)).map_err(failed)?;
        tokens.into_iter().map(|token| to_json(TokenResponse::of(token))).collect()
    }

    fn create_token(&self, user: u32, body: Map<String, Value>) -> Result<Value, CliError> {
        let owner = self.account(user)?;
        let request: TokenRequest = from_map(body).map_err(failed)?;
        let generated = generate(SecretKind::Key, &SystemEntropy);
        let now_ms = self.clock.now_ms();
        let id = TokenId::from_bits(IdGenerator::default().mint(now_ms, SystemEntropy.random()));
        let token = request.into_token((id, owner.id), now_ms, generated.hint).map_err(failed)?;
        let new = NewToken { token: token.clone(), digest: generated.digest };
        self.store.store_token(new, self.config.limits.tokens).wait().map_err(failed)?;
        to_json(TokenResponse::of(token).with_key(&generated.secret))
    }

    fn renew_setup_invite(&self) -> Result<Value, CliError> {
        if self.config.auth_mode == AuthMode::Single {
            let message = "there are no accounts: the configuration says auth_mode: single";
            return Err(CliError::failed(message).hint("set auth_mode: multi"));
        }
        to_json(renew_setup_invite(&self.config, &*self.store, &*self.clock).map_err(failed)?)
    }

    fn revoke(&self, user: u32, token: &str) -> Result<(), CliError> {
        let unknown =
            || CliError::failed("there is no such token").hint("all there are: nanoclaw token list");
        let id: TokenId = token.parse().map_err(|_| unknown())?;
        let is_revoked = self.store.revoke_token(UserId(user), id).wait().map_err(failed)?;
        if is_revoked { Ok(()) } else { Err(unknown()) }
    }
}

fn no_such_user() -> CliError {
    CliError::failed("there is no such user").hint("all there are: nanoclaw user list")
}

fn hashed(password: &Secret) -> Result<PasswordHash, CliError> {
    hash_password(password, SystemEntropy.random()).map_err(failed)
}

/// As the HTTP API shows it.
fn to_json(response: impl Serialize) -> Result<Value, CliError> {
    serde_json::to_value(response).map_err(failed)
}

/// The message that the HTTP API would send.
fn failed(error: impl Display) -> CliError {
    CliError::failed(error.to_string())
}
