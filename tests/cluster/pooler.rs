//! Nodes behind `PgBouncer` in transaction mode: a session has neither prepared statements nor
//! notifications.

use super::paced;
use crate::support::database::{self, as_postgres, rustix_uid};
use crate::support::{Server, against, assert_whole, command, text_of, wait_until};
use serde_json::json;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use tempfile::TempDir;

/// A running `PgBouncer`.
struct Pooler {
    process: Child,
    port: u16,
    _directory: TempDir,
}

impl Pooler {
    /// Starts it before the test's server; `None`, with a message, where it is not installed.
    fn start(socket: &Path) -> Option<Self> {
        let program = Path::new("/usr/sbin/pgbouncer");
        if !program.exists() {
            let told = "SKIPPED: PgBouncer is not installed (apt-get install pgbouncer)";
            writeln!(std::io::stderr(), "{told}").expect("standard error");
            return None;
        }
        // That of PostgreSQL may be read by the account that both run as.
        let directory = TempDir::new_in(socket).expect("a directory");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let (config, users) = (directory.path().join("config"), directory.path().join("users"));
        let text = format!(
            "[databases]\n* = host={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\n\
             default_pool_size = 6\nmax_client_conn = 200\n",
            socket.display(),
            users.display()
        );
        std::fs::write(&config, text).expect("a configuration");
        std::fs::write(&users, "\"postgres\" \"\"\n").expect("users");
        let as_root = rustix_uid() == 0;
        if as_root {
            let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(directory.path(), all).expect("permissions");
        }
        let mut command = as_postgres(as_root, program);
        let log = std::fs::File::create(directory.path().join("log")).expect("a log");
        let process =
            command.arg("-q").arg(&config).stdout(Stdio::null()).stderr(log).spawn().expect("pgbouncer");
        wait_until("PgBouncer listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(Self { process, port, _directory: directory })
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[test]
fn nodes_behind_a_pooler_in_transaction_mode_run_jobs_and_stream_those_of_each_other() {
    let Some(database) = database::server() else { return };
    let Some(pooler) = Pooler::start(database.socket()) else { return };
    database.sql("CREATE DATABASE pooled");
    database.sql("ALTER DATABASE pooled SET statement_timeout = '5min'");
    let upstream = paced("piece by piece ", 40, 20);
    let url = format!("host=127.0.0.1 port={} user=postgres dbname=pooled", pooler.port);
    let store = format!("store: {{url: \"{url}\", lease_s: 3, transaction_pooling: true}}");
    let config = against(&upstream, &format!("workers: 4\n{store}"));
    let nodes = std::thread::scope(|scope| {
        [0, 1].map(|_| scope.spawn(|| Server::start_with(&config))).map(|node| node.join().expect("a node"))
    });
    let [one, two] = &nodes;
    let ids: Vec<String> = (0..8).map(|n| nodes[n % 2].submit(&json!({"input": "go"}))).collect();
    for id in &ids {
        for node in &nodes {
            let events: Vec<_> = node.stream(&format!("/v1/jobs/{id}/events?format=delta"), 0).collect();
            assert_whole(&events);
            assert_eq!(text_of(&events), "piece by piece ".repeat(40));
        }
        assert_eq!(two.wait(id)["status"], "succeeded");
    }
    let slow = one.submit(&json!({"input": "go"}));
    assert!(one.stream(&format!("/v1/jobs/{slow}/events"), 0).any(|event| event.data["status"] == "running"));
    assert!(two.post(&format!("/v1/jobs/{slow}/cancel"), &json!({})).status < 300);
    assert_eq!(one.wait(&slow)["status"], "cancelled");
    backups_through_a_pooler(&url, one);
    let kept = database.sql_in("pooled", "SHOW statement_timeout; SELECT count(*) FROM jobs");
    assert_eq!(kept, "5min\n9");
}

/// Backups and checks of a running server and of the database alone, one after the other on the same few
/// connections of the server.
fn backups_through_a_pooler(url: &str, node: &Server) {
    let directory = TempDir::new().expect("a directory");
    let config = directory.path().join("config.yml");
    let place = directory.path().display();
    std::fs::write(
        &config,
        format!("store: {{url: \"{url}\", transaction_pooling: true}}\ndata_dir: {place}\n"),
    )
    .expect("a configuration");
    for round in 0..4 {
        for (kind, server) in [("running", &["--server", &node.url][..]), ("stopped", &[])] {
            let file = format!("{place}/{kind}-{round}.redb");
            for arguments in [&[&["backup", &file], server].concat()[..], &["check"]] {
                let ran = command(arguments).arg("--config").arg(&config).output().expect("runs");
                assert!(ran.status.success(), "{arguments:?}: {ran:?}");
            }
        }
    }
}
