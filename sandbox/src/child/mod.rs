//! The child's side of a run, from the fork to its end.
//!
//! Owns: the order of the set-up. Any failure is reported as such and nothing runs.

mod confine;
mod kit;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use rustix::process::Pid;

use crate::broker::{self, Extra, Order, Task};
use crate::frame::{Frame, Words};
use crate::javascript::{self, Engine};
use crate::policy::{Domain, Filters, Reach, restrict};
use crate::selftest;
use crate::sys;

pub(crate) use confine::{
    FIRST_PRIVATE_UID, Isolation, SHARED_UID_TASKS, die_with, drop_capabilities, enter_directory,
    enter_session, isolate, limit_resources, shed_privileges, stand_apart, take_bounds,
};
pub(crate) use kit::{Kit, settle_descriptors};

/// The first argument that makes this binary the sandbox's broker.
pub const BROKER_MARKER: &str = "__nanoclaw_sandbox_broker";

/// The argument after it that leaves the broker, and all that it starts, the network.
pub(crate) const NETWORK_ARGUMENT: &str = "network";

/// The number of the frames' pipe in a child, until guest code runs.
pub(crate) const FRAMES_DESCRIPTOR: i32 = 3;
/// The number of the words' pipe in a child.
pub(crate) const WORDS_DESCRIPTOR: i32 = 4;
/// Descriptors from this number on are closed in a child.
pub(crate) const FIRST_CLOSED_DESCRIPTOR: u32 = 5;
/// The number of the socket to the server's host in a child, in runs that have one: they close from the next one on.
pub(crate) const HOST_DESCRIPTOR: i32 = 5;

/// The exit code of a child whose set-up failed.
pub(crate) const SET_UP_FAILED: i32 = 70;

/// Takes the process over if it was started as the sandbox's broker, and never returns then.
///
/// Must be called first thing in `main`, before any thread is started.
pub fn child_hook() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|marker| marker == BROKER_MARKER) {
        broker::serve(arguments.next().is_some_and(|word| word == NETWORK_ARGUMENT));
    }
}

/// What a child has from the broker that it is a copy of.
pub(crate) struct Heritage<'a> {
    /// The broker.
    pub broker: Pid,
    /// The filters of the child's profile.
    pub filters: &'a Filters,
    /// The warm engine, for those who run JavaScript.
    pub engine: Option<&'a Engine>,
}

/// Lives as a run's child, right after the broker's fork.
pub(crate) fn live(order: &Order, kit: Kit, heritage: &Heritage<'_>) -> ! {
    let settled = settle(kit, order.task.extra());
    let Ok((mut report, code)) = settled else { sys::exit_now(SET_UP_FAILED) };
    match set_up_and_run(&mut report, order, &code, heritage) {
        Ok(code) => sys::exit_now(code),
        Err(message) => report.fail(message),
    }
}

/// Lives as a child that waits for a JavaScript run, and then as that run's.
///
/// Until it has one there is nobody to tell what goes wrong: it ends, and the broker finds its socket closed.
pub(crate) fn stand_by(own: OwnedFd, heritage: &Heritage<'_>) -> ! {
    let Ok((order, kit, isolation)) = wait_for_run(own, heritage) else { sys::exit_now(SET_UP_FAILED) };
    let settled = settle(kit, order.task.extra());
    let Ok((mut report, code)) = settled else { sys::exit_now(SET_UP_FAILED) };
    let bounded = rustix::thread::set_name(c"nanoclaw-guest")
        .map_err(|error| format!("name: {error}"))
        .and_then(|()| take_bounds(&order, isolation));
    match bounded.and_then(|()| close_and_run(&mut report, &order, &code, heritage)) {
        Ok(code) => sys::exit_now(code),
        Err(message) => report.fail(message),
    }
}

