//! The table of routes: method, path, access and handler. The `OpenAPI` document is checked against it.

use super::auth::RouteAccess;
use super::context::ServerContext;
use super::request::body::RequestBody;
use super::request::context::RequestContext;
use super::response::HandlerResult;
use super::{api, console, health, mcp, metrics, openapi, v1};
use hyper::Method;
use std::pin::Pin;
use std::sync::Arc;

pub(crate) type HandlerFuture = Pin<Box<dyn Future<Output = HandlerResult> + Send>>;

pub(crate) struct ApiRoute {
    pub(crate) method: Method,
    /// Segments between slashes; `{name}` takes any one segment, `{*name}` all that follow.
    pub(crate) path: &'static str,
    pub(crate) access: RouteAccess,
    /// Its query parameters; `*` ignores them all.
    pub(crate) query: &'static [&'static str],
    pub(crate) handler: fn(Arc<ServerContext>, RequestContext, RequestBody) -> HandlerFuture,
}

/// A line for each route: `METHOD "path" Access [query parameters] => kind handler`. The kind is `body` if
/// the handler reads a body, `sync` if it waits for nothing, `plain` if it cannot fail either, else `async`.
macro_rules! routes {
    ($($method:ident $path:literal $access:ident [$($query:literal),*] => $kind:ident $handler:path;)*) => {
        /// All routes.
        pub(crate) static ROUTES: &[ApiRoute] = &[$(ApiRoute {
            method: Method::$method,
            path: $path,
            access: RouteAccess::$access,
            query: &[$($query),*],
            handler: |context, request, body| call!($kind $handler, context, request, body),
        },)*];
    };
}

/// The future of a handler.
macro_rules! call {
    (body $handler:path, $context:ident, $request:ident, $body:ident) => {
        Box::pin(async move { $handler(&$context, $request, $body).await })
    };
    (async $handler:path, $context:ident, $request:ident, $body:ident) => {{
        drop($body);
        Box::pin(async move { $handler(&$context, &$request).await })
    }};
    (plain $handler:path, $context:ident, $request:ident, $body:ident) => {{
        drop($body);
        Box::pin(std::future::ready(Ok($handler(&$context, &$request))))
    }};
    (sync $handler:path, $context:ident, $request:ident, $body:ident) => {{
        drop($body);
        Box::pin(std::future::ready($handler(&$context, &$request)))
    }};
}

