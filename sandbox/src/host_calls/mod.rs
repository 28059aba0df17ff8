//! Host calls: functions of the server that a JavaScript program may call, if the caller of the run permits
//! it.
//!
//! This is the server's end of the socket. It handles one request at a time, never blocks on the guest, and
//! checks every byte. A run that ends does not wait for a call in progress.
//!
//! A request is its length (four bytes, big-endian), the name, a line feed, the arguments. An answer is a tag
//! (0: answer, 1: refusal), its length likewise, the text.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

use crate::error::SandboxError;

/// The longest request: name and arguments together.
pub const MAX_HOST_REQUEST_BYTES: usize = 256 * 1024;
/// The longest answer. A longer one becomes a refusal.
pub const MAX_HOST_ANSWER_BYTES: usize = 4 * 1024 * 1024;
/// The maximal number of calls of a run. One more ends it.
pub const MAX_HOST_CALLS: u32 = 256;

/// The size of the length field.
pub(crate) const LENGTH_BYTES: usize = 4;
/// The tag of an answer.
pub(crate) const ANSWERED: u8 = 0;
/// The tag of a refusal.
pub(crate) const REFUSED: u8 = 1;
/// How much one read returns at most.
const CHUNK_BYTES: usize = 16 * 1024;

/// Answers the host calls of a program (`__host(name, argumentsJson)` in JavaScript).
///
/// The calls of one run come one after another, on a thread of their own. The run's wall clock includes them.
/// A run that ends first does not wait for the answer, and the call continues: give it a time limit of its
/// own.
pub trait HostCalls: Send + Sync {
    /// Answers one call. `name` and `arguments` come from the guest, so check both: the name is any text
    /// without control characters, the arguments are any text, usually JSON. The answer is usually JSON, at
    /// most 4 MiB. The text of an error becomes the message of an `Error` in the program.
    fn call(&self, name: &str, arguments: &str) -> Result<String, String>;
}

/// A violation of the protocol. It ends the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostCallViolation {
    /// More calls than a run may make.
    TooMany,
    /// A request above the maximal length.
    TooLong,
    /// Bytes that are not a request.
    Malformed,
}

/// The server's end of a run's host calls.
pub(crate) struct HostCallServer {
    socket: OwnedFd,
    host: Arc<dyn HostCalls>,
    thread: Option<HostCallThread>,
    state: HostCallState,
    count: u32,
}

/// The state of the call in progress.
enum HostCallState {
    /// Reading a request; the bytes so far.
    Reading(Vec<u8>),
    /// The host works on the request.
    Calling,
    /// Writing the answer.
    Answering { bytes: Vec<u8>, sent: usize },
    /// The guest has closed its end or has exited.
    Closed,
}

/// The thread that calls the host.
struct HostCallThread {
    requests: Sender<(String, String)>,
    answers: Receiver<Vec<u8>>,
    /// Becomes readable after each answer, and when the thread has ended.
    wake: OwnedFd,
}

impl HostCallServer {
    /// For one run. Returns the guest's end of the socket, too.
    pub(crate) fn new(host: Arc<dyn HostCalls>) -> Result<(Self, OwnedFd), SandboxError> {
        let make = || -> rustix::io::Result<(OwnedFd, OwnedFd)> {
            let pair =
                rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
            rustix::io::ioctl_fionbio(&pair.0, true)?;
            Ok(pair)
        };
        let (socket, guest_end) =
            make().map_err(|error| SandboxError::MakeDescriptor { what: "host", source: error.into() })?;
        Ok((
            Self { socket, host, thread: None, state: HostCallState::Reading(Vec::new()), count: 0 },
            guest_end,
        ))
    }

    /// The descriptor and events to poll for; `None` if there is nothing to wait for.
    pub(crate) fn poll_events(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        match (&self.state, &self.thread) {
            (HostCallState::Reading(_), _) => Some((self.socket.as_fd(), PollFlags::IN)),
            (HostCallState::Calling, Some(thread)) => Some((thread.wake.as_fd(), PollFlags::IN)),
            (HostCallState::Answering { .. }, _) => Some((self.socket.as_fd(), PollFlags::OUT)),
            (HostCallState::Calling, None) | (HostCallState::Closed, _) => None,
        }
    }

    /// Continues without blocking. An error ends the run.
    pub(crate) fn step(&mut self) -> Result<(), HostCallViolation> {
        self.state = match std::mem::replace(&mut self.state, HostCallState::Closed) {
            HostCallState::Reading(bytes) => self.read(bytes)?,
            HostCallState::Calling => self.take_answer(),
            HostCallState::Answering { bytes, sent } => self.send(bytes, sent),
            HostCallState::Closed => HostCallState::Closed,
        };
        Ok(())
    }

