//! Connections to the database: a small pool, TLS as the URL asks for it, and the runtime that drives them.

use crate::ports::StoreError;
use crate::store::postgres::options::PostgresOptions;
use crate::store::postgres::pool_error::PoolError;
use crate::store::postgres::session::{SqlFault, SqlSession};
use crate::store::postgres::tls::TlsMode;
use crate::store::postgres::url::DatabaseUrl;
use deadpool_postgres::{
    Client, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime as PoolRuntime, Timeouts,
};
use std::future::Future;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;

/// How long a new connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Each statement of a node reads a few rows by an index. Its plan is kept, often since the tables were
/// empty, when reading a whole table looks just as cheap: until the database has counted the rows, a minute
/// later, such a plan would read all jobs for each job. For the same reason statements say `user_id IS NOT
/// DISTINCT FROM` beside the key of a row: the database cannot use that for an index on users.
const PLANS: &str = "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c jit=off";

/// A pool and the runtime that drives its connections.
pub(crate) struct Connections {
    pub(crate) pool: Pool,
    /// For connections outside the pool.
    pub(crate) config: Config,
    pub(crate) tls: MakeRustlsConnect,
    /// How much connections trust the server.
    pub(crate) tls_mode: TlsMode,
    /// Whether a connection keeps prepared statements.
    is_prepared: bool,
    // Dropped last: it drives the connections.
    runtime: Runtime,
}

impl Connections {
    /// Prepares connections for any thread; makes none yet.
    pub(crate) fn shared(options: &PostgresOptions) -> Result<Self, PoolError> {
        let mut runtime = Builder::new_multi_thread();
        runtime.worker_threads(1).thread_name("store-io");
        Self::new(options, options.connections.max(2), &mut runtime)
    }

    /// Prepares up to `max` connections for one thread, which drives them itself: no other thread has to wake
    /// for a reply.
    pub(crate) fn of_one_thread(options: &PostgresOptions, max: usize) -> Result<Self, PoolError> {
        Self::new(options, max, &mut Builder::new_current_thread())
    }

    fn new(options: &PostgresOptions, max: usize, runtime: &mut Builder) -> Result<Self, PoolError> {
        let DatabaseUrl { mut config, tls, tls_mode } = DatabaseUrl::parse(options.url.reveal())?;
        config.connect_timeout(CONNECT_TIMEOUT);
        serve_node(&mut config, options);
        if config.get_application_name().is_none() {
            config.application_name(format!("nanoclaw {}", options.node_name));
        }
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let pool = Pool::builder(Manager::from_config(config.clone(), tls.clone(), manager))
            .max_size(max)
            .runtime(PoolRuntime::Tokio1)
            .timeouts(timeouts(&config))
            .build()
            .map_err(|error| PoolError::Url(error.to_string()))?;
        let runtime = runtime.enable_all().build().map_err(PoolError::Threads)?;
        Ok(Self { pool, config, tls, tls_mode, is_prepared: !options.is_pooled, runtime })
    }

    /// Blocks until the future has ended. For threads that may block, and for tasks of a runtime with several
    /// threads.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        match Handle::try_current().map(|current| current.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(|| self.runtime.block_on(future)),
            _ => self.runtime.block_on(future),
        }
    }

    /// Statements of their own on this connection.
    pub(crate) fn session<'c>(&self, client: &'c Client) -> SqlSession<'c> {
        SqlSession::of_client(client, self.is_prepared)
    }

    /// Runs `reader` with a connection of its own, and once more if that connection was lost: the database
    /// may have started again meanwhile.
    pub(crate) async fn read<T>(
        &self,
        reader: impl AsyncFn(&SqlSession<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut has_tried = false;
        loop {
            let client = self.client().await?;
            let session = self.session(&client);
            let found = reader(&session).await;
            if found.is_ok() || has_tried || session.fault() != Some(SqlFault::Connection) {
                return found;
            }
            has_tried = true;
        }
    }

    /// The same with a limit of its time. A connection that has not answered by then is closed: the next
    /// reader would wait behind its reply. Blocks.
    pub(crate) fn read_within<T>(
        &self,
        limit: Duration,
        reader: impl AsyncFn(&SqlSession<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.wait(async {
            let found = tokio::time::timeout(limit, self.read(reader)).await;
            found.unwrap_or_else(|_| {
                self.close_idle();
                Err(StoreError::Unreachable)
            })
        })
    }

    /// Closes the connections that nobody uses: an answer that nobody waits for any more may still come.
    pub(crate) fn close_idle(&self) {
        self.pool.retain(|_, _| false);
    }

    async fn client(&self) -> Result<Client, StoreError> {
        self.pool.get().await.map_err(|error| {
            tracing::debug!(%error, "no connection to the database");
            StoreError::Unreachable
        })
    }

    /// A transaction on this connection: see [`SqlSession::begin`].
    pub(crate) async fn begin<'c>(
        &self,
        client: &'c Client,
        lock_timeout_ms: u64,
    ) -> Result<SqlSession<'c>, tokio_postgres::Error> {
        SqlSession::begin(client, self.is_prepared, lock_timeout_ms).await
    }

    /// The runtime of the connections.
    pub(crate) fn handle(&self) -> &Handle {
        self.runtime.handle()
    }
}

