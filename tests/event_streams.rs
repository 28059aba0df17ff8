//! Event streams: resume at any point and in every format, and errors for bad cursors.

use crate::support::upstream::{Act, Answer, Upstream, content, finish, reasoning, tool_results};
use crate::support::{Event, Server, assert_whole, text_of};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// A model that thinks, writes text, calls two tools, and answers in many small pieces.
fn multi_step_model() -> Upstream {
    Upstream::start(|request, _| {
        let mut acts = Vec::new();
        if tool_results(request).is_empty() {
            acts.extend(["Let ", "me ", "think ✓. "].map(|t| Act::Data(reasoning(t))));
            acts.push(Act::Data(content("I will calculate. ")));
            let calls: Vec<Value> = ["6*7", "2**10"]
                .iter()
                .enumerate()
                .map(|(n, e)| {
                    let function =
                        json!({"name": "calculator", "arguments": json!({"expression": e}).to_string()});
                    json!({"index": n, "id": format!("c{n}"), "type": "function", "function": function})
                })
                .collect();
            acts.push(Act::Data(json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]})));
            acts.push(Act::Data(finish("tool_calls")));
        } else {
            for n in 0..60 {
                acts.push(Act::Data(content(&format!("wörd-{n} "))));
                acts.push(Act::Pause(Duration::from_millis(if n % 10 == 0 { 45 } else { 2 })));
            }
            acts.push(Act::Data(finish("stop")));
        }
        Answer::stream(acts)
    })
}

/// Reads the whole job through a stream that is cut after random numbers of events.
fn read_with_cuts(server: &Server, path: &str, seed: &mut u64) -> (Vec<Event>, usize) {
    let (mut all, mut cuts) = (Vec::<Event>::new(), 0);
    loop {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let take = 1 + (*seed >> 33) as usize % 7;
        let after = all.last().map_or(0, |e| e.seq);
        all.extend(server.stream(path, after).take(take));
        if all.last().is_some_and(|e| e.name == "done" || e.name == "error") {
            return (all, cuts);
        }
        cuts += 1;
    }
}

#[test]
fn p2_a_stream_cut_at_200_random_points_loses_and_repeats_nothing() {
    let upstream = multi_step_model();
    let server = Server::start_against(&upstream, "");
    let (mut cuts, mut seed) = (0, 42);
    while cuts < 200 {
        let id = server.submit(&json!({"input": "go"}));
        let path = format!("/v1/jobs/{id}/events?format=delta");
        let (live, n) = read_with_cuts(&server, &path, &mut seed);
        cuts += n;
        assert_whole(&live);
        let replay = server.events(&id);
        assert_eq!(live, replay, "the live stream equals a full replay");
        assert_eq!(text_of(&live), text_of(&replay));
        let (again, n) = read_with_cuts(&server, &path, &mut seed);
        cuts += n;
        assert_eq!(again, replay);
    }
}

#[test]
fn delta_offsets_prove_that_nothing_is_missing() {
    let upstream = multi_step_model();
    let server = Server::start_against(&upstream, "");
    let id = server.submit(&json!({"input": "go"}));
    server.wait(&id);
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    for event in server.events(&id).iter().filter(|e| e.data.get("delta").is_some()) {
        let end = ends.entry(event.data["id"].as_str().expect("a step").to_owned()).or_default();
        assert_eq!(event.data["offset"].as_u64(), Some(*end), "{event:?}");
        *end += event.data["delta"].as_str().expect("text").len() as u64;
    }
    assert_eq!(ends.len(), 3, "thinking, text, text: {ends:?}");
}

#[test]
fn cumulative_frames_contain_the_whole_step_after_any_resume() {
    let upstream = multi_step_model();
    let server = Server::start_against(&upstream, "");
    let id = server.submit(&json!({"input": "go"}));
    let path = format!("/v1/jobs/{id}/events");
    let live: Vec<Event> = server.stream(&path, 0).collect();
    assert!(live.windows(2).all(|w| w[0].seq < w[1].seq), "ids rise");
    let answer = server.get(&format!("/v1/jobs/{id}/output")).body;
    let deltas = server.events(&id);
    let last_text = deltas.iter().rfind(|e| e.data["type"] == "text").expect("text").seq;
    for after in 0..deltas.last().expect("done").seq {
        let events: Vec<Event> = server.stream(&path, after).collect();
        assert!(events.iter().all(|e| e.seq > after));
        assert_eq!(events.last().expect("done").name, "done");
        let shown = events.iter().rfind(|e| e.data["type"] == "text").map(|e| e.data["content"].clone());
        assert_eq!(shown, (after < last_text).then(|| json!(answer)), "after {after}");
    }
}

