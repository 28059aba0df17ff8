//! Conversations and what stands in them.

use crate::domain::search_words::SEARCH_BYTES;
use crate::http::api::conversations::request::ConversationRequest;
use crate::http::api::conversations::{self, view};
use crate::http::api::envelope::{DataResponse, DoneResponse, PageResponse};
use crate::http::api::messages::request::MessageRequest;
use crate::http::api::messages::view as messages;
use crate::http::dependencies::AppDependencies;
use crate::http::openapi::tests::Drawing;
use crate::http::openapi::tests::bodies::body;
use crate::http::openapi::tests::operation::{Operation, events, json_of, named};
use crate::http::openapi::tests::v1::{key, limit};
use serde_json::{Value, json};

pub(super) fn draw(drawing: &mut Drawing, app: &AppDependencies) {
    drawing.component("ConversationChange", change());
    drawing.component("NewMessage", message());
    drawing.component("MessageWish", wish());
    conversations(drawing, app);
    talk(drawing, app);
}

fn change() -> Value {
    let model = json!({"description": "Empty for the default one", "anyOf": [named("Model"), {"const": ""}]});
    body::<ConversationRequest>(&[("model", model)], &[])
}

/// These routes always stream.
fn streamed() -> (&'static str, Value) {
    ("stream", json!({"enum": [true]}))
}

/// A message says something, or has a file that does.
fn message() -> Value {
    let form = body::<MessageRequest>(&[("attachments", named("Attachments")), streamed()], &[]);
    let (mut with_text, mut with_files) = (form.clone(), form);
    with_text["properties"]["text"] = json!({"type": "string", "pattern": "\\S"});
    with_text["required"] = json!(["text"]);
    with_files["properties"]["attachments"] = json!({"allOf": [named("Attachments")], "minItems": 1});
    with_files["required"] = json!(["attachments"]);
    json!({"anyOf": [with_text, with_files]})
}

/// A whole new message in place of the old one, or none.
fn wish() -> Value {
    let mut same = body::<MessageRequest>(&[("attachments", named("Attachments")), streamed()], &[]);
    for field in ["text", "attachments"] {
        same["properties"][field] = json!({"type": "null"});
    }
    json!({"anyOf": [same, message()]})
}

fn conversations(drawing: &mut Drawing, app: &AppDependencies) {
    let cursor = json!({"type": "string", "pattern": "^([0-9]{1,19}\\.)?[A-Za-z0-9_-]{1,64}$"});
    let list =
        Operation::new("GET", "/api/conversations", "Your conversations, the one that changed last first")
            .query("cursor", cursor)
            .query("limit", limit(app))
            .query("project_id", json!({"type": "string"}))
            .query("search", json!({"type": "string", "pattern": "\\S", "maxLength": SEARCH_BYTES}))
            .answers::<DataResponse<PageResponse<view::ConversationResponse>>>(drawing, 200, "A page");
    drawing.add(list);
    for (method, path, summary) in [
        ("POST", "/api/conversations", "Makes a conversation"),
        ("PATCH", "/api/conversations/{id}", "Changes a conversation; what is not named stays"),
    ] {
        let act = Operation::new(method, path, summary).may_take(json_of(named("ConversationChange")));
        let act = act.answers::<DataResponse<view::ConversationResponse>>(drawing, 200, "The conversation");
        drawing.add(act);
    }
    let show = Operation::new("GET", "/api/conversations/{id}", "A conversation");
    let show = show.answers::<DataResponse<view::ConversationResponse>>(drawing, 200, "As it stands");
    drawing.add(show);
    let delete =
        Operation::new("DELETE", "/api/conversations/{id}", "Deletes a conversation and what is in it");
    let delete = delete.answers::<DoneResponse>(drawing, 200, "It is gone");
    drawing.add(delete);
    let cancel = Operation::new("POST", "/api/conversations/{id}/cancel", "Cancels what has not ended");
    let cancel =
        cancel.answers::<DataResponse<conversations::CancelledJobsResponse>>(drawing, 200, "How many jobs");
    drawing.add(cancel);
}

fn talk(drawing: &mut Drawing, app: &AppDependencies) {
    let formats = json!({"enum": ["cumulative", "delta"]});
    let cursor = json!({"type": "string", "pattern": "^(ask|msg)_[0-7][0-9A-HJKMNP-TV-Z]{25}$"});
    let list = Operation::new("GET", "/api/conversations/{id}/messages", "What stands in it, oldest first")
        .query("cursor", cursor)
        .query("limit", limit(app))
        .answers::<DataResponse<PageResponse<messages::MessageResponse>>>(drawing, 200, "A page");
    drawing.add(list);
    let send = Operation::new(
        "POST",
        "/api/conversations/{id}/messages",
        "Stores a message, and streams its answer",
    )
    .query("format", formats.clone())
    .header("Idempotency-Key", key())
    .takes(json_of(named("NewMessage")))
    .says(200, "Events; see EventData", events());
    drawing.add(send);
    let delete = Operation::new("DELETE", "/api/conversations/{id}/messages/{mid}", "Deletes a message");
    let delete = delete.answers::<DoneResponse>(drawing, 200, "It is gone");
    drawing.add(delete);
    let follow = Operation::new(
        "GET",
        "/api/conversations/{id}/messages/{mid}/events",
        "An answer's stream once more",
    )
    .query("after", json!({"type": "integer", "minimum": 0}))
    .query("follow", json!({"type": "boolean"}))
    .query("format", formats.clone())
    .says(200, "Events; see EventData", events())
    .says(204, "The job has ended, and nothing follows", Value::Null);
    drawing.add(follow);
    let answer = json!({"type": "string", "pattern": "^msg_[0-7][0-9A-HJKMNP-TV-Z]{25}$"});
    let again = Operation::new(
        "POST",
        "/api/conversations/{id}/regenerate/{mid}",
        "Asks the same question anew, or another one in its place",
    )
    .segment("mid", answer)
    .query("format", formats)
    .header("Idempotency-Key", key())
    .may_take(json_of(named("MessageWish")))
    .says(200, "Events; see EventData", events());
    drawing.add(again);
}
