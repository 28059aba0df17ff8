//! The server's end of the broker: starts it, requests runs, starts another one after its death.
//!
//! A run never starts twice: a request that may have reached a broker is not repeated.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::net::RecvFlags;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::Signal;

use super::packet::{self, Packet};
use super::protocol::{BROKER_MARKER, NETWORK_ARGUMENT, RunReply, RunRequest, RunTask};
use crate::clock::now;
use crate::error::SandboxError;
use crate::layers::{self, LayersReport};
use crate::process::{end_child, new_command, wait_for_exit, wait_until_readable};
use crate::run::{RunChild, RunPipes};

/// How long the broker may take to send its first message, and to fork, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// How long it may take to start a child of a zygote. The broker's own timeout for a zygote's warm-up is
/// shorter, and its message says more.
const ZYGOTE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a cancelled caller waits until nothing runs any more: its directory is removed next.
const CANCEL_TIMEOUT: Duration = Duration::from_millis(150);
/// How long the socket may stay full before the broker counts as stuck.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// How often cancellation is checked while a caller waits.
const CANCEL_POLL: Duration = Duration::from_millis(50);
/// How long a broker whose socket is closed may take to exit.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a broker may take to end its children after the request to exit.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Starts runs in a broker, and starts the broker when needed.
#[derive(Debug)]
pub(crate) struct BrokerClient {
    exe: PathBuf,
    has_network: bool,
    broker: Mutex<Option<Arc<BrokerProcess>>>,
}

/// A broker process and the socket to it.
#[derive(Debug)]
struct BrokerProcess {
    control: OwnedFd,
    process: Mutex<ProcessState>,
    /// Whether it has ever answered. A process that dies before may be another program.
    has_answered: AtomicBool,
    /// Its first message, once it has been read.
    layers: Mutex<Option<LayersReport>>,
}

/// A process until it is killed, then its exit status.
#[derive(Debug)]
enum ProcessState {
    Running(Child),
    /// `None`: it is killed, but has not exited.
    Killed(Option<ExitStatus>),
}

impl ProcessState {
    /// Its exit status, if it has exited.
    fn status(&mut self) -> Option<ExitStatus> {
        match self {
            Self::Running(process) => process.try_wait().ok().flatten(),
            Self::Killed(status) => *status,
        }
    }

    /// Waits for its exit if it runs.
    fn wait(&self, timeout: Duration) {
        if let Self::Running(process) = self {
            wait_for_exit(process, timeout);
        }
    }
}

impl BrokerClient {
    /// A client for a broker that `exe` becomes. With `has_network`, commands may use the network. Starts
    /// nothing.
    pub(crate) fn new(exe: &Path, has_network: bool) -> Self {
        Self { exe: exe.to_owned(), has_network, broker: Mutex::new(None) }
    }

    /// Starts the broker unless it runs.
    pub(crate) fn connect(&self) -> Result<(), SandboxError> {
        self.broker().map(drop)
    }

    /// The optional layers that are in force in the broker, or why they are not known.
    pub(crate) fn layers(&self) -> LayersReport {
        let report = self.broker().and_then(|broker| broker.layers());
        report.unwrap_or_else(|error| LayersReport::unknown(&error))
    }

