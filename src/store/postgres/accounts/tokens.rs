//! API tokens. A user has at most `limits.tokens` of them; only the digest of a token is stored.

use crate::domain::account::ApiToken;
use crate::domain::id::{TokenId, UserId};
use crate::ports::{AccountError, NewToken, SecretDigest, StoreError};
use crate::store::postgres::session::{Columns, Params, SqlSession, document, sql_number, sql_user};
use crate::store::postgres::writer::act::Act;

/// The token whose key has this digest.
pub(crate) async fn find(
    session: &SqlSession<'_>,
    digest: &SecretDigest,
) -> Result<Option<ApiToken>, StoreError> {
    let found = session.row("SELECT row::text FROM tokens WHERE digest = $1", &[&digest.as_slice()]).await?;
    found.map(|row| row.document(0)).transpose()
}

/// All tokens of a user, oldest first.
pub(crate) async fn of_user(session: &SqlSession<'_>, user: UserId) -> Result<Vec<ApiToken>, StoreError> {
    let sql = "SELECT row::text FROM tokens WHERE user_id = $1 ORDER BY id";
    session.rows(sql, &[&sql_user(user)]).await?.iter().map(|row| row.document(0)).collect()
}

impl Act<'_> {
    /// Stores a token and removes expired ones of its owner.
    pub(crate) async fn store_token(&mut self, new: &NewToken, limit: u64) -> Result<(), AccountError> {
        let token = &new.token;
        let user = sql_user(token.user);
        // Two tokens that are stored at the same time count each other.
        let lock =
            "SELECT pg_advisory_xact_lock(hashtext('tokens ' || current_schema()), hashint8($1::bigint))";
        self.session.send(lock, &[&user]).await?;
        let sql = "WITH counted AS (SELECT count(*) FROM tokens \
                       WHERE user_id = $1 AND (expires_at_ms IS NULL OR expires_at_ms > $2)), \
                   room AS (SELECT FROM counted WHERE count < $3), \
                   expired AS (DELETE FROM tokens WHERE user_id = $1 AND expires_at_ms <= $2 AND EXISTS (SELECT FROM room)) \
                   INSERT INTO tokens (user_id, id, digest, expires_at_ms, row) \
                   SELECT $1, $4::text, $5::bytea, $6::bigint, $7::text::json FROM room";
        let row = document(token)?;
        let params: Params<'_> = &[
            &user,
            &sql_number(self.now_ms),
            &sql_number(limit),
            &token.id.to_string(),
            &new.digest.as_slice(),
            &token.expires_at_ms.map(sql_number),
            &row,
        ];
        match self.session.execute(sql, params).await? {
            0 => Err(AccountError::TokensFull { limit }),
            _ => Ok(()),
        }
    }

    /// Removes a token of a user. Returns whether it existed.
    pub(crate) async fn revoke_token(&mut self, user: UserId, id: TokenId) -> Result<bool, StoreError> {
        let sql = "DELETE FROM tokens WHERE user_id = $1 AND id = $2";
        Ok(self.session.execute(sql, &[&sql_user(user), &id.to_string()]).await? > 0)
    }
}
