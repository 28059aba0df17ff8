//! A conversation as the front end reads it. Absent values are left out.

use crate::domain::conversation::{Conversation, SHOWN_MAX_TOKENS, SHOWN_TEMPERATURE};
use crate::domain::id::{ConversationId, ProjectId, UserId};
use crate::http::api::envelope::date;
use crate::ports::{Projects, StoreError};
use serde::Serialize;
use std::collections::BTreeMap;

/// Names of projects.
pub(crate) type ProjectNames = BTreeMap<ProjectId, String>;

pub(crate) fn project_names(
    projects: &dyn Projects,
    user: UserId,
    conversations: &[Conversation],
) -> Result<ProjectNames, StoreError> {
    let mut names = ProjectNames::new();
    for id in conversations.iter().filter_map(|found| found.settings.project_id) {
        if !names.contains_key(&id)
            && let Some(project) = projects.project(user, id)?
        {
            names.insert(id, project.name.into());
        }
    }
    Ok(names)
}

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Conversation"))]
#[derive(Debug, Serialize)]
pub(crate) struct ConversationResponse {
    id: ConversationId,
    title: String,
    model: String,
    system_prompt: String,
    temperature: f64,
    max_tokens: u32,
    thinking_enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    project_id: Option<ProjectId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    project_name: Option<String>,
    message_count: u64,
    created_at: String,
    updated_at: String,
}

impl ConversationResponse {
    pub(crate) fn of(conversation: Conversation, names: &ProjectNames) -> Self {
        let Conversation { id, title, settings, created_at_ms, updated_at_ms, message_count, .. } =
            conversation;
        Self {
            id,
            title,
            model: settings.model,
            system_prompt: settings.system_prompt,
            temperature: settings.temperature.unwrap_or(SHOWN_TEMPERATURE),
            max_tokens: settings.max_tokens.unwrap_or(SHOWN_MAX_TOKENS),
            thinking_enabled: settings.thinking_enabled,
            project_id: settings.project_id,
            project_name: settings.project_id.and_then(|id| names.get(&id).cloned()),
            message_count,
            created_at: date(created_at_ms),
            updated_at: date(updated_at_ms),
        }
    }
}
