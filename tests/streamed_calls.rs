//! The arguments of the client's functions flow to clients as the model writes them.

use crate::openai_chat::{CHAT, frames, function, job_of, user, with};
use crate::openai_responses::{frames as response_frames, numbers};
use crate::support::upstream::{Act, Answer, Upstream, content, finish, tool_results};
use crate::support::{Events, Server, against, assert_whole, wait_until};
use serde_json::{Value, json};
use std::time::Duration;

const RESPONSES: &str = "/v1/responses";

/// Longer than the store gathers pieces.
const PACE: Duration = Duration::from_millis(120);

const ROME: [&str; 3] = ["{\"city\":", "\"Ro", "me\"}"];

fn call_delta(index: usize, function: &Value) -> Act {
    let call = json!({"index": index, "function": function});
    Act::Data(json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null}]}))
}

/// The acts of a call as providers stream it: the name alone, then pieces of the arguments.
fn call(index: usize, name: &str, pieces: &[&str]) -> Vec<Act> {
    let head = json!({"index": index, "id": format!("call_{index}"), "type": "function",
        "function": {"name": name, "arguments": ""}});
    let head = json!({"choices": [{"index": 0, "delta": {"tool_calls": [head]}, "finish_reason": null}]});
    let mut acts = vec![Act::Data(head)];
    for piece in pieces {
        acts.extend([call_delta(index, &json!({"arguments": piece})), Act::Pause(PACE)]);
    }
    acts
}

fn answer(parts: Vec<Vec<Act>>) -> Answer {
    let mut acts: Vec<Act> = parts.into_iter().flatten().collect();
    acts.push(Act::Data(finish("tool_calls")));
    Answer::stream(acts)
}

fn streamed(fields: &Value) -> Value {
    with(with(user("go"), &json!({"tools": [function("weather")], "stream": true})), fields)
}

fn response_request() -> Value {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let tools = json!([{"type": "function", "name": "weather", "parameters": parameters}]);
    json!({"model": "scripted", "input": "go", "stream": true, "tools": tools})
}

/// The parts of calls in chunks of a chat, as `(place, id, name, arguments)`.
pub(crate) fn call_parts(frames: &[Value]) -> Vec<(u64, String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let calls = frames.iter().filter_map(|frame| frame["choices"][0]["delta"]["tool_calls"].as_array());
    let part = |call: &Value| {
        let place = call["index"].as_u64().expect("a place");
        (place, text(&call["id"]), text(&call["function"]["name"]), text(&call["function"]["arguments"]))
    };
    calls.flatten().map(part).collect()
}

#[test]
fn a_chat_streams_the_arguments_of_calls_and_their_results_continue_it() {
    let upstream = Upstream::start(|request, _| match tool_results(request).len() {
        0 => answer(vec![
            vec![Act::Data(content("Let me look."))],
            call(0, "weather", &ROME),
            call(1, "weather", &["{\"city\":\"Oslo\"}"]),
        ]),
        count => Answer::text(&format!("{count} results")),
    });
    let server = Server::start_against(&upstream, "");
    let reply = server.post(CHAT, &streamed(&json!({})));
    let chunks = frames(&reply);
    let parts = call_parts(&chunks);
    let of = |place: u64| parts.iter().filter(move |part| part.0 == place);
    for (place, arguments) in [(0, ROME.concat()), (1, "{\"city\":\"Oslo\"}".to_owned())] {
        let (_, id, name, begun) = of(place).next().expect("a call");
        assert!(!id.is_empty() && name == "weather" && begun.is_empty(), "{parts:?}");
        assert!(of(place).skip(1).all(|part| part.1.is_empty() && part.2.is_empty()), "{parts:?}");
        assert_eq!(of(place).map(|part| part.3.as_str()).collect::<String>(), arguments);
    }
    assert!(of(0).count() > 2, "{parts:?}");
    let last = chunks.iter().rev().find_map(|chunk| chunk["choices"][0]["finish_reason"].as_str());
    assert_eq!(last, Some("tool_calls"));

    let ids: Vec<&String> = parts.iter().map(|part| &part.1).filter(|id| !id.is_empty()).collect();
    let function = |city: &str| json!({"name": "weather", "arguments": format!("{{\"city\":\"{city}\"}}")});
    let made = |id: &String, city: &str| json!({"id": id, "type": "function", "function": function(city)});
    let result = |id: &String| json!({"role": "tool", "tool_call_id": id, "content": "mild"});
    let calls = json!([made(ids[0], "Rome"), made(ids[1], "Oslo")]);
    let messages = json!([{"role": "user", "content": "go"},
        {"role": "assistant", "content": "Let me look.", "tool_calls": calls}, result(ids[0]), result(ids[1])]);
    let second =
        with(user(""), &json!({"messages": messages, "tools": [crate::openai_chat::function("weather")]}));
    assert_eq!(server.post(CHAT, &second).json()["choices"][0]["message"]["content"], "2 results");

    check_own_events(&server, &job_of(&reply));
}

