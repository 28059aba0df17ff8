//! A job that is stored and answered with its events. Owns the moment in between: a client that leaves during the commit
//! has gone away as well.

use super::events;
use super::on_disconnect::CancelOnDisconnect;
use super::store::name;
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{Job, OnDisconnect};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::response::HttpResponse;
use crate::http::sse::event::StreamFormat;
use crate::http::sse::frame::TextMode;
use crate::http::sse::stream::{self, DisconnectGuard, StreamRequest};
use crate::ports::StoreError;
use std::sync::Arc;

/// Who reads the events of which job, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobStreamRequest {
    pub(crate) user: UserId,
    pub(crate) job: JobId,
    pub(crate) on_disconnect: OnDisconnect,
    pub(crate) wire: StreamFormat,
    pub(crate) text: TextMode,
}

/// The stream of the job that `storing` stores; it resolves to the job, and whether it had been stored before.
pub(crate) async fn streamed<F>(
    context: &Arc<ServerContext>,
    reader: JobStreamRequest,
    storing: F,
) -> Result<HttpResponse, ApiError>
where
    F: Future<Output = Result<(Job, bool), ApiError>>,
{
    let JobStreamRequest { user, wire, text, .. } = reader;
    let mut farewell = farewell(context, reader); // before the job is stored
    let stored = storing.await.inspect_err(|error| {
        if let (Some(farewell), true) = (&mut farewell, is_refusal(error)) {
            farewell.disarm();
        }
    });
    let (Job { id, .. }, is_replayed) = stored?;
    if let (Some(made), true) = (&mut farewell, is_replayed) {
        made.disarm(); // it watches over a job that was not stored
        farewell = Some(Box::new(CancelOnDisconnect::new(context, user, id)));
    }
    let opened = stream::open(context, StreamRequest { job: id, after: 0, wire, text, follow: true }).await?;
    let mut reply = events::answer(id, wire, opened.into_body(farewell));
    name(&mut reply, id, is_replayed);
    Ok(reply)
}

fn farewell(context: &ServerContext, reader: JobStreamRequest) -> Option<Box<dyn DisconnectGuard>> {
    match reader.on_disconnect {
        OnDisconnect::Continue => None,
        OnDisconnect::Cancel => Some(Box::new(CancelOnDisconnect::new(context, reader.user, reader.job))),
    }
}

/// Whether the job was certainly not stored. After a commit that failed nobody knows, so the client, who hears of an
/// error, has the job cancelled in case it is there.
fn is_refusal(error: &ApiError) -> bool {
    use StoreError::{
        Busy, Closed, ConversationsFull, KeyReused, KeySpent, LowDisk, NoConversation, NoProject, NoQuestion,
        QueueFull, TooLate, WrongState,
    };
    match error {
        ApiError::Store(error) => matches!(
            error,
            Busy | QueueFull { .. }
                | ConversationsFull { .. }
                | KeyReused
                | KeySpent
                | LowDisk { .. }
                | NoConversation
                | NoProject
                | NoQuestion
                | TooLate { .. }
                | WrongState { .. }
                | Closed
        ),
        ApiError::NotFound(_) | ApiError::Conflict(_) => true,
        _ => false,
    }
}
