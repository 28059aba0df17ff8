//! The release binary under measurement, over a directory of its own.

use super::wire::Connection;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// What is measured.
pub(crate) const BINARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/dist/nanoclaw");

/// A folder on the same disk as the sources: temporary folders may be memory, whose fsync costs nothing.
pub(crate) fn scratch() -> PathBuf {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target/bench"));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// A running server.
pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) ready_ms: f64,
    child: Child,
    _dir: tempfile::TempDir,
}

impl Server {
    /// Starts it with these lines of YAML and waits until it answers.
    pub(crate) fn start(config: &str) -> Self {
        let dir = tempfile::tempdir_in(scratch()).expect("a directory");
        let file = dir.path().join("config.yml");
        std::fs::write(&file, config).expect("write the configuration");
        let began = Instant::now();
        let mut child = Command::new(BINARY)
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(&file)
            .arg("--data-dir")
            .arg(dir.path().join("data"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("start the server");
        let mut url = String::new();
        BufReader::new(child.stdout.take().expect("its stdout")).read_line(&mut url).expect("its address");
        let address = url.trim().trim_start_matches("http://").to_owned();
        assert_eq!(Connection::open(&address).get("/readyz").status, 200, "not ready");
        Self { address, ready_ms: began.elapsed().as_secs_f64() * 1e3, child, _dir: dir }
    }

    /// Resident memory of the server and its children, KiB.
    pub(crate) fn resident_kb(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("its status");
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("VmRSS");
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
