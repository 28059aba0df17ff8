//! A `PostgreSQL` server of this test process, on a socket in a temporary directory. It ends with the
//! process.

use super::file_tests;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long the server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// The port of the server that tests share: a part of the name of its socket.
const DEFAULT_PORT: u16 = 5432;

/// Lease of a server, seconds: short, so that one that starts again soon takes over from the one that a test
/// killed.
const LEASE_S: u64 = 4;

/// Whether the tests of stores run on `PostgreSQL`.
pub(crate) fn is_wanted() -> bool {
    is_pooled() || std::env::var("NANOCLAW_TEST_STORE").is_ok_and(|store| store == "postgres")
}

/// Whether they do so as behind a pooler in transaction mode.
pub(crate) fn is_pooled() -> bool {
    std::env::var("NANOCLAW_TEST_STORE").is_ok_and(|store| store == "pooled")
}

/// The server; `None`, with a message, where `PostgreSQL` is not installed.
pub(crate) fn server() -> Option<&'static DatabaseServer> {
    static SERVER: OnceLock<Option<DatabaseServer>> = OnceLock::new();
    SERVER.get_or_init(DatabaseServer::start).as_ref()
}

/// A schema of its own in the server; `None`, with a message, where `PostgreSQL` is not installed.
pub(crate) fn schema() -> Option<Schema> {
    server().map(DatabaseServer::schema)
}

/// The configuration of a server on this directory. Where the tests run on `PostgreSQL`, its store is a
/// schema of this directory, so that a server that starts again finds its jobs.
pub(crate) fn configured(dir: &Path, config: &str) -> String {
    let has_database = config.contains("store: {url");
    let Some(server) = server_of_test().filter(|_| !has_database) else { return config.to_owned() };
    let schema = schema_of(dir);
    server.sql(&format!("SET client_min_messages = error; CREATE SCHEMA IF NOT EXISTS {schema}"));
    let url = server.url(&schema);
    // Files of users stay where the tests look for them.
    let data = dir.join("data");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).unwrap();
    let data = data.display();
    let store = format!("url: \"{url}\", shared_dir: \"{data}\", lease_s: {LEASE_S}, node_name: {schema}");
    match config.split_once("store: {") {
        Some((before, after)) => format!("{before}store: {{{store}, {after}"),
        None => format!("{config}\nstore: {{{store}}}\n"),
    }
}

/// Removes the schema of a directory that is removed.
pub(crate) fn forget(dir: &Path) {
    if let Some(server) = server_of_test() {
        server.drop_schema(&schema_of(dir));
    }
}

/// All rows of the schema of this directory as text, if its store is there.
pub(crate) fn dump(dir: &Path) -> Option<Vec<u8>> {
    let server = server_of_test()?;
    let mut dump = Command::new(server.commands.join("pg_dump"));
    dump.args(["-U", "postgres", "--data-only", "-n", &schema_of(dir), "-h"]).arg(server.socket());
    let dumped = dump.arg("postgres").output().unwrap();
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    Some(dumped.stdout)
}

/// The server, if the store of this test's servers is in it.
fn server_of_test() -> Option<&'static DatabaseServer> {
    if is_wanted() && !file_tests::is_running() { server() } else { None }
}

fn schema_of(dir: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    dir.hash(&mut hasher);
    format!("dir_{:016x}", hasher.finish())
}

/// A running server.
pub(crate) struct DatabaseServer {
    socket: TempDir,
    commands: PathBuf,
    /// In the name of the socket, and of TCP if it listens there.
    port: u16,
}

impl DatabaseServer {
    fn start() -> Option<Self> {
        Self::start_with(DEFAULT_PORT, &["-c", "listen_addresses="], &[])
    }

    /// A server with TLS at `127.0.0.1:port`; its certificate and key are these texts.
    pub(crate) fn start_with_tls(port: u16, certificate: &str, key: &str) -> Option<Self> {
        let files = [("own.pem", certificate), ("own.key", key)];
        let ssl = ["-c", "ssl=on", "-c", "ssl_cert_file=own.pem", "-c", "ssl_key_file=own.key"];
        Self::start_with(port, &[&["-c", "listen_addresses=127.0.0.1"][..], &ssl].concat(), &files)
    }

