//! The parent's ends of a run's pipes.
//!
//! Output is read when it arrives. The report pipes are read rarely: a report fits into its pipe, so no
//! writer waits.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::child::RunChild;
use super::output::{CapturedOutput, OutputRetention};
use crate::child_report::MAX_REPORT_BYTES;
use crate::host_calls::HostCallServer;

/// How much one read returns at most.
const CHUNK_BYTES: usize = 16 * 1024;

/// The events that a wait has found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitResult {
    /// The child has exited.
    pub has_exited: bool,
    /// A host call can continue.
    pub has_call: bool,
}

/// The reading ends of standard output, standard error, frames and result.
pub(crate) struct OutputReaders {
    pipes: [CappedReader; 4],
    chunk: Vec<u8>,
}

/// One reading end, until its end or its limit.
struct CappedReader {
    reader: Option<OwnedFd>,
    output: CapturedOutput,
}

impl OutputReaders {
    pub(super) fn new(
        readers: [OwnedFd; 4],
        stdout_bytes: usize,
        stderr_bytes: usize,
        retention: OutputRetention,
    ) -> Self {
        let [stdout, stderr, frames, result] = readers;
        let pipe = |reader, cap, retention| CappedReader {
            reader: Some(reader),
            output: CapturedOutput::new(cap, retention),
        };
        Self {
            pipes: [
                pipe(stdout, stdout_bytes, retention),
                pipe(stderr, stderr_bytes, retention),
                pipe(frames, MAX_REPORT_BYTES, OutputRetention::Head),
                pipe(result, MAX_REPORT_BYTES, OutputRetention::Head),
            ],
            chunk: vec![0; CHUNK_BYTES],
        }
    }

    /// Whether standard output and standard error exceed their limits. A report that is too long is only cut.
    pub(crate) fn are_full(&self) -> (bool, bool) {
        let [stdout, stderr, ..] = &self.pipes;
        (stdout.output.is_full(), stderr.output.is_full())
    }

    /// Waits for output, the child's exit, or progress of its host calls.
    pub(crate) fn wait(
        &mut self,
        guest: &RunChild,
        calls: Option<&HostCallServer>,
        timeout: Duration,
    ) -> rustix::io::Result<WaitResult> {
        let timeout = Timespec::try_from(timeout).map_err(|_| Errno::INVAL)?;
        let [stdout, stderr, ..] = &self.pipes;
        let outputs = [stdout, stderr].map(|pipe| pipe.reader.as_ref());
        let mut polled = vec![PollFd::from_borrowed_fd(guest.exit_fd(), PollFlags::IN)];
        polled.extend(outputs.into_iter().flatten().map(|reader| PollFd::new(reader, PollFlags::IN)));
        let awaited = calls.and_then(HostCallServer::poll_events);
        polled.extend(awaited.map(|(descriptor, events)| PollFd::from_borrowed_fd(descriptor, events)));
        let is_tick = match rustix::event::poll(&mut polled, Some(&timeout)) {
            Ok(ready) => ready == 0,
            Err(Errno::INTR) => false,
            Err(error) => return Err(error),
        };
        let mut ready = polled.iter().map(|descriptor| !descriptor.revents().is_empty());
        let has_exited = ready.next().unwrap_or(false);
        let are_ready = outputs.map(|reader| reader.is_some() && ready.next().unwrap_or(false));
        let has_call = ready.next().unwrap_or(false);
        drop(polled);
        let wanted = are_ready.into_iter().chain([is_tick; 2]);
        for (pipe, _) in self.pipes.iter_mut().zip(wanted).filter(|(_, wanted)| *wanted) {
            pipe.read_once(&mut self.chunk);
        }
        Ok(WaitResult { has_exited, has_call })
    }

    /// Reads the rest after the child has exited, and returns all outputs in order.
    pub(crate) fn drain(mut self) -> [CapturedOutput; 4] {
        for pipe in &mut self.pipes {
            while pipe.read_once(&mut self.chunk) {}
        }
        self.pipes.map(|pipe| pipe.output)
    }
}

impl CappedReader {
    /// Reads one chunk if there is one. True if more may be available.
    fn read_once(&mut self, chunk: &mut [u8]) -> bool {
        let Some(reader) = &self.reader else { return false };
        let length = self.output.wanted_bytes(chunk.len());
        match rustix::io::read(reader, chunk.get_mut(..length).unwrap_or_default()) {
            Ok(0) => self.reader = None,
            Ok(length) => {
                self.output.push(chunk.get(..length).unwrap_or_default());
                if self.output.is_full() {
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

/// Writes pieces into a pipe, reads after each one, and returns the captured output.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_in_pieces(pieces: &[&[u8]], cap: usize) -> rustix::io::Result<CapturedOutput> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK)?;
    let mut pipe =
        CappedReader { reader: Some(reader), output: CapturedOutput::new(cap, OutputRetention::Head) };
    let mut chunk = vec![0; CHUNK_BYTES];
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        rustix::io::write(&writer, piece)?;
        if !pipe.read_once(&mut chunk) {
            // The limit is reached, and the reading end is closed.
            break;
        }
    }
    drop(writer);
    while pipe.read_once(&mut chunk) {}
    Ok(pipe.output)
}
