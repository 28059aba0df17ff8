//! Killed children that have not exited yet. A process that waits for a disk dies only when that answers:
//! nothing here waits for one.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::packet;
use super::protocol::RunReply;
use crate::clock::now;
use crate::process::ChildExit;
use crate::sys;

/// How often exits are looked for at first, and later.
const TICK: Duration = Duration::from_millis(20);
const SLOW_TICK: Duration = Duration::from_secs(1);
/// How long they are looked for often.
const FREQUENT_LOOKS: Duration = Duration::from_secs(5);
/// How long the report of a run waits for the processes that its killed supervisor has left.
const REPORT_AFTER: Duration = Duration::from_secs(3);

#[derive(Default)]
pub(super) struct Reaper {
    children: Vec<KilledChild>,
    runs: Vec<EndedRun>,
    runs_so_far: u64,
    /// The run that has changed last: new orphans are its own.
    last_run: u64,
}

struct KilledChild {
    pid: i32,
    since: Instant,
    /// The run that it belongs to.
    run: Option<u64>,
}

/// A run whose supervisor was killed. It is over when the processes that the supervisor left are gone.
struct EndedRun {
    id: u64,
    reply: OwnedFd,
    exit: ChildExit,
    since: Instant,
    is_reported: bool,
}

impl Reaper {
    /// Takes over children that were killed.
    pub(super) fn add(&mut self, pids: impl IntoIterator<Item = i32>) {
        self.children.extend(pids.into_iter().map(|pid| KilledChild { pid, since: now(), run: None }));
    }

    /// Kills a process that a killed supervisor or zygote has left.
    pub(super) fn kill_orphan(&mut self, pid: i32) {
        if let Some(pid) = Pid::from_raw(pid) {
            // It may have exited already.
            rustix::process::kill_process(pid, Signal::KILL).ok();
        }
        let run = self.runs.iter().any(|run| run.id == self.last_run).then_some(self.last_run);
        self.children.push(KilledChild { pid, since: now(), run });
    }

    /// Reports the end of a run once the processes that its killed supervisor left are gone.
    pub(super) fn add_run(&mut self, reply: OwnedFd, exit: ChildExit) {
        self.runs_so_far += 1;
        self.last_run = self.runs_so_far;
        self.runs.push(EndedRun { id: self.last_run, reply, exit, since: now(), is_reported: false });
    }

    /// Reaps the children that have exited. Returns their number.
    pub(super) fn reap(&mut self) -> usize {
        let before = self.children.len();
        let last_run = &mut self.last_run;
        self.children.retain(|child| {
            // An error: it is no child of this process any more.
            let is_left = matches!(sys::try_reap(child.pid), Ok(None));
            if let (false, Some(run)) = (is_left, child.run) {
                *last_run = run;
            }
            is_left
        });
        before.saturating_sub(self.children.len())
    }

    /// Reports the runs whose processes are gone, and those that have waited long. `may_have_more`: there may
    /// be orphans that are not known yet.
    pub(super) fn report(&mut self, may_have_more: bool) {
        let children = &self.children;
        self.runs.retain_mut(|run| {
            run.exit.leaves_processes =
                may_have_more || children.iter().any(|child| child.run == Some(run.id));
            if !run.exit.leaves_processes || !run.is_reported && run.since.elapsed() > REPORT_AFTER {
                run.is_reported = true;
                // A server that has closed the socket no longer waits for the run.
                packet::send(run.reply.as_fd(), &RunReply::ended(&run.exit), &[]).ok();
            }
            run.exit.leaves_processes
        });
    }

    /// The process ids of the children.
    pub(super) fn pids(&self) -> impl Iterator<Item = i32> {
        self.children.iter().map(|child| child.pid)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty() && self.runs.is_empty()
    }

    /// The time until the next look; `None` if there is nothing to look for.
    pub(super) fn tick(&self) -> Option<Duration> {
        let since =
            self.children.iter().map(|child| child.since).chain(self.runs.iter().map(|run| run.since));
        let newest = since.max()?;
        Some(if newest.elapsed() < FREQUENT_LOOKS { TICK } else { SLOW_TICK })
    }
}
