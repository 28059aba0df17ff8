//! Event streams: commits a second, the cost of 200 streaming jobs and of an idle reader, and frames a
//! second to 10,000 readers of one job. The clients run in this process, on the same cores.

use crate::Benchmark;
use crate::bare_program::BareProgram;
use crate::connection::Connection;
use crate::provider::Provider;
use crate::results::Results;
use crate::server::Server;
use crate::upstream::Answer;
use crate::work::Work;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Readers of one job.
const READERS: usize = 10_000;
/// Jobs that stream at the same time.
const JOBS: usize = 200;
/// Open files in addition to the readers' connections.
const SPARE_FILES: u64 = 200;

/// Measures all figures of this group.
pub(crate) fn measure(run: &mut Benchmark) {
    committed_events(&mut run.results);
    paced_jobs(&mut run.results);
    let readers = allow_open_files(READERS);
    if readers < READERS {
        eprintln!("  only {readers} readers instead of {READERS}: see ulimit -Hn");
    }
    fan_out(&mut run.results, readers);
    bare_idle_memory(&mut run.results, readers);
}

/// 64 jobs stream as fast as the store accepts it.
fn committed_events(results: &mut Results) {
    let server = Server::start("workers: 64\n");
    let work = Work::measure(server.process.0.id(), || {
        let began = Instant::now();
        let ids = submit(&server, 64, "stream: 20000 words, 1 ms");
        std::thread::sleep(Duration::from_secs(8));
        let mut connection = Connection::open(&server.address);
        let events: f64 = ids.iter().map(|id| last_event_id(&mut connection, id)).sum();
        events / began.elapsed().as_secs_f64()
    });
    results.record_rate("streams.committed", work);
}

/// The load of the goal: 200 jobs with a reader each; a provider sends 50 tokens a second to each job.
fn paced_jobs(results: &mut Results) {
    let words = "word ".repeat(700);
    let answer = Answer::paced_text(&words, Duration::from_millis(20));
    let provider = Provider::start(&answer, &answer);
    let server = Server::start(&format!("workers: {JOBS}\n{}", provider.config()));
    let ids = submit(&server, JOBS, "go");
    runtime().block_on(async {
        let mut readers = Vec::new();
        for id in &ids {
            let socket = open_stream(&server.address, &format!("/v1/jobs/{id}/events?format=delta")).await;
            readers.push(tokio::spawn(count_frames(socket)));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (began, cpu) = (Instant::now(), server.process.cpu_s());
        tokio::time::sleep(Duration::from_secs(8)).await;
        results.record("streams.cpu", (server.process.cpu_s() - cpu) / began.elapsed().as_secs_f64());
        let mut frames = 0;
        for reader in readers {
            frames += reader.await.expect("a reader");
        }
        results.record("streams.memory", server.process.peak_mib());
        results.record("streams.frames", frames as f64);
    });
}

/// Raises the limit of open files, also of the programs that this one starts. Returns the number of
/// connections that it allows, at most the wanted one.
pub(crate) fn allow_open_files(wanted: usize) -> usize {
    let needed = wanted as u64 + SPARE_FILES;
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = maximum.map(|hard| hard.max(needed));
    // Only a privileged user may raise the hard limit.
    if setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: raised }).is_ok() {
        return wanted;
    }
    let current = maximum.map_or(needed, |hard| hard.min(needed));
    setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum }).expect("a limit of open files");
    usize::try_from(current.saturating_sub(SPARE_FILES)).expect("small")
}

/// All readers wait for one job. The job waits for the only worker, then streams.
fn fan_out(results: &mut Results, count: usize) {
    let server = Server::start("workers: 1\n");
    let mut connection = Connection::open(&server.address);
    let busy = submit_one(&mut connection, &json!({"input": "stream: 100000 words, 60000 ms"}));
    let id = submit_one(&mut connection, &json!({"input": "stream: 1000 words, 2 ms"}));
    let before_kib = server.process.resting_kib();
    runtime().block_on(async {
        let path = format!("/v1/jobs/{id}/events?format=delta");
        let sockets = open_idle_streams(&server.address, &path, count).await;
        let each_kib = (server.process.resident_kib() - before_kib) / count as f64;
        let note = if count < READERS { format!("of {count}") } else { String::new() };
        results.record_with_note("streams.idle", each_kib, &note);
        let cpu = server.process.cpu_s();
        let readers: Vec<_> = sockets.into_iter().map(|socket| tokio::spawn(count_frames(socket))).collect();
        let began = Instant::now();
        let reply = Connection::open(&server.address).post(&format!("/v1/jobs/{busy}/cancel"), "{}");
        assert!(reply.status < 300, "{}", reply.body);
        let mut frames = 0;
        for reader in readers {
            frames += reader.await.expect("a reader");
        }
        let (elapsed_s, spent_s) = (began.elapsed().as_secs_f64(), server.process.cpu_s() - cpu);
        let work = Work { per_second: frames as f64 / elapsed_s, cores: spent_s / elapsed_s };
        results.record_with_note("streams.fan_out", work.per_second, &note);
        results.record_work("streams.fan_out", work);
        results.record("streams.fan_out_core", work.per_core_second());
        results.record("streams.fan_out_memory", server.process.peak_mib());
    });
}

/// The memory that the same readers cost the bare program.
fn bare_idle_memory(results: &mut Results, count: usize) {
    let bare = BareProgram::start();
    let before_kib = bare.process.resident_kib();
    runtime().block_on(async {
        let sockets = open_idle_streams(&bare.address, "/", count).await;
        results.record("streams.idle.bare", (bare.process.resident_kib() - before_kib) / count as f64);
        drop(sockets);
    });
}

/// Opens streams whose responses have started and that were idle for two seconds.
pub(crate) async fn open_idle_streams(address: &str, path: &str, count: usize) -> Vec<TcpStream> {
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        sockets.push(open_stream(address, path).await);
    }
    for socket in &mut sockets {
        let mut head = [0; 512];
        assert!(socket.read(&mut head).await.expect("its head") > 0);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    sockets
}

/// Opens a stream without chunks (HTTP/1.0), so that a frame is four lines.
async fn open_stream(address: &str, path: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.expect("connect");
    let request = format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n");
    socket.write_all(request.as_bytes()).await.expect("send");
    socket
}

/// Reads to the end and returns the number of frames.
async fn count_frames(mut socket: TcpStream) -> usize {
    let (mut lines, mut buffer) = (0_usize, vec![0; 4 * 1024]);
    loop {
        let count = socket.read(&mut buffer).await.expect("a read");
        if count == 0 {
            return lines / 4;
        }
        lines += buffer[..count].iter().map(|byte| usize::from(*byte == b'\n')).sum::<usize>();
    }
}

fn submit(server: &Server, jobs: usize, input: &str) -> Vec<String> {
    let mut connection = Connection::open(&server.address);
    let body = json!({"input": input});
    (0..jobs).map(|_| submit_one(&mut connection, &body)).collect()
}

fn submit_one(connection: &mut Connection, body: &Value) -> String {
    let reply = connection.post("/v1/jobs", &body.to_string());
    assert_eq!(reply.status, 202, "{}", reply.body);
    let job: Value = serde_json::from_str(&reply.body).expect("JSON");
    job["id"].as_str().expect("an id").to_owned()
}

fn last_event_id(connection: &mut Connection, id: &str) -> f64 {
    let job: Value = serde_json::from_str(&connection.get(&format!("/v1/jobs/{id}")).body).expect("JSON");
    job["last_event_id"].as_f64().expect("a number")
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}
