//! What fills each operation of the `OpenAPI` document. A new operation needs a line here.
//!
//! `{name}` stands for a possession (`possessions.rs`), `{+name}` for a new one that the operation may change
//! or delete, `{n}` for the number of the request.

/// The body of a filler.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content {
    Nothing,
    Json(&'static str),
    /// A thousand lines of a batch.
    Lines,
    /// Form data with a hundred small files.
    Upload,
    /// Form data with a file of a megabyte.
    File,
    /// A run as a server has exported it.
    Run,
    /// The head of a WebSocket and a message for a response.
    WebSocket,
}

use Content::{File, Json, Lines, Nothing, Run, Upload, WebSocket};

/// An operation, a target, and a body. An operation may have several fillers.
pub(super) type Filler = (&'static str, &'static str, Content);

const CHAT: &str = r#"{"model":"silent","messages":[{"role":"user","content":"x"}],"store":true}"#;
const CHAT_STREAM: &str =
    r#"{"model":"endless","messages":[{"role":"user","content":"x"}],"store":true,"stream":true}"#;
const RESPONSE: &str = r#"{"model":"silent","input":"x"}"#;
const RESPONSE_STREAM: &str = r#"{"model":"endless","input":"x","stream":true}"#;

pub(super) const FILLERS: &[Filler] = &[
    ("GET /", "/", Nothing),
    ("GET /console/{version}/{file}", "/{asset}", Nothing),
    ("GET /healthz", "/healthz", Nothing),
    ("GET /readyz", "/readyz", Nothing),
    ("GET /metrics", "/metrics", Nothing),
    ("GET /openapi.json", "/openapi.json", Nothing),
    ("GET /v1/jobs", "/v1/jobs?limit=100", Nothing),
    ("POST /v1/jobs", "/v1/jobs", Json(r#"{"input":"x","model":"silent"}"#)),
    (
        "POST /v1/jobs",
        "/v1/jobs?wait=600",
        Json(r#"{"input":"x","model":"silent","on_disconnect":"cancel"}"#),
    ),
    (
        "POST /v1/jobs",
        "/v1/jobs?stream=true",
        Json(r#"{"input":"stream: 100000 words, 60000 ms","model":"demo"}"#),
    ),
    ("GET /v1/jobs/{id}", "/v1/jobs/{long}", Nothing),
    ("GET /v1/jobs/{id}", "/v1/jobs/{running}?wait=600", Nothing),
    ("DELETE /v1/jobs/{id}", "/v1/jobs/{+long}", Nothing),
    ("GET /v1/jobs/{id}/output", "/v1/jobs/{long}/output", Nothing),
    ("GET /v1/jobs/{id}/verify", "/v1/jobs/{long}/verify", Nothing),
    ("GET /v1/jobs/{id}/images/{n}", "/v1/jobs/{long}/images/0", Nothing),
    ("GET /v1/jobs/{id}/events", "/v1/jobs/{long}/events?format=delta", Nothing),
    ("GET /v1/jobs/{id}/events", "/v1/jobs/{long}/events?format=cumulative", Nothing),
    ("GET /v1/jobs/{id}/events", "/v1/jobs/{running}/events", Nothing),
    ("GET /v1/jobs/{id}/audit", "/v1/jobs/{long}/audit", Nothing),
    ("POST /v1/jobs/{id}/cancel", "/v1/jobs/{+running}/cancel", Nothing),
    ("POST /v1/jobs/{id}/retry", "/v1/jobs/{long}/retry", Nothing),
    ("POST /v1/jobs/{id}/approve", "/v1/jobs/{running}/approve", Json("{}")),
    ("POST /v1/jobs/{id}/deny", "/v1/jobs/{running}/deny", Json("{}")),
    ("GET /v1/batches", "/v1/batches?limit=100", Nothing),
    ("POST /v1/batches", "/v1/batches", Lines),
    ("PUT /v1/batches", "/v1/batches", Lines),
    ("GET /v1/batches/{id}", "/v1/batches/{batch}", Nothing),
    ("DELETE /v1/batches/{id}", "/v1/batches/{batch}", Nothing),
    ("GET /v1/batches/{id}/results", "/v1/batches/{batch}/results", Nothing),
    ("GET /v1/batches/{id}/results", "/v1/batches/{batch}/results?follow=true", Nothing),
    ("POST /v1/batches/{id}/cancel", "/v1/batches/{+batch}/cancel", Nothing),
    ("GET /v1/schedules", "/v1/schedules", Nothing),
    ("POST /v1/schedules", "/v1/schedules", Json(r#"{"name":"s{n}","every_s":86400,"job":{"input":"x"}}"#)),
    ("GET /v1/schedules/{id}", "/v1/schedules/{schedule}", Nothing),
    ("PATCH /v1/schedules/{id}", "/v1/schedules/{schedule}", Json(r#"{"paused":true}"#)),
    ("DELETE /v1/schedules/{id}", "/v1/schedules/{+schedule}", Nothing),
    ("POST /v1/schedules/preview", "/v1/schedules/preview", Json(r#"{"cron":"0 0 29 2 1"}"#)),
    ("POST /v1/schedules/{id}/run", "/v1/schedules/{schedule}/run", Nothing),
    ("GET /v1/tools", "/v1/tools", Nothing),
    ("POST /v1/tools/{name}/call", "/v1/tools/calculator/call", Json(r#"{"arguments":{"expression":"1"}}"#)),
    ("GET /v1/memory", "/v1/memory", Nothing),
    ("PUT /v1/memory", "/v1/memory", Json(r#"{"content":"x{n}"}"#)),
    ("GET /v1/webhooks", "/v1/webhooks?limit=100", Nothing),
    ("GET /v1/webhooks/{id}", "/v1/webhooks/{webhook}", Nothing),
    ("POST /v1/webhooks/{id}/retry", "/v1/webhooks/{webhook}/retry", Nothing),
    ("GET /v1/usage", "/v1/usage?group_by=conversation", Nothing),
    ("GET /v1/status", "/v1/status", Nothing),
    ("GET /v1/log/key", "/v1/log/key", Nothing),
    ("GET /v1/log/checkpoints", "/v1/log/checkpoints", Nothing),
    ("POST /v1/log/checkpoints", "/v1/log/checkpoints", Nothing),
    ("GET /v1/nodes", "/v1/nodes", Nothing),
    ("GET /v1/backup", "/v1/backup", Nothing),
    ("GET /v1/jobs/{id}/export", "/v1/jobs/{long}/export", Nothing),
    ("POST /v1/jobs/import", "/v1/jobs/import", Run),
    ("GET /v1/models", "/v1/models", Nothing),
    ("GET /v1/models/{id}", "/v1/models/demo", Nothing),
    ("POST /v1/chat/completions", "/v1/chat/completions", Json(CHAT)),
    ("POST /v1/chat/completions", "/v1/chat/completions", Json(CHAT_STREAM)),
    ("GET /v1/chat/completions", "/v1/chat/completions?limit=100", Nothing),
    ("GET /v1/chat/completions/{id}", "/v1/chat/completions/{completion}", Nothing),
    (
        "POST /v1/chat/completions/{id}",
        "/v1/chat/completions/{completion}",
        Json(r#"{"metadata":{"a":"{n}"}}"#),
    ),
    ("DELETE /v1/chat/completions/{id}", "/v1/chat/completions/{+completion}", Nothing),
    ("GET /v1/chat/completions/{id}/messages", "/v1/chat/completions/{completion}/messages", Nothing),
    ("POST /v1/embeddings", "/v1/embeddings", Json(r#"{"model":"silent","input":"x"}"#)),
    ("POST /v1/completions", "/v1/completions", Json(r#"{"model":"silent","prompt":"x"}"#)),
    ("POST /v1/completions", "/v1/completions", Json(r#"{"model":"endless","prompt":"x","stream":true}"#)),
    ("POST /v1/responses", "/v1/responses", Json(RESPONSE)),
    ("POST /v1/responses", "/v1/responses", Json(RESPONSE_STREAM)),
    ("GET /v1/responses", "/v1/responses", WebSocket),
    ("GET /v1/responses/{id}", "/v1/responses/{response}", Nothing),
    ("GET /v1/responses/{id}", "/v1/responses/{response}?stream=true", Nothing),
    ("DELETE /v1/responses/{id}", "/v1/responses/{+response}", Nothing),
    ("POST /v1/responses/{id}/cancel", "/v1/responses/{response}/cancel", Nothing),
    ("GET /v1/responses/{id}/input_items", "/v1/responses/{response}/input_items?limit=100", Nothing),
    (
        "POST /v1/responses/input_tokens",
        "/v1/responses/input_tokens",
        Json(r#"{"model":"demo","input":"{words}"}"#),
    ),
    ("POST /v1/responses/compact", "/v1/responses/compact", Json(r#"{"model":"silent","input":"{words}"}"#)),
    (
        "POST /v1/conversations",
        "/v1/conversations",
        Json(r#"{"items":[{"role":"user","content":"{words}"}]}"#),
    ),
    ("GET /v1/conversations/{id}", "/v1/conversations/{items}", Nothing),
    ("POST /v1/conversations/{id}", "/v1/conversations/{items}", Json(r#"{"metadata":{"a":"{n}"}}"#)),
    ("DELETE /v1/conversations/{id}", "/v1/conversations/{+items}", Nothing),
    ("GET /v1/conversations/{id}/items", "/v1/conversations/{items}/items?limit=100", Nothing),
    (
        "POST /v1/conversations/{id}/items",
        "/v1/conversations/{items}/items",
        Json(r#"{"items":[{"role":"user","content":"{words}"}]}"#),
    ),
    ("GET /v1/conversations/{id}/items/{item}", "/v1/conversations/{items}/items/{item}", Nothing),
    ("DELETE /v1/conversations/{id}/items/{item}", "/v1/conversations/{items}/items/{+item}", Nothing),
    ("GET /v1/files", "/v1/files?limit=100", Nothing),
    ("POST /v1/files", "/v1/files", File),
    ("GET /v1/files/{id}", "/v1/files/{file}", Nothing),
    ("DELETE /v1/files/{id}", "/v1/files/{+file}", Nothing),
    ("GET /v1/files/{id}/content", "/v1/files/{file}/content", Nothing),
    (
        "POST /v1/messages",
        "/v1/messages",
        Json(r#"{"model":"silent","max_tokens":9,"messages":[{"role":"user","content":"x"}]}"#),
    ),
    (
        "POST /v1/messages/count_tokens",
        "/v1/messages/count_tokens",
        Json(r#"{"model":"demo","messages":[{"role":"user","content":"{words}"}]}"#),
    ),
    ("GET /api/auth/mode", "/api/auth/mode", Nothing),
    (
        "POST /api/auth/login",
        "/api/auth/login",
        Json(r#"{"username":"eve","password":"correct horse battery"}"#),
    ),
    (
        "POST /api/auth/register",
        "/api/auth/register",
        Json(r#"{"username":"eve{n}","password":"correct horse"}"#),
    ),
    ("POST /api/auth/logout", "/api/auth/logout", Json("{}")),
    ("POST /api/auth/ticket", "/api/auth/ticket", Nothing),
    ("GET /api/auth/profile", "/api/auth/profile?include=used", Nothing),
    (
        "PATCH /api/auth/profile",
        "/api/auth/profile",
        Json(r#"{"password":"correct horse battery","current_password":"wrong horse battery"}"#),
    ),
    ("GET /api/users", "/api/users", Nothing),
    ("POST /api/users", "/api/users", Json(r#"{"username":"x{n}","password":"correct horse"}"#)),
    ("PATCH /api/users/{id}", "/api/users/3", Json(r#"{"role":"admin"}"#)),
    ("GET /api/invites", "/api/invites", Nothing),
    ("POST /api/invites", "/api/invites", Json("{}")),
    ("POST /api/invites/setup", "/api/invites/setup", Nothing),
    ("DELETE /api/invites/{id}", "/api/invites/1", Nothing),
    ("GET /api/tokens", "/api/tokens", Nothing),
    ("POST /api/tokens", "/api/tokens", Json(r#"{"name":"t{n}"}"#)),
    ("DELETE /api/tokens/{id}", "/api/tokens/{+token}", Nothing),
    ("GET /api/users/{id}/tokens", "/api/users/3/tokens", Nothing),
    ("POST /api/users/{id}/tokens", "/api/users/3/tokens", Json(r#"{"name":"t{n}"}"#)),
    ("DELETE /api/users/{id}/tokens/{token}", "/api/users/3/tokens/{token}", Nothing),
    ("GET /api/conversations", "/api/conversations?limit=100&search=word", Nothing),
    ("POST /api/conversations", "/api/conversations", Json(r#"{"title":"c{n}"}"#)),
    ("PATCH /api/conversations/{id}", "/api/conversations/{chat}", Json(r#"{"title":"c{n}"}"#)),
    ("GET /api/conversations/{id}", "/api/conversations/{chat}", Nothing),
    ("DELETE /api/conversations/{id}", "/api/conversations/{+chat}", Nothing),
    ("POST /api/conversations/{id}/cancel", "/api/conversations/{chat}/cancel", Nothing),
    ("GET /api/conversations/{id}/messages", "/api/conversations/{chat}/messages", Nothing),
    (
        "POST /api/conversations/{id}/messages",
        "/api/conversations/{silent_chat}/messages",
        Json(r#"{"text":"x"}"#),
    ),
    (
        "DELETE /api/conversations/{id}/messages/{mid}",
        "/api/conversations/{chat}/messages/{+message}",
        Nothing,
    ),
    (
        "GET /api/conversations/{id}/messages/{mid}/events",
        "/api/conversations/{chat}/messages/{message}/events",
        Nothing,
    ),
    (
        "POST /api/conversations/{id}/regenerate/{mid}",
        "/api/conversations/{chat}/regenerate/{message}",
        Json("{}"),
    ),
    ("GET /api/projects", "/api/projects?limit=100", Nothing),
    ("POST /api/projects", "/api/projects", Json(r#"{"name":"p{n}"}"#)),
    ("GET /api/projects/{id}", "/api/projects/{project}", Nothing),
    ("PUT /api/projects/{id}", "/api/projects/{project}", Json(r#"{"name":"renamed {n}"}"#)),
    ("PATCH /api/projects/{id}", "/api/projects/{project}", Json(r#"{"description":"p{n}"}"#)),
    ("DELETE /api/projects/{id}", "/api/projects/{+project}", Nothing),
    ("POST /api/projects/upload", "/api/projects/upload", Upload),
    ("POST /api/projects/{id}/upload", "/api/projects/{+project}/upload", Upload),
    ("GET /api/projects/{id}/files", "/api/projects/{project}/files", Nothing),
    ("DELETE /api/projects/{id}/files", "/api/projects/{project}/files", Nothing),
    ("GET /api/projects/{id}/files/{path}", "/api/projects/{project}/files/large.txt", Nothing),
    (
        "PUT /api/projects/{id}/files/{path}",
        "/api/projects/{project}/files/f{n}.txt",
        Json(r#"{"content":"{words}"}"#),
    ),
    (
        "PATCH /api/projects/{id}/files/{path}",
        "/api/projects/{+project}/files/large.txt",
        Json(r#"{"new_path":"moved{n}.txt"}"#),
    ),
    ("DELETE /api/projects/{id}/files/{path}", "/api/projects/{+project}/files/0", Nothing),
    (
        "POST /api/projects/{id}/directories",
        "/api/projects/{project}/directories",
        Json(r#"{"path":"a/b/{n}"}"#),
    ),
    ("POST /api/projects/{id}/search", "/api/projects/{project}/search", Json(r#"{"query":"absent"}"#)),
    ("GET /api/models", "/api/models", Nothing),
    ("GET /api/tools", "/api/tools", Nothing),
    ("GET /api/stats/tokens", "/api/stats/tokens", Nothing),
    ("POST /mcp", "/mcp", Json(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)),
    (
        "POST /mcp",
        "/mcp",
        Json(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait_job","arguments":{"job_id":"{running}","timeout_s":50}}}"#,
        ),
    ),
    ("DELETE /mcp", "/mcp", Nothing),
];

/// Operations that an ordinary user cannot fill: they refuse the user, or find nothing.
pub(super) const REFUSED: &[&str] =
    &["GET /v1/jobs/{id}/images/{n}", "DELETE /api/projects/{id}/files", "DELETE /mcp"];

/// The fillers of the ordinary run: one of each kind of work.
pub(super) const SELECTED: &[&str] = &[
    "GET /openapi.json",
    "POST /v1/jobs",
    "GET /v1/jobs/{id}/events",
    "POST /v1/responses",
    "GET /v1/responses",
    "POST /api/auth/login",
    "POST /api/projects/{id}/search",
];
