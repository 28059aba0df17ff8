//! Watches a child until its exit: the broker's report, pipes, clock and cancellation in one loop.
//!
//! The end of a pipe never counts as the end of the child: a guest may close its descriptors and keep
//! running.

use std::time::Duration;

use super::child::RunChild;
use super::descendants::MOST_TASKS;
use super::memory_reserve::KernelMemoryLimit;
use super::output::{CapturedOutput, OutputRetention};
use super::quota::{DirectoryQuota, QuotaExcess};
use super::readers::OutputReaders;
use super::registry::{RunRegistration, ScarceResource};
use crate::clock::now;
use crate::error::SandboxError;
use crate::host_calls::{HostCallServer, HostCallViolation};
use crate::process::ChildExit;

/// How often cancellation is checked.
const CANCEL_POLL: Duration = Duration::from_millis(50);
/// The minimal time between two counts of a guest's threads and processes.
const COUNT_PAUSE: Duration = Duration::from_millis(25);
/// How long a supervisor may take to end its tree. It alone can kill the whole tree at once, so a busy
/// machine gets time.
const KILL_AFTER: Duration = Duration::from_secs(10);
/// How long a killed child may take to exit. Freeing much memory is slow, and one that waits for a disk may
/// never exit: it is given up then.
const GIVE_UP_AFTER: Duration = Duration::from_secs(15);
/// How long the broker may take to answer or to report an exit.
const STUCK_AFTER: Duration = Duration::from_secs(30);

/// The limits that the parent enforces.
pub(crate) struct WatchLimits<'a> {
    /// Wall clock from now.
    pub timeout: Duration,
    /// Bytes of standard output to keep.
    pub stdout_bytes: usize,
    /// Bytes of standard error to keep.
    pub stderr_bytes: usize,
    /// Maximal threads and processes; 0 if the filters forbid them anyway. `RLIMIT_NPROC` is not enough: it
    /// does not bind the real user root, and counts the server's own tasks for every other user.
    pub tasks: u64,
    /// Which part of a longer output is kept. Only with a kept tail may the guest continue to write.
    pub retention: OutputRetention,
    /// Whether the caller has cancelled.
    pub cancel: &'a dyn Fn() -> bool,
    /// Its entry among the running programs; a probe of the self-test has none.
    pub registration: Option<&'a RunRegistration<'a>>,
}

/// Why the parent ended a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    Timeout,
    Cancelled,
    /// It held most of a resource that was short.
    Scarce(ScarceResource),
    /// The kernel held too much memory for it.
    KernelMemory,
    /// Too many threads or processes.
    Tasks,
    /// The directory is too large.
    OwnDirectory(QuotaExcess),
    /// Too much standard output.
    Stdout,
    /// Too much standard error.
    Stderr,
    /// A violation of the rules for host calls.
    Host(HostCallViolation),
}

/// A run as its parent saw it.
#[derive(Debug)]
pub(crate) struct ObservedRun {
    /// `None` if the run ended by itself.
    pub stop: Option<StopReason>,
    pub exit: ChildExit,
    pub stdout: CapturedOutput,
    pub stderr: CapturedOutput,
    /// The frames of the set-up, from our own code.
    pub frames: CapturedOutput,
    /// The guest's result, in its own words.
    pub result: CapturedOutput,
    /// Wall clock.
    pub duration: Duration,
    /// The child, if it or processes of it were killed and have not exited yet.
    pub left: Option<RunChild>,
}

