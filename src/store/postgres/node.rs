//! The lease of this node. It says that the node lives, and so holds all its jobs: a node whose lease has
//! ended loses them to the others, and its late writes are refused.

use crate::domain::id::JobId;
use crate::ports::StoreError;
use crate::store::postgres::session::{Columns, SqlSession, sql_number};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

/// The time of the database, unix milliseconds.
pub(crate) const DATABASE_MS: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// The row of node `$1` while its lease lasts.
pub(crate) const HELD: &str =
    "SELECT id FROM nodes WHERE id = $1 AND lease_until > clock_timestamp() FOR KEY SHARE";

/// The lease of this node.
#[derive(Debug, Default)]
pub(crate) struct NodeLease {
    id: AtomicI64,
    is_lost: AtomicBool,
}

/// What a heartbeat found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Heartbeat {
    /// Whether this node still has its lease.
    pub(crate) is_alive: bool,
    /// The time of the database, unix milliseconds.
    pub(crate) database_ms: u64,
    /// Nodes whose leases have ended.
    pub(crate) ended: Vec<i64>,
    /// Jobs of this node whose cancellation was requested: a notification may be lost, or come early.
    pub(crate) cancelled: Vec<JobId>,
}

impl NodeLease {
    /// The number of this node; a node that has lost its lease comes back with another one.
    pub(crate) fn id(&self) -> i64 {
        self.id.load(Ordering::SeqCst)
    }

    /// Whether the lease is lost since the node was registered.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::SeqCst)
    }

    /// The lease is lost.
    pub(crate) fn lose(&self) {
        self.is_lost.store(true, Ordering::SeqCst);
    }

    /// Begins a lease under a new number. Returns the time of the database, unix milliseconds.
    pub(crate) async fn register(
        &self,
        session: &SqlSession<'_>,
        name: &str,
        lease: Duration,
    ) -> Result<u64, StoreError> {
        let sql = format!(
            "INSERT INTO nodes (id, name, version, lease_until) \
             VALUES (nextval('node_ids'), $1, $2, clock_timestamp() + $3::bigint * interval '1 millisecond') \
             RETURNING id, {DATABASE_MS}"
        );
        let lease_ms = sql_number(lease.as_millis());
        let row = session.one(&sql, &[&name, &env!("CARGO_PKG_VERSION"), &lease_ms]).await?;
        self.id.store(row.column(0)?, Ordering::SeqCst);
        self.is_lost.store(false, Ordering::SeqCst);
        row.number(1)
    }

    /// Renews the lease and looks for nodes whose leases have ended.
    pub(crate) async fn beat(
        &self,
        session: &SqlSession<'_>,
        lease: Duration,
    ) -> Result<Heartbeat, StoreError> {
        let sql = format!(
            "WITH own AS (UPDATE nodes SET lease_until = clock_timestamp() + $2::bigint * interval '1 millisecond' \
             WHERE id = $1 AND lease_until > clock_timestamp() RETURNING id) \
             SELECT EXISTS (SELECT FROM own), {DATABASE_MS}, \
             coalesce((SELECT array_agg(id) FROM nodes WHERE lease_until < clock_timestamp() AND id <> $1), '{{}}'), \
             coalesce((SELECT array_agg(id) FROM jobs WHERE status = 'running' AND lease_node = $1 \
             AND cancel_requested), '{{}}')"
        );
        let row = session.one(&sql, &[&self.id(), &sql_number(lease.as_millis())]).await?;
        let cancelled: Vec<&str> = row.column(3)?;
        let cancelled = cancelled.iter().filter_map(|job| job.parse().ok()).collect();
        let (is_alive, database_ms) = (row.column(0)?, row.number(1)?);
        Ok(Heartbeat { is_alive, database_ms, ended: row.column(2)?, cancelled })
    }

    /// Fails if the lease has ended: the check of every transaction that writes under a lease of a job. The
    /// row is locked against the node that takes over, not against heartbeats.
    pub(crate) async fn check(&self, session: &SqlSession<'_>) -> Result<(), StoreError> {
        let is_held = session.row(HELD, &[&self.id()]).await?.is_some();
        self.noted(is_held)
    }

    /// The outcome of a check.
    pub(crate) fn noted(&self, is_held: bool) -> Result<(), StoreError> {
        if is_held {
            return Ok(());
        }
        self.lose();
        Err(StoreError::Unreachable)
    }

    /// Ends the lease of this node at its shutdown. Jobs that it still runs are left to the others.
    pub(crate) async fn unregister(&self, session: &SqlSession<'_>) -> Result<(), StoreError> {
        let sql = "WITH held AS (SELECT EXISTS (SELECT FROM jobs WHERE status = 'running' AND lease_node = $1) AS jobs), \
                   gone AS (DELETE FROM nodes WHERE id = $1 AND NOT (SELECT jobs FROM held)) \
                   UPDATE nodes SET lease_until = clock_timestamp() - interval '1 millisecond' \
                   WHERE id = $1 AND (SELECT jobs FROM held)";
        session.execute(sql, &[&self.id()]).await?;
        Ok(())
    }
}
