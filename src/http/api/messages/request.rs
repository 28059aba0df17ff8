//! Bodies of a new message and of a regenerated answer.

use crate::domain::id::ProjectId;
use crate::domain::job::OnDisconnect;
use crate::domain::message::Message;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::fields::ObjectFields;
use crate::http::request::project;
use crate::http::v1::jobs::spec::input::attachments;
use serde_json::{Map, Value};

/// Fields of a regenerated answer; a message has two more.
pub(crate) const WISH: [&str; 3] = ["tools_enabled", "project_id", "on_disconnect"];

/// The fields of a message.
pub(crate) const SAID: [&str; 5] = ["text", "attachments", WISH[0], WISH[1], WISH[2]];

/// Options of an answer.
#[derive(Debug, PartialEq)]
pub(crate) struct AnswerOptions {
    pub(crate) tools_enabled: bool,
    /// Replaces the project of the conversation.
    pub(crate) project_id: Option<ProjectId>,
    pub(crate) on_disconnect: OnDisconnect,
}

/// A message of the user and the options of its answer.
#[derive(Debug, PartialEq)]
pub(crate) struct MessageRequest {
    pub(crate) message: Message,
    pub(crate) wish: AnswerOptions,
}

/// The body of a message.
pub(crate) fn said(map: Map<String, Value>, app: &AppDependencies) -> Result<MessageRequest, ApiError> {
    let mut fields = ObjectFields::new(map, &SAID)?;
    let content = fields.text("text")?.unwrap_or_default();
    let attachments = attachments("attachments", fields.take("attachments"), &app.limits)?;
    if content.trim().is_empty() && attachments.is_empty() {
        return Err(ApiError::value(
            "text",
            "'text' and 'attachments' are both empty: a message has one of them",
        ));
    }
    Ok(MessageRequest { message: Message::User { content, attachments }, wish: read(fields)? })
}

/// The body of a regenerated answer.
pub(crate) fn wish(map: Map<String, Value>, _room: &AppDependencies) -> Result<AnswerOptions, ApiError> {
    read(ObjectFields::new(map, &WISH)?)
}

fn read(mut fields: ObjectFields) -> Result<AnswerOptions, ApiError> {
    let project_id = fields.text("project_id")?.map(|id| project::parse_id(&id)).transpose()?;
    Ok(AnswerOptions {
        tools_enabled: fields.flag("tools_enabled")?.unwrap_or(true),
        project_id,
        on_disconnect: fields.word("on_disconnect", &["continue", "cancel"])?.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::attachment::Attachment;
    use crate::http::testing::{MemoryStore, app};
    use serde_json::json;
    use std::sync::Arc;

    fn parsed(body: Value) -> Result<MessageRequest, String> {
        let Value::Object(map) = body else { panic!("an object") };
        said(map, &app(&Arc::new(MemoryStore::default()))).map_err(|error| error.to_string())
    }

    #[test]
    fn a_message_with_files_needs_no_text() {
        let file = json!({"name": "a.py", "extension": "py", "content": "x"});
        let said = parsed(json!({"attachments": [file], "tools_enabled": false, "project_id": null}));
        let attachments =
            vec![Attachment { name: "a.py".into(), extension: "py".into(), content: "x".into() }];
        let message = Message::User { content: String::new(), attachments };
        let wish =
            AnswerOptions { tools_enabled: false, project_id: None, on_disconnect: OnDisconnect::Continue };
        assert_eq!(said, Ok(MessageRequest { message, wish }));
        let stops = parsed(json!({"text": "hi", "on_disconnect": "cancel"})).expect("a message").wish;
        assert_eq!((stops.on_disconnect, stops.tools_enabled), (OnDisconnect::Cancel, true));
    }

    #[test]
    fn p8_each_wrong_field_is_named() {
        for (body, named) in [
            (json!({}), "'text'"),
            (json!({"text": " \n", "attachments": []}), "'text'"),
            (json!({"text": 1}), "'text'"),
            (json!({"text": "x", "attachments": {}}), "'attachments'"),
            (json!({"text": "x", "attachments": [{"name": "a"}]}), "attachments[0]"),
            (json!({"text": "x", "attachments": [{"name": "a", "content": 1}]}), "'content'"),
            (json!({"text": "x", "tools_enabled": "yes"}), "'tools_enabled'"),
            (json!({"text": "x", "project_id": 1}), "'project_id'"),
            (json!({"text": "x", "on_disconnect": "stop"}), "'on_disconnect'"),
            (json!({"txt": "x"}), "did you mean 'text'"),
        ] {
            let error = parsed(body.clone()).expect_err("refused");
            assert!(error.contains(named), "{body}: {error}");
        }
        let Value::Object(map) = json!({"text": "x"}) else { panic!("an object") };
        assert!(
            wish(map, &app(&Arc::new(MemoryStore::default()))).is_err(),
            "another answer takes no other question"
        );
    }
}
