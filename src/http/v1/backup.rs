//! `GET /v1/backup`: the whole store as one file, made while the server runs. One at a time: a copy is as
//! large as the store.

use crate::http::blocking::on_own_thread;
use crate::http::context::ServerContext;
use crate::http::error::{ApiError, DAMAGED_DATA};
use crate::http::middleware::revocation;
use crate::http::request::context::RequestContext;
use crate::http::response::file_body::FileBody;
use crate::http::response::{self, HandlerResult};
use crate::ports::StoreError;
use hyper::StatusCode;
use hyper::header::CONTENT_DISPOSITION;
use std::sync::Arc;

pub(crate) async fn backup(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let turn = Arc::clone(&context.backups).try_acquire_owned().map_err(|_| ApiError::BackupRunning)?;
    let source = Arc::clone(&context.app.backup);
    // The permit stays with the copy, because the client may leave while it is made.
    let copying = on_own_thread("backup", move || (source.copy(), turn));
    let (copied, turn) = copying.await?;
    let copied = copied.map_err(|error| match error {
        // Unlike other clients, the operator gets to know which rows.
        StoreError::Corrupt(reason) => {
            let message = format!("the store is not copied, because it is damaged: {reason}; {DAMAGED_DATA}");
            ApiError::Refused { status: StatusCode::INTERNAL_SERVER_ERROR, code: "damaged_data", message }
        }
        error => error.into(),
    });
    let (threads, signal) =
        (context.app.threads_of(request.user), revocation::signal(context, request.caller));
    let body = FileBody::new(threads, copied?, signal, Some(turn)).map_err(|error| {
        tracing::error!(%error, "a backup cannot be read");
        ApiError::Internal
    })?;
    let mut response = response::file(body);
    let seconds = context.app.clock.now_ms() / 1_000;
    let name = format!("attachment; filename=\"nanoclaw-{seconds}.redb\"");
    response::set(&mut response, CONTENT_DISPOSITION, &name);
    Ok(response)
}