/// The same job in this server's own events: pieces in delta form, calls alone in cumulative form.
fn check_own_events(server: &Server, job: &str) {
    let deltas = server.events(job);
    assert_whole(&deltas);
    let pieces: Vec<&Value> =
        deltas.iter().map(|event| &event.data).filter(|data| data["type"] == "arguments").collect();
    assert_eq!((&pieces[0]["name"], &pieces[0]["delta"]), (&json!("weather"), &json!("")));
    let mut texts = std::collections::BTreeMap::<String, String>::new();
    for piece in &pieces {
        let text = texts.entry(piece["id"].to_string()).or_default();
        assert_eq!(piece["offset"], text.len(), "{pieces:?}");
        text.push_str(piece["delta"].as_str().expect("text"));
    }
    let calls = deltas.iter().filter(|event| event.data["type"] == "tool_call");
    let whole: Vec<_> =
        calls.map(|call| (call.data["id"].to_string(), call.data["arguments"].clone())).collect();
    assert_eq!(texts.into_iter().map(|(id, text)| (id, json!(text))).collect::<Vec<_>>(), whole);
    let whole: Vec<_> = server.stream(&format!("/v1/jobs/{job}/events"), 0).collect();
    assert!(whole.iter().all(|event| event.data["type"] != "arguments"), "{whole:?}");
    assert_eq!(whole.iter().filter(|event| event.data["type"] == "tool_call").count(), 2);
}

/// Reads until a frame holds this text.
fn read_until(events: &mut Events, text: &str) {
    let found = std::iter::from_fn(|| events.line()).any(|line| line.contains(text));
    assert!(found, "the stream ends before {text}");
}

#[test]
fn pieces_arrive_while_the_model_writes_on_and_also_from_memory() {
    let upstream = Upstream::start(|_, _| {
        let mut acts = call(0, "weather", &ROME[..2]);
        acts.push(Act::Hang);
        Answer::stream(acts)
    });
    let server = Server::start_against(&upstream, "");
    for store in [true, false] {
        let (_, mut events) = server.open(CHAT, &[], &streamed(&json!({"store": store})));
        read_until(&mut events, "\"arguments\":\"\\\"Ro\"");
        let (_, mut events) =
            server.open(RESPONSES, &[], &with(response_request(), &json!({"store": store})));
        read_until(&mut events, "\"delta\":\"\\\"Ro\"");
    }
}

