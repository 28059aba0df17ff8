//! A job's events as a body that the socket pulls. Owns the loop read → render → send → wait and the end of it; refuses
//! to queue: a slow reader costs one page, and what it has not asked for stays in the store.
//!
//! Nothing is lost or doubled when a replay meets the live log, because there is no meeting: every page is read from the
//! log after the cursor, and the watch, which was subscribed before the first read, only says when to look again.

use super::cursor::beyond;
use super::door::Door;
use super::error::Error;
use super::frame::{self, Part, Renderer, Text, Wire};
use super::long_frame::LongFrame;
use super::measured::Lasting;
use super::shutdown::{Shutdown, Stage};
use crate::domain::id::JobId;
use crate::http::blocking::blocking;
use crate::ports::{EventPage, Store};
use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::try_unfold;
use hyper::body::Frame;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
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
pub(crate) struct Asked {
    pub(crate) job: JobId,
    pub(crate) after: u64,
    pub(crate) wire: Wire,
    pub(crate) text: Text,
    /// Wait for more, or return what there is.
    pub(crate) follow: bool,
}

/// The body broke off; the client sees a cut connection, never a clean end that is none.
#[derive(Debug, thiserror::Error)]
#[error("the body was cut off: {0}")]
pub(crate) struct Cut(String);

impl Cut {
    /// Because of this; for the log.
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// What to do when the reader goes away before the job's end; disarmed by the end and by a shutdown.
pub(crate) trait Farewell: Send {
    /// The stream ended as it should.
    fn disarm(&mut self);
}

/// A body that the socket pulls, piece by piece.
pub(crate) struct PulledBody(Pin<Box<dyn Stream<Item = Result<Bytes, Cut>> + Send>>);

impl PulledBody {
    /// A body whose pieces come when the socket asks for them.
    pub(crate) fn new(pieces: impl Stream<Item = Result<Bytes, Cut>> + Send + 'static) -> Self {
        Self(Box::pin(pieces))
    }

    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        self.0.as_mut().poll_next(cx).map_ok(Frame::data)
    }
}

/// A stream whose first page has been read: its cursor is good.
pub(crate) struct Opened(Box<Reader>);

impl Opened {
    /// Whether there was nothing after the cursor.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.cursor == self.0.asked.after
    }

    /// The body. `farewell` is told when the stream comes to its proper end, and dropped with it.
    pub(crate) fn into_body(self, farewell: Option<Box<dyn Farewell>>) -> PulledBody {
        let mut reader = self.0;
        reader.farewell = farewell;
        if reader.ended {
            reader.say_farewell();
        }
        PulledBody::new(try_unfold(reader, Reader::next))
    }
}

/// Reads the first page. A cursor beyond the log is refused here, before a status is sent.
pub(crate) async fn open(door: &Arc<Door>, asked: Asked) -> Result<Opened, Error> {
    let newest = door.room.store.watch(asked.job); // before the first read
    let mut reader = Box::new(Reader {
        door: Arc::clone(door),
        shutdown: door.shutdown.clone(),
        newest,
        renderer: Renderer::new(asked.wire, asked.text).after(asked.after),
        cursor: asked.after,
        last_seq: u64::MAX,
        parts: VecDeque::new(),
        look: true,
        ended: false,
        farewell: None,
        _lasting: (asked.wire == Wire::Sse).then(|| Lasting::stream(&door.room.meter)),
        asked,
    });
    reader.page(false).await.map_err(|cut| match cut {
        PageError::Frame(frame::Error::Store(error)) => Error::Store(error),
        other => {
            tracing::error!(job = %asked.job, error = %other, "the first page of a stream cannot be read");
            Error::Internal
        }
    })?;
    if asked.after > reader.last_seq {
        return Err(beyond(asked.after, reader.last_seq));
    }
    if asked.wire == Wire::Sse {
        reader.parts.push_front(Part::Frames(format!("retry: {RETRY_MS}\n\n").into_bytes()));
    }
    Ok(Opened(reader))
}

/// One client's place in one job's log.
struct Reader {
    door: Arc<Door>,
    shutdown: Shutdown,
    newest: watch::Receiver<u64>,
    renderer: Renderer,
    asked: Asked,
    /// The last `seq` that was rendered.
    cursor: u64,
    /// The newest `seq` of the log as of the last read.
    last_seq: u64,
    /// What the last page came to and the socket has not asked for yet.
    parts: VecDeque<Part>,
    /// The log is to be read even without a hint.
    look: bool,
    ended: bool,
    farewell: Option<Box<dyn Farewell>>,
    /// It is counted while it lasts.
    _lasting: Option<Lasting>,
}

