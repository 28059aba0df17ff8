//! Binary size, start time and idle memory of the server, and the speed of the disk.

use crate::list::FSYNC;
use crate::server::{Server, binary, scratch};
use crate::{Run, median, peers, processes};
use std::io::Write;
use std::time::{Duration, Instant};

/// The disk's fdatasync, the lower bound of every durable figure.
pub(crate) fn disk(run: &mut Run) {
    let mut file = tempfile::NamedTempFile::new_in(scratch()).expect("a file");
    let mut times: Vec<f64> = (0..200)
        .map(|_| {
            let began = Instant::now();
            file.write_all(&[0; 4096]).and_then(|()| file.as_file().sync_data()).expect("fdatasync");
            began.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    run.sheet.put(FSYNC, median(&mut times));
}

/// The size of the binary.
pub(crate) fn size(run: &mut Run) {
    let bytes = std::fs::metadata(binary()).expect("the release binary").len();
    run.sheet.put("size.binary", bytes as f64 / f64::from(1 << 20));
}

/// Start and idle memory.
pub(crate) fn measure(run: &mut Run) {
    let mut times: Vec<f64> = (0..9).map(|_| Server::start("").ready_ms).collect();
    run.sheet.put("start.ready", median(&mut times));
    let server = Server::start("");
    std::thread::sleep(Duration::from_secs(2));
    run.sheet.put("start.idle", server.resident_kb() / 1024.0);
    run.sheet.put("start.idle_all", processes::family_mib(server.pid()));
    drop(server);
    if run.with_peers {
        peers::start_and_memory(&mut run.sheet, &peers::NANOBOT);
        peers::start_and_memory(&mut run.sheet, &peers::LITELLM);
    }
}
