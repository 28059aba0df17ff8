//! The measured release binary with its own data directory.

use crate::connection::Connection;
use crate::process::ChildProcess;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The root of the sources.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The measured file: `BENCH_BINARY`, else the static build.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("BENCH_BINARY").map_or_else(|| Path::new(ROOT).join("dist/nanoclaw"), PathBuf::from)
}

/// A directory on the disk of the sources. A temporary directory may be in memory, where fsync is free.
pub(crate) fn scratch_directory() -> PathBuf {
    let directory = Path::new(ROOT).join("target/bench");
    std::fs::create_dir_all(&directory).expect("a directory");
    directory
}

/// A running server.
pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) ready_ms: f64,
    // Dropped before the directory.
    pub(crate) process: ChildProcess,
    directory: TempDir,
}

impl Server {
    /// Starts it with this YAML and waits until it is ready.
    pub(crate) fn start(config: &str) -> Self {
        let directory = tempfile::tempdir_in(scratch_directory()).expect("a directory");
        std::fs::write(directory.path().join("config.yml"), config).expect("write the configuration");
        Self::start_in(directory)
    }

    /// Ends it with a signal and starts another one over the same directory.
    pub(crate) fn restart(self, signal: Signal) -> Self {
        self.process.end(signal);
        Self::start_in(self.directory)
    }

    fn start_in(directory: TempDir) -> Self {
        let began = Instant::now();
        let mut command = Command::new(binary());
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(directory.path().join("config.yml"));
        command.arg("--data-dir").arg(directory.path().join("data")).stderr(Stdio::null());
        let (process, url) = ChildProcess::start(&mut command);
        let address = url.trim_start_matches("http://").to_owned();
        while Connection::open(&address).get("/readyz").status != 200 {
            assert!(began.elapsed() < Duration::from_secs(60), "not ready in a minute");
            std::thread::sleep(Duration::from_millis(1));
        }
        Self { address, ready_ms: began.elapsed().as_secs_f64() * 1e3, process, directory }
    }

    /// The key of the command line, which has the rights of an administrator.
    pub(crate) fn control_key(&self) -> String {
        let control = std::fs::read(self.directory.path().join("data/control.json")).expect("control.json");
        let control: serde_json::Value = serde_json::from_slice(&control).expect("JSON");
        control["key"].as_str().expect("a key").to_owned()
    }

    /// Bytes of the store's files.
    pub(crate) fn store_bytes(&self) -> u64 {
        let files =
            std::fs::read_dir(self.directory.path().join("data")).expect("the data directory").flatten();
        files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
    }
}
