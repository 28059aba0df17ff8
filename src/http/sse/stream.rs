//! The events of a job as a body that the socket pulls: read a page, render it, send it, wait. A slow
//! reader costs one page of memory.
//!
//! Every page is read from the log after the cursor. The watch was subscribed before the first read and
//! only says when to read again, so nothing is lost or repeated between replay and live events.

use super::cursor::beyond_log_error;
use super::event::{FrameError, StreamFormat, write_damage};
use super::frame::{FrameRenderer, PagePart, TextMode};
use super::long_frame::LongFrame;
use super::shared_pages::{FramePage, JobPages, find};
use crate::domain::id::JobId;
use crate::http::auth::{ACCESS_LOST, Caller};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::middleware::measurement::MeasuredLifetime;
use crate::http::middleware::revocation;
use crate::http::response::stream_body::{BodyError, BodySource, StreamBody};
use crate::http::server::shutdown::{Shutdown, ShutdownStage};
use crate::http::shared_pages::PageSharing;
use crate::ports::{Store, StoreError};
use bytes::Bytes;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};

/// Events read at once.
const PAGE_EVENTS: usize = 256;
/// Up to this many new events are in the store's cache: reading them here is faster than on another thread.
const HOT_EVENTS: u64 = 32;
/// A heartbeat comment follows this silence. It reads the log, too, so that a lost wake-up is only a delay.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Pause before a lost watch is subscribed again.
const REWATCH: Duration = Duration::from_millis(200);
/// After a shutdown clients reconnect after this time plus a random share of it, milliseconds.
const RETRY_MS: u32 = 1_000;

#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamRequest {
    pub(crate) caller: Caller,
    pub(crate) job: JobId,
    pub(crate) after: u64,
    pub(crate) wire: StreamFormat,
    pub(crate) text: TextMode,
    /// Wait for more events, or end after those in the log.
    pub(crate) follow: bool,
}

/// Acts when it is dropped before the job has ended, because the reader left.
pub(crate) trait DisconnectGuard: Send {
    /// The stream ended properly: do nothing.
    fn disarm(&mut self);
}

/// A stream whose first page has been read, so its cursor is valid.
pub(crate) struct OpenedStream(Box<EventReader>);

impl OpenedStream {
    /// Whether there was nothing after the cursor.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.cursor == self.0.request.after
    }

    /// Fails if the log ends before this event, which the job's row names: events at its end are lost.
    pub(crate) fn refuse_short_log(&self, last_event_id: u64) -> Result<(), ApiError> {
        if self.0.last_seq >= last_event_id {
            return Ok(());
        }
        let (job, last_seq) = (self.0.request.job, self.0.last_seq);
        tracing::error!(%job, last_seq, last_event_id, "events are missing at the end of a log");
        Err(ApiError::Store(StoreError::Corrupt("the end of the log is missing".to_owned())))
    }

    /// The body. `guard` is disarmed at the proper end of the stream and dropped with it.
    pub(crate) fn into_body(self, guard: Option<Box<dyn DisconnectGuard>>) -> StreamBody {
        let mut reader = self.0;
        reader.guard = guard;
        if reader.ended {
            reader.disarm_guard();
        }
        let signal = revocation::signal(&reader.context, reader.request.caller);
        StreamBody::new(*reader, signal)
    }
}

