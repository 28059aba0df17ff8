//! The table of routes: method, path, access and handler. The `OpenAPI` document is checked against it.

use super::auth::RouteAccess;
use super::context::ServerContext;
use super::error::ApiError;
use super::request::body::RequestBody;
use super::request::context::RequestContext;
use super::response::HttpResponse;
use super::{api, health, metrics, openapi, v1};
use hyper::Method;
use std::pin::Pin;
use std::sync::Arc;

pub(crate) type HandlerFuture = Pin<Box<dyn Future<Output = Result<HttpResponse, ApiError>> + Send>>;

pub(crate) struct ApiRoute {
    pub(crate) method: Method,
    /// Segments between slashes; `{name}` takes any one segment, `{*name}` all that follow.
    pub(crate) path: &'static str,
    pub(crate) access: RouteAccess,
    pub(crate) handler: fn(Arc<ServerContext>, RequestContext, RequestBody) -> HandlerFuture,
}

/// A line for each route: `METHOD "path" Access => handler`.
macro_rules! routes {
    ($($method:ident $path:literal $access:ident => |$context:ident, $request:ident, $body:ident| $act:expr;)*) => {
        /// All routes.
        pub(crate) static ROUTES: &[ApiRoute] = &[$(ApiRoute {
            method: Method::$method,
            path: $path,
            access: RouteAccess::$access,
            handler: |$context, $request, $body| Box::pin(async move { $act }),
        },)*];
    };
}

