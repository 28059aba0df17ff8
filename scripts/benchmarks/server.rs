//! The measured release binary with its own data directory.

use crate::processes;
use crate::wire::Connection;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The root of the sources.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The measured file: `BENCH_BINARY`, else the static build.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("BENCH_BINARY").map_or_else(|| Path::new(ROOT).join("dist/nanoclaw"), PathBuf::from)
}

/// A directory on the disk of the sources. A temporary directory may be in memory, where fsync is free.
pub(crate) fn scratch() -> PathBuf {
    let folder = Path::new(ROOT).join("target/bench");
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
    /// Starts it with this YAML and waits until it is ready.
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
        let mut child = Command::new(binary())
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
        while Connection::open(&address).get("/readyz").status != 200 {
            assert!(began.elapsed() < Duration::from_secs(60), "not ready in a minute");
            std::thread::sleep(Duration::from_millis(1));
        }
        Self { address, ready_ms: began.elapsed().as_secs_f64() * 1e3, child, dir: Some(dir) }
    }

    /// SIGTERM, then another server over the same directory.
    pub(crate) fn stop_and_restart(mut self) -> Self {
        processes::terminate(self.child.id());
        self.child.wait().expect("reap");
        Self::start_in(self.dir.take().expect("its directory"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Bytes of the store's files.
    pub(crate) fn store_bytes(&self) -> u64 {
        let data = self.dir.as_ref().expect("its directory").path().join("data");
        let files = std::fs::read_dir(data).expect("the data directory").flatten();
        files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
    }

    /// Processor time of the server's process, in seconds.
    pub(crate) fn cpu_s(&self) -> f64 {
        processes::cpu_s(self.pid())
    }

    /// Peak resident memory of the server's process, in MiB.
    pub(crate) fn peak_mib(&self) -> f64 {
        processes::status_kb(self.pid(), "VmHWM:") / 1024.0
    }

    /// Resident memory of the server's process, in KiB.
    pub(crate) fn resident_kb(&self) -> f64 {
        processes::status_kb(self.pid(), "VmRSS:")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
