//! Watches a child to its end: pidfd, pipes, clock and cancellation together.
//!
//! Owns: the caps on what is kept, the kill, the wall clock. The end of a pipe is never taken for the end of the
//! child: a guest may close its descriptors and spin on.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::clock::now;
use crate::error::Error;
use crate::quota::{Excess, Quota};
use crate::spawn::Child;
use crate::sys::Ended;

/// How often the caller is asked whether it has cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(50);
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
    /// Threads that a guest may have (0: the system call filter lets it make none). `RLIMIT_NPROC` counts them, too,
    /// but never for the real user root: where a child of root could not be given another, this count alone binds.
    pub threads: u64,
    /// Bytes of each half of the report that are read.
    pub report_bytes: usize,
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
    /// It had too many threads.
    Threads,
    /// Its private directory grew too large.
    OwnDirectory(Excess),
    /// It wrote too much.
    Stdout,
    /// It wrote too much.
    Stderr,
}

/// What came through one pipe.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// The bytes kept.
    pub bytes: Vec<u8>,
    /// Whether there were more.
    pub truncated: bool,
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
pub(crate) fn watch(mut child: Child, bounds: &Bounds<'_>, mut quota: Option<Quota>) -> Result<Seen, Error> {
    let start = now();
    let mut pipes = Pipes::new(child.take_pipes()?, bounds);
    let mut cut = None;
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
            if cut.is_none() && bounds.threads > 0 && elapsed >= next_count {
                next_count = elapsed + CANCEL_POLL;
                cut = (child.threads() > bounds.threads).then_some(Cut::Threads);
            }
            if cut.is_none() {
                let excess = quota.as_mut().and_then(|quota| quota.exceeded(elapsed));
                cut = excess.map(Cut::OwnDirectory);
            }
            if cut.is_some() {
                child.kill();
            }
        }
        let left = if cut.is_none() { bounds.timeout.saturating_sub(elapsed) } else { CANCEL_POLL };
        if pipes.wait(&child, left.min(CANCEL_POLL)).map_err(|error| Error::Watch(error.into()))? {
            break;
        }
    }
    let duration = start.elapsed();
    let ended = child.reap()?;
    pipes.read_all();
    let cut = cut.or_else(|| pipes.overflow());
    let [stdout, stderr, frames, words] = pipes.0.map(|pipe| pipe.stream);
    Ok(Seen { cut, ended, stdout, stderr, frames, words, duration })
}

/// The reading ends: standard output, standard error, frames, words.
struct Pipes([Pipe; 4]);

/// One reading end, until it ends or is full.
struct Pipe {
    reader: Option<OwnedFd>,
    cap: usize,
    stream: Stream,
}

impl Pipes {
    fn new([stdout, stderr, frames, words]: [OwnedFd; 4], bounds: &Bounds<'_>) -> Self {
        let pipe = |reader, cap| Pipe { reader: Some(reader), cap, stream: Stream::default() };
        Self([
            pipe(stdout, bounds.stdout_bytes),
            pipe(stderr, bounds.stderr_bytes),
            pipe(frames, bounds.report_bytes),
            pipe(words, bounds.report_bytes),
        ])
    }

    /// Which output passed its cap. A report that does so is just read no further.
    fn overflow(&self) -> Option<Cut> {
        let [stdout, stderr, ..] = &self.0;
        if stdout.stream.truncated {
            Some(Cut::Stdout)
        } else {
            stderr.stream.truncated.then_some(Cut::Stderr)
        }
    }

    /// Waits for bytes or for the child's end; says whether it has ended.
    fn wait(&mut self, child: &Child, timeout: Duration) -> rustix::io::Result<bool> {
        let timeout = Timespec::try_from(timeout).map_err(|_| Errno::INVAL)?;
        let mut polled = vec![PollFd::new(child.pidfd(), PollFlags::IN)];
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
        let ended = polled.first().is_some_and(|pidfd| !pidfd.revents().is_empty());
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
    let mut pipe = Pipe { reader: Some(reader), cap, stream: Stream::default() };
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
        let room = self.cap.saturating_sub(self.stream.bytes.len());
        let mut chunk = vec![0; CHUNK_BYTES.min(room + 1)];
        match rustix::io::read(reader, &mut chunk) {
            Ok(0) => self.reader = None,
            Ok(length) => {
                self.stream.truncated = length > room;
                self.stream.bytes.extend(chunk.iter().take(length.min(room)));
                if self.stream.truncated {
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
