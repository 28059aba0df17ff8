//! An account as its owner sees it.

use crate::domain::account::{Account, Role};
use crate::domain::id::UserId;
use crate::http::api::dates;
use serde::Serialize;

/// The account, without what it is checked against.
#[derive(Serialize)]
pub(crate) struct UserView {
    id: UserId,
    username: String,
    email: Option<String>,
    avatar: Option<String>,
    role: Role,
    is_active: bool,
    created_at: String,
    last_login_at: Option<String>,
}

impl UserView {
    pub(crate) fn of(account: &Account) -> Self {
        Self {
            id: account.id,
            username: account.username.as_str().to_owned(),
            email: account.email.as_ref().map(|email| email.as_str().to_owned()),
            avatar: account.avatar.clone(),
            role: account.role,
            is_active: account.is_active,
            created_at: dates::date(account.created_at_ms),
            last_login_at: account.last_login_at_ms.map(dates::date),
        }
    }
}