routes! {
    GET "/" Public ["*"] => sync console::page;
    GET "/console/{version}/{*file}" Public [] => sync console::file;

    GET "/healthz" Public ["*"] => plain health::alive;
    GET "/readyz" Public ["*"] => async health::ready;

    GET "/metrics" Scrape [] => async metrics::metrics;

    GET "/openapi.json" Public [] => sync openapi::openapi;

    GET "/v1/jobs" User [
        "status", "parent", "batch_id", "schedule_id", "conversation_id", "model", "metadata", "created_from",
        "created_before", "limit", "cursor"
    ] => async v1::jobs::list;
    POST "/v1/jobs" User ["wait", "stream", "format"] => body v1::jobs::submit::submit;
    POST "/v1/jobs/import" User [] => body v1::jobs::import::import;
    GET "/v1/jobs/{id}" User ["wait", "include"] => async v1::jobs::show;
    DELETE "/v1/jobs/{id}" User [] => async v1::jobs::delete;
    GET "/v1/jobs/{id}/output" User [] => async v1::jobs::output;
    GET "/v1/jobs/{id}/images/{n}" User [] => async v1::jobs::images::show;
    GET "/v1/jobs/{id}/events" Stream ["after", "starting_after", "format", "follow"] => async v1::jobs::events::events;
    GET "/v1/jobs/{id}/export" User [] => async v1::jobs::export::export;
    GET "/v1/jobs/{id}/audit" User [] => async v1::jobs::audit;
    GET "/v1/jobs/{id}/verify" User [] => async v1::jobs::verify::verify;
    POST "/v1/jobs/{id}/cancel" User [] => async v1::jobs::cancel;
    POST "/v1/jobs/{id}/approve" User [] => body v1::jobs::approval::approve;
    POST "/v1/jobs/{id}/deny" User [] => body v1::jobs::approval::deny;
    POST "/v1/jobs/{id}/retry" User [] => async v1::jobs::retry;

    GET "/v1/models" User ["limit", "after_id", "before_id", "beta"] => sync v1::openai::models::list;
    GET "/v1/models/{*id}" User ["beta"] => sync v1::openai::models::show;
    POST "/v1/chat/completions" User [] => body v1::openai::chat::create;
    GET "/v1/chat/completions" User ["after", "limit", "order", "model"] => async v1::openai::chat::stored::list;
    GET "/v1/chat/completions/{id}" User [] => async v1::openai::chat::stored::show;
    POST "/v1/chat/completions/{id}" User [] => body v1::openai::chat::stored::update;
    DELETE "/v1/chat/completions/{id}" User [] => async v1::openai::chat::stored::delete;
    GET "/v1/chat/completions/{id}/messages" User ["after", "limit", "order"] => async v1::openai::chat::stored::messages;
    POST "/v1/completions" User [] => body v1::openai::forward::completions;
    POST "/v1/embeddings" User [] => body v1::openai::forward::embeddings;
    POST "/v1/messages" User ["beta"] => body v1::anthropic::create;
    POST "/v1/messages/count_tokens" User ["beta"] => body v1::anthropic::count_tokens;
    GET "/v1/responses" User [] => body v1::openai::responses::web_socket::connect;
    POST "/v1/responses" User [] => body v1::openai::responses::create;
    POST "/v1/responses/compact" User [] => body v1::openai::responses::compact;
    POST "/v1/responses/input_tokens" User [] => body v1::openai::responses::input_tokens;
    GET "/v1/responses/{id}" Stream ["stream", "starting_after", "include", "include[]", "include_obfuscation"] => async v1::openai::responses::stored::show;
    DELETE "/v1/responses/{id}" User [] => async v1::openai::responses::stored::delete;
    POST "/v1/responses/{id}/cancel" User [] => async v1::openai::responses::stored::cancel;
    GET "/v1/responses/{id}/input_items" User ["after", "limit", "order", "include", "include[]"] => async v1::openai::responses::stored::input_items;

    POST "/v1/conversations" User [] => body v1::openai::responses::conversations::create;
    GET "/v1/conversations/{id}" User [] => async v1::openai::responses::conversations::show;
    POST "/v1/conversations/{id}" User [] => body v1::openai::responses::conversations::update;
    DELETE "/v1/conversations/{id}" User [] => async v1::openai::responses::conversations::remove;
    GET "/v1/conversations/{id}/items" User ["after", "limit", "order", "include", "include[]"] => async v1::openai::responses::conversations::items::list;
    POST "/v1/conversations/{id}/items" User ["include", "include[]"] => body v1::openai::responses::conversations::items::add;
    GET "/v1/conversations/{id}/items/{item}" User ["include", "include[]"] => async v1::openai::responses::conversations::items::show;
    DELETE "/v1/conversations/{id}/items/{item}" User [] => async v1::openai::responses::conversations::items::remove;

    GET "/v1/batches" User ["limit", "cursor", "after"] => async v1::batches::list;
    POST "/v1/batches" User ["concurrency", "completion_window_s", "webhook_url", "dry_run"] => body v1::batches::upload::upload;
    // `curl -T file URL` sends PUT.
    PUT "/v1/batches" User ["concurrency", "completion_window_s", "webhook_url", "dry_run"] => body v1::batches::upload::upload;
    GET "/v1/batches/{id}" User ["wait"] => async v1::batches::show;
    DELETE "/v1/batches/{id}" User [] => async v1::batches::delete;
    GET "/v1/batches/{id}/results" User ["follow", "after"] => async v1::batches::results::results;
    POST "/v1/batches/{id}/cancel" User [] => async v1::batches::cancel;

    GET "/v1/files" User ["after", "limit", "order", "purpose"] => async v1::files::list;
    POST "/v1/files" User [] => body v1::files::upload::upload;
    GET "/v1/files/{id}" User [] => async v1::files::show;
    DELETE "/v1/files/{id}" User [] => async v1::files::delete;
    GET "/v1/files/{id}/content" User [] => async v1::files::content;

    GET "/v1/schedules" User ["limit", "cursor"] => async v1::schedules::list;
    POST "/v1/schedules" User [] => body v1::schedules::create;
    GET "/v1/schedules/{id}" User [] => async v1::schedules::show;
    POST "/v1/schedules/preview" Read [] => body v1::schedules::preview;
    PATCH "/v1/schedules/{id}" User [] => body v1::schedules::change;
    DELETE "/v1/schedules/{id}" User [] => async v1::schedules::delete;
    POST "/v1/schedules/{id}/run" User [] => async v1::schedules::run;

    GET "/v1/webhooks" User ["state", "limit", "cursor"] => async v1::webhooks::list;
    GET "/v1/webhooks/{id}" User [] => sync v1::webhooks::show;
    POST "/v1/webhooks/{id}/retry" User [] => async v1::webhooks::retry;

    GET "/v1/memory" User ["project_id"] => async v1::memory::show;
    PUT "/v1/memory" User ["project_id"] => body v1::memory::replace;

    GET "/v1/tools" User [] => async v1::tools::list;
    POST "/v1/tools/{name}/call" Admin ["project_id"] => body v1::tools::call;
    GET "/v1/status" User [] => async v1::status::show;
    GET "/v1/log/key" User [] => async v1::log::key;
    GET "/v1/log/checkpoints" Admin ["limit", "cursor"] => async v1::log::list;
    POST "/v1/log/checkpoints" Admin [] => async v1::log::create;
    GET "/v1/nodes" Admin [] => async v1::nodes::list;
    GET "/v1/usage" User ["from", "to", "conversation_id", "group_by"] => async v1::usage::usage;
    GET "/v1/backup" Admin [] => async v1::backup::backup;

    // What a message needs beyond `read` is checked with the message.
    POST "/mcp" Read [] => body mcp::post;
    DELETE "/mcp" Read [] => sync mcp::delete;

    GET "/api/auth/mode" Optional [] => async api::auth::session::mode;
    POST "/api/auth/login" Public [] => body api::auth::session::login;
    POST "/api/auth/register" Public [] => body api::auth::register::register;
    POST "/api/auth/logout" Optional [] => body api::auth::session::logout;
    POST "/api/auth/ticket" Read [] => sync api::auth::session::ticket;
    GET "/api/auth/profile" User ["include"] => async api::auth::profile::show;
    PATCH "/api/auth/profile" User [] => body api::auth::profile::change;
    GET "/api/users" Admin ["cursor", "limit", "username"] => async api::users::list;
    POST "/api/users" Admin [] => body api::users::create;
    PATCH "/api/users/{id}" Admin [] => body api::users::change;
    GET "/api/users/{id}/tokens" Admin [] => async api::users::tokens_of;
    POST "/api/users/{id}/tokens" Admin [] => body api::users::mint_for;
    DELETE "/api/users/{id}/tokens/{token}" Admin [] => async api::users::revoke_of;
    GET "/api/invites" Admin ["cursor", "limit"] => async api::invites::list;
    DELETE "/api/invites/{id}" Admin [] => async api::invites::revoke;
    POST "/api/invites" Admin [] => body api::invites::create;
    POST "/api/invites/setup" Admin [] => async api::invites::renew_setup;
    GET "/api/tokens" User [] => async api::tokens::list;
    POST "/api/tokens" User [] => body api::tokens::create;
    DELETE "/api/tokens/{id}" User [] => async api::tokens::revoke;
    GET "/api/models" Public [] => plain api::models::models;
    GET "/api/tools" Public [] => plain api::tools::tools;
    GET "/api/stats/tokens" User ["period", "tz", "user_id"] => async api::stats::tokens;

    GET "/api/conversations" User ["cursor", "limit", "project_id", "search"] => async api::conversations::list;
    POST "/api/conversations" User [] => body api::conversations::create;
    GET "/api/conversations/{id}" User [] => async api::conversations::show;
    PATCH "/api/conversations/{id}" User [] => body api::conversations::update;
    DELETE "/api/conversations/{id}" User [] => async api::conversations::remove;
    POST "/api/conversations/{id}/cancel" User [] => async api::conversations::cancel;
    GET "/api/conversations/{id}/messages" User ["cursor", "limit"] => async api::messages::list;
    POST "/api/conversations/{id}/messages" User ["format"] => body api::messages::send::send;
    DELETE "/api/conversations/{id}/messages/{mid}" User [] => async api::messages::delete;
    GET "/api/conversations/{id}/messages/{mid}/events" Stream ["after", "starting_after", "format", "follow"]
        => async api::messages::events;
    POST "/api/conversations/{id}/regenerate/{mid}" User ["format"] => body api::messages::send::regenerate;

    GET "/api/projects" User ["cursor", "limit"] => async api::projects::list;
    POST "/api/projects" User [] => body api::projects::create::create;
    POST "/api/projects/upload" User [] => body api::projects::upload::create;
    GET "/api/projects/{id}" User [] => async api::projects::show;
    PUT "/api/projects/{id}" User [] => body api::projects::update;
    PATCH "/api/projects/{id}" User [] => body api::projects::update;
    DELETE "/api/projects/{id}" User [] => async api::projects::delete;
    POST "/api/projects/{id}/upload" User [] => body api::projects::upload::add;
    GET "/api/projects/{id}/files" User ["path"] => async api::projects::files::list;
    // Refused: the project itself is not deleted this way.
    DELETE "/api/projects/{id}/files" User [] => async api::projects::files::delete;
    GET "/api/projects/{id}/files/{*path}" User ["raw"] => async api::projects::files::read;
    PUT "/api/projects/{id}/files/{*path}" User [] => body api::projects::files::write;
    PATCH "/api/projects/{id}/files/{*path}" User [] => body api::projects::files::rename;
    DELETE "/api/projects/{id}/files/{*path}" User [] => async api::projects::files::delete;
    POST "/api/projects/{id}/directories" User [] => body api::projects::files::make_directory;
    POST "/api/projects/{id}/search" Read [] => body api::projects::search::search;
}
