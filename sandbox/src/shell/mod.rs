//! Commands: one supervisor per command line, and the end of every process that it leaves.
//!
//! Owns: the supervisor's life. It stands in the outer landlock domain, its command in an inner one, so that the command
//! can neither signal nor see it. Refuses: to end before its last descendant has.

mod surroundings;
mod tree;

use std::os::unix::process::CommandExt;

use rustix::process::{Pid, Signal};

use crate::broker::{Order, ShellTask, new_command};
use crate::child::{self, Isolation, Kit, Report};
use crate::frame::Frame;
use crate::policy::{Domain, Filters, Reach, SCOPE_ABI, restrict};
use crate::sys::{self, Fork, Reaped};
pub(crate) use surroundings::{environment, files, find_shell, system_files};
use tree::Tree;
pub(crate) use tree::children_of_this_thread;

/// The exit code of a command that cannot be started, as shells have it.
const CANNOT_START: i32 = 126;
/// What shells add to the number of the signal that ended a command.
const SIGNAL_EXIT: i32 = 128;
/// What wakes a supervisor up: the broker's word, and the end of a child.
const SIGNALS: [i32; 2] = [libc::SIGTERM, libc::SIGCHLD];

/// Lives as a command's supervisor, right after the broker's fork. Its exit code is the command's.
pub(crate) fn supervise(order: &Order, task: &ShellTask, kit: Kit, filters: &Filters) -> ! {
    let Ok((mut report, code)) = child::settle(kit, order.task.extra()) else {
        sys::exit_now(child::SET_UP_FAILED)
    };
    let supervisor = rustix::process::getpid();
    let tree = match begin(order, task) {
        Ok(begun) => begun,
        Err(message) => report.fail(message),
    };
    match sys::fork() {
        Err(error) => report.fail(format!("fork: {error}")),
        Ok(Fork::Parent(command)) => {
            drop(report);
            release_standard();
            sys::exit_now(watch(command, &tree))
        }
        Ok(Fork::Child) => {
            if let Err(message) = close_inner(order, supervisor, filters) {
                report.fail(message);
            }
            let error = become_shell(task, &code, &mut report);
            report.tell(&Frame::Failed { message: format!("cannot start: {error}") });
            // As a shell says it of a program.
            let words = format!("{}: cannot start: {error}\n", task.shell.display());
            rustix::io::write(rustix::stdio::stderr(), words.as_bytes()).ok();
            sys::exit_now(CANNOT_START)
        }
    }
}

/// Closes the outer domain around this process.
fn begin(order: &Order, task: &ShellTask) -> Result<Tree, String> {
    let broker = rustix::process::getppid().ok_or("the broker is gone")?;
    sys::block_signals(&SIGNALS).map_err(|error| format!("signals: {error}"))?;
    child::enter_session(c"nanoclaw-shell")?;
    child::die_with(broker, Signal::TERM)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| format!("subreaper: {error}"))?;
    let tree = Tree::open(order.landlock_abi).map_err(|error| format!("list of children: {error}"))?;
    child::enter_directory(order)?;
    child::drop_capabilities()?;
    let domain = Domain { abi: order.landlock_abi, reach: Reach::Files, has_network: task.network };
    restrict(domain, &order.files).map_err(|error| error.to_string())?;
    Ok(tree)
}

/// Closes the inner domain around the command, and everything else.
fn close_inner(order: &Order, supervisor: Pid, filters: &Filters) -> Result<(), String> {
    sys::block_signals(&[]).map_err(|error| format!("signals: {error}"))?;
    child::enter_session(c"nanoclaw-guest")?;
    child::die_with(supervisor, Signal::KILL)?;
    if order.landlock_abi >= SCOPE_ABI {
        let domain = Domain { abi: order.landlock_abi, reach: Reach::Signals, has_network: true };
        restrict(domain, &[]).map_err(|error| error.to_string())?;
    }
    // No user id of its own: a real user other than the effective one would put every program into secure mode. The
    // server counts the processes.
    child::limit_resources(&order.limits, Isolation::Shared)?;
    child::install_last(filters)
}

/// Becomes the shell. Returns only if that failed.
fn become_shell(task: &ShellTask, code: &str, report: &mut Report) -> std::io::Error {
    report.tell(&Frame::Ready);
    report.tell(&Frame::Go);
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

/// Lets go of the command's own descriptors: whoever waits for their ends waits for the command alone.
fn release_standard() {
    // Where there is no such device they stay open until the end.
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null");
    if let Ok(null) = null {
        rustix::stdio::dup2_stdin(&null).ok();
        rustix::stdio::dup2_stdout(&null).ok();
        rustix::stdio::dup2_stderr(&null).ok();
    }
}

/// Waits for the command's end or the broker's word, ends all that is left, and says what to exit with.
fn watch(command: i32, tree: &Tree) -> i32 {
    let mut code = None;
    while code.is_none() {
        match sys::wait_for_signal(&SIGNALS) {
            Ok(libc::SIGCHLD) => code = bury(command),
            // Told to end, or unable to wait: either way nothing goes on.
            Ok(_) | Err(_) => break,
        }
    }
    let last = tree.end(command);
    code.or(last).unwrap_or(SIGNAL_EXIT + libc::SIGKILL)
}

/// Reaps what has ended; the command's exit code if it is among them.
fn bury(command: i32) -> Option<i32> {
    let mut code = None;
    while let Ok(Reaped::Ended { pid, exit_code, signal }) = sys::reap_any(false) {
        if pid == command {
            code = Some(exit_of(exit_code, signal));
        }
    }
    code
}

fn exit_of(exit_code: Option<i32>, signal: Option<i32>) -> i32 {
    exit_code.or(signal.map(|signal| SIGNAL_EXIT + signal)).unwrap_or(SIGNAL_EXIT)
}
