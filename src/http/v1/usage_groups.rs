//! `GET /v1/usage?group_by=`: usage of some days by user or by conversation, the largest first.

use super::page::ListResponse;
use crate::domain::account::Role;
use crate::domain::id::{ConversationId, UserId};
use crate::domain::usage::{GroupUsage, Usage};
use crate::http::auth::Caller;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::quoted::quoted;
use crate::http::response::{self, HandlerResult};
use crate::ports::{StoreError, TitledConversation};
use hyper::StatusCode;
use serde::Serialize;
use std::sync::Arc;

/// Most groups of one answer.
const GROUPS_MAX: usize = 1_000;

/// What jobs are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UsageGrouping {
    /// By user. Administrators see all users.
    User,
    /// By conversation of the caller.
    Conversation,
}

impl UsageGrouping {
    /// Reads `?group_by=`.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        match text {
            "user" => Ok(Self::User),
            "conversation" => Ok(Self::Conversation),
            other => Err(ApiError::value(
                "group_by",
                format!("'group_by' must be user or conversation, not {}", quoted(other)),
            )),
        }
    }
}

/// Usage of a user.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct UserUsageResponse {
    object: &'static str,
    user_id: UserId,
    /// `null` if there is no such account.
    username: Option<String>,
    #[serde(flatten)]
    usage: Usage,
    jobs: u64,
}

/// Usage in a conversation.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct ConversationUsageResponse {
    object: &'static str,
    conversation_id: ConversationId,
    /// The title now; empty if it has none.
    title: String,
    #[serde(flatten)]
    usage: Usage,
    jobs: u64,
}

/// The groups of these days. `has_more`: smaller ones are left out.
pub(crate) async fn list(
    context: &Arc<ServerContext>,
    caller: Caller,
    grouping: UsageGrouping,
    days: (u32, u32),
) -> HandlerResult {
    match grouping {
        UsageGrouping::User => by_user(context, caller, days).await,
        UsageGrouping::Conversation => by_conversation(context, caller.user, days).await,
    }
}

async fn by_user(context: &Arc<ServerContext>, caller: Caller, days: (u32, u32)) -> HandlerResult {
    let (accounts, users) = (Arc::clone(&context.app.accounts), Arc::clone(&context.app.users));
    let (data, is_cut) = context
        .read(caller.user, move |_| {
            let (groups, is_cut) = accounts.usage_by_user(whose(caller), days, GROUPS_MAX)?;
            let named = |GroupUsage { group, usage, jobs }| {
                let username = users.account(group)?.map(|account| account.username.as_str().to_owned());
                Ok::<_, StoreError>(UserUsageResponse {
                    object: "usage",
                    user_id: group,
                    username,
                    usage,
                    jobs,
                })
            };
            Ok((groups.into_iter().map(named).collect::<Result<Vec<_>, _>>()?, is_cut))
        })
        .await?;
    Ok(response::json(StatusCode::OK, &ListResponse::<_, String>::cut(data, is_cut)))
}

/// Whose usage the caller may see; `None` is everybody's.
fn whose(caller: Caller) -> Option<UserId> {
    let is_admin = caller.role == Role::Admin && caller.scopes.admin;
    (!is_admin).then_some(caller.user)
}

async fn by_conversation(context: &Arc<ServerContext>, user: UserId, days: (u32, u32)) -> HandlerResult {
    let accounts = Arc::clone(&context.app.accounts);
    let (groups, is_cut) =
        context.read(user, move |_| accounts.usage_by_conversation(user, days, GROUPS_MAX)).await?;
    let shown = |GroupUsage { group, usage, jobs }| {
        let TitledConversation { id: conversation_id, title } = group;
        ConversationUsageResponse { object: "usage", conversation_id, title, usage, jobs }
    };
    let data: Vec<_> = groups.into_iter().map(shown).collect();
    Ok(response::json(StatusCode::OK, &ListResponse::<_, String>::cut(data, is_cut)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::account::TokenScopes;

    #[test]
    fn p7_only_administrators_see_groups_of_other_users() {
        let caller =
            |role, admin| Caller::known(UserId(7), role, TokenScopes { read: true, write: true, admin });
        assert_eq!(whose(caller(Role::Admin, true)), None);
        for (role, admin) in [(Role::User, true), (Role::Admin, false), (Role::User, false)] {
            assert_eq!(whose(caller(role, admin)), Some(UserId(7)));
        }
    }
}
