//! Where accounts and tokens are looked after: in the store itself, or, when a server holds it, at that server. Owns the choice
//! between the two; what is asked and answered is the same JSON as over HTTP.

mod here;
mod there;

use super::client::Client;
use super::error::CliError;
use crate::app::{self, AppError, STORE_FILE};
use crate::config::Config;
use crate::ports::Clock;
use crate::store::{OpenError, RedbStore};
use here::Here;
use serde_json::{Map, Value};
use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use there::There;

/// What can be done.
pub(super) trait Office {
    /// Makes an account from `POST /api/users`' object.
    fn register(&self, asked: Map<String, Value>) -> Result<Value, CliError>;
    /// All accounts.
    fn users(&self) -> Result<Vec<Value>, CliError>;
    /// The account of this name.
    fn named(&self, name: &str) -> Result<Option<Value>, CliError>;
    /// Changes an account as `PATCH /api/users/{id}` does.
    fn change(&self, user: u32, asked: Map<String, Value>) -> Result<Value, CliError>;
    /// All tokens of an account.
    fn tokens(&self, user: u32) -> Result<Vec<Value>, CliError>;
    /// Makes a token from `POST /api/users/{id}/tokens`' object.
    fn mint(&self, user: u32, asked: Map<String, Value>) -> Result<Value, CliError>;
    /// Forgets a token that is there.
    fn revoke(&self, user: u32, token: &str) -> Result<(), CliError>;
}

/// Where the store of a data directory can be worked with.
pub(super) enum Place {
    /// No server holds it.
    Here(Arc<RedbStore>),
    /// At the server that holds it.
    There(Client),
}

/// The office of this data directory.
pub(super) fn open(config: &Config, clock: &Arc<dyn Clock>) -> Result<Box<dyn Office>, CliError> {
    Ok(match place(config, clock)? {
        Place::Here(store) => Box::new(Here::new(store, Arc::clone(clock), config.limits.clone())),
        Place::There(client) => Box::new(There::new(client)),
    })
}

/// Where the store of this data directory is, or is held.
pub(super) fn place(config: &Config, clock: &Arc<dyn Clock>) -> Result<Place, CliError> {
    if is_held(&config.data_dir.join(STORE_FILE)) {
        return there(config);
    }
    match app::open_store(config, clock) {
        Ok(store) => Ok(Place::Here(store)),
        // A server came in between.
        Err(AppError::Store(OpenError::Locked { .. })) => there(config),
        Err(error) => Err(CliError::failed(error.to_string())
            .hint("name the directory of the store with --data-dir; more says: nanoclaw doctor")),
    }
}

/// Whether somebody holds the file, as far as can be told without waiting.
fn is_held(store: &Path) -> bool {
    File::open(store).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// The server that holds the store of this directory and tells the way in; none where nobody holds it, or nobody tells.
pub(super) fn holder(data_dir: &Path) -> Result<Option<Client>, CliError> {
    if !is_held(&data_dir.join(STORE_FILE)) {
        return Ok(None);
    }
    app::control_in(data_dir).ok().flatten().map(|control| there::way_in(&control)).transpose()
}

fn there(config: &Config) -> Result<Place, CliError> {
    let dir = config.data_dir.display();
    let control = app::control_in(&config.data_dir).map_err(|error| {
        CliError::failed(format!(
            "a server holds the store in '{dir}', and its control.json cannot be read: {error}"
        ))
        .hint("run this as the user of the server, or stop the server")
    })?;
    let control = control.ok_or_else(|| {
        CliError::failed(format!("a server holds the store in '{dir}' and tells no way in"))
            .hint("it is just starting or stopping: try again in a moment, or stop it")
    })?;
    there::way_in(&control).map(Place::There)
}

/// A field that every answer of ours has.
pub(super) fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The number of an account.
pub(super) fn number(user: &Value) -> Result<u32, CliError> {
    let number = user.get("id").and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| {
        CliError::failed("an account came without its number").hint("is the server of this version?")
    })
}
