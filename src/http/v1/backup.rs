//! `GET /v1/backup`: the whole store as one file, made while the server runs. One at a time: each is as large as the store,
//! on the same disk, until its reader has it.

use crate::http::blocking::blocking;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::file_body::FileBody;
use crate::http::query::Query;
use crate::http::reply::{self, Reply};
use crate::http::router::Call;
use hyper::header::CONTENT_DISPOSITION;
use std::sync::Arc;

/// The copy, as it was when the request came.
pub(crate) async fn backup(door: &Arc<Door>, call: &Call) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let turn = Arc::clone(&door.backups).try_acquire_owned().map_err(|_| Error::BackupRunning)?;
    let source = Arc::clone(&door.room.backup);
    // The turn goes with the copy, not with the client, who may leave in the middle of it.
    let copying = blocking(move || (source.copy(), turn));
    let (copied, turn) = copying.await?;
    let body = FileBody::new(copied?, turn).map_err(|error| {
        tracing::error!(%error, "a backup cannot be read");
        Error::Internal
    })?;
    let mut reply = reply::file(body);
    let seconds = door.room.clock.now_ms() / 1_000;
    let name = format!("attachment; filename=\"nanoclaw-{seconds}.redb\"");
    reply::set(&mut reply, CONTENT_DISPOSITION, &name);
    Ok(reply)
}
