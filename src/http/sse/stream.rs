//! A job's events as a body that the socket pulls. Owns the loop read → render → send → wait and the end of it; refuses
//! to queue: a slow reader costs one page, and what it has not asked for stays in the store.
//!
//! Nothing is lost or doubled when a replay meets the live log, because there is no meeting: every page is read from the
//! log after the cursor, and the watch, which was subscribed before the first read, only says when to look again.

use super::cursor::beyond;
use super::event::StreamFormat;
use super::frame::{FrameRenderer, PagePart, TextMode};
use super::long_frame::LongFrame;
use crate::domain::id::JobId;
use crate::http::blocking::blocking;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::middleware::measurement::MeasuredLifetime;
use crate::http::response::stream_body::{BodyError, StreamBody};
use crate::http::server::shutdown::{Shutdown, ShutdownStage};
use crate::ports::{EventPage, Store};
use bytes::Bytes;
use futures_util::stream::try_unfold;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Events read at once.
const PAGE_EVENTS: usize = 256;
/// A page of at most so many events right behind a reader that is up to date was committed a moment ago: it lies in the
/// store's cache, and reading it here is quicker than handing it to another thread.
const HOT_EVENTS: u64 = 32;
/// Silence after which a comment shows that both ends live; each one also looks into the log, so that a lost wake-up
/// costs a delay and no more.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How long to wait before asking for a new watch, when the store has let go of one.
const REWATCH: Duration = Duration::from_millis(200);
/// After a shutdown, clients come back after this time plus a share of the same, milliseconds.
const RETRY_MS: u32 = 1_000;

/// What a reader asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamRequest {
    pub(crate) job: JobId,
    pub(crate) after: u64,
    pub(crate) wire: StreamFormat,
    pub(crate) text: TextMode,
    /// Wait for more, or return what there is.
    pub(crate) follow: bool,
}

/// What to do when the reader goes away before the job's end; disarmed by the end and by a shutdown.
pub(crate) trait DisconnectGuard: Send {
    /// The stream ended as it should.
    fn disarm(&mut self);
}

/// A stream whose first page has been read: its cursor is good.
pub(crate) struct OpenedStream(Box<EventReader>);

impl OpenedStream {
    /// Whether there was nothing after the cursor.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.cursor == self.0.asked.after
    }

    /// The body. `farewell` is told when the stream comes to its proper end, and dropped with it.
    pub(crate) fn into_body(self, farewell: Option<Box<dyn DisconnectGuard>>) -> StreamBody {
        let mut reader = self.0;
        reader.farewell = farewell;
        if reader.ended {
            reader.say_farewell();
        }
        StreamBody::new(try_unfold(reader, EventReader::next))
    }
}

/// Reads the first page. A cursor beyond the log is refused here, before a status is sent.
pub(crate) async fn open(
    context: &Arc<ServerContext>,
    asked: StreamRequest,
) -> Result<OpenedStream, ApiError> {
    let newest = context.app.store.watch(asked.job); // before the first read
    let mut reader = Box::new(EventReader {
        context: Arc::clone(context),
        shutdown: context.shutdown.clone(),
        newest,
        renderer: FrameRenderer::new(asked.wire, asked.text).after(asked.after),
        cursor: asked.after,
        last_seq: u64::MAX,
        parts: VecDeque::new(),
        look: true,
        ended: false,
        farewell: None,
        _lasting: (asked.wire == StreamFormat::Sse).then(|| MeasuredLifetime::stream(&context.app.meter)),
        asked,
    });
    reader.page(false).await.map_err(|cut| match cut {
        StreamPageError::Frame(crate::http::sse::event::FrameError::Store(error)) => ApiError::Store(error),
        other => {
            tracing::error!(job = %asked.job, error = %other, "the first page of a stream cannot be read");
            ApiError::Internal
        }
    })?;
    if asked.after > reader.last_seq {
        return Err(beyond(asked.after, reader.last_seq));
    }
    if asked.wire == StreamFormat::Sse {
        reader.parts.push_front(PagePart::Frames(format!("retry: {RETRY_MS}\n\n").into_bytes()));
    }
    Ok(OpenedStream(reader))
}

/// One client's place in one job's log.
struct EventReader {
    context: Arc<ServerContext>,
    shutdown: Shutdown,
    newest: watch::Receiver<u64>,
    renderer: FrameRenderer,
    asked: StreamRequest,
    /// The last `seq` that was rendered.
    cursor: u64,
    /// The newest `seq` of the log as of the last read.
    last_seq: u64,
    /// What the last page came to and the socket has not asked for yet.
    parts: VecDeque<PagePart>,
    /// The log is to be read even without a hint.
    look: bool,
    ended: bool,
    farewell: Option<Box<dyn DisconnectGuard>>,
    /// It is counted while it lasts.
    _lasting: Option<MeasuredLifetime>,
}

