//! What every success of `/api` looks like: `{"code":0,"data":…}` or `{"code":0,"message":…}`, always 200. Failures are
//! [`crate::http::error`]'s.

use crate::http::reply::{self, Reply};
use hyper::StatusCode;
use serde::Serialize;

/// What was asked for.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct Found<T> {
    #[cfg_attr(test, schemars(extend("const" = 0)))]
    code: u16,
    data: T,
}

/// That it is done.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ApiDone"))]
#[derive(Serialize)]
pub(crate) struct Done {
    #[cfg_attr(test, schemars(extend("const" = 0)))]
    code: u16,
    message: &'static str,
}

/// Answers with this.
pub(crate) fn data<T: Serialize>(data: T) -> Reply {
    reply::json(StatusCode::OK, &Found { code: 0, data })
}

/// Answers that it is done, in a word (`deleted`).
pub(crate) fn done(message: &'static str) -> Reply {
    reply::json(StatusCode::OK, &Done { code: 0, message })
}
