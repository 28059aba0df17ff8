//! A response as a stream of its events. Every reader folds the log from its beginning, so numbers never
//! change; what the client has is counted, but not sent.

use super::fold::{LogCut, ResponseFold};
use crate::domain::event::SequencedEvent;
use crate::http::auth::Caller;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::middleware::measurement::MeasuredLifetime;
use crate::http::response::stream_body::{BodyError, StreamBody};
use crate::http::response::{self, HttpResponse};
use crate::http::sse::stream::DisconnectGuard;
use crate::http::v1::openai::failure;
use crate::http::v1::openai::log_reader::{LogNews, LogReader};
use bytes::Bytes;
use futures_util::stream::try_unfold;
use hyper::StatusCode;
use serde_json::json;
use std::sync::Arc;

/// Acts once the stream has sent its last event.
type AtEnd = Box<dyn FnOnce() + Send>;

struct ResponseStream {
    context: Arc<ServerContext>,
    caller: Caller,
    reader: LogReader,
    fold: ResponseFold,
    has_ended: bool,
    guard: Option<Box<dyn DisconnectGuard>>,
    at_end: Option<AtEnd>,
    _lasting: MeasuredLifetime,
}

/// Who reads, and what happens when he leaves early or stays to the end.
pub(super) struct StreamReader {
    pub(super) caller: Caller,
    pub(super) guard: Option<Box<dyn DisconnectGuard>>,
    pub(super) at_end: Option<AtEnd>,
}

/// Streams on from where the fold stands.
pub(super) fn open(context: &Arc<ServerContext>, fold: ResponseFold, reader: StreamReader) -> HttpResponse {
    let StreamReader { caller, guard, at_end } = reader;
    let stream = Box::new(ResponseStream {
        context: Arc::clone(context),
        caller,
        reader: LogReader::new(context, caller, fold.job()).after(fold.last_seq()),
        has_ended: fold.end().is_some(),
        fold,
        guard,
        at_end,
        _lasting: MeasuredLifetime::stream(&context.app.meter),
    });
    response::events("text/event-stream", StreamBody::new(try_unfold(stream, ResponseStream::next)))
}

/// The log of this response no longer has all events.
pub(super) fn cut() -> ApiError {
    ApiError::Refused {
        status: StatusCode::GONE,
        code: "response_events_expired",
        message: "the events of this response are past their retention; GET it without 'stream'".to_owned(),
    }
}

impl ResponseStream {
    /// The next frames.
    async fn next(mut self: Box<Self>) -> Result<Option<(Bytes, Box<Self>)>, BodyError> {
        let mut ready = self.fold.take_frames();
        while ready.is_empty() && !self.has_ended {
            ready = match self.reader.next().await {
                Ok(LogNews::Events(events)) => match self.apply(events) {
                    Ok(()) => self.fold.take_frames(),
                    Err(error) => self.fail(&error),
                },
                Ok(LogNews::Silence) => b": keep-alive\n\n".to_vec(),
                Ok(LogNews::Closing) => {
                    let error = failure::interrupted(&self.context, self.fold.job());
                    self.fail(&error)
                }
                Err(error) => self.fail(&error),
            };
        }
        if ready.is_empty() {
            if let Some(act) = self.at_end.take() {
                act();
            }
            return Ok(None);
        }
        Ok(Some((ready.into(), self)))
    }

    fn apply(&mut self, events: Vec<SequencedEvent>) -> Result<(), ApiError> {
        if events.last().is_some_and(|last| last.event.is_terminal())
            && let Some(job) = self.context.app.store.job(self.caller.user, self.fold.job())?
        {
            self.fold.see_row(&job);
        }
        for event in events {
            self.fold.apply(event).map_err(|LogCut| cut())?;
        }
        if self.fold.end().is_some() {
            self.end();
        }
        Ok(())
    }

    fn end(&mut self) {
        self.has_ended = true;
        if let Some(mut guard) = self.guard.take() {
            guard.disarm();
        }
    }

    /// The frame that ends a stream early. It has no number of its own, so that a reader can go on behind the
    /// last event that it got.
    fn fail(&mut self, error: &ApiError) -> Vec<u8> {
        self.end();
        self.at_end = None;
        let number = self.fold.next_number();
        let (message, code) = (error.message(), error.code());
        let data = json!({
            "type": "error", "sequence_number": number, "code": code, "message": message, "param": null,
            "error": {"type": "server_error", "code": code, "message": message, "param": null},
        });
        format!("event: error\ndata: {data}\n\n").into_bytes()
    }
}
