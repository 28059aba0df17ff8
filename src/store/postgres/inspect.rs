//! Looks at a database without joining its nodes: for `nanoclaw doctor` and `nanoclaw nodes`.

use crate::ports::{BEACON_SETTING, Clock, ClusterView, StoreError};
use crate::store::postgres::cluster::read_view;
use crate::store::postgres::migrations::{DatabaseLayout, HAS_TABLES, NEWEST, stored_layout};
use crate::store::postgres::node::DATABASE_MS;
use crate::store::postgres::options::{COMMAND_CONNECTIONS, PostgresOptions};
use crate::store::postgres::pool::Connections;
use crate::store::postgres::pool_error::describe;
use crate::store::postgres::session::{Columns, SqlSession};
use crate::store::postgres::store::PostgresOpenError;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::IpAddr;
use std::time::Duration;
use tokio_postgres::AsyncMessage;
use tokio_postgres::config::{Config, Host};

/// The layout since which rows of nodes have what [`read_view`] reads.
const LAYOUT_OF_NODES: i32 = 11;
/// The port of a URL without one.
const DEFAULT_PORT: u16 = 5432;
/// How long a notification may take until it counts as lost.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(2);
/// The channel that notifications are tried on.
const CHANNEL: &str = "nanoclaw_doctor";

/// The settings of the server that decide about durability, connections and locks.
const SETTINGS: [&str; 10] = [
    "server_version",
    "server_version_num",
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "synchronous_standby_names",
    "max_connections",
    "superuser_reserved_connections",
    "idle_in_transaction_session_timeout",
    "default_transaction_isolation",
];

/// What protects connections to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionProtection {
    /// No TLS, and other machines are between.
    Nothing,
    /// No TLS, but the server is on this machine.
    SameMachine,
    /// TLS, but nobody checks the certificate.
    Encrypted,
    /// TLS, and the certificate is checked.
    Verified,
}

/// What a look at a database has found.
#[derive(Debug, Clone)]
pub struct DatabaseReport {
    /// Settings of the server, as new connections get them.
    pub settings: BTreeMap<String, String>,
    /// `sync_state` of each standby: `sync`, `quorum`, `potential`, `async`, or `unknown` to this user.
    pub standbys: Vec<String>,
    /// Whether the server is a standby itself, which takes no writes.
    pub is_standby: bool,
    /// Open connections of all clients of the server.
    pub connections: u64,
    /// Whether something may stand between, such as `PgBouncer`: the server has another port than the URL.
    pub has_proxy: bool,
    /// What protects connections.
    pub protection: ConnectionProtection,
    /// Time of a notification between two connections, milliseconds; `None`: it did not arrive.
    pub notification_ms: Option<u64>,
    /// Time of a statement, milliseconds.
    pub round_trip_ms: u64,
    /// The database's clock minus this machine's, milliseconds.
    pub clock_offset_ms: i64,
    /// Whether this user may make tables in the schema.
    pub may_create: bool,
    /// The layout of the tables; `None`: there are none yet.
    pub layout: Option<i32>,
    /// Why this build cannot use that layout.
    pub layout_fault: Option<String>,
    /// The newest layout that this build knows.
    pub known_layout: i32,
    /// The number of the directory that the nodes share, once a node has made its beacon.
    pub shared_dir_beacon: Option<String>,
    /// The nodes, if the layout tells of them.
    pub cluster: Option<ClusterView>,
}

/// Looks at the database. Blocks for some seconds.
pub fn inspect(options: &PostgresOptions, clock: &dyn Clock) -> Result<DatabaseReport, PostgresOpenError> {
    let connections = Connections::of_one_thread(options, COMMAND_CONNECTIONS)?;
    let report = connections.wait(async {
        let client = connections.pool.get().await.map_err(|error| StoreError::Io(describe(&error)))?;
        let mut report = report(&connections.session(&client), &connections.config, clock).await?;
        if report.protection == ConnectionProtection::Encrypted && connections.tls_mode.checks_certificate() {
            report.protection = ConnectionProtection::Verified;
        }
        report.notification_ms = notification_ms(&connections, &client, clock).await;
        Ok::<_, StoreError>(report)
    });
    report.map_err(|error| PostgresOpenError::Database(error.to_string()))
}

/// The nodes of the database; `None` if no node of this version or a later one has used it yet.
pub fn read_cluster(options: &PostgresOptions) -> Result<Option<ClusterView>, PostgresOpenError> {
    let connections = Connections::of_one_thread(options, COMMAND_CONNECTIONS)?;
    let view = connections.wait(async {
        let client = connections.pool.get().await.map_err(|error| StoreError::Io(describe(&error)))?;
        let session = connections.session(&client);
        view(&session, layout(&session).await?).await
    });
    view.map_err(|error| PostgresOpenError::Database(error.to_string()))
}

