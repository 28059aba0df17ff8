//! The supervisor of a command: starts it in an inner landlock domain, and ends every process that it leaves.
//!
//! The supervisor stays in the outer domain, so that the command can neither signal nor trace it. It exits
//! after its last descendant.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;

use rustix::event::{PollFd, PollFlags};
use rustix::net::RecvFlags;
use rustix::process::{Pid, Signal};

use super::process_tree::{ProcessTree, SIGNAL_EXIT, exit_code_of};
use crate::broker::{CommandLine, RunRequest, ShellTask, receive, send, socket_pair};
use crate::child::{self, RunFds, UidIsolation};
use crate::child_report::{ReportFrame, ReportWriter};
use crate::policy::{LandlockDomain, RulesetKind, SCOPE_ABI, SeccompFilters, TcpAccess, restrict};
use crate::process::new_command;
use crate::supervised_calls::{CallServer, OwnDirs};
use crate::sys::{self, ForkResult, ReapOutcome};

/// The exit code of a command that cannot be executed, as in shells.
const CANNOT_START: i32 = 126;
/// The priority (`nice`) of a command. It yields to its supervisor and to the server, which end it when it
/// has too many processes: at equal priority a fork bomb fills the machine before they get a turn.
const COMMAND_PRIORITY: i32 = 10;
/// The signals that a supervisor waits for: the broker's order to end, and the exit of a child.
const SIGNALS: [i32; 2] = [libc::SIGTERM, libc::SIGCHLD];

/// Supervises a command, right after the broker's fork. Its exit code is the command's.
pub(crate) fn supervise(request: &RunRequest, task: &ShellTask, fds: RunFds, filters: &SeccompFilters) -> ! {
    let Ok((mut report, text)) = child::take_fds(fds, request.task.extra_fd()) else {
        sys::exit_now(child::SET_UP_FAILED)
    };
    let supervisor = rustix::process::getpid();
    let Supervision { tree, signals, own_dirs, socket, command_end } = match confine_supervisor(request, task)
    {
        Ok(supervision) => supervision,
        Err(message) => report.fail(message),
    };
    match sys::fork() {
        Err(error) => report.fail(format!("fork: {error}")),
        Ok(ForkResult::Parent(command)) => {
            drop((report, command_end));
            release_standard_fds();
            let calls = receive_listener(&socket).map(|listener| CallServer::new(listener, own_dirs));
            sys::exit_now(wait_and_end(command, &tree, &signals, calls))
        }
        Ok(ForkResult::Child) => {
            drop((signals, own_dirs, socket));
            if let Err(message) = confine_command(request, supervisor, filters, command_end) {
                report.fail(message);
            }
            let command = match CommandLine::from_text(&text) {
                Ok(command) => command,
                Err(message) => report.fail(message),
            };
            let error = execute(&task.shell, &command, &mut report);
            report.write_frame(&ReportFrame::Failed { message: format!("cannot start: {error}") });
            // In the form of a shell.
            let line = format!("{}: cannot start: {error}\n", task.shell.display());
            rustix::io::write(rustix::stdio::stderr(), line.as_bytes()).ok();
            sys::exit_now(CANNOT_START)
        }
    }
}

/// What a supervisor prepares before its command.
struct Supervision {
    tree: ProcessTree,
    /// Readable when a signal is pending.
    signals: OwnedFd,
    own_dirs: OwnDirs,
    /// The listener of the supervised calls comes through it.
    socket: OwnedFd,
    command_end: OwnedFd,
}

/// Prepares the supervisor and applies the outer domain to it.
fn confine_supervisor(request: &RunRequest, task: &ShellTask) -> Result<Supervision, String> {
    let broker = rustix::process::getppid().ok_or("the broker is gone")?;
    sys::block_signals(&SIGNALS).map_err(|error| format!("signals: {error}"))?;
    child::enter_session(c"nanoclaw-shell")?;
    child::set_parent_death_signal(broker, Signal::TERM)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| format!("subreaper: {error}"))?;
    let tree =
        ProcessTree::open(request.landlock_abi).map_err(|error| format!("list of children: {error}"))?;
    let signals = sys::signal_descriptor(&SIGNALS).map_err(|error| format!("signals: {error}"))?;
    let own_dirs = OwnDirs::open(&request.files).map_err(|error| format!("own directory: {error}"))?;
    let (socket, command_end) = socket_pair().map_err(|error| format!("socket: {error}"))?;
    child::enter_directory(request)?;
    child::drop_capabilities()?;
    let tcp = if task.network { TcpAccess::AllBut(&task.closed_ports) } else { TcpAccess::Closed };
    let domain = LandlockDomain { abi: request.landlock_abi, kind: RulesetKind::Full, tcp };
    restrict(domain, &request.files).map_err(|error| error.to_string())?;
    Ok(Supervision { tree, signals, own_dirs, socket, command_end })
}

