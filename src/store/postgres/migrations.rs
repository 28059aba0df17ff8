//! The layouts of the database, as numbered steps. Each runs once, under a lock, so that several nodes may
//! start at once.
//!
//! Nodes of the version before go on while the first node of a new one makes its steps. So a step only adds:
//! tables, indexes, and columns that may be null or have a constant default. What a step makes superfluous is
//! dropped by a later release, whose step then names the oldest layout that does without it. An index of a
//! large table stops its writers while it is built. A version that writes new kinds of records adds a step,
//! too: by it an older node knows that a log is not damaged, and leaves the job to the others.

use crate::ports::StoreError;
use crate::store::postgres::session::{Columns, SqlSession, failed};
use deadpool_postgres::Client;
use std::time::Duration;

/// A step: its number, the oldest layout whose builds can use the database after it, and its statements.
type LayoutStep = (i32, i32, &'static str);

/// The steps in order. A step that has been released never changes.
const STEPS: &[LayoutStep] = &[
    (1, FIRST, include_str!("schema/0001_jobs.sql")),
    (3, FIRST, include_str!("schema/0003_conversations.sql")),
    (4, FIRST, include_str!("schema/0004_batches.sql")),
    (5, FIRST, include_str!("schema/0005_accounts.sql")),
    (6, FIRST, include_str!("schema/0006_projects.sql")),
    (7, FIRST, include_str!("schema/0007_files.sql")),
    (8, FIRST, include_str!("schema/0008_schedules.sql")),
    (9, FIRST, include_str!("schema/0009_deliveries.sql")),
    (10, FIRST, include_str!("schema/0010_windows.sql")),
    (11, FIRST, include_str!("schema/0011_nodes.sql")),
    (12, FIRST, include_str!("schema/0012_audit.sql")),
    (13, FIRST, include_str!("schema/0013_commit_marks.sql")),
    (14, FIRST, include_str!("schema/0014_log_chains.sql")),
    (15, FIRST, include_str!("schema/0015_conditions.sql")),
    (16, FIRST, include_str!("schema/0016_span_exports.sql")),
    (17, FIRST, include_str!("schema/0017_checkpoint_imports.sql")),
    (18, FIRST, include_str!("schema/0018_delivery_turns.sql")),
    (19, FIRST, include_str!("schema/0019_quota_counts.sql")),
];

/// The layout of the first build. Nodes of that build do not say which layout they know.
pub(crate) const FIRST: i32 = 10;

/// The newest layout that this build knows.
pub(crate) const NEWEST: i32 = match STEPS.last() {
    Some((number, ..)) => *number,
    None => 0,
};

/// Whether a node has made its tables.
pub(crate) const HAS_TABLES: &str = "SELECT to_regclass('migrations') IS NOT NULL";

/// The newest step of a database, and the oldest layout whose builds can use it.
pub(crate) const STORED_LAYOUT: &str =
    "SELECT coalesce(max(step), 0), coalesce(max(oldest_usable), 0) FROM migrations";

/// The setting with the progress of `nanoclaw migrate` while it fills the database. No node starts meanwhile.
pub(crate) const UNFINISHED_TRANSFER: &str = "transfer";

/// The lock of migrations: `nanoclaw` as a number.
const LOCK: i64 = 0x6e_61_6e_6f_63_6c_61_77;

/// How long a step waits for a table that a transaction of another node uses. Meanwhile all others wait
/// behind the step, so it gives way soon and tries again.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);
/// How often it tries, and the pause in between.
const TRIES: usize = 60;
const PAUSE: Duration = Duration::from_millis(500);

/// The layout of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatabaseLayout {
    /// The newest step that was made; 0: none.
    pub(crate) newest: i32,
    /// The oldest layout whose builds can use it.
    pub(crate) oldest_usable: i32,
}

impl DatabaseLayout {
    /// Fails if this build cannot use it.
    pub(crate) fn check(self) -> Result<(), StoreError> {
        if self.oldest_usable <= NEWEST {
            return Ok(());
        }
        let Self { newest, oldest_usable } = self;
        Err(StoreError::Io(format!(
            "the database has layout {newest}, which needs a nanoclaw that knows layout {oldest_usable}; this one knows \
             layouts up to {NEWEST}: install the newer version"
        )))
    }
}