/// Why a page could not be had.
#[derive(Debug, thiserror::Error)]
enum PageError {
    #[error(transparent)]
    Frame(#[from] frame::Error),
    #[error("the reading thread died")]
    Thread,
}

/// What ended a wait.
enum Woken {
    Hint,
    Silence,
    WatchLost,
    Closing,
}

impl Reader {
    /// The next piece of the body: a page's frames, a slice of a long one, a heartbeat, or nothing more.
    async fn next(mut self: Box<Self>) -> Result<Option<(Bytes, Box<Self>)>, Cut> {
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
                Woken::Hint => {}
                Woken::WatchLost => {
                    tokio::time::sleep(REWATCH).await;
                    self.newest = self.door.room.store.watch(self.asked.job);
                    self.look = true;
                }
                Woken::Silence => {
                    self.look = true;
                    if self.asked.wire == Wire::Sse {
                        return Ok(Some((Bytes::from_static(b": \n\n"), self)));
                    }
                }
                Woken::Closing => {
                    self.ended = true;
                    self.say_farewell();
                    if self.asked.wire == Wire::Sse {
                        return Ok(Some((self.come_back(), self)));
                    }
                }
            }
        }
    }

    /// The next bytes of the page that was read last.
    async fn piece(&mut self) -> Result<Option<Bytes>, PageError> {
        while let Some(part) = self.parts.pop_front() {
            let piece = match part {
                Part::Frames(frames) => frames,
                Part::Long(frame) => self.slice(frame).await?,
            };
            if !piece.is_empty() {
                return Ok(Some(piece.into()));
            }
        }
        Ok(None)
    }

    /// The next slice of a long frame; the rest of it stays in the store.
    async fn slice(&mut self, mut frame: LongFrame) -> Result<Vec<u8>, PageError> {
        let (store, job) = (Arc::clone(&self.door.room.store), self.asked.job);
        let reading = blocking(move || {
            let page = store.events(job, frame.cursor(), PAGE_EVENTS)?;
            let slice = frame.piece(&page.events)?;
            Ok::<_, frame::Error>((slice, frame))
        });
        let (slice, frame) = reading.await.map_err(|_| PageError::Thread)??;
        if !frame.is_whole() {
            self.parts.push_front(Part::Long(frame));
        }
        Ok(slice)
    }

    async fn wait(&mut self) -> Woken {
        tokio::select! {
            changed = self.newest.changed() => if changed.is_ok() { Woken::Hint } else { Woken::WatchLost },
            () = self.shutdown.reached(Stage::Closing) => Woken::Closing,
            () = tokio::time::sleep(HEARTBEAT) => Woken::Silence,
        }
    }

    /// Reads and renders one page, here if it is hot, else on a thread that may block.
    async fn page(&mut self, hot: bool) -> Result<(), PageError> {
        let (job, after) = (self.asked.job, self.cursor);
        let (page, parts) = if hot && self.renderer.is_light() {
            read(&*self.door.room.store, job, after, &mut self.renderer)?
        } else {
            let store = Arc::clone(&self.door.room.store);
            let blank = Renderer::new(self.asked.wire, self.asked.text);
            let mut renderer = std::mem::replace(&mut self.renderer, blank);
            let reading = blocking(move || {
                let read = read(&*store, job, after, &mut renderer);
                (read, renderer)
            });
            let (read, renderer) = reading.await.map_err(|_| PageError::Thread)?;
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
        let share = u32::try_from(self.door.room.entropy.random() % u128::from(RETRY_MS)).unwrap_or_default();
        format!("retry: {}\n\n", RETRY_MS + share).into()
    }

    fn cut(&self, error: &PageError) -> Cut {
        tracing::error!(job = %self.asked.job, cursor = self.cursor, %error, "an event stream was cut off");
        Cut(error.to_string())
    }
}

/// One page after the cursor, and what it comes to. The store's transaction is over when this returns.
fn read(
    store: &dyn Store,
    job: JobId,
    after: u64,
    renderer: &mut Renderer,
) -> Result<(EventPage, Vec<Part>), frame::Error> {
    let page = store.events(job, after, PAGE_EVENTS)?;
    let parts = renderer.render(&page, &|first, up_to| store.step_text(job, first, up_to))?;
    Ok((page, parts))
}
