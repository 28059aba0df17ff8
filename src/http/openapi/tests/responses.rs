//! `/v1/responses`.

use super::Drawing;
use super::bodies::body;
use super::openai::{UNSTORED, with_job_headers, with_settings};
use super::operation::{Operation, json_of, named};
use super::shapes::{function_name, item_id, item_page, messages, number, open, or_null, text, text_or_null};
use super::v1::key;
use crate::domain::hosted_tool::HostedTool;
use crate::http::v1::openai::responses::request::{FIELDS, ResponsesRequest};
use serde_json::{Value, json};

/// Draws all of it.
pub(super) fn draw(drawing: &mut Drawing) {
    drawing.component("ResponseTool", tool());
    drawing.component("ResponseToolChoice", tool_choice());
    drawing.component("ResponsesRequest", request(true));
    drawing.component("ResponsesInput", request(false));
    drawing.component("Response", response());
    drawing.component("ResponseUsage", usage());
    let mut answers = json_of(named("Response"));
    answers["text/event-stream"] = json!({"schema": {"type": "string"}});
    let create = Operation::new("POST", "/v1/responses", "Asks a model: OpenAI's responses, as a job");
    let create = with_job_headers(create).header(
        "NanoClaw-Run-At",
        json!({"type": "string", "description": "Unix seconds or RFC 3339; with 'background'"}),
    );
    let create = create.takes(json_of(named("ResponsesRequest")));
    drawing.add(create.says(200, "The response, or with 'stream' its numbered events", answers.clone()));
    drawing.add(web_socket());
    let include = json!({"type": "string", "description": "Accepted and unused"});
    let show = Operation::new("GET", "/v1/responses/{id}", "A stored response, whole or as a stream")
        .query("stream", json!({"type": "boolean"}))
        .query("starting_after", json!({"type": "integer", "minimum": 0}))
        .query("include", include.clone())
        .query("include[]", include.clone())
        .query("include_obfuscation", include.clone())
        .header("Last-Event-ID", json!({"type": "string", "pattern": "^[0-9]+$"}));
    drawing.add(show.says(200, "The response, or its events behind the given number", answers));
    let cancel = Operation::new("POST", "/v1/responses/{id}/cancel", "Cancels a response");
    drawing.add(cancel.says(200, "Cancelled, or ended before", json_of(named("Response"))));
    let delete = Operation::new("DELETE", "/v1/responses/{id}", "Deletes an ended response and its job");
    drawing.add(delete.says(200, "It is gone", json_of(deleted("response"))));
    let items = Operation::new("GET", "/v1/responses/{id}/input_items", "The input of a response")
        .query("after", item_id())
        .query("limit", json!({"type": "integer", "minimum": 1, "maximum": 100}))
        .query("order", json!({"enum": ["asc", "desc"]}))
        .query("include", include.clone())
        .query("include[]", include);
    drawing.add(items.says(200, "Newest first, unless asked otherwise", json_of(item_page())));
    helpers(drawing);
}

/// An object that is gone.
pub(super) fn deleted(object: &str) -> Value {
    let fields = json!({"id": text(), "object": {"const": object}, "deleted": {"const": true}});
    open(fields, &["id", "object", "deleted"])
}

fn helpers(drawing: &mut Drawing) {
    let counted = json!({"object": {"const": "response.input_tokens"}, "input_tokens": {"type": "integer", "minimum": 0}});
    let count = Operation::new("POST", "/v1/responses/input_tokens", "Estimates the tokens of a request")
        .takes(json_of(named("ResponsesInput")));
    let counted = json_of(open(counted, &["object", "input_tokens"]));
    drawing.add(count.says(200, "No model is called", counted));
    let item = open(
        json!({"type": {"const": "compaction"}, "id": text(), "encrypted_content": text()}),
        &["type", "id", "encrypted_content"],
    );
    let compacted = json!({
        "id": text(), "object": {"const": "response.compaction"}, "created_at": {"type": "integer"},
        "output": {"type": "array", "items": item}, "usage": named("ResponseUsage"),
    });
    let compacted = open(compacted, &["id", "object", "created_at", "output", "usage"]);
    let summary = "Asks the model for a summary that stands for the input";
    let compact = Operation::new("POST", "/v1/responses/compact", summary)
        .header("Idempotency-Key", key())
        .header("NanoClaw-Priority", json!({"type": "integer", "minimum": 0, "maximum": 9}));
    let compact = compact.takes(json_of(named("ResponsesRequest")));
    drawing.add(compact.says(200, "The item that stands for the input", json_of(compacted)));
}