    /// Starts a run and waits until its child exists, or until `cancel` returns true.
    pub(crate) fn start_run(
        &self,
        request: &RunRequest,
        pipes: RunPipes,
        cancel: &dyn Fn() -> bool,
    ) -> Result<RunChild, SandboxError> {
        let (reply, broker_end) =
            packet::socket_pair().map_err(|source| SandboxError::MakeDescriptor { what: "reply", source })?;
        let descriptors: Vec<BorrowedFd<'_>> = std::iter::once(&broker_end)
            .chain(&pipes.child_ends)
            .chain(&pipes.extra)
            .map(AsFd::as_fd)
            .collect();
        let broker = self.send(request, &descriptors)?;
        drop((broker_end, pipes.child_ends, pipes.extra));
        let is_python = matches!(request.task, RunTask::Python { .. });
        match await_start(&reply, if is_python { ZYGOTE_TIMEOUT } else { START_TIMEOUT }, cancel) {
            Ok((pid, pidfd)) => {
                broker.has_answered.store(true, Ordering::Relaxed);
                let mut guest = RunChild::new(pid, pidfd, reply, pipes.parent_ends);
                if matches!(request.task, RunTask::Shell(_)) {
                    guest.end_signal = Signal::TERM;
                }
                Ok(guest)
            }
            // The broker had no descriptor left for the request or for the reply. Its other runs continue.
            Err(SandboxError::BrokerDied) if !broker.has_exited() => {
                Err(SandboxError::Broker("the sandbox's broker dropped the run: too many at once".to_owned()))
            }
            Err(error) => {
                if matches!(error, SandboxError::BrokerDied | SandboxError::BrokerStuck) {
                    self.discard(&broker);
                }
                if matches!(error, SandboxError::BrokerDied) && !broker.has_answered.load(Ordering::Relaxed) {
                    return Err(broker.never_answered(&self.exe));
                }
                Err(error)
            }
        }
    }

