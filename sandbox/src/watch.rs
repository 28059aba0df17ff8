//! Watches a child to its end: the broker's word, pipes, clock and cancellation together.
//!
//! Owns: the caps on what is kept, the kill, the wall clock. The end of a pipe is never taken for the end of the
//! child: a guest may close its descriptors and spin on.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::clock::now;
use crate::error::Error;
use crate::frame::MAX_REPORT_BYTES;
use crate::guest::Guest;
use crate::quota::{Excess, Quota};
use crate::stream::{Keep, Stream};
use crate::sys::Ended;

/// How often the caller is asked whether it has cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(50);
/// The least time between two counts of a guest's threads and processes.
const COUNT_PAUSE: Duration = Duration::from_millis(25);
/// How long a supervisor may take to end its tree.
const KILL_AFTER: Duration = Duration::from_secs(2);
/// How long the kernel and the broker together may take to end a killed child: large memory takes its time.
const STUCK_AFTER: Duration = Duration::from_secs(10);
/// How much is read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// What a run may take and leave.
pub(crate) struct Bounds<'a> {
    /// Wall clock from now.
    pub timeout: Duration,
    /// Bytes of standard output that are kept.
    pub stdout_bytes: usize,
    /// Bytes of standard error that are kept.
    pub stderr_bytes: usize,
    /// Threads and processes that a guest may have (0: the system call filter lets it make none). `RLIMIT_NPROC` counts
    /// them, too, but never for the real user root, and with the server's own for any other user of the server.
    pub tasks: u64,
    /// Which part of a longer output is kept; only a kept end lets the guest write on.
    pub keep: Keep,
    /// Whether the caller wants no more.
    pub cancel: &'a dyn Fn() -> bool,
}

/// Why the parent ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Its time was up.
    Timeout,
    /// The caller cancelled.
    Cancelled,
    /// It had too many threads or processes.
    Tasks,
    /// Its private directory grew too large.
    OwnDirectory(Excess),
    /// It wrote too much.
    Stdout,
    /// It wrote too much.
    Stderr,
}

/// A whole run, as its parent saw it.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Why we ended it, if we did.
    pub cut: Option<Cut>,
    /// How it ended.
    pub ended: Ended,
    /// Its standard output.
    pub stdout: Stream,
    /// Its standard error.
    pub stderr: Stream,
    /// The first half of its report, our own code's.
    pub frames: Stream,
    /// The second half, the guest's.
    pub words: Stream,
    /// Wall clock.
    pub duration: Duration,
}

/// Watches until the child has ended and is reaped; its private directory, too, if it has one.
pub(crate) fn watch(mut guest: Guest, bounds: &Bounds<'_>, mut quota: Option<Quota>) -> Result<Seen, Error> {
    let start = now();
    let mut pipes = Pipes::new(guest.take_pipes()?, bounds);
    let (mut cut, mut cut_at) = (None, Duration::ZERO);
    let mut next_count = Duration::ZERO;
    loop {
        let elapsed = start.elapsed();
        if cut.is_none() {
            cut = if elapsed >= bounds.timeout {
                Some(Cut::Timeout)
            } else if (bounds.cancel)() {
                Some(Cut::Cancelled)
            } else {
                pipes.overflow()
            };
            if cut.is_none() && bounds.tasks > 0 && elapsed >= next_count {
                next_count = elapsed + COUNT_PAUSE;
                cut = (guest.tasks(bounds.tasks) > bounds.tasks).then_some(Cut::Tasks);
            }
            if cut.is_none() {
                let excess = quota.as_mut().and_then(|quota| quota.exceeded(elapsed));
                cut = excess.map(Cut::OwnDirectory);
            }
            if cut.is_some() {
                guest.kill();
                cut_at = elapsed;
            }
        } else {
            insist(&guest, elapsed.saturating_sub(cut_at))?;
        }
        let left = if cut.is_none() { bounds.timeout.saturating_sub(elapsed) } else { CANCEL_POLL };
        if pipes
            .wait(&guest, left.min(if bounds.tasks > 0 { COUNT_PAUSE } else { CANCEL_POLL }))
            .map_err(|error| Error::Watch(error.into()))?
        {
            break;
        }
    }
    let duration = start.elapsed();
    let ended = guest.ended()?;
    pipes.read_all();
    let cut = cut.or_else(|| pipes.overflow());
    let [stdout, stderr, frames, words] = pipes.0.map(|pipe| pipe.stream);
    Ok(Seen { cut, ended, stdout, stderr, frames, words, duration })
}

