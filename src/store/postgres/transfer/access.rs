//! Access to a database without being one of its nodes.

use crate::domain::secret::Secret;
use crate::ports::StoreError;
use crate::store::postgres::migrations::{DatabaseLayout, HAS_TABLES, NEWEST, STORED_LAYOUT};
use crate::store::postgres::options::{COMMAND_CONNECTIONS, PostgresOptions};
use crate::store::postgres::pool::Connections;
use crate::store::postgres::pool_error::PoolError;
use crate::store::postgres::pool_error::describe;
use crate::store::postgres::session::failed;
use deadpool_postgres::{ClientWrapper, Object};
use std::time::Duration;

/// Why a database cannot be read or filled.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The URL is wrong, or the system refuses threads.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The database cannot be reached, or refuses the user.
    #[error("cannot connect to the database: {0}")]
    Unreachable(String),
    /// It has no tables of ours.
    #[error("the database has no NanoClaw store")]
    NoStore,
    /// Another version has made the tables.
    #[error("the tables of the database have layout {found}, and this build needs layout {known}")]
    Layout {
        /// The newest step of the database.
        found: i32,
        /// The newest step of this build.
        known: i32,
    },
    /// Servers use it.
    #[error("servers use the database: {}", .0.join(", "))]
    InUse(Vec<String>),
    /// A server has used it since the migration began.
    #[error("a server has started on the database since the migration began")]
    Used,
    /// It has rows that the migration has not written.
    #[error("the database is not empty: it has rows in '{table}'")]
    NotEmpty {
        /// One of the tables.
        table: &'static str,
    },
    /// Another migration is not finished.
    #[error("the database holds a part of another migration ({found}), or its source has changed since")]
    OtherMigration {
        /// Its source.
        found: String,
    },
    /// A statement failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DatabaseError {
    /// What to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Pool(_) => "write it as postgres://USER:PASSWORD@HOST:PORT/DATABASE",
            Self::Unreachable(_) => "is it running, and do user, password and database exist?",
            Self::NoStore => "name the database (and its schema) that the servers use, as in store.url",
            Self::Layout { .. } => {
                "use the version of nanoclaw that its servers run, or start a server of this one"
            }
            Self::InUse(_) => "stop them first; one that was killed is forgotten after store.lease_s (15 s)",
            Self::Used => "stop it, and run the command again",
            Self::NotEmpty { .. } => {
                "create an empty database, or an empty schema (options=-csearch_path=NAME)"
            }
            Self::OtherMigration { .. } => "create an empty database, and begin again",
            Self::Store(StoreError::Corrupt(_)) => "nanoclaw check names all unreadable rows",
            Self::Store(_) => "run the same command again: it continues where it stopped",
        }
    }
}

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Store(failed(&error))
    }
}

/// How to connect for one command.
pub(crate) fn connections(url: &Secret) -> Result<Connections, PoolError> {
    let options = PostgresOptions {
        url: url.clone(),
        node_name: "migration".to_owned(),
        lease: Duration::ZERO,
        connections: COMMAND_CONNECTIONS,
        uses_database_time: true,
        is_pooled: false,
        audit_entries: 0,
    };
    Connections::of_one_thread(&options, COMMAND_CONNECTIONS)
}

/// Settings of a transaction that may take long. They end with it, and no statement here is prepared: a
/// pooler in transaction mode may run the next one on another connection.
pub(crate) const LONG: &str = "SET LOCAL statement_timeout = 0; \
    SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL bytea_output = hex";

/// A connection that ends when it is dropped, with its transaction.
pub(crate) async fn connect(connections: &Connections) -> Result<ClientWrapper, DatabaseError> {
    let client = connections.pool.get().await;
    let client = client.map_err(|error| DatabaseError::Unreachable(describe(&error)))?;
    Ok(Object::take(client))
}

/// The layout of the tables; `None`: there are no tables.
pub(crate) async fn layout(client: &ClientWrapper) -> Result<Option<DatabaseLayout>, DatabaseError> {
    if !client.query_typed_one(HAS_TABLES, &[]).await?.get::<_, bool>(0) {
        return Ok(None);
    }
    let row = client.query_typed_one(STORED_LAYOUT, &[]).await?;
    Ok(Some(DatabaseLayout { newest: row.get(0), oldest_usable: row.get(1) }))
}

/// What a command does with the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayoutUse {
    /// It reads them. A newer layout may name this build as able to work with it, as for a node.
    Read,
    /// It copies all of them, so it has to know each table and column.
    Copy,
}

/// Fails unless this build has made the newest tables, or may use them.
pub(crate) async fn require_layout(
    client: &ClientWrapper,
    layout_use: LayoutUse,
) -> Result<(), DatabaseError> {
    let Some(found) = layout(client).await? else { return Err(DatabaseError::NoStore) };
    let is_usable = match layout_use {
        LayoutUse::Copy => found.newest == NEWEST,
        LayoutUse::Read => found.newest >= NEWEST && found.check().is_ok(),
    };
    if is_usable { Ok(()) } else { Err(DatabaseError::Layout { found: found.newest, known: NEWEST }) }
}

/// Fails if nodes have leases.
pub(crate) async fn refuse_nodes(client: &ClientWrapper) -> Result<(), DatabaseError> {
    let sql = "SELECT name FROM nodes WHERE lease_until > clock_timestamp() ORDER BY id";
    let nodes: Vec<String> = client.query_typed(sql, &[]).await?.iter().map(|row| row.get(0)).collect();
    if nodes.is_empty() { Ok(()) } else { Err(DatabaseError::InUse(nodes)) }
}

/// Rises with each start of a node.
pub(crate) async fn newest_node(client: &ClientWrapper) -> Result<i64, DatabaseError> {
    let sql = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM node_ids";
    Ok(client.query_typed_one(sql, &[]).await?.get(0))
}
