//! The child's side of a run, from the first line of `main` to its end.
//!
//! Owns: the order of the set-up. Any failure is reported as such and nothing runs.

mod confine;

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::frame::{Frame, Words};
use crate::javascript;
use crate::level::Level;
use crate::policy::{Filters, Profile, compile, restrict_files};
use crate::python;
use crate::request::{PythonTask, Request, Task};
use crate::selftest;
use crate::sys;

/// The first argument that makes this binary a sandbox child.
pub const CHILD_MARKER: &str = "__nanoclaw_sandbox_child";

/// The number of the frames' pipe in a child, until guest code runs.
pub(crate) const FRAMES_DESCRIPTOR: i32 = 3;
/// The number of the words' pipe in a child.
pub(crate) const WORDS_DESCRIPTOR: i32 = 4;
/// The number of the driver's assignment in a Python child, until the driver has read it.
pub(crate) const PAYLOAD_DESCRIPTOR: i32 = 5;

/// The exit code of a child whose set-up failed.
const SET_UP_FAILED: i32 = 70;

/// Takes the process over if it was started as a sandbox child, and never returns then.
///
/// Must be called first thing in `main`, before any thread is started.
pub fn child_hook() {
    let is_child = std::env::args_os().nth(1).is_some_and(|marker| marker == CHILD_MARKER);
    if is_child {
        run_child();
    }
}

fn run_child() -> ! {
    let (Ok(frames), Ok(words)) = (sys::inherited(FRAMES_DESCRIPTOR), sys::inherited(WORDS_DESCRIPTOR))
    else {
        sys::exit_now(SET_UP_FAILED)
    };
    let mut report = Report { frames: Some(frames.into()), words: words.into() };
    let message = match set_up_and_run(&mut report) {
        Ok(code) => sys::exit_now(code),
        Err(message) => message,
    };
    report.tell(&Frame::Failed { message });
    sys::exit_now(SET_UP_FAILED)
}

/// The whole way of a child; the code is the one to leave with.
fn set_up_and_run(report: &mut Report) -> Result<i32, String> {
    let request = read_request()?;
    let filters = compile(profile_of(&request), request.landlock_abi).map_err(|error| error.to_string())?;
    let first_closed =
        hand_over_payload(&request, &filters).map_err(|error| format!("driver's assignment: {error}"))?;
    confine::isolate(&request, first_closed)?;
    restrict_files(request.landlock_abi, &request.files).map_err(|error| error.to_string())?;
    match &request.task {
        Task::Python(task) => {
            install("early kill list", &filters.set_up)?;
            let error = python::become_interpreter(task);
            Err(format!("cannot start '{}': {error}", task.interpreter.display()))
        }
        Task::JavaScript { code, language_check } => {
            install_final(&filters)?;
            report.tell(&Frame::Ready);
            Ok(javascript::run(report, &request.limits, code, *language_check))
        }
        Task::Probe(probe) => {
            install_final(&filters)?;
            report.tell(&Frame::Ready);
            report.go();
            Ok(selftest::attempt(probe, request.parent_pid))
        }
    }
}

/// JavaScript has no files and no threads of its own: it gets the tight profile at every level.
fn profile_of(request: &Request) -> Profile {
    match (&request.task, request.level) {
        (Task::Python(_) | Task::Probe(_), Level::Lenient) => Profile::Roomy,
        _ => Profile::Confined,
    }
}

/// All filters, in order: for children that stay this program. Python's driver installs the last two.
fn install_final(filters: &Filters) -> Result<(), String> {
    install("early kill list", &filters.set_up)?;
    install("allow list", &filters.allow)?;
    install("kill list", &filters.kill)
}

fn install(what: &str, program: &[seccompiler::sock_filter]) -> Result<(), String> {
    sys::install_filter(program).map_err(|error| format!("seccomp {what}: {error}"))
}

/// Puts a Python driver's assignment under its number, before any limit binds; says from where on to close the rest.
fn hand_over_payload(request: &Request, filters: &Filters) -> std::io::Result<i32> {
    let Task::Python(task) = &request.task else { return Ok(PAYLOAD_DESCRIPTOR) };
    let payload = payload_file(request, task, filters)?;
    sys::copy_descriptor(payload.as_fd(), PAYLOAD_DESCRIPTOR)?;
    if payload.as_raw_fd() == PAYLOAD_DESCRIPTOR {
        // It lives on under this number; closing our handle would close the driver's.
        std::mem::forget(payload);
    }
    Ok(PAYLOAD_DESCRIPTOR + 1)
}

/// What the driver reads: its task, and the final filters as hexadecimal text.
fn payload_file(request: &Request, task: &PythonTask, filters: &Filters) -> std::io::Result<OwnedFd> {
    let mut payload = serde_json::to_value(task)?;
    if let Some(fields) = payload.as_object_mut() {
        fields.insert("level".to_owned(), request.level.name().into());
        fields.insert("parent_pid".to_owned(), request.parent_pid.into());
        fields.insert("directory".to_owned(), request.directory.to_string_lossy().into());
        fields.insert("filters".to_owned(), vec![hex(&filters.allow), hex(&filters.kill)].into());
        fields.insert("seccomp_number".to_owned(), libc::SYS_seccomp.into());
    }
    let descriptor = rustix::fs::memfd_create("nanoclaw-payload", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(descriptor);
    file.write_all(&serde_json::to_vec(&payload)?)?;
    file.rewind()?;
    Ok(file.into())
}

fn hex(program: &[seccompiler::sock_filter]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| DIGITS.get(usize::from(value)).map_or('?', |digit| char::from(*digit));
    sys::filter_bytes(program).iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn read_request() -> Result<Request, String> {
    let mut text = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut text)
        .map_err(|error| format!("cannot read the request: {error}"))?;
    serde_json::from_slice(&text).map_err(|error| format!("cannot decode the request: {error}"))
}

/// The two pipes of this child's report.
pub(crate) struct Report {
    frames: Option<File>,
    words: File,
}

impl Report {
    /// Writes one frame. A parent that reads no more is no reason to stop: it kills when it wants to.
    pub(crate) fn tell(&mut self, frame: &Frame) {
        if let Some(frames) = &mut self.frames {
            write_line(frames, frame);
        }
    }

    /// Says that guest code runs from here on, and closes the pipe before it does.
    pub(crate) fn go(&mut self) {
        self.tell(&Frame::Go);
        self.frames = None;
    }

    /// Writes what became of the program.
    pub(crate) fn end(&mut self, words: &Words) {
        write_line(&mut self.words, words);
    }
}

fn write_line(pipe: &mut File, line: &impl serde::Serialize) {
    let Ok(mut line) = serde_json::to_vec(line) else { sys::exit_now(SET_UP_FAILED) };
    line.push(b'\n');
    pipe.write_all(&line).ok();
}
