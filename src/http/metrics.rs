//! `GET /metrics` for Prometheus. One scrape at a time: it reads the store.

use super::blocking::on_own_thread;
use super::context::ServerContext;
use super::request::context::RequestContext;
use super::response::{self, HandlerResult};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use std::sync::Arc;

/// The format, in the words that scrapers look for.
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All of it as it stands.
pub(crate) async fn metrics(context: &Arc<ServerContext>, _: &RequestContext) -> HandlerResult {
    let turn = Arc::clone(&context.scrapes).acquire_owned().await.ok();
    let exposition = Arc::clone(&context.app.exposition);
    let rendering = on_own_thread("metrics", move || {
        let _turn = turn; // held until it is done, even if the client leaves
        exposition.render()
    });
    let mut response = response::text(StatusCode::OK, rendering.await?);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(FORMAT));
    Ok(response)
}