    /// `files`: names in the data directory, and texts.
    fn start_with(port: u16, arguments: &[&str], files: &[(&str, &str)]) -> Option<Self> {
        let Some(commands) = commands() else {
            // Past the capture of test output, so that `scripts/test` lists it.
            let told = writeln!(
                std::io::stderr(),
                "SKIPPED: PostgreSQL is not installed (apt-get install postgresql)"
            );
            told.unwrap();
            return None;
        };
        let socket = TempDir::new().unwrap();
        let data = socket.path().join("data");
        let as_root = rustix_uid() == 0;
        if as_root {
            // PostgreSQL refuses to run as root.
            std::fs::set_permissions(socket.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
            let (user, group) = owner_of_postgres()?;
            chown(socket.path(), Some(user), Some(group)).unwrap();
        }
        let made = as_postgres(as_root, &commands.join("initdb"))
            .args(["--auth=trust", "--username=postgres", "--no-sync", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        for (name, text) in files {
            let path = data.join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            if as_root {
                let (user, group) = owner_of_postgres()?;
                chown(&path, Some(user), Some(group)).unwrap();
            }
        }
        let log = std::fs::File::create(socket.path().join("log")).unwrap();
        let mut server = as_postgres(as_root, &commands.join("postgres"));
        server
            .arg("-D")
            .arg(&data)
            .args(arguments)
            .args(["-c", "fsync=off", "-c", "max_connections=500", "-p", &port.to_string()])
            .args(["-c", "max_locks_per_transaction=1024", "-k"])
            .arg(socket.path())
            .stdout(Stdio::null())
            .stderr(log);
        // It ends with the thread that starts it, so that thread waits for it.
        std::thread::spawn(move || {
            drop(server.spawn().unwrap().wait());
        });
        let server = Self { socket, commands, port };
        let began = Instant::now();
        while server.try_sql("SELECT 1").is_err() {
            assert!(began.elapsed() < PATIENCE, "PostgreSQL does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(server)
    }

    /// The directory of its socket.
    pub(crate) fn socket(&self) -> &Path {
        self.socket.path()
    }

    /// The output of statements.
    pub(crate) fn sql(&self, statements: &str) -> String {
        self.try_sql(statements).unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    /// The output of statements in another database of the server.
    pub(crate) fn sql_in(&self, database: &str, statements: &str) -> String {
        self.run_sql(database, statements).unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    fn try_sql(&self, statements: &str) -> Result<String, String> {
        self.run_sql("postgres", statements)
    }

    fn run_sql(&self, database: &str, statements: &str) -> Result<String, String> {
        let ran = Command::new(self.commands.join("psql"))
            .args(["-U", "postgres", "-qAt", "-v", "ON_ERROR_STOP=1", "-c", statements, "-h"])
            .arg(self.socket.path())
            .args(["-p", &self.port.to_string(), database])
            .output()
            .map_err(|error| error.to_string())?;
        if ran.status.success() {
            Ok(String::from_utf8_lossy(&ran.stdout).trim().to_owned())
        } else {
            Err(String::from_utf8_lossy(&ran.stderr).into_owned())
        }
    }

    /// The URL of a store in this schema.
    fn url(&self, schema: &str) -> String {
        let socket = self.socket().display();
        format!("host={socket} user=postgres dbname=postgres options='-csearch_path={schema}'")
    }

    fn drop_schema(&self, name: &str) {
        let sql = format!("SET client_min_messages = error; DROP SCHEMA IF EXISTS {name} CASCADE");
        drop(self.try_sql(&sql));
    }

    fn schema(&'static self) -> Schema {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("test_{}", COUNT.fetch_add(1, Ordering::SeqCst));
        self.sql(&format!("CREATE SCHEMA {name}"));
        Schema { server: self, name }
    }
}

/// A schema that is dropped with this.
pub(crate) struct Schema {
    server: &'static DatabaseServer,
    name: String,
}

impl Schema {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The directory of its server's socket.
    pub(crate) fn socket(&self) -> &Path {
        self.server.socket()
    }

    /// The URL of a store in this schema.
    pub(crate) fn url(&self) -> String {
        self.server.url(&self.name)
    }

    /// The output of statements in this schema.
    pub(crate) fn sql(&self, statements: &str) -> String {
        self.server.sql(&format!("SET search_path = {}; {statements}", self.name))
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        self.server.drop_schema(&self.name);
    }
}

/// The newest installed version's commands.
fn commands() -> Option<PathBuf> {
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin"))
        .filter(|commands| commands.join("postgres").exists())
        .collect();
    versions.sort();
    versions.pop()
}

/// A command that ends with this process, as the user of `PostgreSQL` where this one is root.
pub(crate) fn as_postgres(as_root: bool, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    if as_root {
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    }
    command.arg("--pdeathsig=QUIT").arg(program);
    command
}

fn owner_of_postgres() -> Option<(u32, u32)> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let fields: Vec<&str> = users.lines().find(|line| line.starts_with("postgres:"))?.split(':').collect();
    Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
}

pub(crate) fn rustix_uid() -> u32 {
    std::fs::metadata("/proc/self").map_or(0, |own| own.uid())
}
