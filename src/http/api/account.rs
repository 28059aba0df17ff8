//! An account as `/api` shows it: without its password and its generation.

use super::envelope::date;
use crate::domain::account::{Account, Role};
use crate::domain::id::UserId;
use serde::Serialize;

/// An account, as its owner and administrators see it.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Account"))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct AccountResponse {
    id: UserId,
    username: String,
    email: Option<String>,
    avatar: Option<String>,
    role: Role,
    is_active: bool,
    created_at: String,
    last_login_at: Option<String>,
}

impl AccountResponse {
    pub(crate) fn of(account: Account) -> Self {
        Self {
            id: account.id,
            username: account.username.into(),
            email: account.email.map(Into::into),
            avatar: account.avatar,
            role: account.role,
            is_active: account.is_active,
            created_at: date(account.created_at_ms),
            last_login_at: account.last_login_at_ms.map(date),
        }
    }
}
