//! A broker started like the sandbox does, and requests in its format: for tests that change one field.

use std::io::{IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketFlags, SocketType,
};
use serde_json::{Value, json};

/// A running broker.
pub(crate) struct TestBroker {
    control: OwnedFd,
    process: Child,
}

/// The outcome of a request.
#[derive(Debug)]
pub(crate) struct RunOutcome {
    /// The frames of the child's report.
    pub(crate) frames: String,
    /// Its standard output.
    pub(crate) stdout: String,
    /// The broker's last message: `ended` or `failed`, null without one.
    pub(crate) last: Value,
}

impl RunOutcome {
    pub(crate) fn exit_code(&self) -> Option<i64> {
        self.last["exit_code"].as_i64()
    }

    pub(crate) fn signal(&self) -> Option<i64> {
        self.last["signal"].as_i64()
    }
}

/// A request that runs `console.log('ran')`.
pub(crate) fn request() -> Value {
    json!({
        "level": "strict",
        "limits": nanoclaw_sandbox::RunLimits::of(nanoclaw_sandbox::Level::Strict),
        "landlock_abi": 1,
        "directory": "/",
        "subdirectory": null,
        "files": [],
        "task": {"kind": "javascript", "language_check": true},
    })
}

impl TestBroker {
    #[expect(clippy::disallowed_methods, reason = "the test acts as the sandbox")]
    pub(crate) fn start() -> Self {
        let (control, broker_end) = pair();
        let process = Command::new(env!("CARGO_BIN_EXE_nanoclaw-sandbox-child"))
            .arg(nanoclaw_sandbox::BROKER_MARKER)
            .stdin(Stdio::from(broker_end))
            .spawn()
            .unwrap();
        Self { control, process }
    }

    /// Sends a request with all its descriptors and waits for the end of the run.
    pub(crate) fn run(&self, request: &str, code: &str) -> RunOutcome {
        let (reply, broker_reply) = pair();
        let (mut stdout, their_stdout) = std::io::pipe().unwrap();
        let (_stderr, their_stderr) = std::io::pipe().unwrap();
        let (mut frames, their_frames) = std::io::pipe().unwrap();
        let (_words, their_words) = std::io::pipe().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(code.as_bytes()).unwrap();
        file.rewind().unwrap();
        let descriptors = [
            broker_reply.as_fd(),
            their_stdout.as_fd(),
            their_stderr.as_fd(),
            their_frames.as_fd(),
            their_words.as_fd(),
            file.as_fd(),
        ];
        self.send(request.as_bytes(), &descriptors);
        drop((broker_reply, their_stdout, their_stderr, their_frames, their_words));
        let mut last = Value::Null;
        while let Some(message) = receive(&reply) {
            last = message;
        }
        let (mut text, mut output) = (String::new(), String::new());
        frames.read_to_string(&mut text).unwrap();
        stdout.read_to_string(&mut output).unwrap();
        RunOutcome { frames: text, stdout: output, last }
    }

    /// Sends any message.
    pub(crate) fn send(&self, bytes: &[u8], descriptors: &[std::os::fd::BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
        }
        rustix::net::sendmsg(&self.control, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)
            .unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for TestBroker {
    fn drop(&mut self) {
        rustix::net::shutdown(&self.control, rustix::net::Shutdown::Both).ok();
        self.process.wait().unwrap();
    }
}

fn pair() -> (OwnedFd, OwnedFd) {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

fn receive(reply: &OwnedFd) -> Option<Value> {
    let mut bytes = vec![0; 64 * 1024];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let length = rustix::net::recvmsg(reply, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?.bytes;
    control.drain().for_each(drop);
    serde_json::from_slice(&bytes[..length]).ok()
}
