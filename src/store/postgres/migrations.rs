//! The tables, as numbered steps. Each runs once, under a lock, so that several nodes may start at once.

use crate::ports::StoreError;
use crate::store::postgres::session::failed;
use deadpool_postgres::Client;

/// The steps in order. A step that has been released never changes.
const STEPS: &[(i32, &str)] = &[
    (1, include_str!("schema/0001_jobs.sql")),
    (3, include_str!("schema/0003_conversations.sql")),
    (4, include_str!("schema/0004_batches.sql")),
    (5, include_str!("schema/0005_accounts.sql")),
    (6, include_str!("schema/0006_projects.sql")),
    (7, include_str!("schema/0007_files.sql")),
    (8, include_str!("schema/0008_schedules.sql")),
    (9, include_str!("schema/0009_deliveries.sql")),
    (10, include_str!("schema/0010_windows.sql")),
];

/// The newest step of this build.
pub(crate) const NEWEST: i32 = 10;

/// The oldest step that this build can work with: one behind, while nodes of two versions run side by side.
const OLDEST_USABLE: i32 = NEWEST - 1;

/// The lock of migrations: `nanoclaw` as a number.
const LOCK: i64 = 0x6e_61_6e_6f_63_6c_61_77;

/// Makes the missing tables. Fails if a newer build has made some that this one does not know.
pub(crate) async fn migrate(client: &mut Client) -> Result<(), StoreError> {
    let sql = |error: tokio_postgres::Error| failed(&error);
    let transaction = client.transaction().await.map_err(sql)?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await.map_err(sql)?;
    let made = "CREATE TABLE IF NOT EXISTS migrations (
        step integer PRIMARY KEY, version text NOT NULL, made_at timestamptz NOT NULL DEFAULT now(),
        oldest_usable integer NOT NULL)";
    transaction.batch_execute(made).await.map_err(sql)?;
    let newest = "SELECT coalesce(max(step), 0), coalesce(max(oldest_usable), 0) FROM migrations";
    let row = transaction.query_one(newest, &[]).await.map_err(sql)?;
    let (stored, needed): (i32, i32) = (row.get(0), row.get(1));
    if needed > NEWEST {
        return Err(StoreError::Io(format!(
            "the database has layout {stored}, which needs a newer nanoclaw; this one knows layouts up to {NEWEST}"
        )));
    }
    for (step, statements) in STEPS.iter().filter(|(step, _)| *step > stored) {
        transaction.batch_execute(statements).await.map_err(sql)?;
        let insert = "INSERT INTO migrations (step, version, oldest_usable) VALUES ($1, $2, $3)";
        let version = env!("CARGO_PKG_VERSION");
        transaction.execute(insert, &[step, &version, &OLDEST_USABLE]).await.map_err(sql)?;
    }
    transaction.commit().await.map_err(sql)
}
