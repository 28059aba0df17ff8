//! A broker as the sandbox starts it, and orders as it writes them: for tests that want one wrong thing in them.

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
pub(crate) struct Broker {
    control: OwnedFd,
    process: Child,
}

/// What came of an order.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The frames of the child's report.
    pub(crate) frames: String,
    /// Its standard output.
    pub(crate) stdout: String,
    /// The broker's last word: `ended` or `failed`, null if there was none.
    pub(crate) last: Value,
}

impl Outcome {
    pub(crate) fn exit_code(&self) -> Option<i64> {
        self.last["exit_code"].as_i64()
    }

    pub(crate) fn signal(&self) -> Option<i64> {
        self.last["signal"].as_i64()
    }
}

/// An order that runs `console.log('ran')`.
pub(crate) fn order() -> Value {
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

impl Broker {
    #[expect(clippy::disallowed_methods, reason = "the test stands in for the sandbox")]
    pub(crate) fn start() -> Self {
        let (control, theirs) = pair();
        let process = Command::new(env!("CARGO_BIN_EXE_nanoclaw-sandbox-child"))
            .arg(nanoclaw_sandbox::BROKER_MARKER)
            .stdin(Stdio::from(theirs))
            .spawn()
            .unwrap();
        Self { control, process }
    }

    /// Sends an order with all its descriptors and waits for its end.
    pub(crate) fn run(&self, order: &str, code: &str) -> Outcome {
        let (reply, their_reply) = pair();
        let (mut stdout, their_stdout) = std::io::pipe().unwrap();
        let (_stderr, their_stderr) = std::io::pipe().unwrap();
        let (mut frames, their_frames) = std::io::pipe().unwrap();
        let (_words, their_words) = std::io::pipe().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(code.as_bytes()).unwrap();
        file.rewind().unwrap();
        let descriptors = [
            their_reply.as_fd(),
            their_stdout.as_fd(),
            their_stderr.as_fd(),
            their_frames.as_fd(),
            their_words.as_fd(),
            file.as_fd(),
        ];
        self.send(order.as_bytes(), &descriptors);
        drop((their_reply, their_stdout, their_stderr, their_frames, their_words));
        let mut last = Value::Null;
        while let Some(said) = hear(&reply) {
            last = said;
        }
        let (mut text, mut output) = (String::new(), String::new());
        frames.read_to_string(&mut text).unwrap();
        stdout.read_to_string(&mut output).unwrap();
        Outcome { frames: text, stdout: output, last }
    }

    /// Sends anything.
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

impl Drop for Broker {
    fn drop(&mut self) {
        rustix::net::shutdown(&self.control, rustix::net::Shutdown::Both).ok();
        self.process.wait().unwrap();
    }
}

fn pair() -> (OwnedFd, OwnedFd) {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

fn hear(reply: &OwnedFd) -> Option<Value> {
    let mut bytes = vec![0; 64 * 1024];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let length = rustix::net::recvmsg(reply, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?.bytes;
    control.drain().for_each(drop);
    serde_json::from_slice(&bytes[..length]).ok()
}
