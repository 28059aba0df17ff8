//! The set-up of a forked child, and the run itself.

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::process::Pid;

use super::confine::{UidIsolation, apply_limits, detach};
use super::fds::{HOST_FD, RunFds, keep_only, take_fds};
use super::probe::run_probe;
use crate::broker::{RunRequest, RunTask, receive};
use crate::child_report::{ReportFrame, ReportWriter, SET_UP_FAILED};
use crate::languages::javascript::{self, JavaScriptEngine, ScriptOptions};
use crate::policy::{LandlockDomain, RulesetKind, SeccompFilters, TcpAccess, restrict};
use crate::sys;

/// The data that a child inherits from the broker by the fork.
pub(crate) struct ForkContext<'a> {
    pub broker: Pid,
    /// The filters of the child's profile.
    pub filters: &'a SeccompFilters,
    /// The warm engine, for JavaScript.
    pub engine: Option<&'a JavaScriptEngine>,
}

/// Sets up a child right after the fork, runs the program, and exits.
pub(crate) fn run(request: &RunRequest, fds: RunFds, context: &ForkContext<'_>) -> ! {
    let Ok((mut report, code)) = take_fds(fds, request.task.extra_fd()) else { sys::exit_now(SET_UP_FAILED) };
    let isolated =
        detach(c"nanoclaw-guest", context.broker).and_then(|isolation| apply_limits(request, isolation));
    match isolated.and_then(|()| confine_and_run(&mut report, request, &code, context)) {
        Ok(exit_code) => sys::exit_now(exit_code),
        Err(message) => report.fail(message),
    }
}

/// Waits for a JavaScript run as a spare child, runs it, and exits.
///
/// Before the run arrives there is nobody to report an error to: the child exits, and the broker finds its
/// socket closed.
pub(crate) fn run_as_spare(socket: OwnedFd, context: &ForkContext<'_>) -> ! {
    let Ok((request, fds, isolation)) = receive_run(socket, context) else { sys::exit_now(SET_UP_FAILED) };
    let Ok((mut report, code)) = take_fds(fds, request.task.extra_fd()) else { sys::exit_now(SET_UP_FAILED) };
    let limited = rustix::thread::set_name(c"nanoclaw-guest")
        .map_err(|error| format!("name: {error}"))
        .and_then(|()| apply_limits(&request, isolation));
    match limited.and_then(|()| confine_and_run(&mut report, &request, &code, context)) {
        Ok(exit_code) => sys::exit_now(exit_code),
        Err(message) => report.fail(message),
    }
}

fn receive_run(
    socket: OwnedFd,
    context: &ForkContext<'_>,
) -> std::io::Result<(RunRequest, RunFds, UidIsolation)> {
    let socket = keep_only(socket)?;
    let isolation = detach(c"nanoclaw-ready", context.broker).map_err(std::io::Error::other)?;
    context.engine.into_iter().for_each(javascript::warm_up);
    let Some(packet) = receive(&socket, rustix::net::RecvFlags::empty())? else { sys::exit_now(0) };
    let request = packet.decode()?;
    let fds = RunFds::from_descriptors(packet.descriptors.into_iter());
    fds.map(|fds| (request, fds, isolation)).ok_or_else(|| std::io::Error::other("a descriptor is missing"))
}

/// Applies landlock and the last filters, runs the program, and returns the exit code.
fn confine_and_run(
    report: &mut ReportWriter,
    request: &RunRequest,
    code: &str,
    context: &ForkContext<'_>,
) -> Result<i32, String> {
    let domain =
        LandlockDomain { abi: request.landlock_abi, kind: RulesetKind::Full, tcp: TcpAccess::Closed };
    restrict(domain, &request.files).map_err(|error| error.to_string())?;
    context.filters.install_last()?;
    report.write_frame(&ReportFrame::Ready);
    match &request.task {
        RunTask::JavaScript { language_check, has_host } => {
            let engine = context.engine.ok_or("this child has no JavaScript engine")?;
            let host = has_host.then(|| sys::inherited(HOST_FD).map(File::from)).transpose();
            let host = host.map_err(|error| format!("host: {error}"))?;
            let options = ScriptOptions { language_check: *language_check, host };
            Ok(javascript::run(report, engine, &request.limits, code, options))
        }
        RunTask::Probe(probe) => {
            report.start_guest();
            Ok(run_probe(probe, context.broker.as_raw_nonzero().get()))
        }
        RunTask::Python { .. } | RunTask::Shell(_) => {
            Err("this child runs neither Python nor commands".to_owned())
        }
    }
}
