//! One zygote as the broker sees it: its queue of runs, its spare children, its replies.

use std::collections::VecDeque;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::RecvFlags;
use rustix::process::{Pid, Signal};

use super::ruleset_cache::RulesetCache;
use super::spec::ZygoteSpec;
use super::start::become_zygote;
use crate::broker::{
    RunRequest, RunTask, SpareChild, ZygoteReply, ZygoteRunRequest, is_disconnected, is_peer_closed, receive,
    send, send_failure, socket_pair,
};
use crate::child::RunFds;
use crate::clock::now;
use crate::memory_file::memory_file;
use crate::policy::SeccompFilters;
use crate::sys::{self, ForkResult};

/// A zygote is replaced after this number of runs: its children share a hash seed and an address layout.
const MAX_RUNS: u64 = 1_000;
/// It is also replaced after this time.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);
/// Spare children per zygote: one for the next run, and one in preparation.
const SPARE_CHILDREN: usize = 2;
/// After this number of dead spare children in a row, the queued runs fail.
const MAX_DEAD_SPARES: u32 = 3;
/// How long a zygote may take to become warm. Large modules are slow to import.
const WARM_UP_TIMEOUT: Duration = Duration::from_secs(50);
/// How long a warm one may take to fork. A fork takes milliseconds.
const FORK_TIMEOUT: Duration = Duration::from_secs(5);
/// How much is read of a dead zygote's standard error.
const MAX_STDERR_BYTES: u64 = 4 * 1024;

/// A run that has got a child, and the socket to its caller.
pub(crate) struct StartedRun {
    pub(crate) pid: i32,
    pub(crate) reply: OwnedFd,
}

/// A run that waits for a child.
pub(super) struct QueuedRun {
    pub(super) request: RunRequest,
    pub(super) fds: RunFds,
    pub(super) reply: OwnedFd,
}

pub(super) struct ZygoteProcess {
    pub(super) spec: ZygoteSpec,
    pid: i32,
    socket: OwnedFd,
    stderr: OwnedFd,
    pub(super) is_ready: bool,
    /// Another zygote replaces it: it gets no new runs.
    pub(super) is_retired: bool,
    runs: u64,
    started_at: Instant,
    last_used: Instant,
    /// How long it stays after its last run: the longest time of all its runs. `None`: until it is replaced.
    max_idle: Option<Duration>,
    queue: VecDeque<QueuedRun>,
    /// The oldest first: the newest may still prepare itself.
    spares: VecDeque<SpareChild>,
    /// The sockets of requested children that it has not reported yet, in the order of the requests.
    pending_forks: VecDeque<OwnedFd>,
    /// The time of the first pending request, or of the last reply.
    waiting_since: Instant,
    /// Spare children in a row that were dead when a run came.
    dead_spares: u32,
    /// The processes that were killed and have to be reaped.
    pub(super) killed: Vec<i32>,
    rulesets: RulesetCache,
}

impl ZygoteProcess {
    pub(super) fn start(spec: &ZygoteSpec, filters: &SeccompFilters) -> io::Result<Self> {
        let (socket, zygote_end) = socket_pair()?;
        let stderr = memory_file(&[])?;
        let pid = match sys::fork()? {
            ForkResult::Child => become_zygote(spec, &zygote_end, &stderr, filters),
            ForkResult::Parent(pid) => pid,
        };
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Self {
            spec: spec.clone(),
            pid,
            socket,
            stderr,
            is_ready: false,
            is_retired: false,
            runs: 0,
            started_at: now(),
            last_used: now(),
            max_idle: Some(Duration::ZERO),
            queue: VecDeque::new(),
            spares: VecDeque::new(),
            pending_forks: VecDeque::new(),
            waiting_since: now(),
            dead_spares: 0,
            killed: Vec::new(),
            rulesets: RulesetCache::default(),
        })
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether a run waits for it, or a child is about to be reported.
    pub(super) fn is_busy(&self) -> bool {
        self.has_pending_forks() || !self.queue.is_empty()
    }

    pub(super) fn has_pending_forks(&self) -> bool {
        !self.pending_forks.is_empty()
    }

    pub(super) fn is_expired(&self) -> bool {
        self.runs >= MAX_RUNS || self.started_at.elapsed() > MAX_AGE
    }

