//! The next turn of a conversation against the number of its turns.

use super::curve::{Curve, Measure, Point, whole};
use super::queue::id_of;
use crate::connection::Connection;
use crate::provider::Provider;
use crate::server::Server;
use crate::unit::Unit;
use crate::upstream::Answer;
use crate::{median, percentile, timed_ms};
use serde_json::json;

pub(super) const CONVERSATION: Curve = Curve {
    key: "conversation",
    title: "Turns of one conversation",
    x: "turns before it",
    points: &[1e1, 1e2, 1e3, 1e4],
    long_points: &[],
    measures: &[
        Measure { name: "next turn, p50", unit: Unit::Ms },
        Measure { name: "next turn, p95", unit: Unit::Ms },
        Measure { name: "newest page of messages, p50", unit: Unit::Ms },
        Measure { name: "memory of the server", unit: Unit::Mib },
    ],
    method: "A scripted model answers three words at once. Turn: POST /v1/jobs?wait=30 with the conversation; 50 turns \
        after the first ones. The model gets the newest `limits.history_messages` (200) messages. Page: 20 \
        messages of GET /api/conversations/{id}/messages. Memory: VmRSS.",
    measure,
};

/// Measured turns and pages.
const SAMPLES: usize = 50;

fn measure(turns: f64) -> Point {
    let answer = Answer::text("one two three");
    let provider = Provider::start(&answer, &answer);
    let server = Server::start(&provider.config());
    let mut connection = Connection::open(&server.address);
    let id = id_of(&connection.post("/api/conversations", "{}").body, "/data/id");
    let body = json!({"input": "And then?", "conversation_id": id}).to_string();
    let mut turn = || {
        timed_ms(|| {
            let reply = connection.post("/v1/jobs?wait=30", &body);
            assert!(reply.body.contains("\"succeeded\""), "{}", reply.body);
        })
    };
    for _ in 0..whole(turns) {
        turn();
    }
    let mut times: Vec<f64> = (0..SAMPLES).map(|_| turn()).collect();
    let path = format!("/api/conversations/{id}/messages?limit=20");
    let mut page = || timed_ms(|| assert_eq!(connection.get(&path).status, 200));
    let mut pages: Vec<f64> = (0..SAMPLES).map(|_| page()).collect();
    let memory = server.process.resident_mib();
    let values = vec![median(&mut times), percentile(&mut times, 95), median(&mut pages), memory];
    Point { x: turns, values }
}
