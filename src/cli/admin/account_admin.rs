//! Operations on accounts and tokens. Arguments and results are the JSON of the HTTP API.

use crate::cli::error::CliError;
use serde_json::{Map, Value};

pub(crate) trait AccountAdmin {
    /// Creates an account; takes the body of `POST /api/users`.
    fn register(&self, body: Map<String, Value>) -> Result<Value, CliError>;
    fn users(&self) -> Result<Vec<Value>, CliError>;
    /// The account of this name, if there is one.
    fn user_named(&self, name: &str) -> Result<Option<Value>, CliError>;
    /// Changes an account; takes the body of `PATCH /api/users/{id}`.
    fn change(&self, user: u32, body: Map<String, Value>) -> Result<Value, CliError>;
    fn tokens(&self, user: u32) -> Result<Vec<Value>, CliError>;
    /// Creates a token; takes the body of `POST /api/users/{id}/tokens`.
    fn create_token(&self, user: u32, body: Map<String, Value>) -> Result<Value, CliError>;
    /// Replaces the set-up invite; an error if there is an account.
    fn renew_setup_invite(&self) -> Result<Value, CliError>;
    /// Revokes a token; an unknown one is an error.
    fn revoke(&self, user: u32, token: &str) -> Result<(), CliError>;
}

/// A string field, empty if it is missing.
pub(crate) fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// An account's number.
pub(crate) fn number(user: &Value) -> Result<u32, CliError> {
    let number = user.get("id").and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| {
        CliError::failed("an account came without its number").hint("is the server of this version?")
    })
}
