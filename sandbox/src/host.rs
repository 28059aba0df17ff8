//! Host calls: what a JavaScript program may ask of the server while it runs, where the caller of the run allows that.
//!
//! Owns: the server's end of the socket (one request, one answer, in turn), and every bound on it. Refuses: to block on the
//! guest, to trust a byte of it, or to keep a run waiting for a call of the host's once its time is up.
//!
//! A request is its length (four bytes, the highest first), the name, a line feed, the arguments. An answer is a tag (0: the
//! answer, 1: why not), its length likewise, the text.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

use crate::error::SandboxError;

/// The longest request of a host call: name and arguments together.
pub const MAX_HOST_REQUEST_BYTES: usize = 256 * 1024;
/// The longest answer to one; a longer one is refused in its place.
pub const MAX_HOST_ANSWER_BYTES: usize = 4 * 1024 * 1024;
/// How many a run may make; one more ends it.
pub const MAX_HOST_CALLS: u32 = 256;

/// The bytes in front of a request, and of an answer's text.
pub(crate) const LENGTH_BYTES: usize = 4;
/// The tag of an answer.
pub(crate) const ANSWERED: u8 = 0;
/// The tag of a refusal.
pub(crate) const REFUSED: u8 = 1;
/// How much of a request is read at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// What a run's caller answers to its program's host calls (`__host(name, argumentsJson)` in JavaScript).
///
/// Calls of one run come one after the other, on a thread that is not the run's. The run's wall clock goes on meanwhile; a
/// run that ends first does not wait for the answer, and the call goes on by itself: give it a time limit of its own.
pub trait HostCalls: Send + Sync {
    /// Answers one call. `name` and `arguments` are the guest's words: any text without a control character in the name,
    /// and any text at all, JSON by custom; judge both. The answer is JSON text by the same custom, at most 4 MiB. An
    /// error's text is thrown in the program as an `Error`'s message.
    fn call(&self, name: &str, arguments: &str) -> Result<String, String>;
}

/// What a guest did on its socket that ends its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breach {
    /// More calls than a run may make.
    Calls,
    /// A request longer than any may be.
    Length,
    /// Bytes that are no request.
    Form,
}

/// The server's end of a run's host calls.
pub(crate) struct Calls {
    socket: OwnedFd,
    host: Arc<dyn HostCalls>,
    worker: Option<Worker>,
    state: State,
    made: u32,
}

/// Whose turn it is.
enum State {
    /// The guest's: so much of a request is there.
    Asking(Vec<u8>),
    /// The host's.
    Working,
    /// The guest's again: so much of the answer has gone out.
    Answering { bytes: Vec<u8>, sent: usize },
    /// Nobody's: the guest has closed its end, or has ended.
    Closed,
}

/// The thread that makes a run's calls.
struct Worker {
    requests: Sender<(String, String)>,
    answers: Receiver<Vec<u8>>,
    /// Becomes readable with each answer, and when the thread is gone.
    wake: OwnedFd,
}

impl Calls {
    /// For one run, and the guest's end.
    pub(crate) fn new(host: Arc<dyn HostCalls>) -> Result<(Self, OwnedFd), SandboxError> {
        let make = || -> rustix::io::Result<(OwnedFd, OwnedFd)> {
            let pair =
                rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
            rustix::io::ioctl_fionbio(&pair.0, true)?;
            Ok(pair)
        };
        let (socket, theirs) =
            make().map_err(|error| SandboxError::MakeDescriptor { what: "host", source: error.into() })?;
        Ok((Self { socket, host, worker: None, state: State::Asking(Vec::new()), made: 0 }, theirs))
    }

    /// What to wait for, if there is anything.
    pub(crate) fn awaited(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        match (&self.state, &self.worker) {
            (State::Asking(_), _) => Some((self.socket.as_fd(), PollFlags::IN)),
            (State::Working, Some(worker)) => Some((worker.wake.as_fd(), PollFlags::IN)),
            (State::Answering { .. }, _) => Some((self.socket.as_fd(), PollFlags::OUT)),
            (State::Working, None) | (State::Closed, _) => None,
        }
    }

    /// Does what can be done at once. An error ends the run.
    pub(crate) fn step(&mut self) -> Result<(), Breach> {
        self.state = match std::mem::replace(&mut self.state, State::Closed) {
            State::Asking(bytes) => self.listen(bytes)?,
            State::Working => self.look(),
            State::Answering { bytes, sent } => self.send(bytes, sent),
            State::Closed => State::Closed,
        };
        Ok(())
    }

