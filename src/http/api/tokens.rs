//! `/api/tokens`: API keys. A key is shown once, when it is made, and never grants more than its maker has.

use super::envelope::{self, date};
use crate::domain::account::{ApiToken, TokenScopes};
use crate::domain::id::{TokenId, UserId};
use crate::domain::secret::Secret;
use crate::http::auth::api_key::{SecretKind, generate};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::json;
use crate::http::request::values::{PlainText, WholeNumber};
use crate::http::response::HandlerResult;
use crate::ports::NewToken;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The longest lifetime, seconds: ten years.
const LONGEST_S: u64 = 10 * 366 * 24 * 3_600;
const SCOPES: &[&str] = &["read", "write", "admin"];

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenRequest {
    name: Option<PlainText<0, 100>>,
    scopes: Option<Vec<TokenScope>>,
    expires_in_s: Option<WholeNumber<1, LONGEST_S>>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TokenScope {
    Read,
    Write,
    Admin,
}

impl TokenRequest {
    /// The scopes; to read and to write when none are named.
    fn scopes(&self) -> Result<TokenScopes, ApiError> {
        let Some(named) = &self.scopes else {
            return Ok(TokenScopes { read: true, write: true, admin: false });
        };
        if named.is_empty() {
            return Err(ApiError::value("scopes", "'scopes' must name at least one of read, write, admin"));
        }
        let has = |scope| named.contains(&scope);
        let (read, write, admin) = (has(TokenScope::Read), has(TokenScope::Write), has(TokenScope::Admin));
        Ok(TokenScopes { read, write, admin })
    }

    pub(crate) fn into_token(
        self,
        (id, user): (TokenId, UserId),
        created_at_ms: u64,
        hint: String,
    ) -> Result<ApiToken, ApiError> {
        let scopes = self.scopes()?;
        let name = self.name.map(|name| name.0).unwrap_or_default();
        let life_ms = self.expires_in_s.map(|life| life.0.saturating_mul(1_000));
        let expires_at_ms = life_ms.map(|life_ms| created_at_ms.saturating_add(life_ms));
        Ok(ApiToken { id, user, name, scopes, created_at_ms, expires_at_ms, hint })
    }
}

/// A token, as its owner sees it.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Token"))]
#[derive(Debug, Serialize)]
pub(crate) struct TokenResponse {
    id: TokenId,
    name: String,
    scopes: Vec<&'static str>,
    created_at: String,
    expires_at: Option<String>,
    hint: String,
    /// Only in the response that makes the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

impl TokenResponse {
    pub(crate) fn of(token: ApiToken) -> Self {
        let TokenScopes { read, write, admin } = token.scopes;
        let held = SCOPES.iter().zip([read, write, admin]).filter(|(_, held)| *held);
        Self {
            id: token.id,
            name: token.name,
            scopes: held.map(|(word, _)| *word).collect(),
            created_at: date(token.created_at_ms),
            expires_at: token.expires_at_ms.map(date),
            hint: token.hint,
            key: None,
        }
    }

    /// With the key, which is shown once.
    pub(crate) fn with_key(self, key: &Secret) -> Self {
        Self { key: Some(key.reveal().to_owned()), ..self }
    }
}

/// `GET /api/tokens`.
pub(crate) async fn list(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    list_of(context, request.user, request.user).await
}

/// `POST /api/tokens`.
pub(crate) async fn create(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    mint_for(context, &request, body, request.user).await
}

/// `DELETE /api/tokens/{id}`.
pub(crate) async fn revoke(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    revoke_of(context, request, request.user, "id").await
}

/// All tokens of the user, oldest first.
pub(crate) async fn list_of(context: &ServerContext, caller: UserId, owner: UserId) -> HandlerResult {
    let users = Arc::clone(&context.app.users);
    let tokens = context.read(caller, move |_| users.tokens(owner)).await?;
    Ok(envelope::data(tokens.into_iter().map(TokenResponse::of).collect::<Vec<_>>()))
}

/// Makes a token for the user.
pub(crate) async fn mint_for(
    context: &ServerContext,
    request: &RequestContext,
    body: RequestBody,
    owner: UserId,
) -> HandlerResult {
    let token_request: TokenRequest = json::read(context, request, body).await?;
    if exceeds(token_request.scopes()?, request.caller.scopes) {
        return Err(ApiError::Forbidden("a token cannot make one with more scopes than it has itself"));
    }
    let generated = generate(SecretKind::Key, context.app.entropy.as_ref());
    let now_ms = context.app.clock.now_ms();
    let id = TokenId::from_bits(context.app.mint.mint(now_ms, context.app.entropy.random()));
    let mut token = token_request.into_token((id, owner), now_ms, generated.hint)?;
    // A key cannot make one that outlives it.
    token.expires_at_ms = token.expires_at_ms.into_iter().chain(request.caller.until_ms()).min();
    let kept = context
        .app
        .users
        .store_token(NewToken { token: token.clone(), digest: generated.digest }, context.app.limits.tokens);
    kept.await?;
    Ok(envelope::data(TokenResponse::of(token).with_key(&generated.secret)))
}

/// Revokes a token of the user.
pub(crate) async fn revoke_of(
    context: &ServerContext,
    request: &RequestContext,
    owner: UserId,
    parameter: &str,
) -> HandlerResult {
    let id: TokenId = request.segment(parameter).parse().map_err(|_| ApiError::NotFound("token"))?;
    if !context.app.users.revoke_token(owner, id).await? {
        return Err(ApiError::NotFound("token"));
    }
    Ok(envelope::done("revoked"))
}

fn exceeds(wanted: TokenScopes, held: TokenScopes) -> bool {
    (wanted.read && !held.read) || (wanted.write && !held.write) || (wanted.admin && !held.admin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::typed::from_map;
    use serde_json::{Value, json};

    /// Name, scopes and lifetime.
    fn read(given: Value) -> Result<(String, TokenScopes, Option<u64>), String> {
        let Value::Object(map) = given else { panic!("an object") };
        let request: TokenRequest = from_map(map).map_err(|error: ApiError| error.to_string())?;
        let scopes = request.scopes().map_err(|error| error.to_string())?;
        let name = request.name.map(|name| name.0).unwrap_or_default();
        Ok((name, scopes, request.expires_in_s.map(|life| life.0)))
    }

    #[test]
    fn a_token_has_read_and_write_scopes_without_expiry_by_default() {
        let (_, scopes, expires_in_s) = read(json!({})).expect("a request");
        assert_eq!((scopes, expires_in_s), (TokenScopes { read: true, write: true, admin: false }, None));
        let (name, scopes, expires_in_s) =
            read(json!({"name": "ci", "scopes": ["read"], "expires_in_s": 60})).expect("a request");
        assert_eq!((name.as_str(), expires_in_s, scopes.write), ("ci", Some(60), false));
        for (bad, named) in [
            (json!({"scopes": []}), "'scopes'"),
            (json!({"scopes": "read"}), "'scopes'"),
            (json!({"scopes": ["raed"]}), "did you mean 'read'"),
            (json!({"scopes": [1]}), "'scopes[0]'"),
            (json!({"name": "x".repeat(101)}), "'name'"),
            (json!({"name": "a\u{1b}[2J"}), "'name'"),
            (json!({"expires_in_s": 0}), "'expires_in_s'"),
            (json!({"expiry": 1}), "expiry"),
        ] {
            let refusal = read(bad.clone()).expect_err("refused");
            assert!(refusal.contains(named), "{bad}: {refusal}");
        }
    }

    #[test]
    fn p9_a_token_cannot_grant_more_than_it_has() {
        let read = TokenScopes { read: true, write: false, admin: false };
        assert!(
            exceeds(TokenScopes::ALL, read)
                && exceeds(TokenScopes { admin: false, ..TokenScopes::ALL }, read)
        );
        assert!(!exceeds(read, read) && !exceeds(read, TokenScopes::ALL));
    }
}
