//! Writes accounts. One transaction each checks that names are unique and that an active
//! administrator stays.

use crate::domain::account::Account;
use crate::domain::id::UserId;
use crate::ports::{AccountChange, AccountError, NewAccount, StoreError};
use crate::store::redb::codec::keys::accounts::{
    AccountBytes, AccountLookup, AccountLookupKey, account_key, account_of,
};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::Tables;
use crate::store::redb::codec::values;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::account::{changed_account, default_account, is_active_admin, registered_account};

impl Transaction<'_> {
    /// Registers an account.
    pub(crate) fn register_account(&mut self, new: &NewAccount) -> Result<Account, AccountError> {
        self.refuse_low_disk()?;
        let is_first = has_no_passwords(&self.tables.users)?;
        let invite = new.admission.required_invite(is_first)?;
        if let Some(invite) = invite {
            self.check_invite(invite)?;
        }
        let limit = self.bounds.accounts;
        let tables = &mut self.tables;
        tables.refuse_many(limit)?;
        tables.refuse_taken(AccountLookup::Name, &new.username.key(), None)?;
        if let Some(email) = &new.email {
            tables.refuse_taken(AccountLookup::Email, &email.key(), None)?;
        }
        let account = registered_account(new, tables.next_user()?, is_first);
        // All checks have passed: writes start here.
        tables.store_default_account(new.created_at_ms)?;
        tables.put_account(&account)?;
        if let Some(invite) = invite {
            self.use_invite(invite.digest)?;
        }
        if is_first {
            self.remove_setup_invites()?;
        }
        self.mark_dirty();
        Ok(account)
    }
}

impl Transaction<'_> {
    /// Changes an account.
    pub(crate) fn change_account(
        &mut self,
        user: UserId,
        change: &AccountChange,
    ) -> Result<Option<Account>, AccountError> {
        let now_ms = self.now_ms;
        let tables = &mut self.tables;
        let Some(before) = tables.account(user, now_ms)? else { return Ok(None) };
        let after = changed_account(&before, change);
        if let Some(email) = &after.email {
            tables.refuse_taken(AccountLookup::Email, &email.key(), Some(user))?;
        }
        if is_active_admin(&before) && !is_active_admin(&after) {
            tables.refuse_last_admin(after.id)?;
        }
        if let Some(email) = &before.email {
            tables
                .account_lookup
                .remove(&AccountLookupKey::text(AccountLookup::Email, &email.key()).encode())?;
        }
        tables.store_default_account(now_ms)?;
        tables.put_account(&after)?;
        if before.password.is_none() && after.password.is_some() {
            self.remove_setup_invites()?;
        }
        self.mark_dirty();
        Ok(Some(after))
    }
}

/// Whether the next registration makes the administrator. An unreadable account counts as one with a
/// password, so that a damaged row makes no new administrator.
pub(crate) fn has_no_passwords(
    users: &impl ReadableTable<&'static AccountBytes, &'static [u8]>,
) -> Result<bool, StoreError> {
    for entry in users.iter()? {
        let (key, bytes) = entry?;
        match values::decode::<Account>(bytes.value()) {
            Ok(account) if account.password.is_none() => {}
            Ok(_) => return Ok(false),
            Err(error) => {
                unreadable(key.value(), &error);
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn unreadable(key: &AccountBytes, error: &StoreError) {
    let user = account_of(key).0;
    tracing::error!(user, %error, "account cannot be read");
}

impl Tables<'_> {
    /// The account, `default` included.
    pub(crate) fn account(&self, user: UserId, now_ms: u64) -> Result<Option<Account>, StoreError> {
        match self.users.row(&account_key(user))? {
            Some(account) => Ok(Some(account)),
            None => Ok((user == UserId::SINGLE).then(|| default_account(now_ms))),
        }
    }

    /// Whether the account may do nothing, its schedules included; one that cannot be read may not.
    pub(crate) fn is_disabled(&self, user: UserId, now_ms: u64) -> Result<bool, StoreError> {
        match self.account(user, now_ms) {
            Err(StoreError::Corrupt(_)) => Ok(true),
            found => Ok(found?.is_some_and(|account| !account.is_active)),
        }
    }

    /// Refuses when no other account is an active administrator. A row that cannot be read counts as none.
    fn refuse_last_admin(&self, user: UserId) -> Result<(), AccountError> {
        for entry in self.users.iter()? {
            let (key, bytes) = entry?;
            match values::decode::<Account>(bytes.value()) {
                Ok(other) if other.id != user && is_active_admin(&other) => return Ok(()),
                Ok(_) => {}
                Err(error) => unreadable(key.value(), &error),
            }
        }
        Err(AccountError::LastAdmin)
    }

    /// Refuses another account when `limit` is reached, `default` included.
    fn refuse_many(&self, limit: u64) -> Result<(), AccountError> {
        let has_default_account = self.users.get(&account_key(UserId::SINGLE))?.is_some();
        let count = self.users.len()?.saturating_add(u64::from(!has_default_account));
        if count >= limit { Err(AccountError::AccountsFull { limit }) } else { Ok(()) }
    }

    fn refuse_taken(
        &self,
        by: AccountLookup,
        text: &str,
        unless: Option<UserId>,
    ) -> Result<(), AccountError> {
        let found = self.account_lookup.get(&AccountLookupKey::text(by, text).encode())?;
        let taken =
            if by == AccountLookup::Email { AccountError::EmailTaken } else { AccountError::NameTaken };
        let owner = match found {
            Some(bytes) => Some(UserId(values::decode(bytes.value())?)),
            // The name `default` is reserved before its account is written.
            None => (by == AccountLookup::Name && text == default_account(0).username.key())
                .then_some(UserId::SINGLE),
        };
        if owner.is_some() && owner != unless { Err(taken) } else { Ok(()) }
    }

    /// The number after the highest. Accounts are never removed, so it was never used.
    fn next_user(&self) -> Result<UserId, StoreError> {
        let highest = self.users.last()?.map_or(UserId::SINGLE, |(key, _)| account_of(key.value()));
        let next = highest.0.checked_add(1).ok_or(StoreError::Full)?;
        Ok(UserId(next.max(UserId::SINGLE.0.saturating_add(1))))
    }

    /// Writes the account `default`, unless it is stored already.
    fn store_default_account(&mut self, now_ms: u64) -> Result<(), StoreError> {
        let key: AccountBytes = account_key(UserId::SINGLE);
        if self.users.get(&key)?.is_some() { Ok(()) } else { self.put_account(&default_account(now_ms)) }
    }

    /// Writes an account and the lookups that find it.
    pub(crate) fn put_account(&mut self, account: &Account) -> Result<(), StoreError> {
        let number = values::encode(&account.id.0)?;
        self.account_lookup.insert(
            &AccountLookupKey::text(AccountLookup::Name, &account.username.key()).encode(),
            number.as_slice(),
        )?;
        if let Some(email) = &account.email {
            self.account_lookup.insert(
                &AccountLookupKey::text(AccountLookup::Email, &email.key()).encode(),
                number.as_slice(),
            )?;
        }
        self.users.put_row(&account_key(account.id), account)?;
        Ok(())
    }
}
