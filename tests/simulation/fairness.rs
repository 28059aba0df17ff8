//! Checks the order of claims: within a conversation, after other jobs, between priorities, and between
//! users.

use super::known_job::Known;
use super::oracle::Oracle;
use nanoclaw::domain::id::UserId;
use nanoclaw::domain::job::Job;
use nanoclaw::ports::NodeStore;
use std::collections::BTreeSet;

/// How often one user may be served while another one waits, not counting jobs that left the queue.
const FAIR_BOUND: u64 = 2;
/// The waiting time that counts as one priority, as in the limits.
const AGEING_MS: u64 = 60_000;

impl Oracle {
    /// Checks that jobs of a conversation run one after the other in order of acceptance.
    pub(crate) fn check_turn(&mut self, store: &dyn NodeStore, job: &Job) {
        let Some(name) = job.conversation_id.as_ref().map(|name| name.as_str().to_owned()) else { return };
        let Some(number) = self.jobs.get(&job.id).map(|known| known.number) else { return };
        let is_earlier = |known: &Known| {
            known.number < number && known.user == job.user && known.conversation.as_ref() == Some(&name)
        };
        let earlier = self.jobs.iter().filter(|(_, known)| is_earlier(known));
        let late: Vec<_> = earlier
            .filter_map(|(id, known)| store.job(known.user, *id).ok().flatten())
            .filter(|row| !row.status.is_terminal())
            .map(|row| format!("{} runs before {} of its conversation has ended", job.id, row.id))
            .collect();
        self.violations.extend(late);
    }

    /// Checks that the jobs that this one comes after have ended, unless they run again.
    pub(crate) fn check_predecessors(&mut self, store: &dyn NodeStore, job: &Job) {
        let after = self.jobs.get(&job.id).map(|known| known.after.clone()).unwrap_or_default();
        let known = after.iter().filter_map(|id| Some((*id, self.jobs.get(id)?)));
        let late: Vec<_> = known
            .filter(|(_, known)| known.retries == 0)
            .filter_map(|(id, known)| store.job(known.user, id).ok().flatten())
            .filter(|row| !row.status.is_terminal())
            .map(|row| format!("{} runs before {} has ended, after which it comes", job.id, row.id))
            .collect();
        self.violations.extend(late);
    }

    /// Checks the rank by priority and waiting time: a job precedes one of lower number only after enough
    /// waiting, and a job that has waited enough is not passed over.
    pub(crate) fn check_rank(&mut self, job: &Job, now_ms: u64) {
        let level = u64::from(job.priority.level());
        let Some(known) = self.jobs.get(&job.id).filter(|known| known.is_plain) else { return };
        let rank = level * AGEING_MS + known.since_ms.min(now_ms);
        let before = |other: &&Known| {
            other.waits()
                && u64::from(other.priority) * AGEING_MS + now_ms < rank
                && other.priority < job.priority.level()
        };
        if let Some(other) = self.jobs.values().find(before) {
            let what = format!("{} of priority {level} runs before one of {}", job.id, other.priority);
            self.violations.push(what);
        }
        // Only if no other job of its level may precede it and all acceptance times are exact.
        let is_quiet =
            self.counts.crashes + self.counts.restarts + self.counts.troubles == 0 && !self.is_mixed;
        let is_alone = |other: &Known| {
            self.jobs
                .values()
                .filter(|k| k.priority == other.priority && !k.has_ended && k.claims == 0)
                .count()
                == 1
        };
        let passed_over = |other: &&Known| {
            let its_rank = u64::from(other.priority) * AGEING_MS + other.since_ms.min(now_ms);
            other.waits() && other.priority != job.priority.level() && its_rank < rank && is_alone(other)
        };
        if let Some(other) = self.jobs.values().filter(|_| is_quiet).find(passed_over) {
            let what =
                format!("{} of priority {level} runs before one that has waited longer: {other:?}", job.id);
            self.violations.push(what);
        }
    }

    /// Checks that users take turns within a priority.
    pub(crate) fn check_fairness(&mut self, job: &Job) {
        if self.is_mixed {
            return;
        }
        let (level, user) = (job.priority.level(), job.user);
        let waits = |known: &&Known| known.waits();
        let waiting: BTreeSet<UserId> =
            self.jobs.values().filter(waits).filter(|k| k.priority == level).map(|k| k.user).collect();
        self.passed
            .retain(|(at, waiter, _), _| *at != level || (*waiter != user && waiting.contains(waiter)));
        for waiter in waiting.into_iter().filter(|waiter| *waiter != user) {
            let left = self.jobs.values().filter(|k| {
                k.user == waiter && k.priority == level && k.claims == 0 && (k.has_ended || !k.is_accepted)
            });
            let bound = FAIR_BOUND + left.count() as u64;
            let passed = self.passed.entry((level, waiter, user)).or_default();
            *passed += 1;
            if *passed > bound {
                let what = format!("{user:?} was served {passed} times while {waiter:?} waited ({})", job.id);
                self.violations.push(what);
            }
        }
    }

    /// A claim found no job, so no job may be waiting.
    pub(crate) fn found_nothing(&mut self) {
        let idle = self.jobs.values().find(|known| known.waits());
        if let Some(known) = idle {
            let what = format!("a claim found no job although one waits: {known:?}");
            self.violations.push(what);
        }
    }
}
