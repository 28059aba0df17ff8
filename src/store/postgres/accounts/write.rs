//! Writes accounts. Changes on which other accounts depend (names, addresses, the first and the last
//! administrator) hold one lock of the cluster.

use crate::domain::account::{Account, Email, Role};
use crate::domain::id::UserId;
use crate::ports::{AccountChange, AccountError, NewAccount, StoreError};
use crate::store::postgres::session::{Columns, Params, SqlSession, document, sql_user};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::account::{changed_account, default_account, is_active_admin, registered_account};

/// What a registration has to know of the other accounts.
struct StoredAccounts {
    has_passwords: bool,
    has_default: bool,
    count: u64,
    highest: u64,
    /// Why the name or the address cannot be had.
    taken: Option<AccountError>,
}

impl Act<'_> {
    /// Registers an account.
    pub(crate) async fn register_account(&mut self, new: &NewAccount) -> Result<Account, AccountError> {
        self.lock_accounts().await?;
        let stored = self.stored_accounts(new).await?;
        let is_first = !stored.has_passwords;
        let invite = new.admission.required_invite(is_first)?;
        if let Some(invite) = invite {
            self.lock_invite(invite).await?;
        }
        let limit = self.limits.accounts;
        if stored.count.saturating_add(u64::from(!stored.has_default)) >= limit {
            return Err(AccountError::AccountsFull { limit });
        }
        if let Some(taken) = stored.taken {
            return Err(taken);
        }
        let account = registered_account(new, next_user(stored.highest)?, is_first);
        // All checks have passed: writes start here.
        if let Some(invite) = invite {
            self.use_invite(&invite.digest).await?;
        }
        if is_first {
            self.remove_setup_invites().await?;
        }
        let default = (!stored.has_default).then(|| default_account(new.created_at_ms));
        let accounts: Vec<&Account> = default.iter().chain([&account]).collect();
        self.put_accounts(&accounts).await?;
        Ok(account)
    }

    /// Changes an account.
    pub(crate) async fn change_account(
        &mut self,
        user: UserId,
        change: &AccountChange,
    ) -> Result<Option<Account>, AccountError> {
        let concerns_others = change.email.is_some() || change.role.is_some() || change.is_active.is_some();
        // A registration may store the account `default` at the same time.
        if concerns_others || user == UserId::SINGLE {
            self.lock_accounts().await?;
        }
        let Some(before) = self.lock_account(user).await? else { return Ok(None) };
        let after = changed_account(&before, change);
        if let Some(email) = after.email.as_ref().filter(|_| change.email.is_some()) {
            self.refuse_taken_email(email, user).await?;
        }
        if is_active_admin(&before) && !is_active_admin(&after) {
            self.refuse_last_admin(user).await?;
        }
        self.put_accounts(&[&after]).await?;
        if before.password.is_none() && after.password.is_some() {
            self.remove_setup_invites().await?;
        }
        Ok(Some(after))
    }

    /// Makes registrations and changes on which other accounts depend wait for each other.
    pub(crate) async fn lock_accounts(&self) -> Result<(), StoreError> {
        let sql = "SELECT pg_advisory_xact_lock(hashtext('accounts'), hashtext(current_schema()))";
        self.session.execute(sql, &[]).await.map(|_| ())
    }

    /// The account, `default` included, locked until the end of the transaction if it is stored.
    async fn lock_account(&self, user: UserId) -> Result<Option<Account>, StoreError> {
        let sql = "SELECT row::text FROM users WHERE id = $1 FOR NO KEY UPDATE";
        match self.session.row(sql, &[&sql_user(user)]).await? {
            Some(row) => row.document(0).map(Some),
            None => Ok((user == UserId::SINGLE).then(|| default_account(self.now_ms))),
        }
    }

    async fn stored_accounts(&self, new: &NewAccount) -> Result<StoredAccounts, StoreError> {
        let sql = "SELECT coalesce(bool_or(has_password), false), coalesce(bool_or(id = $1), false), count(*), \
                   coalesce(max(id), 0), EXISTS (SELECT FROM users WHERE name_key = $2), \
                   EXISTS (SELECT FROM users WHERE email_key = $3) FROM users";
        let email = new.email.as_ref().map(Email::key);
        let params: Params<'_> = &[&sql_user(UserId::SINGLE), &new.username.key(), &email];
        let row = self.session.one(sql, params).await?;
        // The name `default` is reserved before its account is stored.
        let is_name_taken = row.column(4)? || new.username.key() == default_account(0).username.key();
        let taken = match (is_name_taken, row.column(5)?) {
            (true, _) => Some(AccountError::NameTaken),
            (false, true) => Some(AccountError::EmailTaken),
            (false, false) => None,
        };
        Ok(StoredAccounts {
            has_passwords: row.column(0)?,
            has_default: row.column(1)?,
            count: row.number(2)?,
            highest: row.number(3)?,
            taken,
        })
    }

    async fn refuse_taken_email(&self, email: &Email, unless: UserId) -> Result<(), AccountError> {
        let sql = "SELECT EXISTS (SELECT FROM users WHERE email_key = $1 AND id <> $2)";
        let found = self.session.one(sql, &[&email.key(), &sql_user(unless)]).await?;
        if found.column(0)? { Err(AccountError::EmailTaken) } else { Ok(()) }
    }

    /// Refuses when no other account is an active administrator. A row that cannot be read counts as none.
    async fn refuse_last_admin(&self, user: UserId) -> Result<(), AccountError> {
        let sql =
            "SELECT row::text FROM users WHERE role = 'admin' AND is_active AND has_password AND id <> $1";
        for row in self.session.rows(sql, &[&sql_user(user)]).await? {
            match row.document::<Account>(0) {
                Ok(_) => return Ok(()),
                Err(error) => tracing::error!(%error, "account cannot be read"),
            }
        }
        Err(AccountError::LastAdmin)
    }

    /// Writes accounts. Names never change.
    async fn put_accounts(&mut self, accounts: &[&Account]) -> Result<(), StoreError> {
        let column =
            |text: fn(&Account) -> String| accounts.iter().map(|each| text(each)).collect::<Vec<_>>();
        let ids: Vec<i64> = accounts.iter().map(|each| sql_user(each.id)).collect();
        let emails: Vec<Option<String>> =
            accounts.iter().map(|each| each.email.as_ref().map(Email::key)).collect();
        let are_active: Vec<bool> = accounts.iter().map(|each| each.is_active).collect();
        let have_passwords: Vec<bool> = accounts.iter().map(|each| each.password.is_some()).collect();
        let rows: Vec<String> = accounts.iter().map(document).collect::<Result<_, _>>()?;
        let sql = "INSERT INTO users (id, name_key, email_key, role, is_active, has_password, row) \
                   SELECT id, name_key, email_key, role, is_active, has_password, row::json FROM unnest($1::bigint[], \
                       $2::text[], $3::text[], $4::text[], $5::boolean[], $6::boolean[], $7::text[]) \
                       AS u(id, name_key, email_key, role, is_active, has_password, row) \
                   ON CONFLICT (id) DO UPDATE SET email_key = excluded.email_key, role = excluded.role, \
                       is_active = excluded.is_active, has_password = excluded.has_password, row = excluded.row";
        let names = column(|each| each.username.key());
        let roles = column(|each| role_name(each.role).to_owned());
        let params: Params<'_> = &[&ids, &names, &emails, &roles, &are_active, &have_passwords, &rows];
        self.session.execute(sql, params).await.map(|_| ())
    }
}

/// Whether the next registration makes the administrator. A column says it, so that an account with an
/// unreadable row counts as one with a password.
pub(crate) async fn has_no_passwords(session: &SqlSession<'_>) -> Result<bool, StoreError> {
    session.one("SELECT NOT EXISTS (SELECT FROM users WHERE has_password)", &[]).await?.column(0)
}

/// Name of a role in the table.
fn role_name(role: Role) -> &'static str {
    match role {
        Role::Admin => "admin",
        Role::User => "user",
    }
}

/// The number after the highest. Accounts are never removed, so it was never used.
fn next_user(highest: u64) -> Result<UserId, StoreError> {
    let next = highest.max(u64::from(UserId::SINGLE.0)).saturating_add(1);
    u32::try_from(next).map(UserId).map_err(|_| StoreError::Full)
}
