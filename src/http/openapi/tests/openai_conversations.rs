//! `/v1/conversations`.

use super::Drawing;
use super::bodies::body;
use super::operation::{Operation, json_of, named};
use super::responses::deleted;
use super::shapes::{item_id, item_page, messages};
use crate::http::v1::openai::responses::conversations::items::NewItemsRequest;
use crate::http::v1::openai::responses::conversations::{ConversationUpdateRequest, NewConversationRequest};
use serde_json::{Value, json};

const ITEMS: &str = "/v1/conversations/{id}/items";

pub(super) fn draw(drawing: &mut Drawing) {
    let mut some_or_none = messages(named("InputItem"));
    some_or_none["minItems"] = json!(0);
    let metadata = || ("metadata", named("Metadata"));
    drawing.component("ItemConversation", conversation());
    let conversation = || json_of(named("ItemConversation"));
    let item = || json_of(named("StoredItem"));
    let create = Operation::new("POST", "/v1/conversations", "Creates a conversation of items")
        .may_take(json_of(body::<NewConversationRequest>(&[("items", some_or_none), metadata()], &[])));
    drawing.add(create.says(200, "It is stored", conversation()));
    let show = Operation::new("GET", "/v1/conversations/{id}", "A conversation");
    drawing.add(show.says(200, "What is known of it", conversation()));
    let update = Operation::new("POST", "/v1/conversations/{id}", "Replaces the metadata of a conversation")
        .takes(json_of(body::<ConversationUpdateRequest>(&[metadata()], &[])));
    drawing.add(update.says(200, "It is stored", conversation()));
    let delete =
        Operation::new("DELETE", "/v1/conversations/{id}", "Deletes a conversation with its responses");
    drawing.add(delete.says(200, "It is gone", json_of(deleted("conversation.deleted"))));
    let include = |operation: Operation| {
        let unused = json!({"type": "string", "description": "Accepted and unused"});
        operation.query("include", unused.clone()).query("include[]", unused)
    };
    let list = Operation::new("GET", ITEMS, "The items of a conversation")
        .query("after", item_id())
        .query("limit", json!({"type": "integer", "minimum": 1, "maximum": 100}))
        .query("order", json!({"enum": ["asc", "desc"]}));
    drawing.add(include(list).says(200, "Newest first, unless asked otherwise", json_of(item_page())));
    let add = Operation::new("POST", ITEMS, "Adds items without asking a model").takes(json_of(body::<
        NewItemsRequest,
    >(
        &[("items", messages(named("InputItem")))],
        &[],
    )));
    drawing.add(include(add).says(200, "The items with their ids", json_of(item_page())));
    let one = "/v1/conversations/{id}/items/{item}";
    drawing.add(include(Operation::new("GET", one, "An item")).says(200, "The item", item()));
    let delete = Operation::new("DELETE", one, "Deletes an item from a conversation");
    drawing.add(delete.says(200, "The conversation without it", conversation()));
}

fn conversation() -> Value {
    json!({
        "type": "object",
        "description": "A Conversation of OpenAI's API; the same as one of /api/conversations",
        "properties": {
            "id": {"type": "string"},
            "object": {"const": "conversation"},
            "created_at": {"type": "integer"},
            "metadata": named("Metadata"),
        },
        "required": ["id", "object", "created_at", "metadata"],
    })
}