    /// Reads the available bytes of the current request, and none of the next.
    fn read(&mut self, mut bytes: Vec<u8>) -> Result<HostCallState, HostCallViolation> {
        let missing_bytes = missing(&bytes)?;
        let mut chunk = [0; CHUNK_BYTES];
        let buffer = chunk.get_mut(..missing_bytes.min(CHUNK_BYTES)).unwrap_or_default();
        match rustix::io::read(&self.socket, buffer) {
            Ok(0) => return Ok(HostCallState::Closed),
            Ok(length) => bytes.extend_from_slice(chunk.get(..length).unwrap_or_default()),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return Ok(HostCallState::Closed),
        }
        if bytes.len() < LENGTH_BYTES || missing(&bytes)? > 0 {
            return Ok(HostCallState::Reading(bytes));
        }
        let request = parse(bytes.get(LENGTH_BYTES..).unwrap_or_default())?;
        self.count += 1;
        if self.count > MAX_HOST_CALLS {
            return Err(HostCallViolation::TooMany);
        }
        Ok(self.call(request))
    }

    /// Passes a request to the thread, and starts the thread if needed.
    fn call(&mut self, request: (String, String)) -> HostCallState {
        if self.thread.is_none() {
            match HostCallThread::start(Arc::clone(&self.host)) {
                Ok(thread) => self.thread = Some(thread),
                Err(error) => return refusal(&format!("the host cannot work: {error}")),
            }
        }
        let is_sent = self.thread.as_ref().is_some_and(|thread| thread.requests.send(request).is_ok());
        if is_sent { HostCallState::Calling } else { self.replace_thread() }
    }

    /// Takes the answer of the thread.
    fn take_answer(&mut self) -> HostCallState {
        let Some(thread) = &self.thread else { return self.replace_thread() };
        // The byte carries no content. After the thread has ended, every read succeeds.
        rustix::io::read(&thread.wake, &mut [0; 1]).ok();
        match thread.answers.try_recv() {
            Ok(bytes) => HostCallState::Answering { bytes, sent: 0 },
            Err(TryRecvError::Empty) => HostCallState::Calling,
            Err(TryRecvError::Disconnected) => self.replace_thread(),
        }
    }

    /// After the thread panicked: its call is refused, and the next call starts another thread.
    fn replace_thread(&mut self) -> HostCallState {
        self.thread = None;
        refusal("the host broke down")
    }

    fn send(&self, bytes: Vec<u8>, sent: usize) -> HostCallState {
        let unsent = bytes.get(sent..).unwrap_or_default();
        let sent = match rustix::net::send(&self.socket, unsent, SendFlags::NOSIGNAL) {
            Ok(length) => sent + length,
            Err(Errno::INTR | Errno::AGAIN) => sent,
            Err(_) => return HostCallState::Closed,
        };
        if sent < bytes.len() {
            HostCallState::Answering { bytes, sent }
        } else {
            HostCallState::Reading(Vec::new())
        }
    }
}

/// How many bytes of a request are missing. Without the complete length field: of that field.
fn missing(bytes: &[u8]) -> Result<usize, HostCallViolation> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        return Ok(LENGTH_BYTES - bytes.len());
    };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length > MAX_HOST_REQUEST_BYTES {
        return Err(HostCallViolation::TooLong);
    }
    if length == 0 {
        return Err(HostCallViolation::Malformed);
    }
    Ok(length.saturating_sub(rest.len()))
}

fn parse(request: &[u8]) -> Result<(String, String), HostCallViolation> {
    let text = std::str::from_utf8(request).map_err(|_| HostCallViolation::Malformed)?;
    let (name, arguments) = text.split_once('\n').ok_or(HostCallViolation::Malformed)?;
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(HostCallViolation::Malformed);
    }
    Ok((name.to_owned(), arguments.to_owned()))
}

fn refusal(message: &str) -> HostCallState {
    HostCallState::Answering { bytes: pack(Err(message.to_owned())), sent: 0 }
}

/// Encodes an answer.
fn pack(answer: Result<String, String>) -> Vec<u8> {
    let (tag, text) = match answer {
        Ok(text) => (ANSWERED, text),
        Err(message) => (REFUSED, message),
    };
    let (tag, text) = if text.len() > MAX_HOST_ANSWER_BYTES {
        let refusal = format!(
            "the answer has {} bytes; the limit is {MAX_HOST_ANSWER_BYTES}: ask for less",
            text.len()
        );
        (REFUSED, refusal)
    } else {
        (tag, text)
    };
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[tag], length.as_slice(), text.as_bytes()].concat()
}

impl HostCallThread {
    fn start(host: Arc<dyn HostCalls>) -> io::Result<Self> {
        let (wake, waker) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&wake, true)?;
        let (requests, received) = mpsc::channel::<(String, String)>();
        let (answer, answers) = mpsc::channel();
        let work = move || {
            for (name, arguments) in received {
                let bytes = pack(host.call(&name, &arguments));
                // A run that has ended no longer waits.
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
