//! What clients know across all processes of the server, and the checks of the store against it. Violations
//! are collected as text, because workers catch panics.

use super::approvals::Verdicts;
use super::client_records::ClientRecords;
use super::known_job::{Known, is_poison};
use crate::support::store::{ANN, BOB};
use nanoclaw::domain::event::Event;
use nanoclaw::domain::id::{JobId, UserId};
use nanoclaw::domain::job::{Job, JobStatus};
use nanoclaw::domain::job_filter::JobFilter;
use nanoclaw::domain::tool::ToolCall;
use nanoclaw::domain::usage::Usage;
use nanoclaw::ports::{JobQuery, Lease, NewJob, NodeStore, Store};
use std::collections::{BTreeMap, BTreeSet};

/// The facts known to clients and the violations found so far.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    pub(crate) jobs: BTreeMap<JobId, Known>,
    /// How often each call had its effect, over all processes, by job, id and tool.
    runs: BTreeMap<(JobId, String, String), u64>,
    /// Decisions about calls that need approval.
    pub(crate) verdicts: Verdicts,
    /// How often one user was served while another waited, by priority.
    pub(crate) passed: BTreeMap<(u8, UserId, UserId), u64>,
    /// Crashes during a claim of an unknown job.
    dark_crashes: u64,
    /// Keys, batches, schedules and webhooks.
    pub(crate) client_records: ClientRecords,
    /// Jobs may enter the queue without a submission: retries, batch lines, schedules.
    pub(crate) is_mixed: bool,
    /// The last number of acceptance.
    numbers: usize,
    pub(crate) violations: Vec<String>,
    pub(crate) touched: BTreeSet<JobId>,
    pub(crate) counts: Counts,
}

/// Counts of events, so that a test can check its coverage.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) ends: u64,
    pub(crate) runs: u64,
    pub(crate) crashes: u64,
    pub(crate) restarts: u64,
    pub(crate) troubles: u64,
    pub(crate) poisoned: u64,
    pub(crate) cancelled: u64,
    pub(crate) nested: u64,
    pub(crate) postponed: u64,
    pub(crate) deferred: u64,
    pub(crate) approval_requests: u64,
    pub(crate) decided: u64,
    pub(crate) retried: u64,
    pub(crate) repeated_keys: u64,
    pub(crate) batches: u64,
    pub(crate) lines: u64,
    pub(crate) occurrences: u64,
    pub(crate) reports: u64,
}

impl Counts {
    /// Adds other counts.
    pub(crate) fn add(&mut self, other: Self) {
        self.ends += other.ends;
        self.runs += other.runs;
        self.crashes += other.crashes;
        self.restarts += other.restarts;
        self.troubles += other.troubles;
        self.poisoned += other.poisoned;
        self.cancelled += other.cancelled;
        self.nested += other.nested;
        self.postponed += other.postponed;
        self.deferred += other.deferred;
        self.approval_requests += other.approval_requests;
        self.decided += other.decided;
        self.retried += other.retried;
        self.repeated_keys += other.repeated_keys;
        self.batches += other.batches;
        self.lines += other.lines;
        self.occurrences += other.occurrences;
        self.reports += other.reports;
    }
}

impl Oracle {
    pub(crate) fn blame(&mut self, what: String) {
        self.violations.push(what);
    }

    /// A job is sent to the store: from now on it may exist, behind all earlier ones.
    pub(crate) fn offer(&mut self, new: &NewJob, now_ms: u64) {
        let mut known = Known::new(self.next_number(), new.user, now_ms);
        known.take(&new.spec);
        self.jobs.insert(new.id, known);
    }

    /// Records a job without a submission: a batch line or a scheduled job. Once seen, it must never be
    /// lost.
    pub(crate) fn meet(&mut self, job: &Job) {
        if !self.jobs.contains_key(&job.id) {
            let mut known = Known::new(self.next_number(), job.user, job.created_at_ms);
            known.conversation = job.conversation_id.as_ref().map(|name| name.as_str().to_owned());
            known.priority = job.priority.level();
            (known.is_hooked, known.is_accepted) = (job.webhook_url.is_some(), true);
            known.batch = job.batch.map(|line| line.batch);
            self.jobs.insert(job.id, known);
        }
    }

