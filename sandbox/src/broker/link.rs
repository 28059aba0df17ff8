//! The server's end of the broker: starts it, orders runs from it, starts another one when it has died.
//!
//! Refuses: to run a program twice. An order that may have reached a broker is not repeated.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use super::order::{Order, Reply, Task};
use super::packet::{self, Packet};
use crate::child::{BROKER_MARKER, NETWORK_ARGUMENT};
use crate::clock::now;
use crate::error::SandboxError;
use crate::guest::{Ends, Guest};
use crate::layers::LayersReport;

/// How long the broker may take to fork on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// How long it may take to start a child of a zygote, whose own time to warm up is shorter: the broker tells of that.
const ZYGOTE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a caller that has cancelled waits for the word that nothing runs: its directory is removed next.
const LET_GO_TIMEOUT: Duration = Duration::from_millis(150);
/// How long a full socket may stay full before the broker counts as stuck.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a broker may take to begin, of which it tells.
const HELLO_TIMEOUT: Duration = Duration::from_secs(3);
/// How often a waiting caller is asked whether it has been cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(50);
/// How long a broker whose socket is closed may take to be dead.
const DYING: Duration = Duration::from_millis(500);
/// How long a broker that was let go may take to end its children.
const CLOSING_TIMEOUT: Duration = Duration::from_secs(2);

/// The broker, or none yet.
#[derive(Debug)]
pub(crate) struct Link {
    exe: PathBuf,
    has_network: bool,
    broker: Mutex<Option<Arc<Broker>>>,
}

/// A broker process and the socket to it.
#[derive(Debug)]
struct Broker {
    control: OwnedFd,
    process: Mutex<Child>,
    /// Whether it has ever answered: what dies before may be no broker at all.
    has_answered: AtomicBool,
    /// What it has said of itself, once that was asked for.
    layers: Mutex<Option<LayersReport>>,
}

impl Link {
    /// A link to a broker that `exe` becomes, with the network if commands may have it. Nothing is started yet.
    pub(crate) fn new(exe: &Path, has_network: bool) -> Self {
        Self { exe: exe.to_owned(), has_network, broker: Mutex::new(None) }
    }

    /// Starts the broker unless it runs.
    pub(crate) fn connect(&self) -> Result<(), SandboxError> {
        self.broker().map(drop)
    }

    /// The optional layers that are in force in the broker, or why that is not known.
    pub(crate) fn layers(&self) -> LayersReport {
        let told = self.broker().and_then(|broker| broker.layers());
        told.unwrap_or_else(|error| LayersReport::unknown(&error))
    }

    /// Orders a run. Waits for its start, at the longest until `cancel` says so.
    pub(crate) fn run(
        &self,
        order: &Order,
        ends: Ends,
        cancel: &dyn Fn() -> bool,
    ) -> Result<Guest, SandboxError> {
        let (reply, theirs) =
            packet::pair().map_err(|source| SandboxError::MakeDescriptor { what: "reply", source })?;
        let descriptors: Vec<BorrowedFd<'_>> =
            std::iter::once(&theirs).chain(&ends.theirs).chain(&ends.extra).map(AsFd::as_fd).collect();
        let broker = self.broker()?;
        let broker = match packet::send(broker.control.as_fd(), order, &descriptors) {
            Ok(()) => broker,
            // It died between two runs: nobody took the order.
            Err(error) if packet::is_hang_up(&error) => {
                self.forget(&broker);
                let broker = self.broker()?;
                match packet::send(broker.control.as_fd(), order, &descriptors) {
                    Err(error) if packet::is_hang_up(&error) => {
                        return Err(SandboxError::NoBroker { path: self.exe.clone() });
                    }
                    sent => sent.map_err(SandboxError::Order)?,
                }
                broker
            }
            Err(error) => return Err(SandboxError::Order(error)),
        };
        drop((theirs, ends.theirs, ends.extra));
        let is_python = matches!(order.task, Task::Python { .. });
        match await_start(&reply, if is_python { ZYGOTE_TIMEOUT } else { START_TIMEOUT }, cancel) {
            Ok((pid, pidfd)) => {
                broker.has_answered.store(true, Ordering::Relaxed);
                let guest = Guest::new(pid, pidfd, reply, ends.ours);
                Ok(if matches!(order.task, Task::Shell(_)) { guest.asked_first() } else { guest })
            }
            // It has no descriptor left for the order, or none for the reply; its other runs go on.
            Err(SandboxError::BrokerDied) if !broker.is_dead() => {
                Err(SandboxError::Broker("the sandbox's broker dropped the run: too many at once".to_owned()))
            }
            Err(error) => {
                if matches!(error, SandboxError::BrokerDied | SandboxError::BrokerStuck) {
                    self.forget(&broker);
                }
                if matches!(error, SandboxError::BrokerDied) && !broker.has_answered.load(Ordering::Relaxed) {
                    return Err(SandboxError::NoBroker { path: self.exe.clone() });
                }
                Err(error)
            }
        }
    }

    /// Ends a broker that no longer does its work. The next run starts another one.
    pub(crate) fn reset(&self) {
        if let Some(broker) = self.lock().take() {
            broker.kill();
        }
    }

    fn broker(&self) -> Result<Arc<Broker>, SandboxError> {
        let mut broker = self.lock();
        if let Some(running) = &*broker {
            return Ok(Arc::clone(running));
        }
        let started = Arc::new(Broker::start(&self.exe, self.has_network)?);
        *broker = Some(Arc::clone(&started));
        Ok(started)
    }

