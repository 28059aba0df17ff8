//! Invites, under the digests of their codes. The id of an invite is the first half of its digest: it names
//! the invite in lists, and nobody can compute the code from it.

use crate::domain::id::InviteId;
use crate::ports::{
    AccountError, InviteKind, InvitePage, NewInvite, PendingInvite, RequiredInvite, SecretDigest, StoreError,
    ValidSetupInvite,
};
use crate::store::postgres::accounts::write::has_no_passwords;
use crate::store::postgres::session::{Columns, Params, SqlSession, sql_number, sql_user};
use crate::store::postgres::writer::act::Act;
use tokio_postgres::Row;

/// A page of invites that expire after `now_ms`. Expired ones may be stored still, until the next new invite.
pub(crate) async fn page(
    session: &SqlSession<'_>,
    after: Option<InviteId>,
    limit: usize,
    now_ms: u64,
) -> Result<InvitePage, StoreError> {
    let sql = "SELECT id, created_at_ms, expires_at_ms, created_by FROM invites WHERE id > $1 AND expires_at_ms > $2 \
               ORDER BY id, digest LIMIT $3";
    let after = after.map(|id| id.to_string()).unwrap_or_default();
    let params: Params<'_> = &[&after, &sql_number(now_ms), &sql_number(limit.saturating_add(1))];
    let found = session.rows(sql, params).await?;
    let has_more = found.len() > limit;
    let invites = found.iter().take(limit).map(read_invite).collect::<Result<_, _>>()?;
    Ok(InvitePage { invites, has_more })
}

fn read_invite(row: &Row) -> Result<PendingInvite, StoreError> {
    let created_by = row.column::<Option<i64>>(3)?.map(|_| row.user(3)).transpose()?;
    Ok(PendingInvite {
        id: row.parsed(0)?,
        created_at_ms: row.optional_number(1)?,
        expires_at_ms: row.number(2)?,
        created_by,
    })
}

/// The condition of set-up invites: the server itself makes no others. An invite of an earlier build, without
/// its time, may be anybody's.
const IS_SETUP: &str = "(created_by IS NULL AND created_at_ms IS NOT NULL)";

impl Act<'_> {
    /// Stores an invite and removes expired ones.
    pub(crate) async fn store_invite(&mut self, invite: &NewInvite) -> Result<(), StoreError> {
        let sql = "WITH expired AS (DELETE FROM invites WHERE digest IN (SELECT digest FROM invites \
                       WHERE expires_at_ms <= $1 AND digest <> $2 FOR UPDATE SKIP LOCKED)) \
                   INSERT INTO invites (digest, id, created_at_ms, expires_at_ms, created_by) \
                   VALUES ($2, $3, $4, $5, $6) ON CONFLICT (digest) DO UPDATE SET created_at_ms = excluded.created_at_ms, \
                       expires_at_ms = excluded.expires_at_ms, created_by = excluded.created_by";
        let params: Params<'_> = &[
            &sql_number(self.now_ms),
            &invite.digest.as_slice(),
            &invite.id().to_string(),
            &sql_number(invite.created_at_ms),
            &sql_number(invite.expires_at_ms),
            &invite.created_by.map(sql_user),
        ];
        self.session.execute(sql, params).await.map(|_| ())
    }

    /// Removes an invite. Returns whether it could still be used.
    pub(crate) async fn revoke_invite(&mut self, id: InviteId) -> Result<bool, StoreError> {
        let sql = "DELETE FROM invites WHERE id = $1 RETURNING expires_at_ms";
        let mut was_valid = false;
        for row in self.session.rows(sql, &[&id.to_string()]).await? {
            was_valid |= row.number(0)? > self.now_ms;
        }
        Ok(was_valid)
    }

    /// Stores the set-up invite in place of the others, and returns the one in force.
    pub(crate) async fn store_setup_invite(
        &mut self,
        invite: &NewInvite,
        valid: ValidSetupInvite,
    ) -> Result<PendingInvite, AccountError> {
        self.lock_accounts().await?;
        if !has_no_passwords(&self.session).await? {
            return Err(AccountError::AccountExists);
        }
        if valid == ValidSetupInvite::Kept
            && let Some(kept) = self.valid_setup_invite().await?
        {
            return Ok(kept);
        }
        self.remove_setup_invites().await?;
        self.store_invite(invite).await?;
        Ok(invite.pending())
    }

    async fn valid_setup_invite(&self) -> Result<Option<PendingInvite>, StoreError> {
        let sql = format!(
            "SELECT id, created_at_ms, expires_at_ms, created_by FROM invites WHERE {IS_SETUP} AND expires_at_ms > $1 \
             ORDER BY id LIMIT 1"
        );
        let found = self.session.row(&sql, &[&sql_number(self.now_ms)]).await?;
        found.as_ref().map(read_invite).transpose()
    }

    /// Removes the set-up invite: the first account exists, or another invite takes its place.
    pub(crate) async fn remove_setup_invites(&mut self) -> Result<(), StoreError> {
        self.session.send(&format!("DELETE FROM invites WHERE {IS_SETUP}"), &[]).await
    }

    /// Fails if the invite is not valid. It stays valid until the end of the transaction.
    pub(crate) async fn lock_invite(&self, required: RequiredInvite) -> Result<(), AccountError> {
        let sql =
            format!("SELECT expires_at_ms FROM invites WHERE digest = $1 AND {IS_SETUP} = $2 FOR UPDATE");
        let is_setup = required.kind == InviteKind::Setup;
        let found = self.session.row(&sql, &[&required.digest.as_slice(), &is_setup]).await?;
        let expires_at_ms = found.map(|row| row.number(0)).transpose()?;
        let is_valid = expires_at_ms.is_some_and(|expires_at_ms| expires_at_ms > self.now_ms);
        if is_valid { Ok(()) } else { Err(required.kind.refusal()) }
    }

    /// Removes an invite that a registration uses up.
    pub(crate) async fn use_invite(&mut self, digest: &SecretDigest) -> Result<(), StoreError> {
        self.session.send("DELETE FROM invites WHERE digest = $1", &[&digest.as_slice()]).await
    }
}
