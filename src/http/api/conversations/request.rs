//! Bodies of `/api/conversations`: types and ranges of their fields.

use crate::domain::conversation::{ConversationChange, TITLE_CHARS};
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::fields::ObjectFields;
use crate::http::request::project;
use crate::http::v1::jobs::spec;
use serde_json::{Map, Value};

pub(crate) const KNOWN: &[&str] =
    &["title", "model", "system_prompt", "temperature", "max_tokens", "thinking_enabled", "project_id"];

/// A new conversation or a change. `null` is the same as absent, except that it removes `project_id`.
pub(crate) fn change(map: Map<String, Value>, app: &AppDependencies) -> Result<ConversationChange, ApiError> {
    let is_unbound = map.get("project_id").is_some_and(Value::is_null);
    let mut fields = ObjectFields::new(map, KNOWN)?;
    let max_tokens = fields.whole("max_tokens", 1..=u64::from(u32::MAX))?;
    let project_id = fields.text("project_id")?.map(|id| project::parse_id(&id)).transpose()?;
    let title = fields.text("title")?;
    let system_prompt = fields.text("system_prompt")?;
    within("title", title.as_deref().map_or(0, |title| title.chars().count()), TITLE_CHARS, "characters")?;
    let prompt_bytes = system_prompt.as_deref().map_or(0, str::len);
    within("system_prompt", prompt_bytes, app.limits.conversation_prompt_bytes, "bytes")?;
    // The front end sends an empty name for the default model.
    let model =
        fields.text("model")?.map(|name| spec::model(Some(name).filter(|name| !name.is_empty()), app));
    Ok(ConversationChange {
        title,
        model: model.transpose()?,
        system_prompt,
        temperature: fields.number("temperature", 0.0..=2.0)?,
        max_tokens: max_tokens.and_then(|most| u32::try_from(most).ok()),
        thinking_enabled: fields.flag("thinking_enabled")?,
        project_id: if is_unbound { Some(None) } else { project_id.map(Some) },
    })
}

fn within(name: &str, found: usize, most: usize, unit: &str) -> Result<(), ApiError> {
    if found <= most {
        return Ok(());
    }
    Err(ApiError::value(name, format!("'{name}' may have {most} {unit}, not {found}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::testing::{MemoryStore, app};
    use serde_json::json;
    use std::sync::Arc;

    fn read(body: Value) -> Result<ConversationChange, String> {
        let Value::Object(map) = body else { panic!("an object") };
        change(map, &app(&Arc::new(MemoryStore::default()))).map_err(|error| error.to_string())
    }

    #[test]
    fn absent_fields_stay_and_null_removes_the_project() {
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
        };
        assert_eq!(read(whole), Ok(expected));
        let model = read(json!({"model": ""})).map(|change| change.model);
        assert_eq!(model, Ok(Some("demo".into())), "the default one");
    }

    #[test]
    fn p8_each_wrong_field_is_named() {
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
