//! An answer as a stream. Its head is held back until the model's first token, so that a failure before it
//! has a status of its own.

use super::super::failure;
use super::super::log_reader::{LogNews, LogReader};
use super::pieces::{AnswerEnd, AnswerPieces};
use crate::domain::event::SequencedEvent;
use crate::http::auth::{ACCESS_LOST, Caller};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::middleware::measurement::MeasuredLifetime;
use crate::http::middleware::revocation;
use crate::http::response::stream_body::{BodyError, BodySource, StreamBody};
use crate::http::response::{self, HandlerResult};
use crate::http::sse::stream::DisconnectGuard;
use crate::http::v1::jobs::stream::StoredJob;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The longest time that the head is held back: proxies end connections that stay silent.
const HEAD_WAIT: Duration = Duration::from_secs(15);

/// A client that gets nothing for this time gets a sign of life.
const SILENCE: Duration = Duration::from_secs(15);

struct AnswerStream {
    context: Arc<ServerContext>,
    reader: LogReader,
    pieces: AnswerPieces,
    /// Frames that the socket has not asked for yet.
    ready: Vec<u8>,
    /// When the last frames were written.
    written_at: Instant,
    has_ended: bool,
    guard: Option<Box<dyn DisconnectGuard>>,
    _lasting: MeasuredLifetime,
}

/// Streams the answer of the job.
pub(crate) async fn open(
    context: &Arc<ServerContext>,
    caller: Caller,
    stored: StoredJob,
    pieces: AnswerPieces,
) -> HandlerResult {
    let StoredJob { job, guard, .. } = stored;
    let mut stream = AnswerStream {
        context: Arc::clone(context),
        reader: LogReader::new(context, job.user, job.id),
        pieces,
        ready: Vec::new(),
        written_at: Instant::now(),
        has_ended: false,
        guard,
        _lasting: MeasuredLifetime::stream(&context.app.meter),
    };
    let begun = tokio::time::timeout(HEAD_WAIT, stream.advance()).await;
    if let Ok(Err(error)) = begun {
        return Err(error);
    }
    let body = StreamBody::new(stream, revocation::signal(context, caller));
    Ok(response::events("text/event-stream", body))
}

impl BodySource for AnswerStream {
    /// The next frames.
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        if self.ready.is_empty() && !self.has_ended {
            match self.advance().await {
                Ok(()) => {}
                Err(error) => self.pieces.writer().fail(&mut self.ready, &error),
            }
        }
        let ready = std::mem::take(&mut self.ready);
        if ready.is_empty() { Ok(None) } else { Ok(Some(ready.into())) }
    }

    /// The reader counts as one that has left.
    fn end_revoked(&mut self) -> Result<Option<Bytes>, BodyError> {
        let mut last = Vec::new();
        self.pieces.writer().fail(&mut last, &ApiError::Unauthorized(ACCESS_LOST));
        Ok(Some(last.into()))
    }
}

impl AnswerStream {
    /// Reads on until there is something to send. An error ends the stream.
    async fn advance(&mut self) -> Result<(), ApiError> {
        while self.ready.is_empty() {
            match self.reader.next().await {
                Ok(LogNews::Events(events)) => match self.write(events) {
                    // Events that the client does not see, such as calls of the server's tools.
                    None if self.ready.is_empty() && self.written_at.elapsed() >= SILENCE => {
                        self.pieces.writer().silence(&mut self.ready);
                    }
                    None => {}
                    Some(AnswerEnd::Complete) => {
                        self.end();
                        return Ok(());
                    }
                    Some(AnswerEnd::Failed(error)) => return Err(self.fail(error)),
                },
                Ok(LogNews::Silence) => self.pieces.writer().silence(&mut self.ready),
                Ok(LogNews::Closing) => {
                    let error = failure::interrupted(&self.context, self.reader.job());
                    return Err(self.fail(error));
                }
                Err(error) => return Err(self.fail(error)),
            }
        }
        self.written_at = Instant::now();
        Ok(())
    }

    fn write(&mut self, events: Vec<SequencedEvent>) -> Option<AnswerEnd> {
        let ready = &mut self.ready;
        events.into_iter().find_map(|numbered| self.pieces.write(ready, numbered.event))
    }

    fn end(&mut self) {
        self.has_ended = true;
        if let Some(mut guard) = self.guard.take() {
            guard.disarm();
        }
    }

    fn fail(&mut self, error: ApiError) -> ApiError {
        self.end();
        error
    }
}