    /// Reads what there is of a request, and nothing beyond it.
    fn listen(&mut self, mut bytes: Vec<u8>) -> Result<State, Breach> {
        let wanted = missing(&bytes)?;
        let mut chunk = [0; CHUNK_BYTES];
        let room = chunk.get_mut(..wanted.min(CHUNK_BYTES)).unwrap_or_default();
        match rustix::io::read(&self.socket, room) {
            Ok(0) => return Ok(State::Closed),
            Ok(length) => bytes.extend_from_slice(chunk.get(..length).unwrap_or_default()),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return Ok(State::Closed),
        }
        if bytes.len() < LENGTH_BYTES || missing(&bytes)? > 0 {
            return Ok(State::Asking(bytes));
        }
        let request = parse(bytes.get(LENGTH_BYTES..).unwrap_or_default())?;
        self.made += 1;
        if self.made > MAX_HOST_CALLS {
            return Err(Breach::Calls);
        }
        Ok(self.ask(request))
    }

    /// Gives a request to the thread, and starts that first.
    fn ask(&mut self, request: (String, String)) -> State {
        if self.worker.is_none() {
            match Worker::start(Arc::clone(&self.host)) {
                Ok(worker) => self.worker = Some(worker),
                Err(error) => return refusal(&format!("the host cannot work: {error}")),
            }
        }
        let taken = self.worker.as_ref().is_some_and(|worker| worker.requests.send(request).is_ok());
        if taken { State::Working } else { self.bury() }
    }

    /// Takes the thread's answer.
    fn look(&mut self) -> State {
        let Some(worker) = &self.worker else { return self.bury() };
        // Says only that there is something; a thread that is gone says so for ever.
        rustix::io::read(&worker.wake, &mut [0; 1]).ok();
        match worker.answers.try_recv() {
            Ok(bytes) => State::Answering { bytes, sent: 0 },
            Err(TryRecvError::Empty) => State::Working,
            Err(TryRecvError::Disconnected) => self.bury(),
        }
    }

    /// The thread has panicked: its call is refused, and the next one gets another thread.
    fn bury(&mut self) -> State {
        self.worker = None;
        refusal("the host broke down")
    }

    fn send(&self, bytes: Vec<u8>, sent: usize) -> State {
        let rest = bytes.get(sent..).unwrap_or_default();
        let sent = match rustix::net::send(&self.socket, rest, SendFlags::NOSIGNAL) {
            Ok(length) => sent + length,
            Err(Errno::INTR | Errno::AGAIN) => sent,
            Err(_) => return State::Closed,
        };
        if sent < bytes.len() { State::Answering { bytes, sent } } else { State::Asking(Vec::new()) }
    }
}

/// How many bytes a request still lacks, those before its length is known included.
fn missing(bytes: &[u8]) -> Result<usize, Breach> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        return Ok(LENGTH_BYTES - bytes.len());
    };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length > MAX_HOST_REQUEST_BYTES {
        return Err(Breach::Length);
    }
    if length == 0 {
        return Err(Breach::Form);
    }
    Ok(length.saturating_sub(rest.len()))
}

fn parse(request: &[u8]) -> Result<(String, String), Breach> {
    let text = std::str::from_utf8(request).map_err(|_| Breach::Form)?;
    let (name, arguments) = text.split_once('\n').ok_or(Breach::Form)?;
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(Breach::Form);
    }
    Ok((name.to_owned(), arguments.to_owned()))
}

fn refusal(message: &str) -> State {
    State::Answering { bytes: pack(Err(message.to_owned())), sent: 0 }
}

/// An answer as it goes over the socket.
fn pack(answer: Result<String, String>) -> Vec<u8> {
    let (tag, text) = match answer {
        Ok(text) => (ANSWERED, text),
        Err(message) => (REFUSED, message),
    };
    let (tag, text) = if text.len() > MAX_HOST_ANSWER_BYTES {
        let words = format!(
            "the answer has {} bytes; the limit is {MAX_HOST_ANSWER_BYTES}: ask for less",
            text.len()
        );
        (REFUSED, words)
    } else {
        (tag, text)
    };
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[tag], length.as_slice(), text.as_bytes()].concat()
}

impl Worker {
    fn start(host: Arc<dyn HostCalls>) -> io::Result<Self> {
        let (wake, waker) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&wake, true)?;
        let (requests, asked) = mpsc::channel::<(String, String)>();
        let (answer, answers) = mpsc::channel();
        let work = move || {
            for (name, arguments) in asked {
                let bytes = pack(host.call(&name, &arguments));
                // A run that has ended waits for nothing.
                if answer.send(bytes).is_err() || rustix::io::write(&waker, &[0]).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("nanoclaw-host".to_owned()).spawn(work)?;
        Ok(Self { requests, answers, wake })
    }
}

#[cfg(test)]
mod tests;