    fn next_number(&mut self) -> usize {
        self.numbers += 1;
        self.numbers
    }

    /// A retry is sent to the store.
    pub(crate) fn retries(&mut self, job: JobId) {
        self.is_mixed = true;
        self.touched.insert(job);
        if let Some(known) = self.jobs.get_mut(&job) {
            (known.retries, known.may_go_on, known.is_plain) = (known.retries + 1, true, false);
        }
    }

    /// The client has the response to the retry; `None`: the outcome is unknown.
    pub(crate) fn retried(&mut self, job: JobId, was_done: Option<bool>) {
        let number = self.next_number();
        self.counts.retried += u64::from(was_done == Some(true));
        let Some(known) = self.jobs.get_mut(&job) else { return };
        match was_done {
            Some(true) => {
                (known.number, known.has_ended, known.may_go_on) = (number, false, false);
                (known.sure_crashes, known.sure_retries) = (0, known.sure_retries + 1);
            }
            Some(false) => (known.retries, known.may_go_on) = (known.retries - 1, false),
            // Its position in the conversation is unknown.
            None => (known.conversation, known.sure_crashes) = (None, 0),
        }
    }

    /// It must not run again before this time.
    pub(crate) fn postponed(&mut self, job: JobId, until_ms: u64) {
        self.counts.postponed += 1;
        if let Some(known) = self.jobs.get_mut(&job) {
            known.not_before_ms = Some(until_ms);
        }
    }

    /// It is deferred and must not run again before this time.
    pub(crate) fn deferred(&mut self, job: JobId, until_ms: u64) {
        self.counts.deferred += 1;
        if let Some(known) = self.jobs.get_mut(&job) {
            known.not_before_ms = Some(until_ms);
        }
    }

    /// It waits for approval and must not run before this time without a decision.
    pub(crate) fn requested_approval(&mut self, job: JobId, until_ms: u64) {
        self.counts.approval_requests += 1;
        if let Some(known) = self.jobs.get_mut(&job) {
            known.not_before_ms = Some(until_ms);
        }
    }

    /// Its client has the 202.
    pub(crate) fn accept(&mut self, job: JobId) {
        self.touched.insert(job);
        if let Some(known) = self.jobs.get_mut(&job) {
            known.is_accepted = true;
        }
    }

    /// A write failed with an unknown outcome: the job may or may not be queued.
    pub(crate) fn doubt(&mut self, job: JobId) {
        self.touched.insert(job);
        if let Some(known) = self.jobs.get_mut(&job) {
            known.is_plain = false;
        }
    }

    /// A claim is sent to the store: jobs due by this clock may run from now on, even if the clock goes
    /// back.
    pub(crate) fn claims_at(&mut self, now_ms: u64) {
        for known in self.jobs.values_mut() {
            known.not_before_ms = known.not_before_ms.filter(|until_ms| now_ms < *until_ms);
        }
    }

    /// A worker has its lease.
    pub(crate) fn claimed(&mut self, store: &dyn NodeStore, lease: &Lease, now_ms: u64) {
        let job = &lease.job;
        self.touched.insert(job.id);
        if self.may_make(job) {
            self.meet(job);
        }
        let Some(known) = self.jobs.get_mut(&job.id) else {
            return self.blame(format!("{} was never submitted", job.id));
        };
        let mut wrong = Vec::new();
        if known.has_ended && !known.may_go_on {
            wrong.push("runs after its end");
        }
        if job.epoch <= known.epoch || job.attempt == 0 || u64::from(job.attempt) > job.epoch {
            wrong.push("has an epoch or attempt that does not rise");
        }
        if known.not_before_ms.take().is_some() {
            wrong.push("does not wait for its next attempt");
        }
        let is_first = known.claims == 0;
        (known.has_ended, known.may_go_on) = (false, false);
        (known.epoch, known.claims, known.lease) = (job.epoch, known.claims + 1, Some(lease.cancel.clone()));
        for what in wrong {
            self.blame(format!("{} {what}: {job:?}", job.id));
        }
        self.check_turn(store, job);
        if is_first {
            self.check_predecessors(store, job);
            self.check_rank(job, now_ms);
            self.check_fairness(job);
        }
    }