/// Watches until the child has exited and is reaped, or is given up. Also serves its host calls and checks
/// its private directory.
pub(crate) fn watch(
    mut guest: RunChild,
    limits: &WatchLimits<'_>,
    quota: Option<DirectoryQuota>,
    mut calls: Option<HostCallServer>,
) -> Result<ObservedRun, SandboxError> {
    let start = now();
    let mut readers =
        OutputReaders::new(guest.take_pipes()?, limits.stdout_bytes, limits.stderr_bytes, limits.retention);
    let mut monitor = LimitMonitor {
        limits,
        quota,
        next_count: Duration::ZERO,
        next_memory: COUNT_PAUSE,
        kernel_memory: KernelMemoryLimit::new(),
    };
    let mut stop: Option<(StopReason, Duration)> = None;
    let exit = loop {
        let elapsed = start.elapsed();
        if let Some((_, since)) = &stop {
            if escalate_kill(&guest, elapsed.saturating_sub(*since))? {
                break ChildExit::not_yet();
            }
        } else if let Some(reason) = monitor.check(&guest, &readers, elapsed) {
            guest.kill();
            stop = Some((reason, elapsed));
        }
        let pause = if stop.is_none() { monitor.pause(start.elapsed()) } else { CANCEL_POLL };
        let ready = readers.wait(&guest, calls.as_ref(), pause);
        let ready = ready.map_err(|error| SandboxError::Watch(error.into()))?;
        if ready.has_exited
            && let Some(exit) = guest.read_exit()?
        {
            break exit;
        }
        let violation = calls.as_mut().filter(|_| ready.has_call).and_then(|calls| calls.step().err());
        if let (Some(violation), None) = (violation, &stop) {
            guest.kill();
            stop = Some((StopReason::Host(violation), start.elapsed()));
        }
        if stop.is_some() {
            // Nobody waits for an answer any more.
            calls = None;
        }
    };
    let duration = start.elapsed();
    let [stdout, stderr, frames, result] = readers.drain();
    let stop = stop.map(|(reason, _)| reason);
    let left = exit.leaves_processes.then_some(guest);
    // Counted in any case: the next run in this directory starts from what this one left. But nobody who
    // waits for the directory's disk is waited for.
    let excess = if left.is_none() { monitor.check_at_end() } else { None };
    let stop = stop.or_else(|| overflow((stdout.is_full(), stderr.is_full()))).or(excess);
    Ok(ObservedRun { stop, exit, stdout, stderr, frames, result, duration, left })
}

/// Checks the limits while the child runs.
struct LimitMonitor<'a> {
    limits: &'a WatchLimits<'a>,
    quota: Option<DirectoryQuota>,
    next_count: Duration,
    next_memory: Duration,
    kernel_memory: KernelMemoryLimit,
}

impl LimitMonitor<'_> {
    /// The first limit that is exceeded.
    fn check(&mut self, guest: &RunChild, readers: &OutputReaders, elapsed: Duration) -> Option<StopReason> {
        if elapsed >= self.limits.timeout {
            return Some(StopReason::Timeout);
        }
        if (self.limits.cancel)() {
            return Some(StopReason::Cancelled);
        }
        if let Some(stop) = overflow(readers.are_full()) {
            return Some(stop);
        }
        let max = self.limits.tasks;
        if max > 0 && elapsed >= self.next_count {
            self.next_count = elapsed + COUNT_PAUSE;
            if guest.count_tasks(max) > max {
                return Some(StopReason::Tasks);
            }
        }
        if let Some(stop) = self.check_memory(guest, elapsed) {
            return Some(stop);
        }
        let max = if max > 0 { max } else { MOST_TASKS };
        let excess = self.quota.as_mut().and_then(|quota| quota.exceeded(guest.pid(), max, elapsed));
        excess.map(StopReason::OwnDirectory)
    }

    /// The memory of the machine, which any program may use up, and that of the kernel. Only programs with a
    /// directory can have much of that: the others may open neither sockets nor pipes.
    fn check_memory(&mut self, guest: &RunChild, elapsed: Duration) -> Option<StopReason> {
        let registration = self.limits.registration?;
        if elapsed >= self.next_memory {
            self.next_memory = elapsed.saturating_add(registration.look_at_memory());
        }
        if let Some(scarce) = registration.must_end() {
            return Some(StopReason::Scarce(scarce));
        }
        let max = self.limits.tasks;
        let is_exceeded = max > 0 && self.kernel_memory.is_exceeded(guest.pid(), max, elapsed);
        is_exceeded.then_some(StopReason::KernelMemory)
    }

    /// The time until the next check.
    fn pause(&self, elapsed: Duration) -> Duration {
        let pause = if self.limits.tasks > 0 { COUNT_PAUSE } else { CANCEL_POLL };
        let pause = pause.min(self.limits.timeout.saturating_sub(elapsed));
        let has_memory = self.limits.registration.is_some();
        let pause = if has_memory { pause.min(self.next_memory.saturating_sub(elapsed)) } else { pause };
        self.quota.as_ref().map_or(pause, |quota| pause.min(quota.pause(elapsed)))
    }

    /// The directory limit, checked once more after the child has exited.
    fn check_at_end(&self) -> Option<StopReason> {
        let excess = self.quota.as_ref().and_then(DirectoryQuota::exceeded_at_end);
        excess.map(StopReason::OwnDirectory)
    }
}

