//! Streams that providers sent when their models called functions, replayed by a provider on loopback and
//! read through each API. The recordings lie beside the repository; without them the test says so and passes.

use crate::openai_chat::{CHAT, delta_text, frames};
use crate::openai_responses::{frames as named_frames, numbers};
use crate::streamed_calls::call_parts;
use crate::support::upstream::{Act, Answer, Upstream};
use crate::support::{Reply, Server};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Longer than the store of these tests gathers pieces.
const PACE: Duration = Duration::from_millis(5);

struct RecordedStream {
    file: String,
    body: String,
    is_anthropic: bool,
    /// What a correct client reads.
    expected: Value,
}

impl RecordedStream {
    /// Names and arguments of the calls.
    fn calls(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let calls = self.expected["tool_calls"].as_array().expect("calls").iter();
        calls.map(|call| (text(&call["name"]), text(&call["arguments"]))).collect()
    }

    /// The called functions, each once.
    fn functions(&self) -> Vec<String> {
        let mut names: Vec<String> = self.calls().into_iter().map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        names
    }

    /// The recording, an event at a time, and a pause behind each that has a piece of a call.
    fn answer(&self) -> Answer {
        let mut acts = Vec::new();
        for event in self.body.split_inclusive("\n\n") {
            acts.push(Act::Raw(event.to_owned()));
            if event.contains("arguments") || event.contains("partial_json") {
                acts.push(Act::Pause(PACE));
            }
        }
        let kind = ("content-type".to_owned(), "text/event-stream".to_owned());
        Answer { status: 200, headers: vec![kind], acts }
    }
}

fn recorded_streams() -> Vec<RecordedStream> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/provider-streams");
    let Ok(manifest) = std::fs::read_to_string(directory.join("manifest.json")) else {
        writeln!(std::io::stderr(), "SKIPPED: no recorded streams at {}", directory.display())
            .expect("standard error");
        return Vec::new();
    };
    let manifest: Value = serde_json::from_str(&manifest).expect("the manifest is JSON");
    let with_calls = manifest["fixtures"].as_array().expect("a list").iter().filter(|fixture| {
        fixture["expected"]["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty())
    });
    let read = |fixture: &Value| {
        let file = fixture["file"].as_str().expect("a name").to_owned();
        let body = std::fs::read_to_string(directory.join(&file)).expect("a recording");
        let is_anthropic = fixture["api"] == "anthropic-messages";
        RecordedStream { file, body, is_anthropic, expected: fixture["expected"].clone() }
    };
    with_calls.map(read).collect()
}

/// A server with a model a recording, which has its name.
fn start(recordings: &'static [RecordedStream]) -> Server {
    let upstream = Upstream::start(|request, _| {
        let wanted = recordings.iter().find(|recording| request["model"] == recording.file.as_str());
        wanted.expect("a recording").answer()
    });
    let models = recordings.iter().map(|recording| {
        let provider = if recording.is_anthropic { "anthropic" } else { "openai" };
        format!(
            "  - {{id: \"{}\", provider: {provider}, api_url: \"{}/v1\"}}\n",
            recording.file, upstream.url
        )
    });
    let models: String = models.collect();
    Server::start_with(&format!("store: {{linger_ms: 1}}\nmodels:\n{models}"))
}

/// Pieces, by call, of an answer that must be one of the recording.
type CallPieces = Vec<Vec<String>>;

fn assert_calls(recording: &RecordedStream, api: &str, found: &[(String, String)]) {
    assert_eq!(found, recording.calls(), "{api}: {}", recording.file);
}

fn ok(reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()
}

fn through_chat(server: &Server, recording: &RecordedStream) -> CallPieces {
    let function = |name| json!({"type": "function", "function": {"name": name}});
    let tools: Vec<Value> = recording.functions().into_iter().map(function).collect();
    let messages = json!([{"role": "user", "content": "go"}]);
    let body =
        json!({"model": recording.file, "messages": messages, "tools": tools, "stream": true, "store": true});
    let chunks = frames(&server.post(CHAT, &body));
    let (last, chunks) = chunks.split_last().expect("chunks");
    assert_eq!(last, "[DONE]", "{}", recording.file);
    let end = chunks.last().expect("an end");
    assert_eq!(end["choices"][0]["finish_reason"], "tool_calls", "{}", recording.file);
    assert_eq!(json!(delta_text(chunks, "content")), recording.expected["text"], "{}", recording.file);
    let (mut names, mut pieces) = (Vec::new(), CallPieces::new());
    for (place, id, name, arguments) in call_parts(chunks) {
        if place == pieces.len() as u64 {
            assert!(!id.is_empty());
            names.push(name);
            pieces.push(Vec::new());
        } else {
            assert!(id.is_empty() && name.is_empty(), "{}", recording.file);
        }
        pieces[usize::try_from(place).expect("few")].push(arguments);
    }
    let calls: Vec<_> = names.into_iter().zip(pieces.iter().map(|texts| texts.concat())).collect();
    assert_calls(recording, "chat", &calls);
    let id = end["id"].as_str().expect("an id");
    let stored = ok(&server.get(&format!("{CHAT}/{id}")));
    let calls = stored["choices"][0]["message"]["tool_calls"].as_array().expect("calls").clone();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let call = |call: &Value| (text(&call["function"]["name"]), text(&call["function"]["arguments"]));
    assert_calls(recording, "stored chat", &calls.iter().map(call).collect::<Vec<_>>());
    pieces
}