    /// Whether the job may exist without a submission: a line of a sent batch, or a scheduled job.
    pub(crate) fn may_make(&self, job: &Job) -> bool {
        let is_line = job.batch.is_some_and(|line| self.client_records.may_run(line.batch));
        is_line || self.client_records.may_fire(job)
    }

    /// The lease is about to be released or ended, with an unknown outcome.
    pub(crate) fn lets_go(&mut self, job: JobId) {
        self.touched.insert(job);
        if let Some(known) = self.jobs.get_mut(&job) {
            known.sure_crashes = 0;
        }
    }

    /// The lease has ended.
    pub(crate) fn left(&mut self, job: JobId, has_ended: bool) {
        self.touch_batch_of(job);
        if let Some(known) = self.jobs.get_mut(&job) {
            known.lease = None;
            known.has_ended |= has_ended;
        }
    }

    /// The process has died; `lost_claims`: during a claim with an unknown outcome.
    pub(crate) fn crashed(&mut self, lost_claims: bool) {
        self.counts.crashes += 1;
        self.dark_crashes += u64::from(lost_claims);
        for known in self.jobs.values_mut() {
            if let Some(stop) = known.lease.take() {
                // A lease that was lost to an earlier disk error counts no crash.
                known.sure_crashes += u64::from(stop.reason().is_none());
                known.possible_crashes += 1;
            }
        }
    }

    /// The process has stopped orderly. A lease that could not be released still counts as a crash.
    pub(crate) fn stopped(&mut self, lost_claims: bool) {
        self.counts.restarts += 1;
        self.dark_crashes += u64::from(lost_claims);
        for known in self.jobs.values_mut() {
            known.possible_crashes += u64::from(known.lease.take().is_some());
        }
    }

    /// A call is about to have its effect.
    pub(crate) fn runs(&mut self, store: &dyn NodeStore, job: JobId, call: &ToolCall, is_idempotent: bool) {
        use nanoclaw::domain::event::{EngineMark, Record};
        self.counts.runs += 1;
        // A call that may run again can run before it is recorded. If its answer is then lost, the id returns
        // with another call, so the name tells them apart.
        let count = self.runs.entry((job, call.id_ref.clone(), call.name.clone())).or_default();
        *count += 1;
        if *count > 1 && !is_idempotent {
            let what = format!("{job}: {} ({}) had its effect {count} times", call.id_ref, call.name);
            self.violations.push(what);
        }
        if let Some(what) = self.verdicts.blame(job, call) {
            self.violations.push(what);
        }
        let is_recorded = |record: &Record| match record {
            Record::Event(Event::ToolResult { id_ref, .. })
            | Record::Mark(EngineMark::ToolFinished { id_ref, .. }) => *id_ref == call.id_ref,
            _ => false,
        };
        if store.log(job).is_ok_and(|log| log.iter().any(is_recorded)) {
            self.blame(format!("{job}: {} runs again although it has a result", call.id_ref));
        }
        if self.jobs.get(&job).is_some_and(|known| known.has_ended) {
            self.blame(format!("{job}: {} runs after the end of the job", call.id_ref));
        }
    }

    /// How often this call had its effect.
    pub(crate) fn runs_of(&self, job: JobId, id_ref: &str) -> u64 {
        self.runs.iter().filter(|((of, id, _), _)| *of == job && id == id_ref).map(|(_, count)| count).sum()
    }

    /// Resumes the reader of a job.
    pub(crate) fn read(&mut self, store: &dyn Store, job: JobId, max: usize) {
        let Some(known) = self.jobs.get_mut(&job) else { return };
        let after = known.seen.len() as u64;
        let Ok(page) = store.events(job, after, max) else { return };
        if !page.events.iter().zip(after + 1..).all(|(event, seq)| event.seq == seq) {
            self.violations.push(format!("{job}: after {after} a reader got {:?}", page.events));
            return;
        }
        let is_whole = page.events.last().is_some_and(|last| last.seq == page.last_seq);
        known.has_ended |= is_whole && page.events.last().is_some_and(|last| last.event.is_terminal());
        known.seen.extend(page.events);
    }

