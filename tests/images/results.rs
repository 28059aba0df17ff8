//! Images in results of the client's functions: they follow the results in a message of the user.

use super::{CHAT, GIF, RESPONSES, config, url};
use crate::support::Server;
use crate::support::upstream::{Answer, Upstream};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The last messages of the newest request to the provider, as `role` or `role+image`.
fn roles(upstream: &Upstream) -> Vec<String> {
    let requests = upstream.requests();
    let messages = requests.last().expect("a request")["messages"].as_array().expect("messages").clone();
    let role = |message: &Value| {
        let has_image = message["content"].to_string().contains(&STANDARD.encode(GIF));
        format!("{}{}", message["role"].as_str().expect("a role"), if has_image { "+image" } else { "" })
    };
    messages.iter().map(role).collect()
}

#[test]
fn an_image_in_the_result_of_a_function_reaches_the_model() {
    let upstream = Upstream::start(|_, _| Answer::text("seen"));
    let server = Server::start_with(&config(&upstream));
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "view", "arguments": "{}"});
    let result =
        |id: &str, output: Value| json!({"type": "function_call_output", "call_id": id, "output": output});
    let image =
        json!([{"type": "input_text", "text": "a picture"}, {"type": "input_image", "image_url": url()}]);
    let question = json!({"role": "user", "content": "look"});
    let mut input =
        vec![question.clone(), call("a"), call("b"), result("a", image), result("b", json!("none"))];
    let body = |input: &[Value]| json!({"model": "eyes", "input": input});
    let reply = server.post(RESPONSES, &body(&input));
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(roles(&upstream), ["user", "assistant", "tool", "tool", "user+image"]);
    let items = format!("{RESPONSES}/{}/input_items?order=asc", reply.json()["id"].as_str().expect("an id"));
    let shown = server.get(&items).json();
    assert_eq!(shown["data"][3]["output"][1]["image_url"], url(), "{shown}");
    input.extend([json!({"role": "assistant", "content": "seen"}), question]);
    assert_eq!(server.post(RESPONSES, &body(&input)).status, 200);
    let all = ["user", "assistant", "tool", "tool", "user+image", "assistant", "user"];
    assert_eq!(roles(&upstream), all);
    let blind = server.post(RESPONSES, &json!({"model": "blind", "input": input}));
    assert_eq!(blind.status, 400, "{}", blind.body);
}

#[test]
fn an_image_in_a_tool_result_of_anthropics_route_reaches_the_model() {
    let upstream = Upstream::start(|_, _| Answer::text("seen"));
    let server = Server::start_with(&config(&upstream));
    let source = json!({"type": "base64", "media_type": "image/gif", "data": STANDARD.encode(GIF)});
    let result = json!([{"type": "text", "text": "a picture"}, {"type": "image", "source": source}]);
    let body = json!({
        "model": "eyes", "max_tokens": 99,
        "tools": [{"name": "view", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "view", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": result},
                {"type": "text", "text": "what is it?"},
            ]},
        ],
    });
    let reply = server.post("/v1/messages", &body);
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(roles(&upstream), ["user", "assistant", "tool", "user+image", "user"]);
    let sent = upstream.requests();
    let messages = &sent.last().expect("a request")["messages"];
    assert_eq!(messages[2]["content"], "a picture");
    assert!(messages[3]["content"].to_string().contains("in the result of view"), "{messages}");
    let chat = json!({"model": "eyes", "messages": [{"role": "user", "content": "x"}], "verbosity": "low"});
    assert_eq!(server.post(CHAT, &chat).status, 200, "what agents send to GPT-5 by default");
}
