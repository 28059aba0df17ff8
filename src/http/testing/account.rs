//! An account as plain as can be.

use crate::domain::account::{Account, Quota, Role, Username};
use crate::domain::id::UserId;

/// Ann, with this number.
pub(crate) fn account(id: u32) -> Account {
    Account {
        id: UserId(id),
        username: Username::try_from("ann".to_owned()).expect("a name"),
        email: None,
        avatar: None,
        role: Role::User,
        is_active: true,
        created_at_ms: 0,
        last_login_at_ms: None,
        password: None,
        generation: 0,
        quota: Quota::default(),
    }
}
