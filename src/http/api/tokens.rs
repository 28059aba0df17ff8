//! `/api/tokens`: API keys. A key is shown once, when it is made, and never grants more than its maker has.

use super::body::object;
use super::envelope::{self, date};
use crate::domain::account::{ApiToken, TokenScopes};
use crate::domain::id::{TokenId, UserId};
use crate::domain::nearest::hint;
use crate::domain::secret::Secret;
use crate::http::auth::api_key::{SecretKind, generate};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::fields::{ObjectFields, wrong};
use crate::http::request::query::QueryString;
use crate::http::request::quoted::quoted;
use crate::http::response::HttpResponse;
use crate::ports::NewToken;
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The longest name, characters.
pub(crate) const NAME_CHARS: usize = 100;
/// The longest lifetime, seconds: ten years.
const LONGEST_S: u64 = 10 * 366 * 24 * 3_600;
pub(crate) const KNOWN: &[&str] = &["name", "scopes", "expires_in_s"];
const SCOPES: &[&str] = &["read", "write", "admin"];

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenRequest {
    pub(crate) name: String,
    pub(crate) scopes: TokenScopes,
    /// Lifetime, seconds; unlimited when absent.
    pub(crate) holds_s: Option<u64>,
}

/// `GET /api/tokens`.
pub(crate) async fn list(
    context: &Arc<ServerContext>,
    request: &RequestContext,
) -> Result<HttpResponse, ApiError> {
    list_of(context, request, request.user).await
}

/// `POST /api/tokens`.
pub(crate) async fn create(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> Result<HttpResponse, ApiError> {
    mint_for(context, &request, body, request.user).await
}

/// `DELETE /api/tokens/{id}`.
pub(crate) async fn revoke(
    context: &Arc<ServerContext>,
    request: &RequestContext,
) -> Result<HttpResponse, ApiError> {
    revoke_of(context, request, request.user, request.segment("id")).await
}

/// All tokens of the user, oldest first.
pub(crate) async fn list_of(
    context: &ServerContext,
    request: &RequestContext,
    owner: UserId,
) -> Result<HttpResponse, ApiError> {
    QueryString::parse(request.query.as_deref(), &[])?;
    let users = Arc::clone(&context.app.users);
    let tokens = context.read(move |_| users.tokens(owner)).await?;
    Ok(envelope::data(tokens.into_iter().map(TokenResponse::of).collect::<Vec<_>>()))
}

/// Makes a token for the user.
pub(crate) async fn mint_for(
    context: &ServerContext,
    request: &RequestContext,
    body: RequestBody,
    owner: UserId,
) -> Result<HttpResponse, ApiError> {
    let token_request = TokenRequest::read(object(context, request, body).await?)?;
    if exceeds(token_request.scopes, request.caller.scopes) {
        return Err(ApiError::Forbidden("a token cannot make one with more scopes than it has itself"));
    }
    let generated = generate(SecretKind::Key, context.app.entropy.as_ref());
    let now_ms = context.app.clock.now_ms();
    let id = TokenId::from_bits(context.app.mint.mint(now_ms, context.app.entropy.random()));
    let mut token = token_request.into_token((id, owner), now_ms, generated.hint);
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
    id: &str,
) -> Result<HttpResponse, ApiError> {
    QueryString::parse(request.query.as_deref(), &[])?;
    let id: TokenId = id.parse().map_err(|_| ApiError::NotFound("token"))?;
    if !context.app.users.revoke_token(owner, id).await? {
        return Err(ApiError::NotFound("token"));
    }
    Ok(envelope::done("revoked"))
}

impl TokenRequest {
    /// What the object asks for.
    pub(crate) fn read(map: Map<String, Value>) -> Result<Self, ApiError> {
        let mut fields = ObjectFields::new(map, KNOWN)?;
        let name = fields.text("name")?.unwrap_or_default();
        if name.chars().count() > NAME_CHARS || name.chars().any(char::is_control) {
            let wanted =
                format!("'name' must have at most {NAME_CHARS} characters, none of them a control character");
            return Err(ApiError::value("name", wanted));
        }
        let scopes = match fields.take("scopes") {
            None => TokenScopes { read: true, write: true, admin: false },
            Some(Value::Array(words)) => scopes(&words)?,
            Some(other) => return Err(wrong("scopes", "a list of read, write, admin", &other)),
        };
        Ok(Self { name, scopes, holds_s: fields.whole("expires_in_s", 1..=LONGEST_S)? })
    }

    pub(crate) fn into_token(self, (id, user): (TokenId, UserId), now_ms: u64, hint: String) -> ApiToken {
        let expires_at_ms = self.holds_s.map(|holds_s| now_ms.saturating_add(holds_s.saturating_mul(1_000)));
        ApiToken {
            id,
            user,
            name: self.name,
            scopes: self.scopes,
            created_at_ms: now_ms,
            expires_at_ms,
            hint,
        }
    }
}

fn scopes(words: &[Value]) -> Result<TokenScopes, ApiError> {
    let mut scopes = TokenScopes { read: false, write: false, admin: false };
    for word in words {
        match word.as_str() {
            Some("read") => scopes.read = true,
            Some("write") => scopes.write = true,
            Some("admin") => scopes.admin = true,
            Some(other) => {
                let meant = hint(other, SCOPES.iter().copied());
                let known = SCOPES.join(", ");
                return Err(ApiError::value(
                    "scopes",
                    format!("there is no scope {}{meant} (known: {known})", quoted(other)),
                ));
            }
            None => return Err(wrong("scopes", "a list of read, write, admin", word)),
        }
    }
    if words.is_empty() {
        return Err(ApiError::value("scopes", "'scopes' must name at least one of read, write, admin"));
    }
    Ok(scopes)
}

fn exceeds(wanted: TokenScopes, held: TokenScopes) -> bool {
    (wanted.read && !held.read) || (wanted.write && !held.write) || (wanted.admin && !held.admin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asked(given: Value) -> Result<TokenRequest, String> {
        let Value::Object(map) = given else { panic!("an object") };
        TokenRequest::read(map).map_err(|error| error.to_string())
    }

    #[test]
    fn a_token_is_read_and_write_without_expiry_by_default() {
        let usual = asked(json!({})).expect("a wish");
        assert_eq!(
            (usual.scopes, usual.holds_s),
            (TokenScopes { read: true, write: true, admin: false }, None)
        );
        let other = asked(json!({"name": "ci", "scopes": ["read"], "expires_in_s": 60})).expect("a wish");
        assert_eq!((other.name.as_str(), other.holds_s, other.scopes.write), ("ci", Some(60), false));
        for (bad, named) in [
            (json!({"scopes": []}), "'scopes'"),
            (json!({"scopes": "read"}), "'scopes'"),
            (json!({"scopes": ["raed"]}), "did you mean 'read'"),
            (json!({"scopes": [1]}), "'scopes'"),
            (json!({"name": "x".repeat(101)}), "'name'"),
            (json!({"name": "a\u{1b}[2J"}), "'name'"),
            (json!({"expires_in_s": 0}), "'expires_in_s'"),
            (json!({"expiry": 1}), "expiry"),
        ] {
            let refusal = asked(bad.clone()).expect_err("refused");
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
