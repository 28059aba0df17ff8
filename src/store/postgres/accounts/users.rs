//! Reads accounts, and the port of accounts. The account `default` exists before it is written.

use crate::domain::account::{Account, ApiToken, lookup_name};
use crate::domain::id::{InviteId, TokenId, UserId};
use crate::ports::{
    AccountChange, AccountError, AccountPage, InvitePage, NewAccount, NewInvite, NewToken, PendingInvite,
    SecretDigest, StoreError, Ticket, Users, ValidSetupInvite,
};
use crate::store::postgres::accounts::write::has_no_passwords;
use crate::store::postgres::accounts::{invites, tokens};
use crate::store::postgres::session::{Columns, SqlSession, sql_number, sql_user};
use crate::store::postgres::store::PostgresStore;
use crate::store::postgres::writer::act::Act;
use crate::store::rows::account::default_account;

impl Users for PostgresStore {
    fn register(&self, new: NewAccount) -> Ticket<Account, AccountError> {
        self.write_in_order(async move |act: &mut Act<'_>| act.register_account(&new).await)
    }

    fn change_account(&self, user: UserId, change: AccountChange) -> Ticket<Option<Account>, AccountError> {
        self.write_in_order(async move |act: &mut Act<'_>| act.change_account(user, &change).await)
    }

    fn store_token(&self, new: NewToken, limit: u64) -> Ticket<(), AccountError> {
        self.write_in_order(async move |act: &mut Act<'_>| act.store_token(&new, limit).await)
    }

    fn revoke_token(&self, user: UserId, id: TokenId) -> Ticket<bool> {
        self.write_in_order(async move |act: &mut Act<'_>| act.revoke_token(user, id).await)
    }

    fn store_invite(&self, invite: NewInvite) -> Ticket<()> {
        self.write_in_order(async move |act: &mut Act<'_>| act.store_invite(&invite).await)
    }

    fn store_setup_invite(
        &self,
        invite: NewInvite,
        valid: ValidSetupInvite,
    ) -> Ticket<PendingInvite, AccountError> {
        self.write_in_order(async move |act: &mut Act<'_>| act.store_setup_invite(&invite, valid).await)
    }

    fn revoke_invite(&self, id: InviteId) -> Ticket<bool> {
        self.write_in_order(async move |act: &mut Act<'_>| act.revoke_invite(id).await)
    }

    fn has_no_accounts(&self) -> Result<bool, StoreError> {
        self.read(async |session: &SqlSession<'_>| has_no_passwords(session).await)
    }

    fn account(&self, user: UserId) -> Result<Option<Account>, StoreError> {
        self.read(async |session: &SqlSession<'_>| account(session, user, 0).await)
    }

    fn account_named(&self, username: &str) -> Result<Option<Account>, StoreError> {
        self.read(async |session: &SqlSession<'_>| account_named(session, username).await)
    }

    fn accounts(&self, after: Option<UserId>, limit: usize) -> Result<AccountPage, StoreError> {
        self.read(async |session: &SqlSession<'_>| page(session, after.unwrap_or(UserId(0)), limit).await)
    }

    fn invites(&self, after: Option<InviteId>, limit: usize, now_ms: u64) -> Result<InvitePage, StoreError> {
        self.read(async |session: &SqlSession<'_>| invites::page(session, after, limit, now_ms).await)
    }

    fn token(&self, digest: &SecretDigest) -> Result<Option<ApiToken>, StoreError> {
        self.read(async |session: &SqlSession<'_>| tokens::find(session, digest).await)
    }

    fn tokens(&self, user: UserId) -> Result<Vec<ApiToken>, StoreError> {
        self.read(async |session: &SqlSession<'_>| tokens::of_user(session, user).await)
    }
}

/// An account. `default` was created at `now_ms`, if it is not stored yet.
pub(crate) async fn account(
    session: &SqlSession<'_>,
    user: UserId,
    now_ms: u64,
) -> Result<Option<Account>, StoreError> {
    let found = session.row("SELECT row::text FROM users WHERE id = $1", &[&sql_user(user)]).await?;
    match found {
        Some(row) => row.document(0).map(Some),
        None => Ok((user == UserId::SINGLE).then(|| default_account(now_ms))),
    }
}

async fn account_named(session: &SqlSession<'_>, username: &str) -> Result<Option<Account>, StoreError> {
    // A name that is older than normalisation is found as it was stored.
    let (stored, normal) = (username.trim().to_lowercase(), lookup_name(username));
    // No name has U+0000, which text of the database cannot hold.
    if username.contains('\0') {
        return Ok(None);
    }
    let sql = "SELECT row::text FROM users WHERE name_key IN ($1, $2) ORDER BY name_key = $1 DESC LIMIT 1";
    if let Some(row) = session.row(sql, &[&stored, &normal]).await? {
        return row.document(0).map(Some);
    }
    let default = default_account(0);
    Ok((normal == default.username.key()).then_some(default))
}

async fn page(session: &SqlSession<'_>, after: UserId, limit: usize) -> Result<AccountPage, StoreError> {
    let sql = "SELECT id, row::text FROM users WHERE id > $1 ORDER BY id LIMIT $2";
    let found = session.rows(sql, &[&sql_user(after), &sql_number(limit.saturating_add(1))]).await?;
    let mut page = AccountPage { accounts: Vec::new(), has_more: false };
    let first = found.first().map(|row| row.user(0)).transpose()?;
    // The account `default` exists even before an account is written.
    if after < UserId::SINGLE && first != Some(UserId::SINGLE) {
        page.accounts.push(default_account(0));
    }
    for row in &found {
        if page.accounts.len() >= limit {
            page.has_more = true;
            break;
        }
        page.accounts.push(row.document(1)?);
    }
    Ok(page)
}

impl Act<'_> {
    /// Whether the account may do nothing, its schedules included; one that cannot be read may not.
    pub(crate) async fn is_disabled(&mut self, user: UserId) -> Result<bool, StoreError> {
        match account(&self.session, user, self.now_ms).await {
            Err(StoreError::Corrupt(_)) => Ok(true),
            found => Ok(found?.is_some_and(|account| !account.is_active)),
        }
    }
}
