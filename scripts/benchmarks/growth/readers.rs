//! Streams of one job against their number: memory, and the time of a frame from the model to the readers.

use super::curve::{Curve, Measure, Point, whole};
use super::queue::submit;
use crate::connection::Connection;
use crate::median;
use crate::provider::Provider;
use crate::server::Server;
use crate::streams::{allow_open_files, open_idle_streams, runtime};
use crate::unit::Unit;
use crate::upstream::Answer;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

pub(super) const READERS: Curve = Curve {
    key: "readers",
    title: "Streams of one job",
    x: "streams",
    points: &[1e1, 1e2, 1e3, 1e4, 2e4],
    long_points: &[],
    measures: &[
        Measure { name: "memory of the server per stream", unit: Unit::Kib },
        Measure { name: "frame at the median reader, p50", unit: Unit::Ms },
        Measure { name: "frame at the last reader, p50", unit: Unit::Ms },
    ],
    method: "Memory: growth of VmRSS with the idle streams of a waiting job, divided by their number; a server's first \
        streams also pay for what later ones share. Frame: a scripted model sends a word every 500 ms; from \
        that write to the arrival at the readers, which share the two cores with the server. The linger of \
        `store.linger_ms` (25) is part of it.",
    measure,
};

/// Words of the job that count. The first one also waits for the start of the job.
const WORDS: usize = 10;
const PACE: Duration = Duration::from_millis(500);

fn measure(readers: f64) -> Point {
    // A low hard limit of open files (ulimit -Hn) allows fewer; the page shows the real number.
    let count = allow_open_files(whole(readers));
    let readers = count as f64;
    let answer = Answer::paced_text(&"word ".repeat(WORDS + 1), PACE);
    let provider = Provider::start(&answer, &answer);
    let url = &provider.url;
    let server = Server::start(&format!(
        "workers: 1\nlimits: {{connections: 50000}}\ndefault_model: m\n\
         models: [{{id: m, api_url: \"{url}/v1\"}}, {{id: demo, provider: demo}}]\n"
    ));
    let mut connection = Connection::open(&server.address);
    let busy = submit(&mut connection, r#"{"input": "stream: 100000 words, 60000 ms", "model": "demo"}"#);
    let job = submit(&mut connection, &json!({"input": "go"}).to_string());
    let before_kib = server.process.resting_kib();
    let (each_kib, arrivals) = runtime().block_on(async {
        let path = format!("/v1/jobs/{job}/events?format=delta");
        let sockets = open_idle_streams(&server.address, &path, count).await;
        let each_kib = (server.process.resident_kib() - before_kib) / readers;
        let tasks: Vec<_> = sockets.into_iter().map(|socket| tokio::spawn(arrival_times(socket))).collect();
        assert!(connection.post(&format!("/v1/jobs/{busy}/cancel"), "{}").status < 300);
        let mut arrivals = Vec::with_capacity(count);
        for task in tasks {
            arrivals.push(task.await.expect("a reader"));
        }
        (each_kib, arrivals)
    });
    let (mut medians, mut lasts) = (Vec::new(), Vec::new());
    for (word, sent) in provider.sent().into_iter().enumerate().take(WORDS + 1).skip(1) {
        let arrived = arrivals.iter().filter_map(|times| times.get(word));
        let mut times_ms: Vec<f64> = arrived.map(|at| at.duration_since(sent).as_secs_f64() * 1e3).collect();
        medians.push(median(&mut times_ms));
        lasts.push(times_ms.iter().copied().fold(f64::NAN, f64::max));
    }
    Point { x: readers, values: vec![each_kib, median(&mut medians), median(&mut lasts)] }
}

/// The time of each frame with text, until the stream ends.
async fn arrival_times(mut socket: TcpStream) -> Vec<Instant> {
    const FRAME: &[u8] = b"event: process_step";
    let (mut times, mut buffer) = (Vec::new(), vec![0; 2 * 1024]);
    loop {
        let count = socket.read(&mut buffer).await.expect("a read");
        if count == 0 {
            return times;
        }
        let frames = buffer[..count].windows(FRAME.len()).filter(|window| *window == FRAME).count();
        times.extend(std::iter::repeat_n(Instant::now(), frames));
    }
}