    /// Whether this is its process id, or that of one of its spare children.
    pub(super) fn contains(&self, pid: i32) -> bool {
        self.pid == pid || self.spares.iter().any(|spare| spare.pid == pid)
    }

    /// Drops the queued runs whose callers no longer wait.
    pub(super) fn drop_cancelled_runs(&mut self) {
        self.queue.retain(|run| !is_peer_closed(&run.reply));
    }

    /// Ends the spare children that were requested for cancelled runs.
    pub(super) fn drop_surplus_spares(&mut self) {
        if self.queue.is_empty() {
            let surplus = self.spares.len().saturating_sub(SPARE_CHILDREN);
            self.killed.extend(self.spares.drain(..surplus).map(|spare| spare.kill()));
        }
    }

    /// How long it stays if no run comes; `None` while it warms up, and if it has no limit.
    pub(super) fn idle_time_left(&self) -> Option<Duration> {
        let max_idle = self.max_idle.filter(|_| self.is_ready)?;
        Some(max_idle.saturating_sub(self.last_used.elapsed()))
    }

    /// Gives a run to a spare child, now or when there is one.
    pub(super) fn enqueue(&mut self, run: QueuedRun, started: &mut Vec<StartedRun>) {
        self.last_used = now();
        if let RunTask::Python { zygote_idle_s, .. } = &run.request.task {
            let wanted = zygote_idle_s.map(Duration::from_secs);
            self.max_idle = self.max_idle.zip(wanted).map(|(current, wanted)| current.max(wanted));
        }
        self.queue.push_back(run);
        self.assign_runs(started);
    }

    /// Assigns queued runs to spare children, and requests the children that will be needed next.
    fn assign_runs(&mut self, started: &mut Vec<StartedRun>) {
        while !self.queue.is_empty()
            && let Some(spare) = self.spares.pop_front()
        {
            self.assign_first_run(&spare, started);
        }
        let ends_soon = self.is_retired || self.max_idle == Some(Duration::ZERO);
        let ahead = if ends_soon { 0 } else { SPARE_CHILDREN };
        while self.is_ready && self.pending_forks.len() + self.spares.len() < self.queue.len() + ahead {
            match self.request_fork() {
                Ok(()) => {}
                // The next reply continues. A closed socket is noticed by the next read.
                Err(_) if self.has_pending_forks() || self.queue.is_empty() => return,
                Err(error) => {
                    self.fail_all(&format!("cannot request a Python child: {error}"));
                    return;
                }
            }
        }
    }

    /// Sends the zygote the socket of its next child. An error if the zygote's own socket is full, or if no
    /// descriptor is free.
    fn request_fork(&mut self) -> io::Result<()> {
        let (socket, child_end) = socket_pair()?;
        send(self.socket.as_fd(), &"fork", &[child_end.as_fd()])?;
        if self.pending_forks.is_empty() {
            self.waiting_since = now();
        }
        self.pending_forks.push_back(socket);
        Ok(())
    }

    /// Whether it has warmed up and forked in time.
    pub(super) fn is_answering(&self) -> bool {
        if self.is_ready {
            self.pending_forks.is_empty() || self.waiting_since.elapsed() < FORK_TIMEOUT
        } else {
            self.started_at.elapsed() < WARM_UP_TIMEOUT
        }
    }

    /// Sends the first queued run to a spare child. If the child is dead, the run stays in the queue.
    fn assign_first_run(&mut self, spare: &SpareChild, started: &mut Vec<StartedRun>) {
        let Some(run) = self.queue.pop_front() else { return };
        match send_run(spare, &run, &mut self.rulesets) {
            Ok(()) => {
                self.runs += 1;
                self.dead_spares = 0;
                started.push(StartedRun { pid: spare.pid, reply: run.reply });
            }
            Err(SendRunError::ChildDead) => {
                self.killed.push(spare.kill());
                self.dead_spares += 1;
                self.queue.push_front(run);
                if self.dead_spares >= MAX_DEAD_SPARES {
                    let reason = self.last_stderr_line();
                    self.fail_all(&format!("Python children die before they are given a run: {reason}"));
                }
            }
            Err(SendRunError::Rejected(message)) => {
                self.killed.push(spare.kill());
                send_failure(&run.reply, message);
            }
        }
    }