fn wait_for_run(own: OwnedFd, heritage: &Heritage<'_>) -> std::io::Result<(Order, Kit, Isolation)> {
    let own = kit::keep_alone(own)?;
    let isolation = stand_apart(c"nanoclaw-ready", heritage.broker).map_err(std::io::Error::other)?;
    heritage.engine.into_iter().for_each(javascript::practise);
    let Some(packet) = broker::receive(&own, rustix::net::RecvFlags::empty())? else { sys::exit_now(0) };
    let order = packet.decode()?;
    let kit = Kit::from_descriptors(packet.descriptors.into_iter());
    kit.map(|kit| (order, kit, isolation)).ok_or_else(|| std::io::Error::other("a descriptor is missing"))
}

/// Puts the descriptors in place and reads the program.
pub(crate) fn settle(kit: Kit, extra: Option<Extra>) -> std::io::Result<(Report, String)> {
    let code = kit.put_in_place(extra)?;
    let report = Report {
        frames: Some(sys::inherited(FRAMES_DESCRIPTOR)?.into()),
        words: sys::inherited(WORDS_DESCRIPTOR)?.into(),
    };
    let mut text = String::new();
    File::from(code).read_to_string(&mut text)?;
    let has_host = extra == Some(Extra::Host);
    sys::close_from(FIRST_CLOSED_DESCRIPTOR + u32::from(has_host))?;
    Ok((report, text))
}

/// The whole way of a child; the code is the one to leave with.
fn set_up_and_run(
    report: &mut Report,
    order: &Order,
    code: &str,
    heritage: &Heritage<'_>,
) -> Result<i32, String> {
    isolate(order, heritage.broker)?;
    close_and_run(report, order, code, heritage)
}

/// Closes the kernel's two layers around this process and runs the program; the code is the one to leave with.
fn close_and_run(
    report: &mut Report,
    order: &Order,
    code: &str,
    heritage: &Heritage<'_>,
) -> Result<i32, String> {
    let domain = Domain { abi: order.landlock_abi, reach: Reach::Files, has_network: false };
    restrict(domain, &order.files).map_err(|error| error.to_string())?;
    install_last(heritage.filters)?;
    report.tell(&Frame::Ready);
    match &order.task {
        Task::JavaScript { language_check, has_host } => {
            let engine = heritage.engine.ok_or("this child has no JavaScript engine")?;
            let host = has_host.then(|| sys::inherited(HOST_DESCRIPTOR).map(File::from)).transpose();
            let host = host.map_err(|error| format!("host: {error}"))?;
            let terms = javascript::Terms { language_check: *language_check, host };
            Ok(javascript::run(report, engine, &order.limits, code, terms))
        }
        Task::Probe(probe) => {
            report.go();
            Ok(selftest::attempt(probe, heritage.broker.as_raw_nonzero().get()))
        }
        Task::Python { .. } | Task::Shell(_) => Err("this child runs neither Python nor commands".to_owned()),
    }
}

/// Installs the last two filters for good: from here on the whole policy holds.
pub(crate) fn install_last(filters: &Filters) -> Result<(), String> {
    filters.last.iter().try_for_each(|program| install("last filters", program))
}

/// Installs one filter for good.
pub(crate) fn install(what: &str, program: &[seccompiler::sock_filter]) -> Result<(), String> {
    sys::install_filter(program).map_err(|error| format!("seccomp {what}: {error}"))
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

    /// Says that the set-up failed, and ends the process.
    pub(crate) fn fail(&mut self, message: String) -> ! {
        self.tell(&Frame::Failed { message });
        sys::exit_now(SET_UP_FAILED)
    }

    /// Keeps both pipes from the program that this process becomes.
    pub(crate) fn close_on_exec(&self) -> std::io::Result<()> {
        for pipe in self.frames.iter().chain([&self.words]) {
            rustix::io::fcntl_setfd(pipe, rustix::io::FdFlags::CLOEXEC)?;
        }
        Ok(())
    }
}

fn write_line(pipe: &mut File, line: &impl serde::Serialize) {
    let Ok(mut line) = serde_json::to_vec(line) else { sys::exit_now(SET_UP_FAILED) };
    line.push(b'\n');
    pipe.write_all(&line).ok();
}