    /// Sends a request. A broker that has died since the last run has not received it: the request goes to a
    /// new broker.
    fn send(
        &self,
        request: &RunRequest,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Arc<BrokerProcess>, SandboxError> {
        let broker = self.broker()?;
        match packet::send(broker.control.as_fd(), request, descriptors) {
            Err(error) if packet::is_disconnected(&error) => {}
            sent => return sent.map(|()| broker).map_err(SandboxError::Order),
        }
        self.discard(&broker);
        let broker = self.broker()?;
        match packet::send(broker.control.as_fd(), request, descriptors) {
            Err(error) if packet::is_disconnected(&error) => {
                self.discard(&broker);
                Err(broker.never_answered(&self.exe))
            }
            sent => sent.map(|()| broker).map_err(SandboxError::Order),
        }
    }

    /// Ends a broker that no longer answers. The next run starts another one.
    pub(crate) fn reset(&self) {
        if let Some(broker) = self.lock().take() {
            broker.kill();
        }
    }

    fn broker(&self) -> Result<Arc<BrokerProcess>, SandboxError> {
        let mut broker = self.lock();
        if let Some(running) = &*broker {
            return Ok(Arc::clone(running));
        }
        let started = Arc::new(BrokerProcess::start(&self.exe, self.has_network)?);
        *broker = Some(Arc::clone(&started));
        Ok(started)
    }

    fn discard(&self, dead: &Arc<BrokerProcess>) {
        let mut broker = self.lock();
        if broker.as_ref().is_some_and(|current| Arc::ptr_eq(current, dead)) {
            *broker = None;
        }
        drop(broker);
        dead.kill();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<BrokerProcess>>> {
        self.broker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BrokerProcess {
    /// Starts the binary again. Its standard input is one end of a socket pair; it inherits nothing else.
    fn start(exe: &Path, has_network: bool) -> Result<Self, SandboxError> {
        let fail = |source: io::Error| SandboxError::StartBroker { path: exe.to_owned(), source };
        let (control, broker_end) = packet::socket_pair().map_err(fail)?;
        set_socket_timeout(&control, Timeout::Send, Some(SEND_TIMEOUT))
            .map_err(|error| fail(error.into()))?;
        let process = new_command(exe)
            .arg(BROKER_MARKER)
            .args(has_network.then_some(NETWORK_ARGUMENT))
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(broker_end))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(fail)?;
        let (has_answered, layers) = (AtomicBool::new(false), Mutex::default());
        Ok(Self { control, process: Mutex::new(ProcessState::Running(process)), has_answered, layers })
    }

    /// The broker's first message, and the only one on this socket.
    fn layers(&self) -> Result<LayersReport, SandboxError> {
        let mut layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(report) = &*layers {
            return Ok(report.clone());
        }
        let start = now();
        while !wait_until_readable(&self.control, CANCEL_POLL)
            .map_err(|error| SandboxError::Watch(error.into()))?
        {
            if start.elapsed() > START_TIMEOUT {
                return Err(SandboxError::BrokerStuck);
            }
        }
        let hello = packet::receive(&self.control, RecvFlags::DONTWAIT).map_err(SandboxError::Watch)?;
        let report: LayersReport =
            hello.ok_or(SandboxError::BrokerDied)?.decode().map_err(SandboxError::Watch)?;
        Ok(layers.insert(report).clone())
    }

    /// Whether it has exited, or does so soon: its socket closes first.
    fn has_exited(&self) -> bool {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        process.wait(EXIT_TIMEOUT);
        matches!(*process, ProcessState::Killed(_)) || process.status().is_some()
    }

    /// The error of a process that has ended without an answer: killed, or not a broker.
    fn never_answered(&self, exe: &Path) -> SandboxError {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let reason = match process.status().map(|status| (status.signal(), status.code())) {
            Some((Some(_), _)) => return SandboxError::BrokerDied,
            Some((_, Some(super::server::SET_UP_FAILED))) => "its set-up failed".to_owned(),
            Some((_, Some(code))) => {
                format!("it exited with code {code}; does its main call child_hook first?")
            }
            _ => "does its main call child_hook first?".to_owned(),
        };
        SandboxError::NoBroker { path: exe.to_owned(), reason }
    }

    fn kill(&self) {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if let ProcessState::Running(child) = std::mem::replace(&mut *process, ProcessState::Killed(None)) {
            *process = ProcessState::Killed(end_child(child));
        }
        drop(process);
        if let Ok(report) = self.layers() {
            layers::remove_leftovers(&report);
        }
    }
}

impl Drop for BrokerProcess {
    fn drop(&mut self) {
        // When its socket closes, the broker ends its children and exits.
        rustix::net::shutdown(&self.control, rustix::net::Shutdown::Both).ok();
        let process = self.process.get_mut().unwrap_or_else(PoisonError::into_inner);
        process.wait(SHUTDOWN_TIMEOUT);
        self.kill();
    }
}

fn await_start(
    reply: &OwnedFd,
    timeout: Duration,
    cancel: &dyn Fn() -> bool,
) -> Result<(i32, OwnedFd), SandboxError> {
    let start = now();
    while !wait_until_readable(reply, CANCEL_POLL).map_err(|error| SandboxError::Watch(error.into()))? {
        if cancel() {
            cancel_run(reply);
            return Err(SandboxError::Cancelled);
        }
        if start.elapsed() > timeout {
            return Err(SandboxError::BrokerStuck);
        }
    }
    let packet = packet::receive(reply, RecvFlags::empty()).map_err(SandboxError::Watch)?;
    let Some(Packet { bytes, descriptors }) = packet else { return Err(SandboxError::BrokerDied) };
    let message = serde_json::from_slice(&bytes).map_err(|error| SandboxError::Watch(error.into()))?;
    match (message, descriptors.into_iter().next()) {
        (RunReply::Started { pid }, Some(pidfd)) => Ok((pid, pidfd)),
        (RunReply::Failed { message }, _) => Err(SandboxError::Broker(message)),
        (RunReply::Started { .. } | RunReply::Cancelled | RunReply::Ended { .. }, _) => {
            Err(SandboxError::Broker("the broker sent an unexpected reply".to_owned()))
        }
    }
}

/// Cancels the run, and waits until the broker has ended a child that may have started.
fn cancel_run(reply: &OwnedFd) {
    rustix::net::shutdown(reply, rustix::net::Shutdown::Write).ok();
    let start = now();
    while let Some(left) = CANCEL_TIMEOUT.checked_sub(start.elapsed())
        && wait_until_readable(reply, left).unwrap_or(false)
        && matches!(packet::receive(reply, RecvFlags::empty()), Ok(Some(_)))
    {}
}
