//! Bodies of a new message and of a regenerated answer.

use crate::domain::id::ProjectId;
use crate::domain::job::OnDisconnect;
use crate::domain::message::Message;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::project;
use crate::http::v1::jobs::spec::input::{AttachmentRequest, attachments};
use serde::Deserialize;

/// A message of the user and the options of its answer; of a regenerated answer the message may be missing.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageRequest {
    text: Option<String>,
    attachments: Option<Vec<AttachmentRequest>>,
    tools_enabled: Option<bool>,
    project_id: Option<String>,
    on_disconnect: Option<OnDisconnect>,
    stream: Option<bool>,
}

/// Options of an answer.
#[derive(Debug, PartialEq)]
pub(crate) struct AnswerOptions {
    pub(crate) tools_enabled: bool,
    /// Replaces the project of the conversation.
    pub(crate) project_id: Option<ProjectId>,
    pub(crate) on_disconnect: OnDisconnect,
}

impl MessageRequest {
    pub(crate) fn into_message(self, app: &AppDependencies) -> Result<(Message, AnswerOptions), ApiError> {
        let (options, content) = (self.options()?, self.text.unwrap_or_default());
        let (attachments, images) = attachments("attachments", self.attachments, &app.limits)?;
        if content.trim().is_empty() && attachments.is_empty() && images.is_empty() {
            return Err(ApiError::value(
                "text",
                "'text' and 'attachments' are both empty: a message has one of them",
            ));
        }
        Ok((Message::User { content, attachments, images }, options))
    }

    /// The new question of a regenerated answer; `None`: the old one stays.
    pub(crate) fn into_question(
        self,
        app: &AppDependencies,
    ) -> Result<(Option<Message>, AnswerOptions), ApiError> {
        if self.text.is_none() && self.attachments.is_none() {
            return Ok((None, self.options()?));
        }
        self.into_message(app).map(|(message, options)| (Some(message), options))
    }

    fn options(&self) -> Result<AnswerOptions, ApiError> {
        // The front end says `true`.
        if self.stream == Some(false) {
            let rule = "'stream' may be true or absent: this route always streams; for an answer in one piece use POST /v1/jobs?wait=60";
            return Err(ApiError::value("stream", rule));
        }
        Ok(AnswerOptions {
            tools_enabled: self.tools_enabled.unwrap_or(true),
            project_id: self.project_id.as_deref().map(project::parse_id).transpose()?,
            on_disconnect: self.on_disconnect.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::attachment::Attachment;
    use crate::http::request::typed::from_map;
    use crate::http::testing::{MemoryStore, app};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn parsed(body: Value) -> Result<(Message, AnswerOptions), String> {
        let Value::Object(map) = body else { panic!("an object") };
        let app = app(&Arc::new(MemoryStore::default()));
        let read = from_map::<MessageRequest>(map).and_then(|request| request.into_message(&app));
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn a_message_with_files_needs_no_text() {
        let file = json!({"name": "a.py", "extension": "py", "content": "x"});
        let read = parsed(json!({"attachments": [file], "tools_enabled": false, "project_id": null}));
        let attachments =
            vec![Attachment { name: "a.py".into(), extension: "py".into(), content: "x".into() }];
        let message = Message::User { content: String::new(), attachments, images: Vec::new() };
        let options =
            AnswerOptions { tools_enabled: false, project_id: None, on_disconnect: OnDisconnect::Continue };
        assert_eq!(read, Ok((message, options)));
        let (_, stops) = parsed(json!({"text": "hi", "on_disconnect": "cancel"})).expect("a message");
        assert_eq!((stops.on_disconnect, stops.tools_enabled), (OnDisconnect::Cancel, true));
    }

    #[test]
    fn p8_each_invalid_field_is_reported() {
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
            (json!({"text": "x", "stream": false}), "'stream'"),
            (json!({"text": "x", "stream": "yes"}), "'stream'"),
            (json!({"txt": "x"}), "did you mean 'text'"),
        ] {
            let error = parsed(body.clone()).expect_err("refused");
            assert!(error.contains(named), "{body}: {error}");
        }
    }

    #[test]
    fn another_answer_keeps_the_question_or_takes_a_whole_new_one() {
        let app = app(&Arc::new(MemoryStore::default()));
        let question = |body: Value| {
            let Value::Object(map) = body else { panic!("an object") };
            let read = from_map::<MessageRequest>(map).and_then(|request| request.into_question(&app));
            read.map(|(question, _)| question).map_err(|error| error.to_string())
        };
        assert_eq!(question(json!({})), Ok(None));
        assert_eq!(question(json!({"text": null, "tools_enabled": false})), Ok(None));
        assert_eq!(question(json!({"text": "other"})), Ok(Some(Message::user("other"))));
        assert!(question(json!({"text": " "})).is_err_and(|error| error.contains("both empty")));
        assert!(question(json!({"attachments": []})).is_err_and(|error| error.contains("both empty")));
        assert!(question(json!({"stream": false})).is_err());
    }
}
