//! Notifications for the service manager (`sd_notify(3)`): ready, stopping, and more time for a slow start.

use super::system;
use sd_notify::NotifyState;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Time that a stop needs after the drain: streams, connections, webhooks, last commit.
const AFTER_DRAIN: Duration = Duration::from_secs(15);

/// Interval of the requests for more time; well below systemd's default of 90 s.
const REQUEST_INTERVAL: Duration = Duration::from_secs(10);
/// Time requested each time, microseconds: three intervals.
const MORE_USEC: u32 = 30_000_000;
/// Requests until a start counts as hung: half an hour.
const MAX_REQUESTS: u32 = 180;

/// Runs `act` and asks the service manager for more time until it returns. Asks only under a service
/// manager (`NOTIFY_SOCKET`).
pub(super) fn extend_start_timeout<T>(act: impl FnOnce() -> T) -> io::Result<T> {
    if system::variable("NOTIFY_SOCKET").is_none() {
        return Ok(act());
    }
    let (end_sender, end_receiver) = channel::<()>();
    let ask_for_time = move || {
        for _ in 0..MAX_REQUESTS {
            if end_receiver.recv_timeout(REQUEST_INTERVAL) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            notify(&[
                NotifyState::ExtendTimeoutUsec(MORE_USEC),
                NotifyState::Status("opening the store; a large one is repaired, migrated or compacted"),
            ]);
        }
    };
    std::thread::Builder::new().name("start-timeout".to_owned()).spawn(ask_for_time)?;
    let result = act();
    drop(end_sender);
    Ok(result)
}

pub(super) fn notify_ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Announces the stop and the time that it may take.
pub(super) fn notify_stopping(drain: Duration) {
    let status = format!("stopping: running jobs have {} s to reach a step boundary", drain.as_secs());
    let usec = u32::try_from(drain.saturating_add(AFTER_DRAIN).as_micros()).unwrap_or(u32::MAX);
    notify(&[
        NotifyState::Stopping,
        NotifyState::Status(&status),
        // So TimeoutStopSec= of the unit need not match limits.drain_s.
        NotifyState::ExtendTimeoutUsec(usec),
    ]);
}

/// Sends states to the service manager, if there is one.
pub(super) fn notify(states: &[NotifyState<'_>]) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let lines: Vec<String> = states.iter().map(ToString::to_string).collect();
    if let Err(error) = send(socket.as_bytes(), &(lines.join("\n") + "\n")) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

/// Sends to a path or, with `@`, to an abstract name. Does not block if the manager does not read.
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
    fn notify_reaches_an_abstract_socket_and_never_blocks_on_a_full_queue() {
        let name = format!("nanoclaw-test-{}", std::process::id());
        let manager = SocketAddr::from_abstract_name(&name).and_then(|at| UnixDatagram::bind_addr(&at));
        let manager = manager.expect("binds");
        let socket = format!("@{name}");
        send(socket.as_bytes(), "READY=1\nSTATUS=serving").expect("told");
        let mut received = [0; 64];
        let length = manager.recv(&mut received).expect("received");
        assert_eq!(&received[..length], b"READY=1\nSTATUS=serving");
        let full = (0..10_000).find_map(|_| send(socket.as_bytes(), "WATCHDOG=1").err());
        assert_eq!(full.expect("the queue is full").kind(), io::ErrorKind::WouldBlock);
    }
}
