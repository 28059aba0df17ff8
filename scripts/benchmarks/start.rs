//! Binary size, start time and idle memory of the server, and the speed of the disk.

use crate::figures::FSYNC;
use crate::server::{Server, binary, scratch_directory};
use crate::{Benchmark, median, peers, timed_ms};
use std::io::Write;
use std::time::Duration;

/// Measures the disk's fdatasync, the lower bound of every durable figure.
pub(crate) fn measure_disk(run: &mut Benchmark) {
    let mut file = tempfile::NamedTempFile::new_in(scratch_directory()).expect("a file");
    let mut times: Vec<f64> = (0..200)
        .map(|_| {
            timed_ms(|| {
                file.write_all(&[0; 4096]).and_then(|()| file.as_file().sync_data()).expect("fdatasync");
            })
        })
        .collect();
    run.results.record(FSYNC, median(&mut times));
}

/// Measures the size of the binary.
pub(crate) fn measure_size(run: &mut Benchmark) {
    let bytes = std::fs::metadata(binary()).expect("the release binary").len();
    run.results.record("size.binary", bytes as f64 / f64::from(1 << 20));
}

/// Measures start time and idle memory.
pub(crate) fn measure(run: &mut Benchmark) {
    let mut times: Vec<f64> = (0..9).map(|_| Server::start("").ready_ms).collect();
    run.results.record("start.ready", median(&mut times));
    let server = Server::start("");
    std::thread::sleep(Duration::from_secs(2));
    run.results.record("start.idle", server.process.resident_kib() / 1024.0);
    run.results.record("start.idle_all", server.process.family_mib());
    drop(server);
    if run.with_peers {
        peers::measure_start(&mut run.results, &peers::NANOBOT);
        peers::measure_start(&mut run.results, &peers::LITELLM);
    }
}
