//! The lease of this node. It says that the node lives, and so holds all its jobs: a node whose lease has
//! ended loses them to the others, and its late writes are refused.

use crate::domain::id::JobId;
use crate::ports::{CatalogueDigests, ClusterNode, NodeShare, StoreError};
use crate::store::postgres::migrations::{DatabaseLayout, FIRST, NEWEST, stored_layout};
use crate::store::postgres::options::PostgresOptions;
use crate::store::postgres::session::{Columns, Params, SqlSession, read_document, sql_number};
use crate::store::postgres::writer::commit_marks::LANES;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

/// The time of the database, unix milliseconds.
pub(crate) const DATABASE_MS: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// The name of pauses that providers asked for in the table `windows`.
pub(crate) const PAUSE: &str = "provider pause";

/// The row of node `$1` while its lease lasts.
pub(crate) const HELD: &str =
    "SELECT id FROM nodes WHERE id = $1 AND lease_until > clock_timestamp() FOR KEY SHARE";

/// A statement that selects all nodes as one document, a list of [`ClusterNode`]. `jobs` counts those of a
/// node.
fn nodes(jobs: &str) -> String {
    let rest = "extract(epoch FROM lease_until - clock_timestamp()) * 1000";
    format!(
        "SELECT coalesce(json_agg(n ORDER BY id), '[]')::text FROM (SELECT id, name, version, \
         coalesce(layout, {FIRST}) AS layout, (extract(epoch FROM started_at) * 1000)::bigint AS started_at_ms, \
         CASE WHEN lease_ms IS NOT NULL THEN greatest(lease_ms - ({rest}), 0)::bigint END AS beat_age_ms, \
         greatest(ceil({rest}), 0)::bigint AS lease_ms, \
         connections, ({jobs}) AS jobs, tools, models FROM nodes) AS n"
    )
}

/// All nodes and their jobs.
pub(crate) async fn read_nodes(session: &SqlSession<'_>) -> Result<Vec<ClusterNode>, StoreError> {
    let jobs = "SELECT count(*) FROM jobs WHERE status = 'running' AND lease_node = nodes.id";
    read_document(session.one(&nodes(jobs), &[]).await?.column(0)?)
}

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
    /// All nodes, without their jobs.
    pub(crate) nodes: Vec<ClusterNode>,
    /// The layout of the database.
    pub(crate) layout: DatabaseLayout,
    /// Jobs of this node whose cancellation was requested: a notification may be lost, or come early.
    pub(crate) cancelled: Vec<JobId>,
    /// This node among the live ones.
    pub(crate) share: NodeShare,
    /// Rests of the pauses that providers asked for, milliseconds.
    pub(crate) pauses: BTreeMap<String, u64>,
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
        database: &PostgresOptions,
    ) -> Result<u64, StoreError> {
        let sql = format!(
            "WITH node AS (INSERT INTO nodes (id, name, version, layout, connections, lease_ms, lease_until) \
             SELECT nextval('node_ids'), $1::text, $2::text, $3::integer, $4::bigint, $5::bigint, \
             clock_timestamp() + $5::bigint * interval '1 millisecond' \
             WHERE NOT EXISTS (SELECT FROM migrations WHERE oldest_usable > $3::integer) RETURNING id), \
             marked AS (INSERT INTO commit_marks SELECT id, generate_series(0, {LANES} - 1), 0 FROM node) \
             SELECT id, {DATABASE_MS} FROM node"
        );
        let connections = sql_number(database.all_connections());
        let (name, lease_ms) = (&database.node_name, sql_number(database.lease.as_millis()));
        let params: Params<'_> = &[name, &env!("CARGO_PKG_VERSION"), &NEWEST, &connections, &lease_ms];
        let Some(row) = session.row(&sql, params).await? else {
            stored_layout(session).await?.check()?;
            return Err(StoreError::Busy);
        };
        self.id.store(row.column(0)?, Ordering::SeqCst);
        self.is_lost.store(false, Ordering::SeqCst);
        row.number(1)
    }

    /// Renews the lease and looks at the other nodes.
    pub(crate) async fn beat(
        &self,
        session: &SqlSession<'_>,
        lease: Duration,
    ) -> Result<Heartbeat, StoreError> {
        let sql = format!(
            "WITH own AS (UPDATE nodes SET lease_until = clock_timestamp() + $2::bigint * interval '1 millisecond' \
             WHERE id = $1 AND lease_until > clock_timestamp() RETURNING id) \
             SELECT EXISTS (SELECT FROM own), {DATABASE_MS}, ({}), \
             coalesce((SELECT array_agg(id) FROM jobs WHERE status = 'running' AND lease_node = $1 \
             AND cancel_requested), '{{}}'), \
             (SELECT max(step) FROM migrations), (SELECT max(oldest_usable) FROM migrations), \
             (SELECT json_object_agg(owner, until_ms - {DATABASE_MS})::text FROM windows \
             WHERE name = $3 AND until_ms > {DATABASE_MS})",
            nodes("0")
        );
        let row = session.one(&sql, &[&self.id(), &sql_number(lease.as_millis()), &PAUSE]).await?;
        let cancelled: Vec<&str> = row.column(3)?;
        let cancelled = cancelled.iter().filter_map(|job| job.parse().ok()).collect();
        let (is_alive, database_ms) = (row.column(0)?, row.number(1)?);
        let layout = DatabaseLayout { newest: row.column(4)?, oldest_usable: row.column(5)? };
        let nodes: Vec<ClusterNode> = read_document(row.column(2)?)?;
        let pauses: Option<&str> = row.column(6)?;
        let pauses = pauses.map(read_document::<BTreeMap<String, i64>>).transpose()?.unwrap_or_default();
        // One may have ended while the statement ran.
        let rest = |(account, rest): (String, i64)| Some((account, u64::try_from(rest).ok()?));
        let pauses = pauses.into_iter().filter_map(rest).collect();
        let share = self.share(&nodes);
        Ok(Heartbeat { is_alive, database_ms, nodes, layout, cancelled, share, pauses })
    }

    /// This node among the live ones.
    fn share(&self, nodes: &[ClusterNode]) -> NodeShare {
        let live = || nodes.iter().filter(|node| node.is_live()).map(|node| node.id);
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        NodeShare { nodes: count(live().count()), rank: count(live().filter(|id| *id < self.id()).count()) }
    }

    /// Stores the digests of what jobs may use on this node.
    pub(crate) async fn publish(
        &self,
        session: &SqlSession<'_>,
        catalogue: &CatalogueDigests,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE nodes SET tools = $2, models = $3 WHERE id = $1";
        session.execute(sql, &[&self.id(), &catalogue.tools, &catalogue.models]).await?;
        Ok(())
    }

    /// Fails if the lease has ended: the check of every transaction that writes under a lease of a job. The
    /// row is locked against the node that takes over, not against heartbeats. `node` is the number under
    /// which the transaction began: a node that has lost its lease meanwhile may have a new one.
    pub(crate) async fn check(&self, session: &SqlSession<'_>, node: i64) -> Result<(), StoreError> {
        let is_held = session.row(HELD, &[&node]).await?.is_some();
        self.noted(node, is_held)
    }

    /// The outcome of a check.
    pub(crate) fn noted(&self, node: i64, is_held: bool) -> Result<(), StoreError> {
        if is_held {
            return Ok(());
        }
        if node == self.id() {
            self.lose();
        }
        Err(StoreError::Unreachable)
    }

    /// Whether this node has held its lease under this number all the time.
    pub(crate) fn is_held_as(&self, node: i64) -> bool {
        !self.is_lost() && self.id() == node
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