async fn layout(session: &SqlSession<'_>) -> Result<Option<DatabaseLayout>, StoreError> {
    let has_tables: bool = session.one(HAS_TABLES, &[]).await?.column(0)?;
    if has_tables { stored_layout(session).await.map(Some) } else { Ok(None) }
}

async fn view(
    session: &SqlSession<'_>,
    layout: Option<DatabaseLayout>,
) -> Result<Option<ClusterView>, StoreError> {
    let is_readable = layout.is_some_and(|layout| layout.newest >= LAYOUT_OF_NODES && layout.check().is_ok());
    if is_readable { read_view(session, None).await.map(Some) } else { Ok(None) }
}

async fn report(
    session: &SqlSession<'_>,
    config: &Config,
    clock: &dyn Clock,
) -> Result<DatabaseReport, StoreError> {
    let mut settings = BTreeMap::new();
    let sql = "SELECT name, coalesce(reset_val, setting) FROM pg_settings WHERE name = ANY ($1)";
    for row in session.rows(sql, &[&SETTINGS.as_slice()]).await? {
        settings.insert(row.column(0)?, row.column(1)?);
    }
    let sql = "SELECT coalesce(sync_state, 'unknown') FROM pg_stat_replication ORDER BY 1";
    let standbys = session.rows(sql, &[]).await?;
    let standbys = standbys.iter().map(|row| row.column(0)).collect::<Result<_, _>>()?;
    let sql = "SELECT pg_is_in_recovery(), (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), \
               inet_server_port(), coalesce(has_schema_privilege(current_schema(), 'CREATE'), false), \
               coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false)";
    let row = session.one(sql, &[]).await?;
    let layout = layout(session).await?;
    let cluster = view(session, layout).await?;
    let sql = "SELECT value FROM settings WHERE key = $1";
    let beacon = match layout {
        Some(_) => session.row(sql, &[&BEACON_SETTING]).await?,
        None => None,
    };
    let time = format!("SELECT {DATABASE_MS}");
    // Prepared first: the second time takes one round trip.
    session.one(&time, &[]).await?;
    let (began_us, own_ms) = (clock.monotonic_us(), clock.now_ms());
    let database_ms: i64 = session.one(&time, &[]).await?.column(0)?;
    let took_ms = clock.monotonic_us().saturating_sub(began_us) / 1_000;
    let middle_ms = i64::try_from(own_ms.saturating_add(took_ms / 2)).unwrap_or(i64::MAX);
    Ok(DatabaseReport {
        settings,
        standbys,
        is_standby: row.column(0)?,
        connections: row.number(1)?,
        has_proxy: has_proxy(config, row.column::<Option<i32>>(2)?),
        protection: if row.column(4)? {
            ConnectionProtection::Encrypted
        } else if is_remote(config) {
            ConnectionProtection::Nothing
        } else {
            ConnectionProtection::SameMachine
        },
        notification_ms: None,
        round_trip_ms: took_ms,
        clock_offset_ms: database_ms.saturating_sub(middle_ms),
        may_create: row.column(3)?,
        layout: layout.map(|layout| layout.newest),
        layout_fault: layout.and_then(|layout| layout.check().err()).map(|error| error.to_string()),
        known_layout: NEWEST,
        shared_dir_beacon: beacon.map(|row| row.column(0)).transpose()?,
        cluster,
    })
}

/// Whether the way to the server leaves this machine.
fn is_remote(config: &Config) -> bool {
    config.get_hosts().iter().any(|host| match host {
        Host::Tcp(name) => {
            name != "localhost" && !name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        Host::Unix(_) => false,
    })
}

/// Whether the server's own port is none of the URL. A server on a socket has none.
fn has_proxy(config: &Config, server_port: Option<i32>) -> bool {
    let is_tcp = config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(_)));
    let ports = if config.get_ports().is_empty() { &[DEFAULT_PORT] } else { config.get_ports() };
    match server_port {
        Some(server_port) => !is_tcp || !ports.iter().any(|port| i32::from(*port) == server_port),
        None => is_tcp,
    }
}

/// Sends a notification from `sender` to a connection that listens. A pool of transactions loses it.
async fn notification_ms(
    connections: &Connections,
    sender: &deadpool_postgres::Client,
    clock: &dyn Clock,
) -> Option<u64> {
    let (listener, mut connection) = connections.config.connect(connections.tls.clone()).await.ok()?;
    let send = async {
        listener.batch_execute(&format!("LISTEN {CHANNEL}")).await.ok()?;
        let began_us = clock.monotonic_us();
        sender.batch_execute(&format!("NOTIFY {CHANNEL}")).await.ok()?;
        Some(began_us)
    };
    let hear = async {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if matches!(message, AsyncMessage::Notification(_)) {
                return Some(clock.monotonic_us());
            }
        }
        None
    };
    let both = async { tokio::join!(send, hear) };
    let (began_us, heard_us) = tokio::time::timeout(NOTIFICATION_TIMEOUT, both).await.ok()?;
    Some(heard_us?.saturating_sub(began_us?) / 1_000)
}