#[test]
fn p2_a_response_streams_arguments_with_stable_numbers_and_goes_on_after_a_crash() {
    let upstream = Upstream::start(|_, number| {
        let begun = call(0, "weather", &ROME[..2]);
        let rest = vec![call_delta(0, &json!({"arguments": ROME[2]}))];
        answer(match number {
            0 => vec![begun, vec![Act::Hang]],
            _ => vec![vec![Act::Data(content("Again:"))], begun, rest],
        })
    });
    let config = against(&upstream, "");
    let server = Server::start_with(&config);
    let made =
        server.post(RESPONSES, &with(response_request(), &json!({"background": true, "stream": false})));
    let id = made.json()["id"].as_str().expect("an id").to_owned();
    let path = format!("{RESPONSES}/{id}?stream=true");
    let (mut before, mut line) = (Vec::new(), String::new());
    let mut events = server.stream(&path, 0);
    while !line.contains("\\\"Ro") {
        line = events.line().expect("a line");
        before.extend(
            line.strip_prefix("data: ").map(|data| serde_json::from_str::<Value>(data).expect("JSON")),
        );
    }
    let server = server.crash_and_restart(&config);
    let seen = before.last().expect("frames")["sequence_number"].clone();
    let rest = response_frames(&server.get(&format!("{path}&starting_after={seen}")).body);
    let whole = response_frames(&server.get(&path).body);
    assert_eq!(numbers(&whole), (0..whole.len() as u64).collect::<Vec<_>>());
    assert_eq!([before, rest].concat(), whole, "nothing is missing, and nothing is there twice");
    for after in 0..whole.len() {
        let rest = response_frames(&server.get(&format!("{path}&starting_after={after}")).body);
        assert_eq!(rest, whole[after + 1..], "after {after}");
    }
    let of = |kind: &str| whole.iter().filter(|f| f["type"] == kind).cloned().collect::<Vec<_>>();
    let done: Vec<Value> =
        of("response.output_item.done").iter().map(|f| f["item"]["status"].clone()).collect();
    assert_eq!(done, ["completed", "completed"], "the model repeated the call, so it went on");
    let finished = of("response.function_call_arguments.done");
    assert_eq!((finished.len(), &finished[0]["arguments"]), (1, &json!(ROME.concat())));
    let item = &finished[0]["item_id"];
    let deltas = of("response.function_call_arguments.delta");
    let deltas: Vec<&str> =
        deltas.iter().filter(|f| f["item_id"] == *item).filter_map(|f| f["delta"].as_str()).collect();
    assert!(deltas.len() > 1 && deltas.concat() == ROME.concat(), "{deltas:?}");
    let output = &whole.last().expect("frames")["response"]["output"];
    assert_eq!((output.as_array().map(Vec::len), &output[1]["arguments"]), (Some(2), &json!(ROME.concat())));
    assert_eq!(output[0]["type"], "message", "the output has the order of the answer");
    let added = of("response.output_item.added");
    assert_eq!((&added[0]["item"]["call_id"], added.len()), (&output[1]["call_id"], 2));
}

#[test]
fn a_message_streams_the_input_of_one_tool_after_the_other() {
    let upstream = Upstream::start(|_, _| {
        let oslo = call(1, "weather", &["{\"city\":", "\"Oslo\"}"]);
        answer(vec![call(0, "weather", &ROME), oslo, call(2, "weather", &[])])
    });
    let server = Server::start_against(&upstream, "");
    let tool = json!({"name": "weather", "input_schema": {"type": "object"}});
    let body = with(user("go"), &json!({"max_tokens": 100, "stream": true, "tools": [tool]}));
    let frames = response_frames(&server.post("/v1/messages", &body).body);
    let mut open = None;
    let mut inputs = Vec::<(String, usize)>::new();
    for frame in &frames {
        match frame["type"].as_str().expect("a type") {
            "content_block_start" => {
                assert_eq!(open.replace(frame["index"].clone()), None, "blocks follow each other");
                inputs.push((String::new(), 0));
            }
            "content_block_delta" => {
                assert_eq!(open.as_ref(), Some(&frame["index"]));
                let (input, pieces) = inputs.last_mut().expect("a block");
                input.push_str(frame["delta"]["partial_json"].as_str().expect("input"));
                *pieces += 1;
            }
            "content_block_stop" => assert_eq!(open.take().as_ref(), Some(&frame["index"])),
            _ => {}
        }
    }
    let texts: Vec<&str> = inputs.iter().map(|(input, _)| input.as_str()).collect();
    assert_eq!(texts, [ROME.concat().as_str(), "{\"city\":\"Oslo\"}", "{}"]);
    assert!(inputs[0].1 > 1 && inputs[1].1 > 1, "{inputs:?}");
}

