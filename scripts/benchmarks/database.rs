//! A `PostgreSQL` server with its default settings, so with fsync, and its data on the disk of the stores.

use crate::process::ChildProcess;
use crate::server::scratch_directory;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::cell::Cell;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time that the server has to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// The user that runs it, as whom each client connects.
const USER: &str = "postgres";

/// A running server.
pub(crate) struct DatabaseServer {
    /// The directory of its programs.
    programs: PathBuf,
    process: ChildProcess,
    /// The directory of its socket. The path of a socket must be short.
    socket: TempDir,
    _data: TempDir,
    databases: Cell<usize>,
}

impl DatabaseServer {
    /// Starts it with these settings beside the default ones. An error is the reason to skip its figures.
    pub(crate) fn start(settings: &[&str]) -> Result<Self, String> {
        let programs = programs().ok_or("PostgreSQL is not installed (apt-get install postgresql)")?;
        let data = tempfile::tempdir_in(scratch_directory()).expect("a directory");
        let socket = tempfile::tempdir().expect("a directory");
        if geteuid().is_root() {
            let (user, group) = user_and_group().ok_or("this machine has no user postgres")?;
            for directory in [&data, &socket] {
                let permissions = std::fs::Permissions::from_mode(0o755);
                std::fs::set_permissions(directory.path(), permissions).expect("permissions");
                chown(directory.path(), Some(user), Some(group)).expect("an owner");
            }
        }
        let files = data.path().canonicalize().expect("a path").join("files");
        let initdb = as_postgres(&programs.join("initdb"))
            .args(["--auth=trust", "--username", USER, "-D"])
            .arg(&files)
            .output()
            .map_err(|error| format!("initdb does not start: {error}"))?;
        if !initdb.status.success() {
            return Err(format!("initdb failed: {}", String::from_utf8_lossy(&initdb.stderr).trim()));
        }
        let mut command = as_postgres(&programs.join("postgres"));
        command.arg("-D").arg(&files).args(["-c", "listen_addresses=", "-k"]).arg(socket.path());
        command.args(settings.iter().flat_map(|setting| ["-c", setting]));
        let process = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("PostgreSQL does not start: {error}"))?;
        let process = ChildProcess(process);
        let server = Self { programs, process, socket, _data: data, databases: Cell::new(0) };
        let began = Instant::now();
        while let Err(error) = server.try_sql(USER, "SELECT 1") {
            if began.elapsed() > START_TIMEOUT {
                return Err(format!("PostgreSQL does not start: {}", error.trim()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// Its first process, the parent of the others.
    pub(crate) fn pid(&self) -> u32 {
        self.process.0.id()
    }

    pub(crate) fn version(&self) -> String {
        self.try_sql(USER, "SHOW server_version").unwrap_or_else(|error| error)
    }

    /// A new empty database.
    pub(crate) fn database(&self) -> Database<'_> {
        let number = self.databases.get() + 1;
        self.databases.set(number);
        let name = format!("bench_{number}");
        self.try_sql(USER, &format!("CREATE DATABASE {name}")).expect("a database");
        Database { server: self, name }
    }

    /// The output of one statement.
    fn try_sql(&self, database: &str, statement: &str) -> Result<String, String> {
        let run = Command::new(self.programs.join("psql"))
            .args(["-U", USER, "-qAt", "-v", "ON_ERROR_STOP=1", "-c", statement, "-h"])
            .arg(self.socket.path())
            .arg(database)
            .output()
            .map_err(|error| error.to_string())?;
        if run.status.success() {
            Ok(String::from_utf8_lossy(&run.stdout).trim().to_owned())
        } else {
            Err(String::from_utf8_lossy(&run.stderr).into_owned())
        }
    }
}

impl Drop for DatabaseServer {
    fn drop(&mut self) {
        // An immediate shutdown, after which no process and no shared memory stay.
        kill_process(Pid::from_child(&self.process.0), Signal::QUIT).ok();
        drop(self.process.0.wait());
    }
}

/// A database of the server. It is removed when this value is dropped.
pub(crate) struct Database<'a> {
    pub(crate) server: &'a DatabaseServer,
    name: String,
}

impl Database<'_> {
    /// How clients connect to it.
    pub(crate) fn url(&self) -> String {
        format!("host={} user={USER} dbname={}", self.server.socket.path().display(), self.name)
    }

    /// The output of one statement.
    pub(crate) fn sql(&self, statement: &str) -> String {
        self.server.try_sql(&self.name, statement).unwrap_or_else(|error| panic!("{statement}: {error}"))
    }
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        drop(self.server.try_sql(USER, &format!("DROP DATABASE {} WITH (FORCE)", self.name)));
    }
}

/// The programs of the newest installed version.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let programs = versions.map(|version| version.path().join("bin"));
    programs.filter(|programs| programs.join("postgres").exists()).max()
}

/// A command that ends with this program. `PostgreSQL` refuses to run as root.
fn as_postgres(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    if geteuid().is_root() {
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
    }
    command.arg("--pdeathsig=QUIT").arg(program);
    command
}

/// Numbers of the user that runs the server.
fn user_and_group() -> Option<(u32, u32)> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let mut fields = users.lines().find_map(|line| line.strip_prefix("postgres:"))?.split(':').skip(1);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}