    /// Handles its replies; false once it is gone.
    pub(super) fn read_replies(&mut self, started: &mut Vec<StartedRun>) -> bool {
        loop {
            let packet = match receive(&self.socket, RecvFlags::empty()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Ok(Some(packet)) => packet,
                Ok(None) | Err(_) => return false,
            };
            match packet.decode::<ZygoteReply>() {
                Ok(ZygoteReply::Ready) => {
                    self.is_ready = true;
                    self.assign_runs(started);
                }
                Ok(ZygoteReply::Forked { pid }) => {
                    self.waiting_since = now();
                    let socket = self.pending_forks.pop_front();
                    self.spares.extend(socket.map(|socket| SpareChild { pid, socket }));
                    self.assign_runs(started);
                }
                Ok(ZygoteReply::Failed { message }) if self.is_ready => {
                    drop(self.pending_forks.pop_front());
                    // The queue is empty if the fork was for a spare child.
                    if let Some(run) = self.queue.pop_front() {
                        send_failure(&run.reply, message);
                    }
                }
                Ok(ZygoteReply::Failed { message }) => {
                    self.fail_all(&message);
                    return false;
                }
                Err(error) => {
                    self.fail_all(&format!("the Python zygote sent an invalid reply: {error}"));
                    return false;
                }
            }
        }
    }

    /// Fails the queued runs after the zygote died or stopped answering.
    pub(super) fn fail_queued_runs(&mut self) {
        let level = self.spec.level;
        let message = if self.is_answering() {
            format!("the Python zygote of level {level} died: {}", self.last_stderr_line())
        } else {
            let action = if self.is_ready { "answer" } else { "become warm" };
            format!("the Python zygote of level {level} does not {action}; it has been ended")
        };
        self.fail_all(&message);
    }

    /// The last line that the zygote or its spare children wrote to standard error.
    fn last_stderr_line(&self) -> String {
        let mut text = String::new();
        // Empty if no descriptor is free.
        if let Ok(copy) = self.stderr.try_clone() {
            let mut file = File::from(copy);
            if file.rewind().is_ok() {
                file.take(MAX_STDERR_BYTES).read_to_string(&mut text).ok();
            }
        }
        text.trim().lines().last().unwrap_or("it said nothing").to_owned()
    }

    /// Kills it and its spare children. Children with a run are the broker's and continue.
    pub(super) fn kill(&mut self) {
        self.killed.extend(self.spares.drain(..).map(|spare| spare.kill()));
        if let Some(pid) = Pid::from_raw(self.pid) {
            // It may be dead already.
            rustix::process::kill_process(pid, Signal::KILL).ok();
        }
        self.killed.push(self.pid);
    }

    fn fail_all(&mut self, message: &str) {
        for run in self.queue.drain(..) {
            send_failure(&run.reply, message.to_owned());
        }
    }
}

/// Why a spare child has not got a run.
enum SendRunError {
    ChildDead,
    /// The run itself is not possible.
    Rejected(String),
}

fn send_run(spare: &SpareChild, run: &QueuedRun, rulesets: &mut RulesetCache) -> Result<(), SendRunError> {
    let QueuedRun { request, fds, .. } = run;
    let rejected = |error: &dyn Display| SendRunError::Rejected(error.to_string());
    let RunTask::Python { language_check, max_level, .. } = request.task else {
        return Err(rejected(&"it is not Python"));
    };
    let ruleset = rulesets.get(request.landlock_abi, &request.files).map_err(|error| rejected(&error))?;
    let message = ZygoteRunRequest {
        language_check,
        max_level,
        directory: request.directory.clone(),
        limits: request.limits.clone(),
    };
    // Each run gets a standard input of its own: locks and flags of an open file outlive a run that set them.
    let null = File::open("/dev/null").map_err(|error| rejected(&error))?;
    let mut descriptors = fds.descriptors();
    descriptors.extend([ruleset.as_fd(), null.as_fd()]);
    send(spare.socket.as_fd(), &message, &descriptors)
        .map_err(|error| if is_disconnected(&error) { SendRunError::ChildDead } else { rejected(&error) })
}