fn usage() -> Value {
    let count = || json!({"type": "integer", "minimum": 0});
    let input = open(
        json!({"cached_tokens": count(), "cache_write_tokens": count()}),
        &["cached_tokens", "cache_write_tokens"],
    );
    let output = open(json!({"reasoning_tokens": count()}), &["reasoning_tokens"]);
    open(
        json!({
            "input_tokens": count(), "input_tokens_details": input, "output_tokens": count(),
            "output_tokens_details": output, "total_tokens": count(),
        }),
        &["input_tokens", "input_tokens_details", "output_tokens", "output_tokens_details", "total_tokens"],
    )
}

fn web_socket() -> Operation {
    let only = |value: &str| json!({"const": value});
    with_settings(Operation::new("GET", "/v1/responses", "Opens a WebSocket for responses"))
        .header("Upgrade", only("websocket"))
        .header("Sec-WebSocket-Version", only("13"))
        .header("Sec-WebSocket-Key", json!({"type": "string"}))
        .says(101, OPENED, Value::Null)
        .says(426, "Not a request for a WebSocket of version 13", json_of(named("ErrorResponse")))
}

const OPENED: &str = "The connection is a WebSocket. The client sends text messages {\"type\": \"response.create\", …} with \
    the fields of ResponsesRequest, without 'stream', 'stream_options' and 'background'. The server sends the events \
    of the response, one JSON text a message, and for an error {\"type\": \"error\", \"status\": 400, \"error\": \
    {\"type\", \"code\", \"message\", \"param\"}}. Responses follow each other. 'previous_response_id' may name the \
    connection's last response even with 'store': false";

fn response() -> Value {
    let flag = || json!({"type": "boolean"});
    let count_or_null = || json!({"type": ["integer", "null"]});
    let error = open(json!({"code": text(), "message": text()}), &["code", "message"]);
    let reason = json!({"reason": {"enum": ["max_output_tokens", "content_filter"]}});
    let format = json!({"format": open(json!({"type": text()}), &["type"]), "verbosity": text()});
    let fields = json!({
        "id": {"type": "string", "description": "`resp_` and the id of the job"},
        "object": {"const": "response"},
        "created_at": {"type": "integer"},
        "completed_at": count_or_null(),
        "status": {"enum": ["queued", "in_progress", "completed", "failed", "cancelled", "incomplete"]},
        "model": text(),
        "output": {"type": "array", "items": named("OutputItem")},
        "error": or_null(error),
        "incomplete_details": or_null(open(reason, &["reason"])),
        "usage": or_null(named("ResponseUsage")),
        "previous_response_id": text_or_null(),
        "instructions": text_or_null(),
        "tools": {"type": "array", "items": named("ResponseTool")},
        "tool_choice": named("ResponseToolChoice"),
        "truncation": {"enum": ["auto", "disabled"]},
        "parallel_tool_calls": flag(),
        "text": open(format, &["format"]),
        "top_p": number(0.0, 1.0),
        "presence_penalty": number(-2.0, 2.0),
        "frequency_penalty": number(-2.0, 2.0),
        "top_logprobs": {"const": 0},
        "temperature": number(0.0, 2.0),
        "reasoning": open(json!({"effort": text_or_null(), "summary": text_or_null()}), &["effort", "summary"]),
        "max_output_tokens": count_or_null(),
        "max_tool_calls": count_or_null(),
        "store": flag(),
        "background": flag(),
        "service_tier": text(),
        "metadata": named("Metadata"),
        "safety_identifier": text_or_null(),
        "prompt_cache_key": text_or_null(),
    });
    let names: Vec<String> = fields.as_object().expect("an object").keys().cloned().collect();
    let mut response = open(fields, &names.iter().map(String::as_str).collect::<Vec<_>>());
    response["properties"]["conversation"] = open(json!({"id": text()}), &["id"]);
    response["description"] =
        json!("A Response of OpenAI's API, with every field of Open Responses' ResponseResource");
    response
}

