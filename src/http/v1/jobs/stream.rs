//! Stores a job and answers with its events. A client that leaves during the commit counts as disconnected.

use super::events;
use super::on_disconnect::CancelOnDisconnect;
use super::store::{begin, name, store};
use crate::domain::id::JobId;
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::{Job, JobSpec, OnDisconnect};
use crate::http::auth::Caller;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::response::HandlerResult;
use crate::http::server::client_socket::SocketState;
use crate::http::sse::event::StreamFormat;
use crate::http::sse::frame::TextMode;
use crate::http::sse::stream::{self, DisconnectGuard, StreamRequest};
use crate::ports::{NewJob, StoreError};
use std::sync::Arc;

/// The client that a new job is stored for.
#[derive(Debug)]
pub(crate) struct NewJobReader {
    pub(crate) caller: Caller,
    pub(crate) job: JobId,
    pub(crate) on_disconnect: OnDisconnect,
    pub(crate) socket: SocketState,
}

/// A stored job.
pub(crate) struct StoredJob {
    pub(crate) job: Job,
    /// An earlier request with the same key stored it.
    pub(crate) is_replayed: bool,
    /// Cancels the job when the client leaves, if that is wanted.
    pub(crate) guard: Option<Box<dyn DisconnectGuard>>,
}

/// Streams the job that `storing` stores. It resolves to the job and whether it is a replay.
pub(crate) async fn streamed<F>(
    context: &Arc<ServerContext>,
    reader: NewJobReader,
    (wire, text): (StreamFormat, TextMode),
    storing: F,
) -> HandlerResult
where
    F: Future<Output = Result<(Job, bool), ApiError>>,
{
    let StoredJob { job: Job { id, .. }, is_replayed, guard } =
        store_guarded(context, &reader, storing).await?;
    let caller = reader.caller;
    let opened =
        stream::open(context, StreamRequest { caller, job: id, after: 0, wire, text, follow: true }).await?;
    let mut response = events::answer(id, wire, opened.into_body(guard));
    name(&mut response, id, is_replayed);
    Ok(response)
}

/// Stores a new job of this client. A conversation that it names must exist.
pub(crate) async fn store_new(
    context: &Arc<ServerContext>,
    (caller, socket): (Caller, SocketState),
    spec: JobSpec,
    key: Option<IdempotencyKey>,
) -> Result<StoredJob, ApiError> {
    let created_at_ms = context.app.clock.now_ms();
    let id = context.app.job_id(created_at_ms);
    let reader = NewJobReader { caller, job: id, on_disconnect: spec.on_disconnect, socket };
    let in_existing = spec.conversation_id.is_some();
    let job = NewJob { id, user: caller.user, created_at_ms, spec, in_existing };
    match reader.on_disconnect {
        OnDisconnect::Continue => store_guarded(context, &reader, store(context, job, key)).await,
        OnDisconnect::Cancel => store_guarded(context, &reader, begin(context, job, key)).await,
    }
}

/// Stores the job, and cancels it if its client leaves, already while it is being stored.
pub(crate) async fn store_guarded<F>(
    context: &Arc<ServerContext>,
    reader: &NewJobReader,
    storing: F,
) -> Result<StoredJob, ApiError>
where
    F: Future<Output = Result<(Job, bool), ApiError>>,
{
    let mut guard = disconnect_guard(context, reader); // before the job is stored
    let stored = storing.await.inspect_err(|error| {
        if let (Some(guard), true) = (&mut guard, is_refusal(error)) {
            guard.disarm();
        }
    });
    let (job, is_replayed) = stored?;
    if let (Some(made), true) = (&mut guard, is_replayed) {
        made.disarm(); // that job was not stored
        guard = Some(Box::new(CancelOnDisconnect::new(context, reader.caller.user, job.id)));
    }
    Ok(StoredJob { job, is_replayed, guard })
}

fn disconnect_guard(context: &ServerContext, reader: &NewJobReader) -> Option<Box<dyn DisconnectGuard>> {
    match reader.on_disconnect {
        OnDisconnect::Continue => None,
        OnDisconnect::Cancel => {
            reader.socket.end_with_input();
            Some(Box::new(CancelOnDisconnect::new(context, reader.caller.user, reader.job)))
        }
    }
}

/// Whether the job was certainly not stored. After a failed commit this is unknown: the client gets an
/// error, and the job is cancelled in case it exists.
fn is_refusal(error: &ApiError) -> bool {
    matches!(
        error,
        ApiError::Store(StoreError::Busy | StoreError::LowDisk { .. } | StoreError::Closed)
            | ApiError::Refused { .. }
            | ApiError::NotFound(_)
            | ApiError::Conflict(_)
    )
}