    /// Checks a job against the store.
    pub(crate) fn check(&mut self, store: &dyn NodeStore, job: JobId) {
        let Some(known) = self.jobs.get_mut(&job) else { return };
        let (Ok(row), Ok(page)) = (store.job(known.user, job), store.events(job, 0, 100_000)) else { return };
        let Some(row) = row else {
            if known.is_accepted || !known.seen.is_empty() {
                self.blame(format!("{job} is lost"));
            }
            return;
        };
        let ends_last = page.events.last().is_some_and(|event| event.event.is_terminal());
        let has_ended = row.status.is_terminal();
        let mut wrong = Vec::new();
        if !page.events.iter().map(|event| event.seq).eq(1..=page.last_seq) {
            wrong.push("has a gap");
        }
        if ends_last != has_ended {
            wrong.push("has a log that does not end with its terminal event");
        }
        wrong.extend(known.check_lives(&page.events));
        if has_ended && row.last_event_id != page.last_seq {
            wrong.push("has events after its end");
        }
        if !page.events.starts_with(&known.seen) {
            wrong.push("has lost or changed events that a reader saw");
        }
        if known.has_ended && !has_ended && !known.may_go_on {
            wrong.push("is unfinished although it had ended");
        }
        if row.failed_runs >= known.max_attempts {
            wrong.push("has too many attempts");
        }
        if row.epoch < known.epoch {
            wrong.push("has an epoch that fell");
        }
        (known.has_ended, known.may_go_on) = (has_ended, false);
        known.has_failed = row.status == JobStatus::Failed;
        self.counts.poisoned += u64::from(is_poison(&row) && !known.was_poison);
        known.was_poison = is_poison(&row);
        wrong.extend(known.check_crashes(&row, self.dark_crashes));
        let wrong: Vec<_> = wrong.into_iter().map(|what| format!("{job} {what}: {row:?} {page:?}")).collect();
        self.violations.extend(wrong);
    }

    /// Checks every job against the store.
    pub(crate) fn check_all(&mut self, store: &dyn NodeStore) {
        let all: Vec<_> = self.jobs.keys().copied().collect();
        for job in all {
            self.check(store, job);
        }
        self.check_books(store);
    }

    /// Checks that every job has ended.
    pub(crate) fn check_ended(&mut self, store: &dyn NodeStore) {
        let rows: Vec<_> =
            self.jobs.iter().filter_map(|(id, known)| store.job(known.user, *id).ok().flatten()).collect();
        for row in rows {
            self.counts.ends += 1;
            self.counts.cancelled += u64::from(row.status == JobStatus::Cancelled);
            if !row.status.is_terminal() {
                self.blame(format!("{} never ends: {row:?}", row.id));
            }
        }
        self.check_batches_ended(store);
        self.check_accounts(store);
    }

    /// Checks that the recorded usage equals the sum over all jobs, and that ended jobs do not count as
    /// unfinished.
    fn check_accounts(&mut self, store: &dyn NodeStore) {
        for user in [ANN, BOB] {
            let query =
                JobQuery { user, status: None, filter: JobFilter::NONE, before: None, limit: 100_000 };
            let (Ok(page), Ok(days)) = (store.jobs(&query), store.usage(user, 0, u32::MAX)) else { continue };
            let (mut spent, mut booked) = (Usage::default(), Usage::default());
            for job in &page.jobs {
                spent += job.usage;
            }
            for day in days {
                booked += day.usage;
            }
            if !page.jobs.iter().all(|job| job.status.is_terminal()) {
                continue;
            }
            if spent != booked {
                self.blame(format!("{user:?} has used {spent:?} and recorded {booked:?}"));
            }
            if let Ok(count @ 1..) = store.unfinished_count(user, u64::MAX) {
                self.blame(format!("{user:?} has no unfinished job, and {count} are counted"));
            }
        }
    }
}