fn overflow(are_full: (bool, bool)) -> Option<StopReason> {
    match are_full {
        (true, _) => Some(StopReason::Stdout),
        (false, true) => Some(StopReason::Stderr),
        (false, false) => None,
    }
}

/// After a kill: sends SIGKILL to a supervisor that does not exit, and asks the broker whether it works. True
/// if it does, but the child cannot be ended now. An error if it does not.
pub(crate) fn escalate_kill(guest: &RunChild, since_kill: Duration) -> Result<bool, SandboxError> {
    if guest.is_cancelled() {
        return Ok(since_kill > GIVE_UP_AFTER);
    }
    if since_kill > STUCK_AFTER {
        return Err(SandboxError::BrokerStuck);
    }
    if since_kill > KILL_AFTER {
        guest.kill_now();
        guest.cancel();
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, OwnedFd};

    use super::*;
    use crate::broker::{RunReply, is_peer_closed, send, socket_pair};
    use crate::run::RunPipes;

    const SECOND: Duration = Duration::from_secs(1);

    /// A child whose end the broker withholds, and the broker's end of its socket.
    fn withheld() -> (RunChild, OwnedFd) {
        let (reply, broker) = socket_pair().unwrap();
        // The signals go to a process that has exited.
        let mut child = crate::process::new_command("/bin/true".as_ref()).spawn().unwrap();
        let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
        child.wait().unwrap();
        let pipes = RunPipes::new("").unwrap();
        (RunChild::new(i32::MAX, pidfd, reply, pipes.parent_ends), broker)
    }

    #[test]
    fn a_child_that_does_not_exit_is_given_up_if_the_broker_answers() {
        let (mut guest, broker) = withheld();
        assert!(!escalate_kill(&guest, KILL_AFTER.saturating_sub(SECOND)).unwrap());
        assert!(!is_peer_closed(&broker), "the supervisor still has time");
        assert!(!escalate_kill(&guest, KILL_AFTER + SECOND).unwrap());
        assert!(is_peer_closed(&broker), "the broker is asked");
        send(broker.as_fd(), &RunReply::Cancelled, &[]).unwrap();
        assert!(guest.read_exit().unwrap().is_none());
        assert!(!escalate_kill(&guest, GIVE_UP_AFTER.saturating_sub(SECOND)).unwrap());
        assert!(escalate_kill(&guest, GIVE_UP_AFTER + SECOND).unwrap());
        let first = ChildExit::not_yet();
        send(broker.as_fd(), &RunReply::ended(&first), &[]).unwrap();
        send(broker.as_fd(), &RunReply::ended(&ChildExit { leaves_processes: false, ..first }), &[]).unwrap();
        assert!(guest.wait_until_gone());
    }

    #[test]
    fn a_broker_that_does_not_answer_is_stuck() {
        let (guest, broker) = withheld();
        assert!(!escalate_kill(&guest, STUCK_AFTER.saturating_sub(SECOND)).unwrap());
        assert!(matches!(escalate_kill(&guest, STUCK_AFTER + SECOND), Err(SandboxError::BrokerStuck)));
        drop(broker);
        assert!(!guest.wait_until_gone());
    }
}