/// Reads the first page. A cursor beyond the log is an error here, before a status is sent.
pub(crate) async fn open(
    context: &Arc<ServerContext>,
    request: StreamRequest,
) -> Result<OpenedStream, ApiError> {
    let newest = context.app.store.watch(request.job); // before the first read
    let mut reader = Box::new(EventReader {
        context: Arc::clone(context),
        shutdown: context.shutdown.clone(),
        newest,
        pages: context.pages.of(request.job),
        renderer: FrameRenderer::new(request.wire, request.text).after(request.after),
        cursor: request.after,
        last_seq: u64::MAX,
        parts: VecDeque::new(),
        is_inside_frame: false,
        look: true,
        silence: Box::pin(tokio::time::sleep(HEARTBEAT)),
        sent_at: Instant::now(),
        ended: false,
        guard: None,
        _lasting: (request.wire == StreamFormat::Sse).then(|| MeasuredLifetime::stream(&context.app.meter)),
        request,
    });
    reader.page(0).await.map_err(|cut| match cut {
        StreamPageError::Frame(FrameError::Store(error)) => ApiError::Store(error),
        StreamPageError::Frame(error @ FrameError::Torn { .. }) => {
            ApiError::Store(StoreError::Corrupt(error.to_string()))
        }
        other => {
            tracing::error!(job = %request.job, error = %other, "the first page of a stream cannot be read");
            ApiError::Internal
        }
    })?;
    if request.after > reader.last_seq {
        return Err(beyond_log_error(request.after, reader.last_seq));
    }
    if request.wire == StreamFormat::Sse {
        // Without a blank line it belongs to the first event: clients such as httpx-sse make an event of a
        // block that has only `retry:`.
        reader.parts.push_front(PagePart::Frames(format!("retry: {RETRY_MS}\n").into()));
    }
    Ok(OpenedStream(reader))
}

/// The position of one reader in the log of a job.
struct EventReader {
    context: Arc<ServerContext>,
    shutdown: Shutdown,
    newest: watch::Receiver<u64>,
    /// Pages that it shares with the other readers of the job.
    pages: Arc<JobPages>,
    renderer: FrameRenderer,
    request: StreamRequest,
    /// The last `seq` that was rendered.
    cursor: u64,
    /// The newest `seq` of the log as of the last read.
    last_seq: u64,
    /// Rendered parts that the socket has not asked for yet.
    parts: VecDeque<PagePart>,
    /// The start of a long frame was sent.
    is_inside_frame: bool,
    /// Read the log even without a hint.
    look: bool,
    /// Ends [`HEARTBEAT`] after the last piece of the body or earlier; it is moved only when it ends.
    silence: Pin<Box<Sleep>>,
    /// When the last piece of the body was made. Some events have none.
    sent_at: Instant,
    ended: bool,
    guard: Option<Box<dyn DisconnectGuard>>,
    /// Counts the open stream.
    _lasting: Option<MeasuredLifetime>,
}

#[derive(Debug, thiserror::Error)]
enum StreamPageError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("the reading thread died")]
    Thread,
}

enum WakeReason {
    Hint,
    Silence,
    WatchLost,
    Closing,
}

impl BodySource for EventReader {
    /// The next piece of the body: frames, a piece of a long frame, a heartbeat, or the end.
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            if let Some(piece) = self.piece().await.map_err(|error| self.cut(&error))? {
                self.sent_at = Instant::now();
                return Ok(Some(piece));
            }
            if self.ended {
                return Ok(None);
            }
            let hint = *self.newest.borrow_and_update();
            if self.look || hint > self.cursor || self.last_seq > self.cursor {
                match self.page(hint).await {
                    Err(StreamPageError::Frame(FrameError::Store(StoreError::Recovering)))
                        if self.request.wire == StreamFormat::Sse =>
                    {
                        self.disarm_guard();
                        return Ok(self.interrupt(": the store is recovering; reconnect to resume\n"));
                    }
                    Err(StreamPageError::Frame(FrameError::Store(StoreError::Unreachable))) => {
                        tokio::time::sleep(REWATCH).await;
                        self.look = true;
                        let comment = self.comment(b": the database is away\n");
                        return Ok(Some(comment));
                    }
                    Err(StreamPageError::Frame(
                        error @ (FrameError::Store(StoreError::Corrupt(_)) | FrameError::Torn { .. }),
                    )) => return self.end_damaged(error),
                    read => read.map_err(|error| self.cut(&error))?,
                }
            }
            if !self.request.follow && self.cursor >= self.last_seq {
                self.ended = true;
            }
            if self.ended {
                self.disarm_guard();
            }
            if self.ended || !self.parts.is_empty() || self.last_seq > self.cursor {
                continue;
            }
            match self.wait().await {
                WakeReason::Hint => {}
                WakeReason::WatchLost => {
                    tokio::time::sleep(REWATCH).await;
                    self.newest = self.context.app.store.watch(self.request.job);
                    self.look = true;
                }
                WakeReason::Silence => {
                    (self.look, self.sent_at) = (true, Instant::now());
                    if self.request.wire == StreamFormat::Sse {
                        // A comment alone: a blank line would end a block without data, and some clients
                        // make an event of it.
                        return Ok(Some(Bytes::from_static(b": \n")));
                    }
                }
                WakeReason::Closing => {
                    self.disarm_guard();
                    return Ok(self.interrupt(""));
                }
            }
        }
    }

    /// The reader counts as one that has left. Nothing may stand inside of a frame.
    fn end_revoked(&mut self) -> Result<Option<Bytes>, BodyError> {
        if self.is_inside_frame {
            return Err(BodyError::new(ACCESS_LOST));
        }
        Ok(self.interrupt(&format!(": {ACCESS_LOST}\n")))
    }
}