/// How long a thread waits for a connection. A server that accepts one and then says nothing is no database.
fn timeouts(config: &Config) -> Timeouts {
    let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(1);
    let create = CONNECT_TIMEOUT.saturating_mul(hosts.saturating_add(1));
    Timeouts { wait: Some(CONNECT_TIMEOUT), create: Some(create), recycle: Some(CONNECT_TIMEOUT) }
}

/// Settings of a node's connections; a command has no lease and keeps the defaults. A network that delivers
/// nothing ends connections within the lease. A transaction of a node that has stopped ends before its lease
/// does: until then it keeps locks that the others need.
fn serve_node(config: &mut Config, options: &PostgresOptions) {
    if options.lease.is_zero() {
        return;
    }
    let third = options.lease / 3;
    config.tcp_user_timeout(options.lease);
    config.keepalives_idle(third).keepalives_interval(third).keepalives_retries(2);
    if options.is_pooled {
        // Parameters of the session are the pooler's.
        return;
    }
    let idle_ms = third.saturating_mul(2).as_millis();
    let (lease_ms, third_s) = (options.lease.as_millis(), third.as_secs().max(1));
    // The server's side of the connection, too: a transaction that cannot send its replies keeps its locks.
    let ours = format!(
        "{PLANS} -c idle_in_transaction_session_timeout={idle_ms} -c tcp_user_timeout={lease_ms} \
         -c tcp_keepalives_idle={third_s} -c tcp_keepalives_interval={third_s} -c tcp_keepalives_count=2"
    );
    // Options of the URL come last: they win.
    let all = config.get_options().map_or_else(|| ours.clone(), |given| format!("{ours} {given}"));
    config.options(all);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::secret::Secret;

    fn options(lease_s: u64) -> PostgresOptions {
        PostgresOptions {
            url: Secret::from("postgres://one,two/nanoclaw".to_owned()),
            node_name: "n".to_owned(),
            lease: Duration::from_secs(lease_s),
            is_pooled: false,
            connections: 2,
            audit_entries: 0,
            uses_database_time: true,
        }
    }

    #[test]
    fn p8_a_network_that_delivers_nothing_ends_the_connections_of_a_node_within_its_lease() {
        let node = Connections::of_one_thread(&options(15), 1).unwrap();
        let config = &node.config;
        assert_eq!(config.get_tcp_user_timeout(), Some(&Duration::from_secs(15)), "while something is sent");
        let silent = config.get_keepalives_idle()
            + config.get_keepalives_interval().unwrap() * config.get_keepalives_retries().unwrap();
        assert!(config.get_keepalives() && silent <= Duration::from_secs(15), "while it only waits");
        let Timeouts { wait, create, recycle } = timeouts(config);
        assert_eq!((wait, create), (Some(CONNECT_TIMEOUT), Some(CONNECT_TIMEOUT * 3)), "two hosts");
        assert!(recycle.is_some());
        let command = Connections::of_one_thread(&options(0), 1).unwrap();
        assert_eq!(command.config.get_tcp_user_timeout(), None);
    }
}
