//! The parent's ends of a run's pipes: what is polled, what is read, and when.
//!
//! Owns: that output is read as it comes, and reports at leisure: they fit into their pipes, so nobody waits for them.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::frame::MAX_REPORT_BYTES;
use crate::guest::Guest;
use crate::host::Calls;
use crate::stream::{Keep, Stream};

/// How much is read at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// What a wait has found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Woken {
    /// The child is gone.
    pub has_ended: bool,
    /// Its host calls go on.
    pub has_call: bool,
}

/// The reading ends: standard output, standard error, frames, words.
pub(crate) struct Pipes {
    pipes: [Pipe; 4],
    chunk: Vec<u8>,
}

/// One reading end, until it ends or is full.
struct Pipe {
    reader: Option<OwnedFd>,
    stream: Stream,
}

impl Pipes {
    /// Of a run whose outputs have these caps.
    pub(crate) fn new(readers: [OwnedFd; 4], stdout_bytes: usize, stderr_bytes: usize, keep: Keep) -> Self {
        let [stdout, stderr, frames, words] = readers;
        let pipe = |reader, cap, keep| Pipe { reader: Some(reader), stream: Stream::new(cap, keep) };
        Self {
            pipes: [
                pipe(stdout, stdout_bytes, keep),
                pipe(stderr, stderr_bytes, keep),
                pipe(frames, MAX_REPORT_BYTES, Keep::Head),
                pipe(words, MAX_REPORT_BYTES, Keep::Head),
            ],
            chunk: vec![0; CHUNK_BYTES],
        }
    }

    /// Whether standard output, and whether standard error, passed its cap. A report that does so is just read no further.
    pub(crate) fn are_full(&self) -> (bool, bool) {
        let [stdout, stderr, ..] = &self.pipes;
        (stdout.stream.is_full(), stderr.stream.is_full())
    }

    /// Waits for output, for the child's end, or for what its host calls wait for.
    pub(crate) fn wait(
        &mut self,
        guest: &Guest,
        calls: Option<&Calls>,
        timeout: Duration,
    ) -> rustix::io::Result<Woken> {
        let timeout = Timespec::try_from(timeout).map_err(|_| Errno::INVAL)?;
        let [stdout, stderr, ..] = &self.pipes;
        let outputs = [stdout, stderr].map(|pipe| pipe.reader.as_ref());
        let mut polled = vec![PollFd::from_borrowed_fd(guest.end(), PollFlags::IN)];
        polled.extend(outputs.into_iter().flatten().map(|reader| PollFd::new(reader, PollFlags::IN)));
        let awaited = calls.and_then(Calls::awaited);
        polled.extend(awaited.map(|(descriptor, events)| PollFd::from_borrowed_fd(descriptor, events)));
        let is_tick = match rustix::event::poll(&mut polled, Some(&timeout)) {
            Ok(ready) => ready == 0,
            Err(Errno::INTR) => false,
            Err(error) => return Err(error),
        };
        let mut ready = polled.iter().map(|descriptor| !descriptor.revents().is_empty());
        let has_ended = ready.next().unwrap_or(false);
        let are_ready = outputs.map(|reader| reader.is_some() && ready.next().unwrap_or(false));
        let has_call = ready.next().unwrap_or(false);
        drop(polled);
        let wanted = are_ready.into_iter().chain([is_tick; 2]);
        for (pipe, _) in self.pipes.iter_mut().zip(wanted).filter(|(_, wanted)| *wanted) {
            pipe.read_once(&mut self.chunk);
        }
        Ok(Woken { has_ended, has_call })
    }

    /// Reads what an ended child left, and gives everything away in order.
    pub(crate) fn drain(mut self) -> [Stream; 4] {
        for pipe in &mut self.pipes {
            while pipe.read_once(&mut self.chunk) {}
        }
        self.pipes.map(|pipe| pipe.stream)
    }
}

impl Pipe {
    /// Reads one chunk if there is one; says whether more may come at once.
    fn read_once(&mut self, chunk: &mut [u8]) -> bool {
        let Some(reader) = &self.reader else { return false };
        let appetite = self.stream.appetite(chunk.len());
        match rustix::io::read(reader, chunk.get_mut(..appetite).unwrap_or_default()) {
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

/// Writes pieces into a pipe and reads after each, as a watch does: what is kept of them under `cap`.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_in_pieces(pieces: &[&[u8]], cap: usize) -> rustix::io::Result<Stream> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK)?;
    let mut pipe = Pipe { reader: Some(reader), stream: Stream::new(cap, Keep::Head) };
    let mut chunk = vec![0; CHUNK_BYTES];
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        rustix::io::write(&writer, piece)?;
        if !pipe.read_once(&mut chunk) {
            // It has had enough and closed its end.
            break;
        }
    }
    drop(writer);
    while pipe.read_once(&mut chunk) {}
    Ok(pipe.stream)
}
