//! Several readers of one job, which share rendered pages.

use crate::domain::id::JobId;
use crate::http::testing::{Server, read_all, request};
use std::time::Duration;
use tokio::io::{AsyncWriteExt, DuplexStream};

/// The ways to read a stream: query and header.
const FORMATS: [(&str, &str); 4] = [
    ("", "accept: text/event-stream"),
    ("", "accept: application/x-ndjson"),
    ("&format=delta", "accept: text/event-stream"),
    ("&format=delta", "accept: application/x-ndjson"),
];

/// A reader after this event. It has time to reach the end of the log.
async fn reader(server: &Server, job: JobId, after: u64, (query, header): (&str, &str)) -> DuplexStream {
    let mut io = server.connect();
    let line = format!("GET /v1/jobs/{job}/events?after={after}{query}");
    io.write_all(&request(&line, &[header], "")).await.expect("sends");
    settle().await;
    io
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

fn pages(server: &Server) -> u32 {
    *server.store.pages.lock().expect("lock")
}

#[tokio::test]
async fn readers_of_the_same_event_read_the_log_once() {
    for format in FORMATS {
        let server = Server::new();
        let job = server.job().await;
        let mut readers = Vec::new();
        for _ in 0..10 {
            readers.push(reader(&server, job, 0, format).await);
        }
        server.store.say(job, 0, "one ");
        settle().await;
        let before = pages(&server);
        for word in ["two ", "three "] {
            server.store.say(job, 0, word);
            settle().await;
        }
        assert_eq!(pages(&server) - before, 2, "{format:?}");
        server.store.end(job, "");
        let mut bodies = Vec::new();
        for io in readers {
            bodies.push(read_all(io).await.body);
        }
        assert!(bodies[0].contains("three ") && bodies[0].contains("done"), "{}", bodies[0]);
        assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
    }
}

#[tokio::test]
async fn p2_readers_that_join_in_turn_get_exactly_the_events_after_their_cursor() {
    let server = Server::new();
    let job = server.job().await;
    let mut readers = Vec::new();
    let words = (0..3).flat_map(|index| ["a ", "b ", "c ", "d "].map(|word| (index, word)));
    for (newest, (index, word)) in (1..).zip(words) {
        for after in [0, newest / 2, newest] {
            for format in FORMATS {
                readers.push((after, format, reader(&server, job, after, format).await));
            }
        }
        server.store.say(job, index, word);
    }
    settle().await;
    server.store.end(job, "");
    for (after, format, io) in readers {
        let body = read_all(io).await.body;
        let ids: Vec<u64> = body.lines().filter_map(event_id).collect();
        let context = format!("after {after} {format:?}: {body}");
        assert!(
            ids.first().is_some_and(|first| *first > after) && ids.is_sorted_by(|a, b| a < b),
            "{context}"
        );
        assert_eq!(ids.last(), Some(&14), "{context}");
        if format.0.is_empty() {
            assert!(body.contains(r#""content":"a b c d "}"#), "{context}");
        } else {
            assert_eq!(ids, (after + 1..=14).collect::<Vec<u64>>(), "{context}");
        }
    }
}

/// The id of a line of server-sent events or of JSON lines.
fn event_id(line: &str) -> Option<u64> {
    let id = line.strip_prefix("id: ").or_else(|| line.strip_prefix("{\"id\":")?.split(',').next())?;
    id.parse().ok()
}
