//! The supervisor of a command: starts it in an inner landlock domain, and ends every process that it leaves.
//!
//! The supervisor stays in the outer domain, so that the command can neither signal nor trace it. It exits
//! after its last descendant.

use std::os::unix::process::CommandExt;

use rustix::process::{Pid, Signal};

use super::process_tree::{ProcessTree, SIGNAL_EXIT, exit_code_of};
use crate::broker::{RunRequest, ShellTask};
use crate::child::{self, RunFds, UidIsolation};
use crate::child_report::{ReportFrame, ReportWriter};
use crate::policy::{LandlockDomain, RulesetKind, SCOPE_ABI, SeccompFilters, restrict};
use crate::process::new_command;
use crate::sys::{self, ForkResult, ReapOutcome};

/// The exit code of a command that cannot be executed, as in shells.
const CANNOT_START: i32 = 126;
/// The signals that a supervisor waits for: the broker's order to end, and the exit of a child.
const SIGNALS: [i32; 2] = [libc::SIGTERM, libc::SIGCHLD];

/// Supervises a command, right after the broker's fork. Its exit code is the command's.
pub(crate) fn supervise(request: &RunRequest, task: &ShellTask, fds: RunFds, filters: &SeccompFilters) -> ! {
    let Ok((mut report, code)) = child::take_fds(fds, request.task.extra_fd()) else {
        sys::exit_now(child::SET_UP_FAILED)
    };
    let supervisor = rustix::process::getpid();
    let tree = match confine_supervisor(request, task) {
        Ok(tree) => tree,
        Err(message) => report.fail(message),
    };
    match sys::fork() {
        Err(error) => report.fail(format!("fork: {error}")),
        Ok(ForkResult::Parent(command)) => {
            drop(report);
            release_standard_fds();
            sys::exit_now(wait_and_end(command, &tree))
        }
        Ok(ForkResult::Child) => {
            if let Err(message) = confine_command(request, supervisor, filters) {
                report.fail(message);
            }
            let error = execute(task, &code, &mut report);
            report.write_frame(&ReportFrame::Failed { message: format!("cannot start: {error}") });
            // In the form of a shell.
            let line = format!("{}: cannot start: {error}\n", task.shell.display());
            rustix::io::write(rustix::stdio::stderr(), line.as_bytes()).ok();
            sys::exit_now(CANNOT_START)
        }
    }
}

/// Applies the outer domain to the supervisor.
fn confine_supervisor(request: &RunRequest, task: &ShellTask) -> Result<ProcessTree, String> {
    let broker = rustix::process::getppid().ok_or("the broker is gone")?;
    sys::block_signals(&SIGNALS).map_err(|error| format!("signals: {error}"))?;
    child::enter_session(c"nanoclaw-shell")?;
    child::set_parent_death_signal(broker, Signal::TERM)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| format!("subreaper: {error}"))?;
    let tree =
        ProcessTree::open(request.landlock_abi).map_err(|error| format!("list of children: {error}"))?;
    child::enter_directory(request)?;
    child::drop_capabilities()?;
    let domain =
        LandlockDomain { abi: request.landlock_abi, kind: RulesetKind::Full, has_network: task.network };
    restrict(domain, &request.files).map_err(|error| error.to_string())?;
    Ok(tree)
}

/// Applies the inner domain, the rlimits and the filters to the command.
fn confine_command(request: &RunRequest, supervisor: Pid, filters: &SeccompFilters) -> Result<(), String> {
    sys::block_signals(&[]).map_err(|error| format!("signals: {error}"))?;
    child::enter_session(c"nanoclaw-guest")?;
    child::set_parent_death_signal(supervisor, Signal::KILL)?;
    if request.landlock_abi >= SCOPE_ABI {
        let domain =
            LandlockDomain { abi: request.landlock_abi, kind: RulesetKind::Signals, has_network: true };
        restrict(domain, &[]).map_err(|error| error.to_string())?;
    }
    // No private user id: a real user that differs from the effective one puts every program into secure
    // mode. The server counts the processes.
    child::limit_resources(&request.limits, UidIsolation::Shared)?;
    filters.install_last()
}

/// Executes the shell. Returns only on failure.
fn execute(task: &ShellTask, code: &str, report: &mut ReportWriter) -> std::io::Error {
    report.write_frame(&ReportFrame::Ready);
    report.write_frame(&ReportFrame::Go);
    if let Err(error) = report.close_on_exec() {
        return error;
    }
    let mut command = new_command(&task.shell);
    match &task.arguments {
        Some(arguments) => command.args(arguments),
        None => command.arg("-c").arg(code),
    };
    command.env_clear().envs(task.environment.iter().map(|(name, value)| (name, value))).exec()
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

/// Waits for the command's exit or the broker's signal, ends all processes that are left, and returns the
/// exit code.
fn wait_and_end(command: i32, tree: &ProcessTree) -> i32 {
    let mut code = None;
    while code.is_none() {
        match sys::wait_for_signal(&SIGNALS) {
            Ok(libc::SIGCHLD) => code = reap_exited(command),
            // SIGTERM, or waiting is not possible.
            Ok(_) | Err(_) => break,
        }
    }
    let late_code = tree.end(command);
    code.or(late_code).unwrap_or(SIGNAL_EXIT + libc::SIGKILL)
}

/// Reaps exited children. Returns the command's exit code if it is one of them.
fn reap_exited(command: i32) -> Option<i32> {
    let mut code = None;
    while let Ok(ReapOutcome::Ended { pid, exit_code, signal }) = sys::reap_any(false) {
        if pid == command {
            code = Some(exit_code_of(exit_code, signal));
        }
    }
    code
}
