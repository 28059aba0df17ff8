//! A job that is stored and answered with its events. Owns the moment in between: a client that leaves during the commit
//! has gone away as well.

use super::events;
use super::farewell::CancelOnDrop;
use super::stored::name;
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{Job, OnDisconnect};
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::frame::{Text, Wire};
use crate::http::reply::Reply;
use crate::http::stream::{self, Asked, Farewell};
use crate::ports::StoreError;
use std::sync::Arc;

/// Who reads the events of which job, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader {
    pub(crate) user: UserId,
    pub(crate) job: JobId,
    pub(crate) on_disconnect: OnDisconnect,
    pub(crate) wire: Wire,
    pub(crate) text: Text,
}

/// The stream of the job that `storing` stores; it resolves to the job, and whether it had been stored before.
pub(crate) async fn streamed<F>(door: &Arc<Door>, reader: Reader, storing: F) -> Result<Reply, Error>
where
    F: Future<Output = Result<(Job, bool), Error>>,
{
    let Reader { user, wire, text, .. } = reader;
    let mut farewell = farewell(door, reader); // before the job is stored
    let stored = storing.await.inspect_err(|error| {
        if let (Some(farewell), true) = (&mut farewell, is_refusal(error)) {
            farewell.disarm();
        }
    });
    let (Job { id, .. }, is_replayed) = stored?;
    if let (Some(made), true) = (&mut farewell, is_replayed) {
        made.disarm(); // it watches over a job that was not stored
        farewell = Some(Box::new(CancelOnDrop::new(door, user, id)));
    }
    let opened = stream::open(door, Asked { job: id, after: 0, wire, text, follow: true }).await?;
    let mut reply = events::answer(id, wire, opened.into_body(farewell));
    name(&mut reply, id, is_replayed);
    Ok(reply)
}

fn farewell(door: &Door, reader: Reader) -> Option<Box<dyn Farewell>> {
    match reader.on_disconnect {
        OnDisconnect::Continue => None,
        OnDisconnect::Cancel => Some(Box::new(CancelOnDrop::new(door, reader.user, reader.job))),
    }
}

/// Whether the job was certainly not stored. After a commit that failed nobody knows, so the client, who hears of an
/// error, has the job cancelled in case it is there.
fn is_refusal(error: &Error) -> bool {
    use StoreError::{
        Busy, Closed, ConversationsFull, KeyReused, KeySpent, LowDisk, NoConversation, NoProject, NoQuestion,
        QueueFull, TooLate, WrongState,
    };
    match error {
        Error::Store(error) => matches!(
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
        Error::NotFound(_) | Error::Conflict(_) => true,
        _ => false,
    }
}