routes! {
    GET "/healthz" Public => |_door, _request, _body| Ok(health::alive());
    GET "/readyz" Public => |context, _request, _body| health::ready(&context).await;

    GET "/metrics" Scrape => |context, request, _body| metrics::metrics(&context, &request).await;

    GET "/openapi.json" Public => |context, request, _body| openapi::openapi(&context, &request);

    GET "/v1/jobs" User => |context, request, _body| v1::jobs::list(&context, &request).await;
    POST "/v1/jobs" User => |context, request, body| v1::jobs::submit::submit(&context, request, body).await;
    GET "/v1/jobs/{id}" User => |context, request, _body| v1::jobs::show(&context, &request, request.segment("id")).await;
    DELETE "/v1/jobs/{id}" User => |context, request, _body| v1::jobs::delete(&context, &request, request.segment("id")).await;
    GET "/v1/jobs/{id}/output" User => |context, request, _body| v1::jobs::output(&context, &request, request.segment("id")).await;
    GET "/v1/jobs/{id}/events" Stream => |context, request, _body| v1::jobs::events::events(&context, &request, request.segment("id")).await;
    GET "/v1/jobs/{id}/audit" User => |context, request, _body| v1::jobs::audit(&context, &request, request.segment("id")).await;
    POST "/v1/jobs/{id}/cancel" User => |context, request, _body| v1::jobs::cancel(&context, &request, request.segment("id")).await;
    POST "/v1/jobs/{id}/approve" User => |context, request, body| v1::jobs::approval::approve(&context, request, body).await;
    POST "/v1/jobs/{id}/deny" User => |context, request, body| v1::jobs::approval::deny(&context, request, body).await;
    POST "/v1/jobs/{id}/retry" User => |context, request, _body| v1::jobs::retry(&context, &request, request.segment("id")).await;

    GET "/v1/batches" User => |context, request, _body| v1::batches::list(&context, &request).await;
    POST "/v1/batches" User => |context, request, body| v1::batches::upload::upload(&context, request, body).await;
    // `curl -T file URL` sends PUT.
    PUT "/v1/batches" User => |context, request, body| v1::batches::upload::upload(&context, request, body).await;
    GET "/v1/batches/{id}" User => |context, request, _body| v1::batches::show(&context, &request, request.segment("id")).await;
    GET "/v1/batches/{id}/results" User
        => |context, request, _body| v1::batches::results::results(&context, &request, request.segment("id")).await;
    POST "/v1/batches/{id}/cancel" User
        => |context, request, _body| v1::batches::cancel(&context, &request, request.segment("id")).await;

    GET "/v1/schedules" User => |context, request, _body| v1::schedules::list(&context, &request).await;
    POST "/v1/schedules" User => |context, request, body| v1::schedules::create(&context, request, body).await;
    GET "/v1/schedules/{id}" User => |context, request, _body| v1::schedules::show(&context, &request, request.segment("id")).await;
    DELETE "/v1/schedules/{id}" User
        => |context, request, _body| v1::schedules::delete(&context, &request, request.segment("id")).await;

    GET "/v1/webhooks" User => |context, request, _body| v1::webhooks::list(&context, &request).await;
    GET "/v1/webhooks/{id}" User => |context, request, _body| v1::webhooks::show(&context, &request, request.segment("id"));
    POST "/v1/webhooks/{id}/retry" User
        => |context, request, _body| v1::webhooks::retry(&context, &request, request.segment("id")).await;

    GET "/v1/tools" User => |context, request, _body| v1::tools::list(&context, &request).await;
    POST "/v1/tools/{name}/call" Admin => |context, request, body| v1::tools::call(&context, request, body).await;
    GET "/v1/usage" User => |context, request, _body| v1::usage::usage(&context, &request).await;
    GET "/v1/backup" Admin => |context, request, _body| v1::backup::backup(&context, &request).await;

    GET "/api/auth/mode" Public => |context, request, _body| api::auth::session::mode(&context, &request);
    POST "/api/auth/login" Public => |context, request, body| api::auth::session::login(&context, &request, body).await;
    POST "/api/auth/register" Public => |context, request, body| api::auth::register::register(&context, &request, body).await;
    POST "/api/auth/logout" Public => |_door, request, _body| api::auth::session::logout(&request);
    POST "/api/auth/ticket" Read => |context, request, _body| api::auth::session::ticket(&context, &request);
    GET "/api/auth/profile" User => |context, request, _body| api::auth::profile::show(&context, &request);
    PATCH "/api/auth/profile" User => |context, request, body| api::auth::profile::change(&context, &request, body).await;
    GET "/api/users" Admin => |context, request, _body| api::users::list(&context, &request).await;
    POST "/api/users" Admin => |context, request, body| api::users::create(&context, request, body).await;
    PATCH "/api/users/{id}" Admin => |context, request, body| api::users::change(&context, request, body).await;
    GET "/api/users/{id}/tokens" Admin => |context, request, _body| api::users::tokens_of(&context, &request).await;
    POST "/api/users/{id}/tokens" Admin => |context, request, body| api::users::mint_for(&context, request, body).await;
    DELETE "/api/users/{id}/tokens/{token}" Admin
        => |context, request, _body| api::users::revoke_of(&context, &request).await;
    POST "/api/invites" Admin => |context, request, body| api::invites::create(&context, request, body).await;
    GET "/api/tokens" User => |context, request, _body| api::tokens::list(&context, &request).await;
    POST "/api/tokens" User => |context, request, body| api::tokens::create(&context, request, body).await;
    DELETE "/api/tokens/{id}" User => |context, request, _body| api::tokens::revoke(&context, &request).await;
    GET "/api/models" Public => |context, request, _body| api::models::models(&context, &request);
    GET "/api/tools" Public => |context, request, _body| api::tools::tools(&context, &request);
    GET "/api/stats/tokens" User => |context, request, _body| api::stats::tokens(&context, &request).await;

    GET "/api/conversations" User => |context, request, _body| api::conversations::list(&context, &request).await;
    POST "/api/conversations" User => |context, request, body| api::conversations::create(&context, request, body).await;
    GET "/api/conversations/{id}" User => |context, request, _body| api::conversations::show(&context, &request).await;
    PATCH "/api/conversations/{id}" User => |context, request, body| api::conversations::update(&context, request, body).await;
    DELETE "/api/conversations/{id}" User => |context, request, _body| api::conversations::remove(&context, &request).await;
    POST "/api/conversations/{id}/cancel" User
        => |context, request, _body| api::conversations::cancel(&context, &request).await;
    GET "/api/conversations/{id}/messages" User => |context, request, _body| api::messages::list(&context, &request).await;
    POST "/api/conversations/{id}/messages" User
        => |context, request, body| api::messages::send::send(&context, request, body).await;
    DELETE "/api/conversations/{id}/messages/{mid}" User
        => |context, request, _body| api::messages::delete(&context, &request).await;
    GET "/api/conversations/{id}/messages/{mid}/events" Stream
        => |context, request, _body| api::messages::events(&context, &request).await;
    POST "/api/conversations/{id}/regenerate/{mid}" User
        => |context, request, body| api::messages::send::regenerate(&context, request, body).await;
    GET "/api/projects" User => |context, request, _body| api::projects::list(&context, &request).await;
    POST "/api/projects" User => |context, request, body| api::projects::create::create(&context, request, body).await;
    POST "/api/projects/upload" User => |context, request, body| api::projects::upload::create(&context, request, body).await;
    GET "/api/projects/{id}" User => |context, request, _body| api::projects::show(&context, &request).await;
    PUT "/api/projects/{id}" User => |context, request, body| api::projects::update(&context, &request, body).await;
    PATCH "/api/projects/{id}" User => |context, request, body| api::projects::update(&context, &request, body).await;
    DELETE "/api/projects/{id}" User => |context, request, _body| api::projects::delete(&context, &request).await;
    POST "/api/projects/{id}/upload" User => |context, request, body| api::projects::upload::add(&context, request, body).await;
    GET "/api/projects/{id}/files" User => |context, request, _body| api::projects::files::list(&context, &request).await;
    // Refused: the project itself is not deleted this way.
    DELETE "/api/projects/{id}/files" User => |context, request, _body| api::projects::files::delete(&context, &request).await;
    GET "/api/projects/{id}/files/{*path}" User => |context, request, _body| api::projects::files::read(&context, &request).await;
    PUT "/api/projects/{id}/files/{*path}" User
        => |context, request, body| api::projects::files::write(&context, &request, body).await;
    PATCH "/api/projects/{id}/files/{*path}" User
        => |context, request, body| api::projects::files::rename(&context, &request, body).await;
    DELETE "/api/projects/{id}/files/{*path}" User
        => |context, request, _body| api::projects::files::delete(&context, &request).await;
    POST "/api/projects/{id}/directories" User
        => |context, request, body| api::projects::files::make_directory(&context, &request, body).await;
    POST "/api/projects/{id}/search" Read => |context, request, body| api::projects::search::search(&context, &request, body).await;
}