/// What follows a kill: a supervisor that does not end is killed itself, a broker that tells of no end is stuck.
fn insist(guest: &Guest, since_cut: Duration) -> Result<(), Error> {
    if since_cut > STUCK_AFTER {
        return Err(Error::BrokerStuck);
    }
    if since_cut > KILL_AFTER {
        guest.kill_now();
    }
    Ok(())
}

/// The reading ends: standard output, standard error, frames, words.
struct Pipes([Pipe; 4]);

/// One reading end, until it ends or is full.
struct Pipe {
    reader: Option<OwnedFd>,
    stream: Stream,
}

impl Pipes {
    fn new([stdout, stderr, frames, words]: [OwnedFd; 4], bounds: &Bounds<'_>) -> Self {
        let pipe = |reader, cap, keep| Pipe { reader: Some(reader), stream: Stream::new(cap, keep) };
        Self([
            pipe(stdout, bounds.stdout_bytes, bounds.keep),
            pipe(stderr, bounds.stderr_bytes, bounds.keep),
            pipe(frames, MAX_REPORT_BYTES, Keep::Head),
            pipe(words, MAX_REPORT_BYTES, Keep::Head),
        ])
    }

    /// Which output passed its cap. A report that does so is just read no further.
    fn overflow(&self) -> Option<Cut> {
        let [stdout, stderr, ..] = &self.0;
        if stdout.stream.is_full() {
            Some(Cut::Stdout)
        } else {
            stderr.stream.is_full().then_some(Cut::Stderr)
        }
    }

    /// Waits for bytes or for the child's end; says whether it has ended.
    fn wait(&mut self, guest: &Guest, timeout: Duration) -> rustix::io::Result<bool> {
        let timeout = Timespec::try_from(timeout).map_err(|_| Errno::INVAL)?;
        let mut polled = vec![PollFd::from_borrowed_fd(guest.end(), PollFlags::IN)];
        polled.extend(
            self.0
                .iter()
                .filter_map(|pipe| pipe.reader.as_ref())
                .map(|reader| PollFd::new(reader, PollFlags::IN)),
        );
        match rustix::event::poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        let ended = polled.first().is_some_and(|end| !end.revents().is_empty());
        drop(polled);
        for pipe in &mut self.0 {
            pipe.read_once();
        }
        Ok(ended)
    }

    /// Reads what an ended child left in its pipes.
    fn read_all(&mut self) {
        for pipe in &mut self.0 {
            while pipe.read_once() {}
        }
    }
}

/// Writes pieces into a pipe and reads after each, as a watch does: what is kept of them under `cap`.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_in_pieces(pieces: &[&[u8]], cap: usize) -> rustix::io::Result<Stream> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK)?;
    let mut pipe = Pipe { reader: Some(reader), stream: Stream::new(cap, Keep::Head) };
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        rustix::io::write(&writer, piece)?;
        if !pipe.read_once() {
            // It has had enough and closed its end.
            break;
        }
    }
    drop(writer);
    while pipe.read_once() {}
    Ok(pipe.stream)
}

impl Pipe {
    /// Reads one chunk if there is one; says whether more may come at once.
    fn read_once(&mut self) -> bool {
        let Some(reader) = &self.reader else { return false };
        let mut chunk = vec![0; self.stream.appetite(CHUNK_BYTES)];
        match rustix::io::read(reader, &mut chunk) {
            Ok(0) => self.reader = None,
            Ok(length) => {
                self.stream.push(chunk.get(..length).unwrap_or_default());
                if self.stream.is_full() {
                    self.reader = None;
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return false,
            Err(_) => self.reader = None,
        }
        self.reader.is_some()
    }
}
