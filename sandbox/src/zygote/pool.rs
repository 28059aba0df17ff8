//! All zygotes of a broker: assigns runs to them, and replaces the ones that are old.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use super::process::{QueuedRun, StartedRun, ZygoteProcess};
use crate::broker::{RunRequest, RunTask};
use crate::child::RunFds;
use crate::policy::SeccompFilters;

#[derive(Default)]
pub(crate) struct ZygotePool {
    zygotes: Vec<ZygoteProcess>,
    started: Vec<StartedRun>,
    /// The processes of removed zygotes that have to be reaped.
    killed: Vec<i32>,
}

impl ZygotePool {
    /// Gives a run to the zygote with its specification, and starts one if there is none.
    pub(crate) fn submit(
        &mut self,
        request: RunRequest,
        fds: RunFds,
        reply: OwnedFd,
        filters: &SeccompFilters,
    ) -> Result<(), (OwnedFd, String)> {
        let RunTask::Python { zygote: spec, .. } = &request.task else {
            return Err((reply, "only Python has zygotes".to_owned()));
        };
        for zygote in &mut self.zygotes {
            zygote.is_retired |= zygote.spec.level == spec.level && zygote.spec.id != spec.id;
        }
        let matches_spec = |zygote: &ZygoteProcess| zygote.spec.id == spec.id && !zygote.is_retired;
        // An expired one still serves until its successor is warm.
        let is_missing = !self.zygotes.iter().any(|zygote| matches_spec(zygote) && !zygote.is_expired());
        if is_missing {
            match ZygoteProcess::start(spec, filters) {
                Ok(zygote) => self.zygotes.push(zygote),
                Err(error) => return Err((reply, format!("cannot start a Python zygote: {error}"))),
            }
        }
        let mut matching = self.zygotes.iter_mut().filter(|zygote| matches_spec(zygote));
        let selected = matching.next().map(|first| match matching.next() {
            Some(successor) if successor.is_ready => {
                first.is_retired = true;
                successor
            }
            _ => first,
        });
        match selected {
            Some(zygote) => {
                zygote.enqueue(QueuedRun { request, fds, reply }, &mut self.started);
                Ok(())
            }
            None => Err((reply, "there is no Python zygote".to_owned())),
        }
    }

    /// The sockets that the broker polls.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.zygotes.iter().map(ZygoteProcess::socket)
    }

    /// Handles the replies of all zygotes and ends those that no longer answer. True if one of them may have
    /// left a child that it has not reported.
    pub(crate) fn read_replies(&mut self) -> bool {
        let mut may_leave_child = false;
        self.zygotes.retain_mut(|zygote| {
            zygote.drop_cancelled_runs();
            let had_pending_forks = zygote.has_pending_forks();
            let is_alive = zygote.read_replies(&mut self.started) && zygote.is_answering();
            if !is_alive {
                may_leave_child |= had_pending_forks;
                zygote.fail_queued_runs();
                zygote.kill();
                self.killed.append(&mut zygote.killed);
            }
            is_alive
        });
        may_leave_child
    }

    /// Whether a run waits for a child.
    pub(crate) fn is_busy(&self) -> bool {
        self.zygotes.iter().any(ZygoteProcess::is_busy)
    }

    /// The time until the next idle zygote is to be ended, if one will be.
    pub(crate) fn next_idle_end(&self) -> Option<Duration> {
        self.zygotes.iter().filter_map(ZygoteProcess::idle_time_left).min()
    }

    /// The runs that have got a child since the last call.
    pub(crate) fn take_started(&mut self) -> Vec<StartedRun> {
        std::mem::take(&mut self.started)
    }

    /// Ends zygotes that are retired or idle, and surplus spare children.
    pub(crate) fn remove_unused(&mut self) {
        self.zygotes.iter_mut().for_each(ZygoteProcess::drop_surplus_spares);
        let fresh = self.zygotes.iter().filter(|zygote| zygote.is_ready && !zygote.is_expired());
        let successors: Vec<u64> = fresh.map(|zygote| zygote.spec.id).collect();
        for zygote in &mut self.zygotes {
            zygote.is_retired |= zygote.is_expired() && successors.contains(&zygote.spec.id);
        }
        self.zygotes.retain_mut(|zygote| {
            let is_idle = zygote.idle_time_left() == Some(Duration::ZERO);
            // A busy one may be about to report a child.
            let stays = zygote.is_busy() || !(zygote.is_retired || is_idle);
            if !stays {
                zygote.kill();
            }
            self.killed.append(&mut zygote.killed);
            stays
        });
    }

    /// Ends all zygotes and their spare children.
    pub(crate) fn end_all(&mut self) {
        for mut zygote in self.zygotes.drain(..) {
            zygote.kill();
            self.killed.append(&mut zygote.killed);
        }
    }

    /// The processes that were killed since the last call, to be reaped.
    pub(crate) fn take_killed(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.killed)
    }

    /// Whether a zygote may have a child that it has not reported yet.
    pub(crate) fn has_pending_forks(&self) -> bool {
        self.zygotes.iter().any(ZygoteProcess::has_pending_forks)
    }

    /// Whether this is the process id of a zygote or of a spare child.
    pub(crate) fn contains(&self, pid: i32) -> bool {
        self.zygotes.iter().any(|zygote| zygote.contains(pid))
    }
}