fn through_responses(server: &Server, recording: &RecordedStream) -> CallPieces {
    let function = |name| json!({"type": "function", "name": name, "parameters": {"type": "object"}});
    let tools: Vec<Value> = recording.functions().into_iter().map(function).collect();
    let body = json!({"model": recording.file, "input": "go", "tools": tools, "stream": true});
    let events = named_frames(&server.post("/v1/responses", &body).body);
    assert_eq!(numbers(&events), (0..events.len() as u64).collect::<Vec<_>>(), "{}", recording.file);
    let last = events.last().expect("events");
    assert_eq!(last["type"], "response.completed", "{}: {last}", recording.file);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (mut calls, mut pieces) = (Vec::new(), CallPieces::new());
    for item in last["response"]["output"].as_array().expect("items") {
        if item["type"] != "function_call" {
            continue;
        }
        let of = |kind: &str| {
            let kind = format!("response.{kind}");
            events.iter().filter(move |event| {
                event["type"] == kind && [&event["item_id"], &event["item"]["id"]].contains(&&item["id"])
            })
        };
        assert_eq!(of("output_item.added").count(), 1, "{}", recording.file);
        let deltas: Vec<String> =
            of("function_call_arguments.delta").map(|event| text(&event["delta"])).collect();
        let done: Vec<&Value> = of("function_call_arguments.done").map(|event| &event["arguments"]).collect();
        let ended: Vec<&Value> = of("output_item.done").map(|event| &event["item"]).collect();
        assert_eq!((done, ended), (vec![&item["arguments"]], vec![item]), "{}", recording.file);
        assert_eq!(json!(deltas.concat()), item["arguments"], "{}", recording.file);
        calls.push((text(&item["name"]), text(&item["arguments"])));
        pieces.push(deltas);
    }
    assert_calls(recording, "responses", &calls);
    let path = format!("/v1/responses/{}", text(&last["response"]["id"]));
    assert_eq!(ok(&server.get(&path))["output"], last["response"]["output"], "{}", recording.file);
    let middle = events.len() / 2;
    let rest = server.get(&format!("{path}?stream=true&starting_after={middle}"));
    assert_eq!(named_frames(&rest.body), events[middle + 1..], "{}", recording.file);
    pieces
}

fn through_messages(server: &Server, recording: &RecordedStream) -> CallPieces {
    let tool = |name| json!({"name": name, "input_schema": {"type": "object"}});
    let tools: Vec<Value> = recording.functions().into_iter().map(tool).collect();
    let messages = json!([{"role": "user", "content": "go"}]);
    let body = json!({"model": recording.file, "max_tokens": 1_000, "messages": messages, "tools": tools,
        "stream": true});
    let events = named_frames(&server.post("/v1/messages", &body).body);
    let [.., delta, stop] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&delta["delta"]["stop_reason"], &stop["type"]), (&json!("tool_use"), &json!("message_stop")));
    let (mut names, mut pieces) = (Vec::new(), CallPieces::new());
    let mut open = None;
    for event in &events {
        match event["type"].as_str().expect("a type") {
            "content_block_start" => {
                assert_eq!(open.replace(&event["index"]), None, "{}", recording.file);
                if event["content_block"]["type"] == "tool_use" {
                    names.push(event["content_block"]["name"].as_str().expect("a name").to_owned());
                    pieces.push(Vec::new());
                }
            }
            "content_block_delta" => {
                assert_eq!(open, Some(&event["index"]), "{}", recording.file);
                let piece = event["delta"]["partial_json"].as_str();
                pieces.last_mut().into_iter().zip(piece).for_each(|(texts, piece)| texts.push(piece.into()));
            }
            "content_block_stop" => assert_eq!(open.take(), Some(&event["index"]), "{}", recording.file),
            _ => {}
        }
    }
    let calls: Vec<_> = names.into_iter().zip(pieces.iter().map(|texts| texts.concat())).collect();
    assert_calls(recording, "messages", &calls);
    pieces
}

#[test]
fn recorded_calls_reach_clients_of_each_api_byte_for_byte() {
    let recordings: &[RecordedStream] = recorded_streams().leak();
    if recordings.is_empty() {
        return;
    }
    assert!(recordings.len() >= 25, "only {} recordings have calls", recordings.len());
    let server = start(recordings);
    for (api, through) in [
        ("chat", through_chat as fn(&Server, &RecordedStream) -> CallPieces),
        ("responses", through_responses),
        ("messages", through_messages),
    ] {
        let calls: CallPieces = recordings.iter().flat_map(|recording| through(&server, recording)).collect();
        let pieces: usize = calls.iter().map(Vec::len).sum();
        assert!(pieces > 2 * calls.len(), "{api}: {pieces} pieces of {} calls", calls.len());
    }
}
