//! Every route there is: method, path, who may take it, and the file that answers. Owns the table; what a path means is read
//! nowhere else (the `OpenAPI` document is held against it). Refuses to read bodies and queries.

use super::arriving::Arriving;
use super::door::Door;
use super::error::Error;
use super::reply::Reply;
use super::router::Call;
use super::{api, health, metrics, openapi, v1};
use hyper::Method;
use std::pin::Pin;
use std::sync::Arc;

/// Who may take a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everybody who may knock at all.
    Public,
    /// Whoever has come in.
    User,
    /// The same, and nothing changes by it, whatever the method: an API key that only reads may.
    Read,
    /// The same as [`Access::User`], but a ticket in the query does as well: it streams, to browsers that send no headers.
    Stream,
    /// Administrators.
    Admin,
    /// Administrators, and an API key of theirs that only reads does; everybody where the operator says so.
    Scrape,
}

/// An answer in the making.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send>>;

/// One route.
pub(crate) struct Route {
    pub(crate) method: Method,
    /// Segments between slashes; `{name}` takes any one segment, `{*name}` all that follow.
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    pub(crate) act: fn(Arc<Door>, Call, Arriving) -> Answering,
}

/// A line for each route: `METHOD "path" Access => act(door, call, body)`.
macro_rules! routes {
    ($($method:ident $path:literal $access:ident => |$door:ident, $call:ident, $body:ident| $act:expr;)*) => {
        /// The table.
        pub(crate) static ROUTES: &[Route] = &[$(Route {
            method: Method::$method,
            path: $path,
            access: Access::$access,
            act: |$door, $call, $body| Box::pin(async move { $act }),
        },)*];
    };
}

