//! Rules of accounts that need no storage.

use crate::domain::account::{Account, Quota, Role, Username};
use crate::domain::id::UserId;
use crate::ports::{AccountChange, NewAccount};

/// The account [`UserId::SINGLE`] before its first change.
pub(crate) fn default_account(created_at_ms: u64) -> Account {
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

/// A registered account. The first one becomes an administrator.
pub(crate) fn registered_account(new: &NewAccount, id: UserId, is_first: bool) -> Account {
    Account {
        id,
        username: new.username.clone(),
        email: new.email.clone(),
        avatar: None,
        role: if is_first { Role::Admin } else { new.role },
        is_active: true,
        created_at_ms: new.created_at_ms,
        last_login_at_ms: None,
        password: Some(new.password.clone()),
        generation: 0,
        quota: Quota::default(),
    }
}

/// Whether the account is an active administrator with a password.
pub(crate) fn is_active_admin(account: &Account) -> bool {
    account.role == Role::Admin && account.is_active && account.password.is_some()
}

/// The account after a change.
pub(crate) fn changed_account(before: &Account, change: &AccountChange) -> Account {
    let AccountChange { email, avatar, password, role, is_active, quota, logged_in_at_ms, ends_sessions } =
        change.clone();
    let mut after = before.clone();
    after.email = email.unwrap_or(after.email);
    after.avatar = avatar.unwrap_or(after.avatar);
    after.role = role.unwrap_or(after.role);
    after.is_active = is_active.unwrap_or(after.is_active);
    after.quota = quota.unwrap_or(after.quota);
    after.last_login_at_ms = logged_in_at_ms.or(after.last_login_at_ms);
    let has_new_password = password.is_some();
    after.password = password.or(after.password);
    // Sessions end, also those of an account that is disabled and enabled again.
    if has_new_password || ends_sessions || (before.is_active && !after.is_active) {
        after.generation = after.generation.saturating_add(1);
    }
    after
}
