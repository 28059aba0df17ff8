//! A job's log against the number of its events.

use super::curve::{Curve, Measure, Point, whole};
use super::queue::id_of;
use crate::connection::Connection;
use crate::provider::Provider;
use crate::server::Server;
use crate::unit::Unit;
use crate::upstream::{Act, Answer, content, finish, reasoning};
use crate::{median, timed_ms};
use serde_json::{Value, json};

pub(super) const LOG: Curve = Curve {
    key: "log",
    title: "Events of one job",
    x: "events",
    points: &[1e2, 1e3, 1e4, 1e5, 1e6],
    long_points: &[],
    measures: &[
        Measure { name: "resume at the end, p50", unit: Unit::Ms },
        Measure { name: "whole replay, per event", unit: Unit::Us },
        Measure { name: "peak memory of the server", unit: Unit::Mib },
    ],
    method: "A scripted model sends reasoning and text in turn, which makes each piece an event of its own. Resume: \
        the ended job's events after the last but one, until the stream ends. Replay: all events with \
        `format=delta`, best of 3, divided by their number. Memory: VmHWM after the replays.",
    measure,
};

/// Resumed streams.
const RESUMES: usize = 30;
/// Pairs of pieces that the model sends at once.
const PAIRS: usize = 500;
/// Replays. The best one counts.
const REPLAYS: usize = 3;

fn measure(events: f64) -> Point {
    let answer = alternating_answer(whole(events));
    let provider = Provider::start(&answer, &answer);
    let server = Server::start(&format!("limits: {{output_bytes: 1073741824}}\n{}", provider.config()));
    let mut connection = Connection::open(&server.address);
    let body = json!({"input": "go", "timeout_s": 3600}).to_string();
    let reply = connection.post("/v1/jobs?wait=600", &body);
    assert!(reply.body.contains("\"succeeded\""), "{}", reply.body);
    let job = id_of(&reply.body, "/id");
    let view: Value = serde_json::from_str(&connection.get(&format!("/v1/jobs/{job}")).body).expect("JSON");
    let last = view["last_event_id"].as_f64().expect("a number");
    let path = format!("/v1/jobs/{job}/events?format=delta");
    let mut read = |after: f64| {
        timed_ms(|| {
            let reply = connection.get(&format!("{path}&after={after:.0}"));
            assert!(reply.body.contains("event: done"), "{} {}", reply.status, reply.body.len());
        })
    };
    let best_ms = (0..REPLAYS).map(|_| read(0.0)).fold(f64::INFINITY, f64::min);
    let mut resumes: Vec<f64> = (0..RESUMES).map(|_| read(last - 1.0)).collect();
    Point { x: last, values: vec![median(&mut resumes), best_ms * 1e3 / last, server.process.peak_mib()] }
}

/// Reasoning and text in turn, a character each.
fn alternating_answer(pieces: usize) -> Answer {
    let (thought, word) = (format!("data: {}\n\n", reasoning("a")), format!("data: {}\n\n", content("b")));
    let pairs = |count: usize| Act::Raw([thought.as_str(), &word].concat().repeat(count));
    let mut acts = vec![pairs(PAIRS); pieces / 2 / PAIRS];
    acts.push(pairs(pieces / 2 % PAIRS));
    acts.push(Act::Data(finish("stop")));
    Answer::stream(acts.into_iter().filter(|act| !matches!(act, Act::Raw(text) if text.is_empty())).collect())
}