impl EventReader {
    /// A comment, which only server-sent events have; nothing in other formats.
    fn comment(&self, text: &'static [u8]) -> Bytes {
        if self.request.wire == StreamFormat::Sse { Bytes::from_static(text) } else { Bytes::new() }
    }

    /// The next bytes of the last page.
    async fn piece(&mut self) -> Result<Option<Bytes>, StreamPageError> {
        while let Some(part) = self.parts.pop_front() {
            let piece = match part {
                PagePart::Frames(frames) => frames,
                PagePart::Long(frame) => self.slice(frame).await?.into(),
            };
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }

    /// The next piece of a long frame; the rest stays in the store. Nothing while the database is away: not
    /// even a comment may stand inside of a frame.
    async fn slice(&mut self, mut frame: LongFrame) -> Result<Vec<u8>, StreamPageError> {
        let (store, job) = (Arc::clone(&self.context.app.store), self.request.job);
        let reading = self.context.app.blocking(self.request.caller.user, move || {
            let page = store.events(job, frame.cursor(), PAGE_EVENTS).map_err(FrameError::from);
            (page.and_then(|page| frame.piece(&page.events)), frame)
        });
        let (slice, frame) = reading.await.map_err(|_| StreamPageError::Thread)?;
        let is_away = matches!(slice, Err(FrameError::Store(StoreError::Unreachable)));
        self.is_inside_frame = !frame.is_whole();
        if is_away || (slice.is_ok() && self.is_inside_frame) {
            self.parts.push_front(PagePart::Long(frame));
        }
        if !is_away {
            return Ok(slice?);
        }
        tokio::select! {
            () = tokio::time::sleep(REWATCH) => Ok(Vec::new()),
            () = self.shutdown.reached(ShutdownStage::Closing) => Ok(slice?),
        }
    }

    async fn wait(&mut self) -> WakeReason {
        let ends_at = self.sent_at + HEARTBEAT;
        loop {
            tokio::select! {
                biased;
                changed = self.newest.changed() => {
                    return if changed.is_ok() { WakeReason::Hint } else { WakeReason::WatchLost };
                }
                () = self.silence.as_mut() => {
                    let now = Instant::now();
                    if now >= ends_at {
                        self.silence.as_mut().reset(now + HEARTBEAT);
                        return WakeReason::Silence;
                    }
                    self.silence.as_mut().reset(ends_at);
                }
                () = self.shutdown.reached(ShutdownStage::Closing) => return WakeReason::Closing,
            }
        }
    }

    /// Takes one page from the other readers of the job, or reads and renders it; on a thread that may block
    /// unless the page is in the store's cache.
    async fn page(&mut self, hint: u64) -> Result<(), StreamPageError> {
        // Without a hint the log itself is read.
        let sharing = if self.look { None } else { PageSharing::new(&self.pages, Some(hint)) };
        let shared = sharing.as_ref().and_then(|sharing| find(sharing, &mut self.renderer));
        let log = (self.request.job, self.cursor);
        let page = if let Some(page) = shared {
            page.into()
        } else if self.is_hot(hint) && self.renderer.has_step_text() {
            read(&*self.context.app.store, log, &mut self.renderer, sharing.as_ref())?
        } else {
            let store = Arc::clone(&self.context.app.store);
            let blank = FrameRenderer::new(self.request.wire, self.request.text);
            let mut renderer = std::mem::replace(&mut self.renderer, blank);
            let reading = self.context.app.blocking(self.request.caller.user, move || {
                let read = read(&*store, log, &mut renderer, sharing.as_ref());
                (read, renderer)
            });
            let (read, renderer) = reading.await.map_err(|_| StreamPageError::Thread)?;
            self.renderer = renderer;
            read?
        };
        self.look = false;
        (self.cursor, self.last_seq, self.ended) = (page.cursor, page.last_seq, page.is_end);
        self.parts.extend(page.parts);
        Ok(())
    }

    /// Whether the events up to the hint are new, and few.
    fn is_hot(&self, hint: u64) -> bool {
        self.last_seq <= self.cursor && hint.saturating_sub(self.cursor) <= HOT_EVENTS
    }

    fn disarm_guard(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            guard.disarm();
        }
    }

