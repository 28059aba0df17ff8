//! Bodies of `/api/conversations`.

use crate::domain::conversation::{ConversationChange, TITLE_CHARS};
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::project;
use crate::http::request::values::{BoundedText, MaxTokens, Removable, Temperature, removable};
use crate::http::v1::jobs::spec;
use serde::Deserialize;

/// A new conversation or a change. `null` removes `project_id`.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConversationRequest {
    title: Option<BoundedText<0, TITLE_CHARS>>,
    model: Option<String>,
    system_prompt: Option<String>,
    temperature: Option<Temperature>,
    max_tokens: Option<MaxTokens>,
    thinking_enabled: Option<bool>,
    #[serde(default, deserialize_with = "removable")]
    project_id: Removable<String>,
}

impl ConversationRequest {
    pub(crate) fn into_change(self, app: &AppDependencies) -> Result<ConversationChange, ApiError> {
        let (bytes, most) =
            (self.system_prompt.as_deref().map_or(0, str::len), app.limits.conversation_prompt_bytes);
        if bytes > most {
            let rule = format!("'system_prompt' may have {most} bytes, not {bytes}");
            return Err(ApiError::value("system_prompt", rule));
        }
        // The front end's settings form sends all of these, whatever the user has changed.
        let is_whole_form = self.title.is_some()
            && self.model.is_some()
            && self.system_prompt.is_some()
            && self.temperature.is_some()
            && self.max_tokens.is_some()
            && self.thinking_enabled.is_some();
        // The front end sends an empty name for the default model.
        let model = self.model.map(|name| spec::model(Some(name).filter(|name| !name.is_empty()), app));
        let project_id = self.project_id.map(|id| id.map(|id| project::parse_id(&id)).transpose());
        Ok(ConversationChange {
            title: self.title.map(|title| title.0),
            model: model.transpose()?,
            system_prompt: self.system_prompt,
            temperature: self.temperature.map(|temperature| temperature.0),
            max_tokens: self.max_tokens.map(MaxTokens::to_u32),
            thinking_enabled: self.thinking_enabled,
            project_id: project_id.transpose()?,
            metadata: None,
            is_whole_form,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::typed::from_map;
    use crate::http::testing::{MemoryStore, app};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn read(body: Value) -> Result<ConversationChange, String> {
        let Value::Object(map) = body else { panic!("an object") };
        let app = app(&Arc::new(MemoryStore::default()));
        let request = from_map::<ConversationRequest>(map).and_then(|request| request.into_change(&app));
        request.map_err(|error| error.to_string())
    }

    #[test]
    fn absent_fields_stay_unchanged_and_null_removes_the_project() {
        assert_eq!(read(json!({})), Ok(ConversationChange::default()));
        assert_eq!(read(json!({"title": null, "temperature": null})), Ok(ConversationChange::default()));
        let unbound = ConversationChange { project_id: Some(None), ..ConversationChange::default() };
        assert_eq!(read(json!({"project_id": null})), Ok(unbound));
        let whole = json!({"title": "t", "model": "other", "system_prompt": "s", "temperature": 0,
            "max_tokens": 1, "thinking_enabled": true});
        let expected = ConversationChange {
            title: Some("t".into()),
            model: Some("other".into()),
            system_prompt: Some("s".into()),
            temperature: Some(0.0),
            max_tokens: Some(1),
            thinking_enabled: Some(true),
            project_id: None,
            metadata: None,
            is_whole_form: true,
        };
        assert_eq!(read(whole), Ok(expected));
        let model = read(json!({"model": ""})).map(|change| change.model);
        assert_eq!(model, Ok(Some("demo".into())), "the default one");
    }

    #[test]
    fn p8_each_invalid_field_is_reported() {
        for (body, named) in [
            (json!({"title": 1}), "'title'"),
            (json!({"title": "x".repeat(256)}), "'title'"),
            (json!({"model": ["demo"]}), "'model'"),
            (json!({"model": "nope"}), "'nope'"),
            (json!({"system_prompt": {}}), "'system_prompt'"),
            (json!({"system_prompt": "x".repeat(65_537)}), "'system_prompt' may have 65536 bytes"),
            (json!({"temperature": "1"}), "'temperature'"),
            (json!({"temperature": 2.1}), "'temperature'"),
            (json!({"temperature": -0.1}), "'temperature'"),
            (json!({"max_tokens": 0}), "'max_tokens'"),
            (json!({"max_tokens": 1.5}), "'max_tokens'"),
            (json!({"max_tokens": u64::from(u32::MAX) + 1}), "'max_tokens'"),
            (json!({"thinking_enabled": 1}), "'thinking_enabled'"),
            (json!({"project_id": 7}), "'project_id'"),
            (json!({"project_id": "7"}), "project"),
            (json!({"titel": "x"}), "did you mean 'title'"),
        ] {
            let error = read(body.clone()).expect_err("refused");
            assert!(error.contains(named), "{body}: {error}");
        }
        assert!(read(json!({"title": "ü".repeat(255)})).is_ok(), "characters are counted, not bytes");
        assert!(read(json!({"system_prompt": "x".repeat(65_536)})).is_ok(), "just as many");
    }
}
