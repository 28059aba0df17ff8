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
    dir: Option<tempfile::TempDir>,
}

impl Server {
    /// Starts it with these lines of YAML and waits until it answers.
    pub(crate) fn start(config: &str) -> Self {
        let dir = tempfile::tempdir_in(scratch()).expect("a directory");
        std::fs::write(dir.path().join("config.yml"), config).expect("write the configuration");
        Self::start_in(dir)
    }

    /// `kill -9`, then another server over the same directory.
    pub(crate) fn crash_and_restart(mut self) -> Self {
        self.child.kill().expect("kill -9");
        self.child.wait().expect("reap");
        Self::start_in(self.dir.take().expect("its directory"))
    }

    fn start_in(dir: tempfile::TempDir) -> Self {
        let began = Instant::now();
        let mut child = Command::new(BINARY)
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(dir.path().join("config.yml"))
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
        Self { address, ready_ms: began.elapsed().as_secs_f64() * 1e3, child, dir: Some(dir) }
    }

    /// Bytes of the store's files.
    pub(crate) fn store_bytes(&self) -> u64 {
        let data = self.dir.as_ref().expect("its directory").path().join("data");
        let files = std::fs::read_dir(data).expect("the data directory").flatten();
        files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
    }

    /// Processor time that the server itself has used, seconds.
    pub(crate) fn cpu_s(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("its stat");
        // The name may hold anything; what is counted comes after it, in ticks of 10 ms.
        let (_, fields) = stat.rsplit_once(')').expect("a name");
        let ticks = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u32>().ok());
        f64::from(ticks.sum::<u32>()) / 100.0
    }

    /// The most memory that the server itself has held at once, KiB.
    pub(crate) fn peak_kb(&self) -> u64 {
        self.status_kb("VmHWM:")
    }

    /// Resident memory of the server itself, KiB.
    pub(crate) fn resident_kb(&self) -> u64 {
        self.status_kb("VmRSS:")
    }

    fn status_kb(&self, name: &str) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("its status");
        let line = status.lines().find(|line| line.starts_with(name)).expect("the line");
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