#[test]
fn steps_come_in_order_with_rising_indices() {
    let upstream = multi_step_model();
    let server = Server::start_against(&upstream, "");
    let id = server.submit(&json!({"input": "go"}));
    server.wait(&id);
    let mut kinds: Vec<String> = Vec::new();
    let mut indices: Vec<u64> = Vec::new();
    for event in server.events(&id).iter().filter(|e| e.name == "process_step") {
        let index = event.data["index"].as_u64().expect("an index");
        if indices.last() != Some(&index) {
            indices.push(index);
            kinds.push(event.data["type"].as_str().expect("a type").to_owned());
        }
    }
    assert_eq!(kinds, ["thinking", "text", "tool_call", "tool_call", "tool_result", "tool_result", "text"]);
    assert!(indices.windows(2).all(|w| w[0] < w[1]), "{indices:?}");
}

#[test]
fn json_lines_contain_the_same_events_as_sse() {
    let upstream = multi_step_model();
    let server = Server::start_against(&upstream, "");
    let id = server.submit(&json!({"input": "go"}));
    server.wait(&id);
    let reply =
        server.get_with(&format!("/v1/jobs/{id}/events?format=delta"), &[("accept", "application/x-ndjson")]);
    let lines: Vec<Value> =
        reply.body.lines().map(|l| serde_json::from_str(l).expect("a JSON line")).collect();
    let frames: Vec<Value> =
        server.events(&id).iter().map(|e| json!({"id": e.seq, "event": e.name, "data": e.data})).collect();
    assert_eq!(lines, frames);
}

#[test]
fn resuming_an_ended_job_at_its_last_id_gives_204_and_a_bad_cursor_400() {
    let server = Server::start();
    let id = server.submit(&json!({"input": "x"}));
    let job = server.wait(&id);
    let path = format!("/v1/jobs/{id}/events");
    let last = job["last_event_id"].as_u64().expect("an id");
    assert_eq!(server.get(&format!("{path}?after={last}")).status, 204);
    assert_eq!(server.get_with(&path, &[("last-event-id", &last.to_string())]).status, 204);
    for bad in
        [format!("{}", last + 1), "-1".into(), "abc".into(), "1.5".into(), "18446744073709551616".into()]
    {
        assert_eq!(server.get(&format!("{path}?after={bad}")).status, 400, "{bad}");
        assert_eq!(server.get_with(&path, &[("last-event-id", &bad)]).status, 400, "{bad}");
    }
    assert_eq!(server.get(&format!("{path}?format=nope")).status, 400);
    let header_wins = server.get_with(&format!("{path}?after=0"), &[("last-event-id", &last.to_string())]);
    assert_eq!(header_wins.status, 204);
}

#[test]
fn a_stream_without_follow_ends_at_the_end_of_the_log() {
    let upstream = Upstream::start(|_, _| Answer::stream(vec![Act::Data(content("so")), Act::Hang]));
    let server = Server::start_against(&upstream, "");
    let id = server.submit(&json!({"input": "x"}));
    let path = format!("/v1/jobs/{id}/events");
    assert!(server.stream(&path, 0).any(|e| e.data["type"] == "text"));
    let events: Vec<Event> = server.stream(&format!("{path}?follow=false"), 0).collect();
    assert!(events.iter().all(|e| e.name != "done") && events.len() >= 2, "{events:?}");
    server.post(&format!("/v1/jobs/{id}/cancel"), &json!({}));
}

#[test]
fn a_disconnect_cancels_the_job_only_with_on_disconnect_cancel() {
    let upstream = Upstream::start(|_, _| Answer::paced_text(&"word ".repeat(30), Duration::from_millis(50)));
    let server = Server::start_against(&upstream, "");
    for (mode, expected) in [("cancel", "cancelled"), ("continue", "succeeded")] {
        let body = json!({"input": "x", "on_disconnect": mode}).to_string();
        let mut stream =
            std::net::TcpStream::connect(server.url.trim_start_matches("http://")).expect("connect");
        let request = format!(
            "POST /v1/jobs?stream=true HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        std::io::Write::write_all(&mut stream, request.as_bytes()).expect("send");
        let mut head = [0; 1024];
        let count = std::io::Read::read(&mut stream, &mut head).expect("its head");
        let head = String::from_utf8_lossy(&head[..count]).to_lowercase();
        let id = head
            .split("x-job-id: job_")
            .nth(1)
            .expect("an id")
            .lines()
            .next()
            .expect("a line")
            .to_uppercase();
        drop(stream);
        assert_eq!(server.wait(&format!("job_{}", id.trim()))["status"], expected);
    }
}

#[test]
fn newlines_and_control_characters_survive_the_event_stream() {
    let control_characters =
        "a\nb\r\nc\rd\u{0}e\u{2028}f\u{85}g\tdata: x\n\nevent: done\n\nid: 99\n\n✓\u{1F980}";
    let upstream = Upstream::start(move |_, _| {
        Answer::stream(vec![Act::Data(content(control_characters)), Act::Data(finish("stop"))])
    });
    let server = Server::start_against(&upstream, "");
    let id = server.submit(&json!({"input": "x"}));
    assert_eq!(server.wait(&id)["output_text"], json!(control_characters));
    let events = server.events(&id);
    assert_whole(&events);
    assert_eq!(text_of(&events), control_characters);
}