    fn forget(&self, dead: &Arc<Broker>) {
        let mut broker = self.lock();
        if broker.as_ref().is_some_and(|current| Arc::ptr_eq(current, dead)) {
            *broker = None;
        }
        drop(broker);
        dead.kill();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Broker>>> {
        self.broker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Broker {
    /// The binary again, with nothing of ours but one end of a socket pair as its standard input.
    fn start(exe: &Path, has_network: bool) -> Result<Self, SandboxError> {
        let fail = |source: io::Error| SandboxError::StartBroker { path: exe.to_owned(), source };
        let (control, theirs) = packet::pair().map_err(fail)?;
        set_socket_timeout(&control, Timeout::Send, Some(SEND_TIMEOUT))
            .map_err(|error| fail(error.into()))?;
        let process = new_command(exe)
            .arg(BROKER_MARKER)
            .args(has_network.then_some(NETWORK_ARGUMENT))
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(fail)?;
        let (has_answered, layers) = (AtomicBool::new(false), Mutex::default());
        Ok(Self { control, process: Mutex::new(process), has_answered, layers })
    }

    /// The first thing it says, and the only one on this socket.
    fn layers(&self) -> Result<LayersReport, SandboxError> {
        let mut layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(told) = &*layers {
            return Ok(told.clone());
        }
        let start = now();
        while !wait_until_readable(&self.control, CANCEL_POLL)
            .map_err(|error| SandboxError::Watch(error.into()))?
        {
            if start.elapsed() > HELLO_TIMEOUT {
                return Err(SandboxError::BrokerStuck);
            }
        }
        let hello = packet::receive(&self.control, RecvFlags::DONTWAIT).map_err(SandboxError::Watch)?;
        let told: LayersReport =
            hello.ok_or(SandboxError::BrokerDied)?.decode().map_err(SandboxError::Watch)?;
        Ok(layers.insert(told).clone())
    }

    /// Whether it has ended, or does so in a moment: its socket closes first.
    fn is_dead(&self) -> bool {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        wait_for_end(&process, DYING);
        !matches!(process.try_wait(), Ok(None))
    }

    fn kill(&self) {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        // It may be gone already; that is what is wanted.
        process.kill().ok();
        process.wait().ok();
        drop(process);
        if let Ok(told) = self.layers() {
            told.clean_up();
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // The end of the socket is its order to end every child and itself.
        rustix::net::shutdown(&self.control, rustix::net::Shutdown::Both).ok();
        let process = self.process.get_mut().unwrap_or_else(PoisonError::into_inner);
        wait_for_end(process, CLOSING_TIMEOUT);
        self.kill();
    }
}

fn wait_for_end(process: &Child, patience: Duration) {
    let pid = i32::try_from(process.id()).ok().and_then(rustix::process::Pid::from_raw);
    let pidfd = pid.map(|pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()));
    if let Some(Ok(pidfd)) = pidfd {
        wait_until_readable(&pidfd, patience).ok();
    }
}

/// A command; the only place of the crate that makes one.
#[expect(clippy::disallowed_methods, reason = "this module is where the sandbox starts programs")]
pub(crate) fn new_command(exe: &Path) -> Command {
    Command::new(exe)
}

fn await_start(
    reply: &OwnedFd,
    patience: Duration,
    cancel: &dyn Fn() -> bool,
) -> Result<(i32, OwnedFd), SandboxError> {
    let start = now();
    while !wait_until_readable(reply, CANCEL_POLL).map_err(|error| SandboxError::Watch(error.into()))? {
        if cancel() {
            let_go(reply);
            return Err(SandboxError::Cancelled);
        }
        if start.elapsed() > patience {
            return Err(SandboxError::BrokerStuck);
        }
    }
    let packet = packet::receive(reply, RecvFlags::empty()).map_err(SandboxError::Watch)?;
    let Some(Packet { bytes, descriptors }) = packet else { return Err(SandboxError::BrokerDied) };
    let said = serde_json::from_slice(&bytes).map_err(|error| SandboxError::Watch(error.into()))?;
    match (said, descriptors.into_iter().next()) {
        (Reply::Started { pid }, Some(pidfd)) => Ok((pid, pidfd)),
        (Reply::Failed { message }, _) => Err(SandboxError::Broker(message)),
        (Reply::Started { .. } | Reply::Ended { .. }, _) => {
            Err(SandboxError::Broker("the broker's answer makes no sense".to_owned()))
        }
    }
}

/// Tells the broker that nobody waits for a run any more, and gives it the time to end what may have begun.
fn let_go(reply: &OwnedFd) {
    rustix::net::shutdown(reply, rustix::net::Shutdown::Write).ok();
    let start = now();
    while let Some(left) = LET_GO_TIMEOUT.checked_sub(start.elapsed())
        && wait_until_readable(reply, left).unwrap_or(false)
        && matches!(packet::receive(reply, RecvFlags::empty()), Ok(Some(_)))
    {}
}

/// Waits until there is something to read, or the other end is closed; false once `patience` is over.
pub(crate) fn wait_until_readable(descriptor: impl AsFd, patience: Duration) -> rustix::io::Result<bool> {
    let timeout = Timespec::try_from(patience).map_err(|_| Errno::INVAL)?;
    match rustix::event::poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}