routes! {
    GET "/healthz" Public => |_door, _call, _body| Ok(health::alive());
    GET "/readyz" Public => |door, _call, _body| health::ready(&door).await;

    GET "/metrics" Scrape => |door, call, _body| metrics::metrics(&door, &call).await;

    GET "/openapi.json" Public => |door, call, _body| openapi::openapi(&door, &call);

    GET "/v1/jobs" User => |door, call, _body| v1::list::list(&door, &call).await;
    POST "/v1/jobs" User => |door, call, body| v1::submit::submit(&door, call, body).await;
    GET "/v1/jobs/{id}" User => |door, call, _body| v1::show::show(&door, &call, call.segment("id")).await;
    DELETE "/v1/jobs/{id}" User => |door, call, _body| v1::delete::delete(&door, &call, call.segment("id")).await;
    GET "/v1/jobs/{id}/output" User => |door, call, _body| v1::output::output(&door, &call, call.segment("id")).await;
    GET "/v1/jobs/{id}/events" Stream => |door, call, _body| v1::events::events(&door, &call, call.segment("id")).await;
    GET "/v1/jobs/{id}/audit" User => |door, call, _body| v1::audit::audit(&door, &call, call.segment("id")).await;
    POST "/v1/jobs/{id}/cancel" User => |door, call, _body| v1::cancel::cancel(&door, &call, call.segment("id")).await;
    POST "/v1/jobs/{id}/approve" User => |door, call, body| v1::decide::approve(&door, call, body).await;
    POST "/v1/jobs/{id}/deny" User => |door, call, body| v1::decide::deny(&door, call, body).await;
    POST "/v1/jobs/{id}/retry" User => |door, call, _body| v1::retry::retry(&door, &call, call.segment("id")).await;

    GET "/v1/batches" User => |door, call, _body| v1::batch::show::list(&door, &call).await;
    POST "/v1/batches" User => |door, call, body| v1::batch::upload::upload(&door, call, body).await;
    // `curl -T file URL` puts.
    PUT "/v1/batches" User => |door, call, body| v1::batch::upload::upload(&door, call, body).await;
    GET "/v1/batches/{id}" User => |door, call, _body| v1::batch::show::show(&door, &call, call.segment("id")).await;
    GET "/v1/batches/{id}/results" User
        => |door, call, _body| v1::batch::results::results(&door, &call, call.segment("id")).await;
    POST "/v1/batches/{id}/cancel" User
        => |door, call, _body| v1::batch::cancel::cancel(&door, &call, call.segment("id")).await;

    GET "/v1/schedules" User => |door, call, _body| v1::schedules::list(&door, &call).await;
    POST "/v1/schedules" User => |door, call, body| v1::schedules::create(&door, call, body).await;
    GET "/v1/schedules/{id}" User => |door, call, _body| v1::schedules::show(&door, &call, call.segment("id")).await;
    DELETE "/v1/schedules/{id}" User
        => |door, call, _body| v1::schedules::delete(&door, &call, call.segment("id")).await;

    GET "/v1/webhooks" User => |door, call, _body| v1::webhooks::list(&door, &call).await;
    GET "/v1/webhooks/{id}" User => |door, call, _body| v1::webhooks::show(&door, &call, call.segment("id"));
    POST "/v1/webhooks/{id}/retry" User
        => |door, call, _body| v1::webhooks::retry(&door, &call, call.segment("id")).await;

    GET "/v1/tools" User => |door, call, _body| v1::tools::list(&door, &call).await;
    POST "/v1/tools/{name}/call" Admin => |door, call, body| v1::tools::call(&door, call, body).await;
    GET "/v1/usage" User => |door, call, _body| v1::usage::usage(&door, &call).await;
    GET "/v1/backup" Admin => |door, call, _body| v1::backup::backup(&door, &call).await;

    GET "/api/auth/mode" Public => |door, call, _body| api::auth::mode::mode(&door, &call);
    POST "/api/auth/login" Public => |door, call, body| api::auth::login::login(&door, &call, body).await;
    POST "/api/auth/register" Public => |door, call, body| api::auth::register::register(&door, &call, body).await;
    POST "/api/auth/logout" Public => |_door, call, _body| api::auth::logout::logout(&call);
    POST "/api/auth/ticket" Read => |door, call, _body| api::auth::ticket::ticket(&door, &call);
    GET "/api/auth/profile" User => |door, call, _body| api::auth::profile::show(&door, &call);
    PATCH "/api/auth/profile" User => |door, call, body| api::auth::profile::change(&door, &call, body).await;
    GET "/api/users" Admin => |door, call, _body| api::users::list(&door, &call).await;
    POST "/api/users" Admin => |door, call, body| api::users::create(&door, call, body).await;
    PATCH "/api/users/{id}" Admin => |door, call, body| api::users::change(&door, call, body).await;
    GET "/api/users/{id}/tokens" Admin => |door, call, _body| api::users::tokens_of(&door, &call).await;
    POST "/api/users/{id}/tokens" Admin => |door, call, body| api::users::mint_for(&door, call, body).await;
    DELETE "/api/users/{id}/tokens/{token}" Admin
        => |door, call, _body| api::users::revoke_of(&door, &call).await;
    POST "/api/invites" Admin => |door, call, body| api::invites::create(&door, call, body).await;
    GET "/api/tokens" User => |door, call, _body| api::tokens::list(&door, &call).await;
    POST "/api/tokens" User => |door, call, body| api::tokens::create(&door, call, body).await;
    DELETE "/api/tokens/{id}" User => |door, call, _body| api::tokens::revoke(&door, &call).await;
    GET "/api/models" Public => |door, call, _body| api::models::models(&door, &call);
    GET "/api/tools" Public => |door, call, _body| api::tools::tools(&door, &call);
    GET "/api/stats/tokens" User => |door, call, _body| api::stats::tokens(&door, &call).await;

    GET "/api/conversations" User => |door, call, _body| api::conversations::list(&door, &call).await;
    POST "/api/conversations" User => |door, call, body| api::conversations::create(&door, call, body).await;
    GET "/api/conversations/{id}" User => |door, call, _body| api::conversations::show(&door, &call).await;
    PATCH "/api/conversations/{id}" User => |door, call, body| api::conversations::update(&door, call, body).await;
    DELETE "/api/conversations/{id}" User => |door, call, _body| api::conversations::remove(&door, &call).await;
    POST "/api/conversations/{id}/cancel" User
        => |door, call, _body| api::conversations::cancel::cancel(&door, &call).await;
    GET "/api/conversations/{id}/messages" User => |door, call, _body| api::messages::list(&door, &call).await;
    POST "/api/conversations/{id}/messages" User
        => |door, call, body| api::messages::send::send(&door, call, body).await;
    DELETE "/api/conversations/{id}/messages/{mid}" User
        => |door, call, _body| api::messages::delete(&door, &call).await;
    GET "/api/conversations/{id}/messages/{mid}/events" Stream
        => |door, call, _body| api::messages::events(&door, &call).await;
    POST "/api/conversations/{id}/regenerate/{mid}" User
        => |door, call, body| api::messages::regenerate::regenerate(&door, call, body).await;
    GET "/api/projects" User => |door, call, _body| api::projects::list::list(&door, &call).await;
    POST "/api/projects" User => |door, call, body| api::projects::create::create(&door, call, body).await;
    POST "/api/projects/upload" User => |door, call, body| api::projects::upload::create(&door, call, body).await;
    GET "/api/projects/{id}" User => |door, call, _body| api::projects::show::show(&door, &call).await;
    PUT "/api/projects/{id}" User => |door, call, body| api::projects::amend::update(&door, &call, body).await;
    PATCH "/api/projects/{id}" User => |door, call, body| api::projects::amend::update(&door, &call, body).await;
    DELETE "/api/projects/{id}" User => |door, call, _body| api::projects::delete::delete(&door, &call).await;
    POST "/api/projects/{id}/upload" User => |door, call, body| api::projects::upload::add(&door, call, body).await;
    GET "/api/projects/{id}/files" User => |door, call, _body| api::projects::files::list(&door, &call).await;
    // The project itself, which this refuses to remove.
    DELETE "/api/projects/{id}/files" User => |door, call, _body| api::projects::files::delete(&door, &call).await;
    GET "/api/projects/{id}/files/{*path}" User => |door, call, _body| api::projects::files::read(&door, &call).await;
    PUT "/api/projects/{id}/files/{*path}" User
        => |door, call, body| api::projects::files::write(&door, &call, body).await;
    PATCH "/api/projects/{id}/files/{*path}" User
        => |door, call, body| api::projects::files::rename(&door, &call, body).await;
    DELETE "/api/projects/{id}/files/{*path}" User
        => |door, call, _body| api::projects::files::delete(&door, &call).await;
    POST "/api/projects/{id}/directories" User
        => |door, call, body| api::projects::directories::make(&door, &call, body).await;
    POST "/api/projects/{id}/search" Read => |door, call, body| api::projects::search::search(&door, &call, body).await;
}