/// Makes the missing steps. Fails if a newer build has made some that this one cannot work with, or if a node
/// runs that cannot work with those of this build.
pub(crate) async fn migrate(client: &mut Client) -> Result<(), StoreError> {
    for _ in 1..TRIES {
        match try_migrate(client).await {
            Err(StoreError::Busy) => tokio::time::sleep(PAUSE).await,
            done => return done,
        }
    }
    try_migrate(client).await
}

async fn try_migrate(client: &mut Client) -> Result<(), StoreError> {
    // No statement is prepared: a pooler in transaction mode may be between.
    let session = SqlSession::begin(client, false, 0).await.map_err(|error| failed(&error))?;
    match make_steps(&session).await {
        Ok(()) => session.commit().await.map_err(|error| failed(&error)),
        Err(error) => {
            session.rollback().await;
            Err(error)
        }
    }
}

async fn make_steps(session: &SqlSession<'_>) -> Result<(), StoreError> {
    session.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    let timeout = LOCK_TIMEOUT.as_millis().to_string();
    session.execute("SELECT set_config('lock_timeout', $1, true)", &[&timeout]).await?;
    let made = "CREATE TABLE IF NOT EXISTS migrations (step integer PRIMARY KEY, version text NOT NULL, \
                made_at timestamptz NOT NULL DEFAULT now(), oldest_usable integer NOT NULL)";
    session.execute(made, &[]).await?;
    let stored = stored_layout(session).await?;
    stored.check()?;
    for (number, oldest_usable, statements) in STEPS.iter().filter(|(number, ..)| *number > stored.newest) {
        session.batch(statements).await?;
        let sql = "INSERT INTO migrations (step, version, oldest_usable) VALUES ($1, $2, $3)";
        session.send(sql, &[number, &env!("CARGO_PKG_VERSION"), oldest_usable]).await?;
    }
    session.settle().await?;
    refuse_older_nodes(session).await
}

/// Fails if a live node cannot work with the layout as it is now.
async fn refuse_older_nodes(session: &SqlSession<'_>) -> Result<(), StoreError> {
    let sql = "SELECT name, version, coalesce(layout, $1) FROM nodes WHERE lease_until > clock_timestamp() \
               AND coalesce(layout, $1) < (SELECT max(oldest_usable) FROM migrations) ORDER BY id LIMIT 1";
    let Some(node) = session.row(sql, &[&FIRST]).await? else { return Ok(()) };
    let (name, version, layout): (&str, &str, i32) = (node.column(0)?, node.column(1)?, node.column(2)?);
    Err(StoreError::Io(format!(
        "node '{name}' of version {version} runs and knows layouts up to {layout} only, which this version has left \
         behind: stop that node, or upgrade it one release after the other"
    )))
}

/// The layout of the database, if a node has made its tables.
pub(crate) async fn stored_layout(session: &SqlSession<'_>) -> Result<DatabaseLayout, StoreError> {
    let row = session.one(STORED_LAYOUT, &[]).await?;
    Ok(DatabaseLayout { newest: row.column(0)?, oldest_usable: row.column(1)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_leaves_the_database_usable_for_the_release_before() {
        assert!(STEPS.is_sorted_by(|one, next| one.0 < next.0 && one.1 <= next.1), "numbers rise");
        for (number, oldest_usable, _) in STEPS.iter().filter(|(number, ..)| *number > FIRST) {
            assert!(oldest_usable < number, "step {number} stops the nodes of the release before");
        }
    }

    #[test]
    fn a_layout_is_refused_only_if_it_needs_a_newer_build() {
        let check = |newest, oldest_usable| DatabaseLayout { newest, oldest_usable }.check();
        assert_eq!(check(NEWEST + 1, NEWEST), Ok(()));
        let refused = check(NEWEST + 2, NEWEST + 1).unwrap_err().to_string();
        assert!(refused.contains("install the newer version"), "{refused}");
    }
}