/// Why a page could not be had.
#[derive(Debug, thiserror::Error)]
enum StreamPageError {
    #[error(transparent)]
    Frame(#[from] crate::http::sse::event::FrameError),
    #[error("the reading thread died")]
    Thread,
}

/// What ended a wait.
enum WakeReason {
    Hint,
    Silence,
    WatchLost,
    Closing,
}

impl EventReader {
    /// The next piece of the body: a page's frames, a slice of a long one, a heartbeat, or nothing more.
    async fn next(mut self: Box<Self>) -> Result<Option<(Bytes, Box<Self>)>, BodyError> {
        loop {
            if let Some(piece) = self.piece().await.map_err(|error| self.cut(&error))? {
                return Ok(Some((piece, self)));
            }
            if self.ended {
                return Ok(None);
            }
            let hint = *self.newest.borrow_and_update();
            if self.look || hint > self.cursor || self.last_seq > self.cursor {
                let hot = self.last_seq <= self.cursor && hint.saturating_sub(self.cursor) <= HOT_EVENTS;
                self.page(hot).await.map_err(|error| self.cut(&error))?;
            }
            if !self.asked.follow && self.cursor >= self.last_seq {
                self.ended = true;
            }
            if self.ended {
                self.say_farewell();
            }
            if self.ended || !self.parts.is_empty() || self.last_seq > self.cursor {
                continue;
            }
            match self.wait().await {
                WakeReason::Hint => {}
                WakeReason::WatchLost => {
                    tokio::time::sleep(REWATCH).await;
                    self.newest = self.context.app.store.watch(self.asked.job);
                    self.look = true;
                }
                WakeReason::Silence => {
                    self.look = true;
                    if self.asked.wire == StreamFormat::Sse {
                        return Ok(Some((Bytes::from_static(b": \n\n"), self)));
                    }
                }
                WakeReason::Closing => {
                    self.ended = true;
                    self.say_farewell();
                    if self.asked.wire == StreamFormat::Sse {
                        return Ok(Some((self.come_back(), self)));
                    }
                }
            }
        }
    }

    /// The next bytes of the page that was read last.
    async fn piece(&mut self) -> Result<Option<Bytes>, StreamPageError> {
        while let Some(part) = self.parts.pop_front() {
            let piece = match part {
                PagePart::Frames(frames) => frames,
                PagePart::Long(frame) => self.slice(frame).await?,
            };
            if !piece.is_empty() {
                return Ok(Some(piece.into()));
            }
        }
        Ok(None)
    }

    /// The next slice of a long frame; the rest of it stays in the store.
    async fn slice(&mut self, mut frame: LongFrame) -> Result<Vec<u8>, StreamPageError> {
        let (store, job) = (Arc::clone(&self.context.app.store), self.asked.job);
        let reading = blocking(move || {
            let page = store.events(job, frame.cursor(), PAGE_EVENTS)?;
            let slice = frame.piece(&page.events)?;
            Ok::<_, crate::http::sse::event::FrameError>((slice, frame))
        });
        let (slice, frame) = reading.await.map_err(|_| StreamPageError::Thread)??;
        if !frame.is_whole() {
            self.parts.push_front(PagePart::Long(frame));
        }
        Ok(slice)
    }

    async fn wait(&mut self) -> WakeReason {
        tokio::select! {
            changed = self.newest.changed() => if changed.is_ok() { WakeReason::Hint } else { WakeReason::WatchLost },
            () = self.shutdown.reached(ShutdownStage::Closing) => WakeReason::Closing,
            () = tokio::time::sleep(HEARTBEAT) => WakeReason::Silence,
        }
    }

    /// Reads and renders one page, here if it is hot, else on a thread that may block.
    async fn page(&mut self, hot: bool) -> Result<(), StreamPageError> {
        let (job, after) = (self.asked.job, self.cursor);
        let (page, parts) = if hot && self.renderer.is_light() {
            read(&*self.context.app.store, job, after, &mut self.renderer)?
        } else {
            let store = Arc::clone(&self.context.app.store);
            let blank = FrameRenderer::new(self.asked.wire, self.asked.text);
            let mut renderer = std::mem::replace(&mut self.renderer, blank);
            let reading = blocking(move || {
                let read = read(&*store, job, after, &mut renderer);
                (read, renderer)
            });
            let (read, renderer) = reading.await.map_err(|_| StreamPageError::Thread)?;
            self.renderer = renderer;
            read?
        };
        self.look = false;
        self.last_seq = page.last_seq;
        if let Some(last) = page.events.last() {
            self.cursor = last.seq;
            // A retried job goes on behind an end: only the newest event is the end of the stream.
            self.ended = last.event.is_terminal() && last.seq >= page.last_seq;
        }
        self.parts.extend(parts);
        Ok(())
    }

    fn say_farewell(&mut self) {
        if let Some(mut farewell) = self.farewell.take() {
            farewell.disarm();
        }
    }

    /// Sent at shutdown: when to come back, spread so that not all do at once.
    fn come_back(&self) -> Bytes {
        let share =
            u32::try_from(self.context.app.entropy.random() % u128::from(RETRY_MS)).unwrap_or_default();
        format!("retry: {}\n\n", RETRY_MS + share).into()
    }

    fn cut(&self, error: &StreamPageError) -> BodyError {
        tracing::error!(job = %self.asked.job, cursor = self.cursor, %error, "an event stream was cut off");
        BodyError::new(error.to_string())
    }
}

/// One page after the cursor, and what it comes to. The store's transaction is over when this returns.
fn read(
    store: &dyn Store,
    job: JobId,
    after: u64,
    renderer: &mut FrameRenderer,
) -> Result<(EventPage, Vec<PagePart>), crate::http::sse::event::FrameError> {
    let page = store.events(job, after, PAGE_EVENTS)?;
    let parts = renderer.render(&page, &|first, up_to| store.step_text(job, first, up_to))?;
    Ok((page, parts))
}