    /// Ends the stream before its job. Server-sent events say when to reconnect, spread over time; the client
    /// resumes after its last id.
    fn interrupt(&mut self, comment: &str) -> Option<Bytes> {
        self.ended = true;
        if self.request.wire == StreamFormat::Ndjson {
            return None;
        }
        let random = self.context.app.entropy.random() % u128::from(RETRY_MS);
        let retry_ms = RETRY_MS.saturating_add(u32::try_from(random).unwrap_or_default());
        Some(format!("{comment}retry: {retry_ms}\n").into())
    }

    /// Ends the stream with an error, because the rest of the log cannot be read.
    fn end_damaged(&mut self, error: FrameError) -> Result<Option<Bytes>, BodyError> {
        let frame = write_damage(self.request.wire, self.cursor);
        drop(self.cut(&StreamPageError::Frame(error)));
        self.ended = true;
        self.disarm_guard();
        let frame = frame.map_err(|error| BodyError::new(error.to_string()))?;
        Ok(Some(frame.into()))
    }

    fn cut(&self, error: &StreamPageError) -> BodyError {
        tracing::error!(job = %self.request.job, cursor = self.cursor, %error, "an event stream was cut off");
        BodyError::new(error.to_string())
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        self.context.auth.record_open(self.request.caller, self.context.app.clock.monotonic_ms());
    }
}

/// A rendered page.
struct PageRead {
    parts: Vec<PagePart>,
    /// The last event in it; without events, the one before it.
    cursor: u64,
    last_seq: u64,
    is_end: bool,
}

impl From<FramePage> for PageRead {
    fn from(FramePage { frames, cursor, last_seq, is_end, .. }: FramePage) -> Self {
        Self { parts: vec![PagePart::Frames(frames)], cursor, last_seq, is_end }
    }
}

/// Reads and renders the page after this event. The store's transaction ends here.
fn read(
    store: &dyn Store,
    (job, after): (JobId, u64),
    renderer: &mut FrameRenderer,
    sharing: Option<&PageSharing<JobId, FramePage>>,
) -> Result<PageRead, FrameError> {
    // Another reader may have rendered it while this one waited for a thread.
    if let Some(page) = sharing.and_then(|sharing| find(sharing, renderer)) {
        return Ok(page.into());
    }
    let start = renderer.position();
    let page = store.events(job, after, PAGE_EVENTS)?;
    let parts = renderer.render(&page, &|first, up_to| store.step_text(job, first, up_to))?;
    let (cursor, last_seq) = (page.events.last().map_or(after, |last| last.seq), page.last_seq);
    // The log of a retried job continues behind a terminal event: only the newest event ends the stream.
    let is_end = cursor >= last_seq && page.events.last().is_some_and(|last| last.event.is_terminal());
    if let (Some(sharing), Some(start), [PagePart::Frames(frames)], Some(_)) =
        (sharing, start, parts.as_slice(), renderer.position())
    {
        let (frames, step) = (frames.clone(), renderer.step_text());
        sharing.put(start, FramePage { frames, cursor, last_seq, is_end, step });
    }
    Ok(PageRead { parts, cursor, last_seq, is_end })
}