/// The listener of the command's supervised calls; `None` if it has none: its filter refuses them then.
fn receive_listener(socket: &OwnedFd) -> Option<OwnedFd> {
    // A command that fails before closes its end.
    receive(socket, RecvFlags::empty()).ok().flatten()?.descriptors.into_iter().next()
}

/// Gives the command a lower priority than that of the server, unless it has one: only root may raise it.
fn lower_priority() -> rustix::io::Result<()> {
    if rustix::process::getpriority_process(None)? < COMMAND_PRIORITY {
        rustix::process::setpriority_process(None, COMMAND_PRIORITY)?;
    }
    Ok(())
}

/// Applies the inner domain, the rlimits and the filters to the command.
fn confine_command(
    request: &RunRequest,
    supervisor: Pid,
    filters: &SeccompFilters,
    socket: OwnedFd,
) -> Result<(), String> {
    sys::block_signals(&[]).map_err(|error| format!("signals: {error}"))?;
    child::enter_session(c"nanoclaw-guest")?;
    child::set_parent_death_signal(supervisor, Signal::KILL)?;
    lower_priority().map_err(|error| format!("priority: {error}"))?;
    if request.landlock_abi >= SCOPE_ABI {
        let tcp = TcpAccess::AllBut(&[]);
        let domain = LandlockDomain { abi: request.landlock_abi, kind: RulesetKind::Signals, tcp };
        restrict(domain, &[]).map_err(|error| error.to_string())?;
    }
    if let Some(listener) = filters.install_supervised()? {
        // Before the limits: the kernel lets a process send only if its limit of open files is above the
        // number of descriptors that all processes of its user have on their way.
        send(socket.as_fd(), &"listener", &[listener.as_fd()])
            .map_err(|error| format!("supervised calls: {error}"))?;
    }
    drop(socket); // the command does not get it
    // No private user id: a real user that differs from the effective one puts every program into secure
    // mode. The server counts the processes.
    child::limit_resources(&request.limits, UidIsolation::Shared)?;
    filters.install_lists()
}

/// Executes the shell. Returns only on failure.
fn execute(shell: &Path, command: &CommandLine, report: &mut ReportWriter) -> std::io::Error {
    report.write_frame(&ReportFrame::Ready);
    report.write_frame(&ReportFrame::Go);
    if let Err(error) = report.close_on_exec() {
        return error;
    }
    let variables = command.environment.iter().map(|(name, value)| (name, value));
    new_command(shell).args(&command.arguments).env_clear().envs(variables).exec()
}

/// Closes the supervisor's copies of the command's descriptors, so that their end depends only on the
/// command.
fn release_standard_fds() {
    // Without the device they stay open until the exit.
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null");
    if let Ok(null) = null {
        rustix::stdio::dup2_stdin(&null).ok();
        rustix::stdio::dup2_stdout(&null).ok();
        rustix::stdio::dup2_stderr(&null).ok();
    }
}

/// Serves the command's calls until its exit or the broker's signal, ends all processes that are left, and
/// returns the exit code.
fn wait_and_end(command: i32, tree: &ProcessTree, signals: &OwnedFd, mut calls: Option<CallServer>) -> i32 {
    let mut code = None;
    while code.is_none() {
        if !serve_until_signal(signals, &mut calls) {
            break;
        }
        match sys::wait_for_signal(&SIGNALS) {
            Ok(libc::SIGCHLD) => code = reap_exited(command),
            // SIGTERM, or waiting is not possible.
            Ok(_) | Err(_) => break,
        }
    }
    let late_code = tree.end(command);
    code.or(late_code).unwrap_or(SIGNAL_EXIT + libc::SIGKILL)
}

/// Serves calls until a signal is pending; false if waiting is not possible.
fn serve_until_signal(signals: &OwnedFd, calls: &mut Option<CallServer>) -> bool {
    loop {
        let mut polled = vec![PollFd::new(signals, PollFlags::IN)];
        polled.extend(calls.iter().map(|calls| PollFd::from_borrowed_fd(calls.listener(), PollFlags::IN)));
        match rustix::event::poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
        let mut ready = polled.iter().map(PollFd::revents);
        if ready.next().is_some_and(|events| !events.is_empty()) {
            return true;
        }
        let call = ready.next().unwrap_or(PollFlags::empty());
        drop(polled);
        if call.contains(PollFlags::IN) {
            calls.iter().for_each(CallServer::serve);
        } else if !call.is_empty() {
            // No process is left that could make a call.
            *calls = None;
        }
    }
}

/// Reaps exited children until the broker's signal: a fork bomb may leave them faster than they are reaped.
/// Returns the command's exit code if it is one of them.
fn reap_exited(command: i32) -> Option<i32> {
    let mut code = None;
    while !sys::is_signal_pending(libc::SIGTERM)
        && let Ok(ReapOutcome::Ended { pid, exit_code, signal }) = sys::reap_any(false)
    {
        if pid == command {
            code = Some(exit_code_of(exit_code, signal));
        }
    }
    code
}
