//! What the server asks of its own process: private files, enough descriptors, no core dumps with secrets in them, and a
//! word to the service manager.

use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use sd_notify::NotifyState;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::Duration;

/// Only the owner may enter the data directory.
const PRIVATE_DIR: u32 = 0o700;

/// What a stop takes beyond the drain: streams, connections, webhooks, the last commit.
const AFTER_DRAIN: Duration = Duration::from_secs(15);

/// Heaps of the C library, for all threads together. With one for each of some forty threads, whatever stalled readers
/// ever held stays resident many times over: 64 of them at a byte a second cost 52 MiB, with two heaps 4 MiB.
const HEAPS: i32 = 2;

/// Makes the process fit to hold secrets and many connections. None of it can fail in a way that matters.
pub(super) fn settle() {
    if !nanoclaw_sandbox::limit_malloc_arenas(HEAPS) {
        tracing::warn!(
            "the C library keeps a heap for each thread: memory that was freed stays with the process"
        );
    }
    rustix::process::umask(Mode::from_raw_mode(0o077));
    if let Err(error) = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "the process can be traced by its own user");
    }
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = rustix::process::setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
}

/// Gives back what only the start needed: of 15 MiB that an idle server holds, 7 were code that would not run again.
pub(super) fn give_back() {
    if !nanoclaw_sandbox::release_startup_memory() {
        tracing::debug!("code that only the start needed stays mapped");
    }
}

/// The data directory, made if it is missing, closed to everybody else.
pub(super) fn make_private(dir: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(PRIVATE_DIR).create(dir)?;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(PRIVATE_DIR))
}

/// Tells systemd that clients are welcome.
pub(super) fn notify_ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Tells systemd that the end has begun, and how long it may take: `drain` for the jobs, and what comes after them.
pub(super) fn notify_stopping(drain: Duration) {
    let status = format!("stopping: running jobs have {} s to reach a step boundary", drain.as_secs());
    let usec = u32::try_from(drain.saturating_add(AFTER_DRAIN).as_micros()).unwrap_or(u32::MAX);
    notify(&[
        NotifyState::Stopping,
        NotifyState::Status(&status),
        // Whatever limits.drain_s says: TimeoutStopSec= of the unit need not know.
        NotifyState::ExtendTimeoutUsec(usec),
    ]);
}

/// Tells systemd. Without it nobody listens, which is no failure.
pub(super) fn notify(states: &[NotifyState<'_>]) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let lines: Vec<String> = states.iter().map(ToString::to_string).collect();
    if let Err(error) = send(socket.as_bytes(), &(lines.join("\n") + "\n")) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}

/// Sends it to a path or, behind `@`, to an abstract name (`sd_notify(3)`). A manager that does not read is not waited for.
fn send(socket: &[u8], lines: &str) -> io::Result<()> {
    let address = match socket.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(OsStr::from_bytes(socket))?,
    };
    let sending = UnixDatagram::unbound()?;
    sending.set_nonblocking(true)?;
    sending.send_to_addr(lines.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abstract_name_is_told_and_a_manager_that_does_not_read_is_not_waited_for() {
        let name = format!("nanoclaw-test-{}", std::process::id());
        let manager = SocketAddr::from_abstract_name(&name).and_then(|at| UnixDatagram::bind_addr(&at));
        let manager = manager.expect("binds");
        let socket = format!("@{name}");
        send(socket.as_bytes(), "READY=1\nSTATUS=serving").expect("told");
        let mut heard = [0; 64];
        let length = manager.recv(&mut heard).expect("heard");
        assert_eq!(&heard[..length], b"READY=1\nSTATUS=serving");
        let full = (0..10_000).find_map(|_| send(socket.as_bytes(), "WATCHDOG=1").err());
        assert_eq!(full.expect("the queue is full").kind(), io::ErrorKind::WouldBlock);
    }
}
