//! Events: how many are committed a second, what 200 streaming jobs cost, what an idle reader costs, and how many
//! frames a second reach 10,000 readers of one job. Clients live in this process, on the same cores.

use crate::enqueue::in_seconds;
use crate::server::Server;
use crate::upstream::{Answer, Upstream};
use crate::wire::Connection;
use crate::{mib, show};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Readers of one job.
const READERS: usize = 10_000;
/// Jobs that stream at once.
const JOBS: usize = 200;
/// Time that all connections have to be made, seconds.
const CONNECT_S: u64 = 30;

/// Every figure of streams.
pub(crate) fn measure() {
    committed();
    paced();
    fan_out();
}

/// 64 jobs that stream as fast as the store takes it.
fn committed() {
    let server = Server::start("workers: 64\n");
    let began = Instant::now();
    let ids = submit(&server, 64, "stream: 20000 words, 1 ms");
    std::thread::sleep(Duration::from_secs(8));
    let mut connection = Connection::open(&server.address);
    let seen: f64 = ids.iter().map(|id| events(&mut connection, id)).sum();
    let rate = seen / began.elapsed().as_secs_f64();
    show("events committed, 64 jobs of 1,000 tokens/s", &format!("{rate:.0}/s"), "–");
}

/// The goal's load: 200 jobs, 50 tokens a second each from a provider on the wire, a reader each.
fn paced() {
    let words = "word ".repeat(700);
    let upstream = Upstream::start(move |_, _| Answer::paced_text(&words, Duration::from_millis(20)));
    let server = Server::start(&format!(
        "default_model: m\nworkers: 200\nmodels: [{{id: m, api_url: \"{}/v1\"}}]\n",
        upstream.url
    ));
    let ids = submit(&server, JOBS, "go");
    runtime().block_on(async {
        let mut readers = Vec::new();
        for id in &ids {
            let socket = open(&server.address, &format!("/v1/jobs/{id}/events?format=delta")).await;
            readers.push(tokio::spawn(drain(socket)));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (began, cpu) = (Instant::now(), server.cpu_s());
        tokio::time::sleep(Duration::from_secs(8)).await;
        let cores = (server.cpu_s() - cpu) / began.elapsed().as_secs_f64();
        show("200 jobs × 50 tokens/s, a reader each: processor", &format!("{cores:.2} cores"), "≤ 1 core");
        let mut frames = 0;
        for reader in readers {
            frames += reader.await.expect("a reader");
        }
        show("  resident memory, the most", &mib(server.peak_kb() * 1024), "≤ 64 MB");
        show("  frames delivered in all", &frames.to_string(), "–");
    });
}

/// 10,000 readers wait for one job; then it streams.
fn fan_out() {
    let server = Server::start("");
    let before_kb = server.resident_kb();
    let due = Instant::now() + Duration::from_secs(CONNECT_S);
    let body = json!({"input": "stream: 1000 words, 2 ms", "run_at": in_seconds(CONNECT_S)});
    let id = accepted(&mut Connection::open(&server.address), &body);
    runtime().block_on(async {
        let path = format!("/v1/jobs/{id}/events?format=delta");
        let mut sockets = Vec::with_capacity(READERS);
        for _ in 0..READERS {
            sockets.push(open(&server.address, &path).await);
        }
        for socket in &mut sockets {
            let mut seen = [0; 512];
            assert!(socket.read(&mut seen).await.expect("its head") > 0);
        }
        let spare = due.saturating_duration_since(Instant::now());
        assert!(spare > Duration::from_secs(1), "this machine is too slow for {READERS} connections");
        tokio::time::sleep(spare.saturating_sub(Duration::from_millis(800))).await;
        let each = (server.resident_kb() - before_kb) as f64 / READERS as f64;
        show("idle SSE connection, of 10,000, resident", &format!("{each:.1} KiB"), "≤ 16 KiB");
        let cpu = server.cpu_s();
        let readers: Vec<_> = sockets.into_iter().map(|socket| tokio::spawn(drain(socket))).collect();
        let began = due.max(Instant::now());
        let mut frames = 0;
        for reader in readers {
            frames += reader.await.expect("a reader");
        }
        let taken = began.elapsed().as_secs_f64();
        let rate = frames as f64 / taken;
        show("fan-out of one job to 10,000 readers", &format!("{rate:.0} frames/s"), "≥ 100,000/s");
        let per_core = frames as f64 / (server.cpu_s() - cpu);
        show("  frames a second of the server's own processor time", &format!("{per_core:.0}"), "–");
        show("  resident memory, the most", &mib(server.peak_kb() * 1024), "–");
    });
}

/// Opens a stream without chunks (HTTP/1.0), so that a frame is four lines.
async fn open(address: &str, path: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.expect("connect");
    let request = format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n");
    socket.write_all(request.as_bytes()).await.expect("send");
    socket
}

/// Reads to the end; the frames that came by.
async fn drain(mut socket: TcpStream) -> usize {
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
    (0..jobs).map(|_| accepted(&mut connection, &body)).collect()
}

fn accepted(connection: &mut Connection, body: &Value) -> String {
    let reply = connection.post("/v1/jobs", &body.to_string());
    assert_eq!(reply.status, 202, "{}", reply.body);
    let job: Value = serde_json::from_str(&reply.body).expect("JSON");
    job["id"].as_str().expect("an id").to_owned()
}

fn events(connection: &mut Connection, id: &str) -> f64 {
    let job: Value = serde_json::from_str(&connection.get(&format!("/v1/jobs/{id}")).body).expect("JSON");
    job["last_event_id"].as_f64().expect("a number")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}
