//! A `PostgreSQL` server of this test process, on a socket in a temporary directory. It ends with the
//! process.

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

/// Whether the tests of stores run on `PostgreSQL`.
pub(crate) fn is_wanted() -> bool {
    std::env::var("NANOCLAW_TEST_STORE").is_ok_and(|store| store == "postgres")
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

/// A running server.
pub(crate) struct DatabaseServer {
    socket: TempDir,
    commands: PathBuf,
}

impl DatabaseServer {
    fn start() -> Option<Self> {
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
        let log = std::fs::File::create(socket.path().join("log")).unwrap();
        let mut server = as_postgres(as_root, &commands.join("postgres"));
        server
            .arg("-D")
            .arg(&data)
            .args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=500"])
            .args(["-c", "max_locks_per_transaction=1024", "-k"])
            .arg(socket.path())
            .stdout(Stdio::null())
            .stderr(log);
        // It ends with the thread that starts it, so that thread waits for it.
        std::thread::spawn(move || {
            drop(server.spawn().unwrap().wait());
        });
        let server = Self { socket, commands };
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

    fn try_sql(&self, statements: &str) -> Result<String, String> {
        let ran = Command::new(self.commands.join("psql"))
            .args(["-U", "postgres", "-qAt", "-v", "ON_ERROR_STOP=1", "-c", statements, "-h"])
            .arg(self.socket.path())
            .arg("postgres")
            .output()
            .map_err(|error| error.to_string())?;
        if ran.status.success() {
            Ok(String::from_utf8_lossy(&ran.stdout).trim().to_owned())
        } else {
            Err(String::from_utf8_lossy(&ran.stderr).into_owned())
        }
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

    /// The URL of a store in this schema.
    pub(crate) fn url(&self) -> String {
        let socket = self.server.socket().display();
        format!("host={socket} user=postgres dbname=postgres options='-csearch_path={}'", self.name)
    }

    /// The output of statements in this schema.
    pub(crate) fn sql(&self, statements: &str) -> String {
        self.server.sql(&format!("SET search_path = {}; {statements}", self.name))
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let name = &self.name;
        drop(self.server.try_sql(&format!("SET client_min_messages = error; DROP SCHEMA {name} CASCADE")));
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
fn as_postgres(as_root: bool, program: &Path) -> Command {
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

fn rustix_uid() -> u32 {
    std::fs::metadata("/proc/self").map_or(0, |own| own.uid())
}