#[test]
fn a_call_that_broke_off_goes_on_if_the_model_repeats_it() {
    let upstream = Upstream::start(|request, number| {
        let mut acts = call(0, "weather", &ROME[..2]);
        let text = request["messages"][0]["content"].as_str().expect("text");
        match (text, number % 2) {
            (_, 0) => return Answer { acts, ..Answer::text("") },
            ("again", _) => acts = call(0, "weather", &["{", "\"city\":\"Rom", "e\"}"]),
            _ => acts = call(0, "weather", &["{\"city\":\"Oslo\"}"]),
        }
        answer(vec![acts])
    });
    let server = Server::start_against(&upstream, "");
    let ask = |text: &str| {
        let question = json!([{"role": "user", "content": text}]);
        server.post(CHAT, &streamed(&json!({"messages": question})))
    };
    let parts = call_parts(&frames(&ask("again")));
    assert_eq!(parts.iter().filter(|part| !part.1.is_empty()).count(), 1, "{parts:?}");
    assert_eq!(parts.iter().map(|part| part.3.as_str()).collect::<String>(), ROME.concat());
    let other = ask("other").body;
    assert!(other.contains("answer_restarted"), "{other}");
    assert!(!other.contains("Oslo"), "{other}");
}

#[test]
fn a_call_that_broke_off_and_was_not_repeated_shares_its_id_with_no_other() {
    let upstream = Upstream::start(|request, number| match (number, tool_results(request).len()) {
        (0, _) => Answer { acts: call(0, "weather", &ROME[..2]), ..Answer::text("") },
        (_, 0) => {
            let calculator = call(1, "calculator", &["{\"expression\":\"6*7\"}"]);
            answer(vec![call(0, "weather", &["{\"ci", "ty\":\"", "Oslo\"}"]), calculator])
        }
        (_, count) => Answer::text(&format!("{count} results")),
    });
    let server = Server::start_against(&upstream, "");
    let headers = [("nanoclaw-tools", "calculator"), ("content-type", "application/json")];
    let ask = |body: &Value| server.request(("POST", RESPONSES), &headers, &body.to_string());
    let frames = response_frames(&ask(&response_request()).body);
    let added = frames.iter().filter(|frame| frame["type"] == "response.output_item.added");
    let calls: Vec<&Value> =
        added.map(|frame| &frame["item"]).filter(|item| item["type"] == "function_call").collect();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert_ne!(calls[0]["call_id"], calls[1]["call_id"], "clients keep calls by these ids");
    let response = &frames.last().expect("frames")["response"];
    let items = response["output"].as_array().expect("items");
    let whole = items.iter().find(|item| item["type"] == "function_call").expect("a call");
    assert_eq!(whole["call_id"], calls[1]["call_id"]);
    let deltas = frames.iter().filter(|f| f["type"] == "response.function_call_arguments.delta");
    let deltas = deltas.filter(|frame| frame["item_id"] == whole["id"]).filter_map(|f| f["delta"].as_str());
    assert_eq!(json!(deltas.collect::<String>()), whole["arguments"]);
    let result = json!({"type": "function_call_output", "call_id": whole["call_id"], "output": "mild"});
    let question = json!({"role": "user", "content": "go"});
    let input = json!([question, whole, result]);
    for fields in
        [json!({"input": [result], "previous_response_id": response["id"]}), json!({"input": input})]
    {
        let reply = ask(&with(response_request(), &with(fields, &json!({"stream": false}))));
        let output = &reply.json()["output"][0];
        assert_eq!(output["content"][0]["text"], "2 results", "the model sees both: {}", reply.body);
    }
}

#[test]
fn calls_of_the_servers_tools_are_not_streamed() {
    let upstream = Upstream::start(|request, _| match tool_results(request).len() {
        0 => {
            answer(vec![call(0, "calculator", &["{\"expression\":", "\"6*7\"}"]), call(1, "weather", &ROME)])
        }
        count => Answer::text(&format!("{count} results")),
    });
    let server = Server::start_against(&upstream, "");
    let headers = [("nanoclaw-tools", "calculator"), ("content-type", "application/json")];
    let reply = server.request(("POST", CHAT), &headers, &streamed(&json!({})).to_string());
    let parts = call_parts(&frames(&reply));
    let whole = (0, "weather".to_owned(), ROME.concat());
    assert_eq!(
        parts.into_iter().map(|(place, _, name, text)| (place, name, text)).collect::<Vec<_>>(),
        [whole]
    );
    let events = server.events(&job_of(&reply));
    assert!(events.iter().all(|event| event.data["type"] != "arguments"), "{events:?}");
    wait_until("the job has ended", || {
        server.get(&format!("/v1/jobs/{}", job_of(&reply))).json()["status"] == "succeeded"
    });
}
