//! The events of a response. Every reader folds the log from its beginning, so numbers never change; what the
//! client has is counted, but not sent.

use super::fold::{LogCut, ResponseFold, StreamedEvent};
use super::unstored::UnstoredResponse;
use crate::domain::event::SequencedEvent;
use crate::http::auth::{ACCESS_LOST, Caller};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::middleware::measurement::MeasuredLifetime;
use crate::http::middleware::revocation;
use crate::http::response::stream_body::{BodyError, BodySource, StreamBody};
use crate::http::response::{self, HttpResponse};
use crate::http::sse::stream::DisconnectGuard;
use crate::http::v1::openai::failure;
use crate::http::v1::openai::log_reader::{LogNews, LogReader};
use bytes::Bytes;
use hyper::StatusCode;
use serde_json::json;
use std::sync::Arc;

/// What the reader of a response hears.
pub(super) enum ResponseNews {
    /// The next events, at least one.
    Events(Vec<StreamedEvent>),
    /// There was none for some time.
    Silence,
    /// The stream ends early. The number is that of the next event: a reader can go on behind the last one
    /// that it got.
    Failed { error: ApiError, number: u64 },
    /// All events were read.
    End,
}

/// A position in the events of a response.
pub(super) struct ResponseReader {
    context: Arc<ServerContext>,
    caller: Caller,
    reader: LogReader,
    fold: ResponseFold,
    has_ended: bool,
    /// Before the guard: fields are dropped in this order.
    _unstored: Option<UnstoredResponse>,
    guard: Option<Box<dyn DisconnectGuard>>,
    _lasting: MeasuredLifetime,
}

/// Who reads, and what happens when he leaves early or stays to the end.
pub(super) struct StreamReader {
    pub(super) caller: Caller,
    pub(super) guard: Option<Box<dyn DisconnectGuard>>,
    pub(super) unstored: Option<UnstoredResponse>,
}

/// Streams on from where the fold stands.
pub(super) fn open(context: &Arc<ServerContext>, fold: ResponseFold, reader: StreamReader) -> HttpResponse {
    let signal = revocation::signal(context, reader.caller);
    let frames = ResponseFrames(ResponseReader::new(context, fold, reader));
    response::events("text/event-stream", StreamBody::new(frames, signal))
}

/// The events of a response as server-sent events.
struct ResponseFrames(ResponseReader);

impl BodySource for ResponseFrames {
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        let frames = match self.0.next().await {
            ResponseNews::Events(events) => events.iter().map(StreamedEvent::to_frame).collect(),
            ResponseNews::Silence => ": keep-alive\n\n".to_owned(),
            ResponseNews::Failed { error, number } => error_frame(&error, number),
            ResponseNews::End => return Ok(None),
        };
        Ok(Some(frames.into()))
    }

    /// The reader counts as one that has left.
    fn end_revoked(&mut self) -> Result<Option<Bytes>, BodyError> {
        Ok(Some(error_frame(&ApiError::Unauthorized(ACCESS_LOST), self.0.fold.next_number()).into()))
    }
}

/// The frame that ends a stream early.
fn error_frame(error: &ApiError, number: u64) -> String {
    let (message, code) = (error.message(), error.code());
    let data = json!({
        "type": "error", "sequence_number": number, "code": code, "message": message, "param": null,
        "error": {"type": "server_error", "code": code, "message": message, "param": null},
    });
    format!("event: error\ndata: {data}\n\n")
}

/// The log of this response no longer has all events.
pub(super) fn cut() -> ApiError {
    ApiError::Refused {
        status: StatusCode::GONE,
        code: "response_events_expired",
        message: "the events of this response are past their retention; GET it without 'stream'".to_owned(),
    }
}

impl ResponseReader {
    pub(super) fn new(context: &Arc<ServerContext>, fold: ResponseFold, reader: StreamReader) -> Self {
        let StreamReader { caller, guard, unstored } = reader;
        Self {
            context: Arc::clone(context),
            caller,
            reader: LogReader::new(context, caller.user, fold.job()).after(fold.last_seq()),
            has_ended: fold.end().is_some(),
            fold,
            _unstored: unstored,
            guard,
            _lasting: MeasuredLifetime::stream(&context.app.meter),
        }
    }

    /// Waits for the next events. Nothing is lost if the future is dropped.
    pub(super) async fn next(&mut self) -> ResponseNews {
        loop {
            let events = self.fold.take_events();
            if !events.is_empty() {
                return ResponseNews::Events(events);
            }
            if self.has_ended {
                return ResponseNews::End;
            }
            let read = match self.reader.next().await {
                Ok(LogNews::Events(events)) => self.apply(events),
                Ok(LogNews::Silence) => return ResponseNews::Silence,
                Ok(LogNews::Closing) => Err(failure::interrupted(&self.context, self.fold.job())),
                Err(error) => Err(error),
            };
            if let Err(error) = read {
                return self.fail(error);
            }
        }
    }

    /// Whether the response ended as failed.
    pub(super) fn has_failed(&self) -> bool {
        self.fold.end().is_some() && self.fold.state() == "failed"
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

    fn fail(&mut self, error: ApiError) -> ResponseNews {
        self.end();
        drop(self.fold.take_events()); // nothing follows the error
        ResponseNews::Failed { error, number: self.fold.next_number() }
    }
}
