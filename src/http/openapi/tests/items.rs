//! Items of `/v1/responses` and `/v1/conversations`: those that come in, those that a model's answer consists
//! of, and their parts.

use super::Drawing;
use super::operation::named;
use super::shapes::{image_detail, image_url, open, or_null, text, text_or_list, text_or_null};
use serde_json::{Value, json};

/// Draws all of it.
pub(super) fn draw(drawing: &mut Drawing) {
    parts(drawing);
    drawing.component("InputItem", json!({"anyOf": input_items()}));
    drawing.component("OutputItem", json!({"anyOf": output_items()}));
    let known = json!({"anyOf": [named("OutputItem"), named("InputItem")]});
    let with_id = open(json!({"id": text(), "type": text()}), &["id", "type"]);
    drawing.component("StoredItem", json!({"allOf": [with_id, known]}));
}

fn parts(drawing: &mut Drawing) {
    let kinds = json!({"enum": ["input_text", "output_text", "text", "summary_text", "reasoning_text"]});
    drawing.component("TextPart", open(json!({"type": kinds, "text": text()}), &["type", "text"]));
    let refusal = json!({"type": {"const": "refusal"}, "refusal": text()});
    drawing.component("RefusalPart", open(refusal, &["type", "refusal"]));
    let image = json!({
        "type": {"const": "input_image"}, "image_url": or_null(image_url()), "file_id": text_or_null(),
        "detail": image_detail(),
    });
    let mut image = open(image, &["type"]);
    image["description"] = json!("In a user's message, with one of image_url and file_id");
    drawing.component("ImagePart", image);
}

/// Clients leave the type of messages and references out.
fn kind_or_null(kind: &str) -> Value {
    json!({"enum": [kind, null]})
}

fn input_items() -> Vec<Value> {
    let texts = json!({"anyOf": [named("TextPart"), named("RefusalPart")]});
    let user = json!({"anyOf": [named("TextPart"), named("RefusalPart"), named("ImagePart")]});
    let message = |roles: Value, part: Value| {
        let fields = json!({
            "type": kind_or_null("message"), "role": {"enum": roles}, "content": text_or_list(part),
        });
        open(fields, &["role", "content"])
    };
    let item = |kind: &str, mut fields: Value, required: &[&str]| {
        fields["type"] = json!({"const": kind});
        open(fields, &[&["type"][..], required].concat())
    };
    let thoughts = json!({"type": ["array", "null"], "items": open(json!({"text": text()}), &["text"])});
    let call = json!({"call_id": text(), "name": text(), "arguments": text()});
    let output = || json!({"call_id": text(), "output": text_or_list(texts.clone())});
    let custom = json!({"call_id": text(), "name": text(), "input": text()});
    let tools = || json!({"tools": {"type": ["array", "null"], "items": {"type": "object"}}});
    let mut found = tools();
    found["call_id"] = text_or_null();
    let action = open(json!({"command": {"type": ["array", "null"], "items": text()}}), &[]);
    let shell = json!({"call_id": text(), "action": action});
    let shell_output =
        json!({"id": text_or_null(), "call_id": text(), "output": text_or_list(texts.clone())});
    let run = json!({
        "id": text_or_null(), "server_label": text_or_null(), "name": text(), "arguments": text_or_null(),
        "output": text_or_null(),
    });
    let code = json!({"id": text_or_null(), "code": text_or_null()});
    let decision =
        json!({"approval_request_id": text(), "approve": {"type": "boolean"}, "reason": text_or_null()});
    vec![
        message(json!(["user"]), user),
        message(json!(["assistant", "system", "developer"]), texts.clone()),
        item("function_call", call, &["call_id", "name", "arguments"]),
        item("function_call_output", output(), &["call_id", "output"]),
        item("custom_tool_call", custom, &["call_id", "name", "input"]),
        item("custom_tool_call_output", output(), &["call_id", "output"]),
        item("additional_tools", tools(), &[]),
        item(
            "tool_search_call",
            json!({"call_id": text_or_null(), "arguments": {"type": ["object", "null"]}}),
            &[],
        ),
        item("tool_search_output", found, &[]),
        item("local_shell_call", shell, &["call_id", "action"]),
        item("local_shell_call_output", shell_output, &["output"]),
        item("reasoning", json!({"summary": thoughts, "content": thoughts}), &[]),
        item("compaction", json!({"encrypted_content": text()}), &["encrypted_content"]),
        item("code_interpreter_call", code, &[]),
        item("web_search_call", json!({"id": text_or_null()}), &[]),
        item("mcp_call", run, &["name"]),
        item("mcp_approval_request", json!({}), &[]),
        item("mcp_approval_response", decision, &["approval_request_id", "approve"]),
        item("mcp_list_tools", json!({}), &[]),
        open(json!({"type": kind_or_null("item_reference"), "id": text()}), &["id"]),
    ]
}

fn output_items() -> Vec<Value> {
    let item = |kind: &str, mut fields: Value| {
        fields["type"] = json!({"const": kind});
        fields["id"] = text();
        let names: Vec<String> = fields.as_object().expect("an object").keys().cloned().collect();
        open(fields, &names.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let status = || json!({"enum": ["in_progress", "completed", "incomplete", "failed"]});
    let list = |items: Value| json!({"type": "array", "items": items});
    let part = json!({
        "type": {"const": "output_text"}, "text": text(), "annotations": list(json!({})), "logprobs": list(json!({})),
    });
    let part = open(part, &["type", "text", "annotations", "logprobs"]);
    let summary = open(json!({"type": {"const": "summary_text"}, "text": text()}), &["type", "text"]);
    let logs = open(json!({"type": {"const": "logs"}, "logs": text()}), &["type", "logs"]);
    let action = open(json!({"type": {"const": "search"}, "query": text()}), &["type", "query"]);
    vec![
        item("message", json!({"status": status(), "role": {"const": "assistant"}, "content": list(part)})),
        item("reasoning", json!({"summary": list(summary)})),
        item(
            "function_call",
            json!({"call_id": text(), "name": text(), "arguments": text(), "status": status()}),
        ),
        item(
            "custom_tool_call",
            json!({"call_id": text(), "name": text(), "input": text(), "status": status()}),
        ),
        item(
            "tool_search_call",
            json!({
                "call_id": text(), "execution": {"const": "client"}, "arguments": {"type": "object"},
                "status": status(),
            }),
        ),
        item("mcp_approval_request", json!({"server_label": text(), "name": text(), "arguments": text()})),
        item(
            "code_interpreter_call",
            json!({"status": status(), "code": text(), "container_id": text(), "outputs": or_null(list(logs))}),
        ),
        item("web_search_call", json!({"status": status(), "action": action})),
        item(
            "mcp_call",
            json!({
                "status": status(), "server_label": text(), "name": text(), "arguments": text(),
                "output": text_or_null(), "error": text_or_null(), "approval_request_id": text_or_null(),
            }),
        ),
    ]
}
