//! A lock of one kind of rows of one user, for limits that count rows.

use crate::domain::id::UserId;
use crate::ports::StoreError;
use crate::store::postgres::session::Columns;
use crate::store::postgres::writer::act::Act;

impl Act<'_> {
    /// Waits for other transactions that hold the lock, and holds it until the end of this one. Statements
    /// after it see what those have committed.
    pub(crate) async fn lock_of_user(&mut self, kind: &str, user: UserId) -> Result<(), StoreError> {
        // Locks belong to the whole database, in which each schema may be another store.
        let sql = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' ' || $1::text, 0))";
        self.session.send(sql, &[&format!("{kind} {user}", user = user.0)]).await
    }

    /// The same without waiting: returns whether this transaction holds the lock. For transactions that may
    /// hold what another one waits for.
    pub(crate) async fn try_lock_of_user(&mut self, kind: &str, user: UserId) -> Result<bool, StoreError> {
        let sql =
            "SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || ' ' || $1::text, 0))";
        self.session.one(sql, &[&format!("{kind} {user}", user = user.0)]).await?.column(0)
    }
}