/// A tool of the client or of this server.
fn tool() -> Value {
    let function = open(
        json!({
            "type": {"const": "function"}, "name": function_name(64), "description": text_or_null(),
            "parameters": {"type": ["object", "null"]}, "strict": {"type": ["boolean", "null"]},
        }),
        &["type", "name"],
    );
    let grammar = open(
        json!({"type": {"const": "grammar"}, "syntax": text(), "definition": text()}),
        &["type", "syntax", "definition"],
    );
    let format =
        json!({"anyOf": [open(json!({"type": {"const": "text"}}), &["type"]), grammar, {"type": "null"}]});
    let custom = open(
        json!({
            "type": {"const": "custom"}, "name": function_name(64), "description": text_or_null(),
            "format": format,
        }),
        &["type", "name"],
    );
    let search = open(
        json!({
            "type": {"const": "tool_search"}, "execution": {"const": "client"}, "description": text_or_null(),
            "parameters": {"type": ["object", "null"]},
        }),
        &["type", "execution"],
    );
    let names = json!({"type": "array", "items": text()});
    let filter = open(json!({"tool_names": names}), &["tool_names"]);
    let sides = json!({"always": or_null(filter.clone()), "never": or_null(filter.clone())});
    let mcp = open(
        json!({
            "type": {"const": "mcp"}, "server_label": {"type": "string", "minLength": 1},
            "allowed_tools": {"anyOf": [names, filter, {"type": "null"}]},
            "require_approval": {"anyOf": [{"enum": ["always", "never", null]}, open(sides, &[])]},
        }),
        &["type", "server_label"],
    );
    json!({"anyOf": [function, custom, search, open(json!({"type": hosted_type()}), &["type"]), mcp]})
}

fn hosted_type() -> Value {
    json!({"type": "string", "pattern": "^(code_interpreter|shell|local_shell|web_search(_.*)?)$"})
}

fn tool_choice() -> Value {
    let named = open(json!({"type": {"enum": ["function", "custom"]}, "name": text()}), &["type", "name"]);
    let allowed = json!({
        "type": {"const": "allowed_tools"}, "mode": {"enum": ["auto", "required", "none", null]},
        "tools": {"type": "array", "items": {"type": "object"}},
    });
    let hosted = open(json!({"type": hosted_type()}), &["type"]);
    let words = json!({"enum": ["none", "auto", "required"]});
    let mcp = json!({"type": {"const": "mcp"}, "server_label": text(), "name": text_or_null()});
    let mcp = open(mcp, &["type", "server_label"]);
    json!({"anyOf": [words, named, open(allowed, &["type", "tools"]), hosted, mcp]})
}

/// The body of the routes that call a model, or of the one that only counts.
fn request(is_called: bool) -> Value {
    let includes: Vec<_> =
        HostedTool::INCLUDES.into_iter().filter(|name| !name.ends_with("logprobs")).collect();
    let special = [
        ("input", json!({"anyOf": [text(), messages(named("InputItem"))]})),
        ("model", named("Model")),
        ("metadata", named("Metadata")),
        ("include", json!({"type": "array", "items": {"enum": includes}})),
        ("tools", json!({"type": "array", "maxItems": 128, "items": named("ResponseTool")})),
        ("tool_choice", named("ResponseToolChoice")),
        ("top_p", number(0.0, 1.0)),
        ("presence_penalty", number(-2.0, 2.0)),
        ("frequency_penalty", number(-2.0, 2.0)),
    ];
    let required: &[&str] = if is_called { &["model"] } else { &[] };
    let mut drawn = body::<ResponsesRequest>(&special, required);
    drawn["properties"]["store"]["description"] = json!(UNSTORED);
    for unused in FIELDS.unused {
        drawn["properties"][*unused] = json!({"description": "Accepted and unused"});
    }
    drawn
}
