//! What the outside knows, over all lives of the server, and what must hold of it. A broken rule is kept as a text:
//! a worker catches panics.

use crate::books::Books;
use nanoclaw::domain::event::{Event, FailureCode, Numbered, Phase};
use nanoclaw::domain::id::{BatchId, JobId, UserId};
use nanoclaw::domain::job::{Job, JobSpec, JobStatus};
use nanoclaw::domain::tool::ToolCall;
use nanoclaw::ports::{Lease, NewJob, StopFlag, Store};
use nanoclaw::store::RedbStore;
use std::collections::{BTreeMap, BTreeSet};

/// How often one user may be served while another one waits, jobs of the other that left their place in line aside.
const FAIR_BOUND: u64 = 2;
/// Crashes in a row that make a job poison.
const POISON_CRASHES: u64 = 3;
/// Waiting that counts as much as one priority, as the limits have it.
const AGEING_MS: u64 = 60_000;

/// The ledger.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    pub(crate) jobs: BTreeMap<JobId, Known>,
    /// By call: how often it had its effect, over all lives.
    runs: BTreeMap<(JobId, String), u64>,
    /// By priority, who waits and who is served.
    passed: BTreeMap<(u8, UserId, UserId), u64>,
    /// Crashes with a claim under way: nobody knows of which job.
    dark_crashes: u64,
    /// Keys, batches, schedules and webhooks.
    pub(crate) books: Books,
    /// Something may take turns in the queue without a submission: retries, lines, occurrences.
    pub(crate) is_mixed: bool,
    /// Places in line that were given out.
    numbers: usize,
    pub(crate) violations: Vec<String>,
    pub(crate) touched: BTreeSet<JobId>,
    pub(crate) counts: Counts,
}

/// What the world has come to, so that a test can see that it was worth running.
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
    pub(crate) retried: u64,
    pub(crate) repeated_keys: u64,
    pub(crate) batches: u64,
    pub(crate) lines: u64,
    pub(crate) occurrences: u64,
    pub(crate) reports: u64,
}

impl Counts {
    /// Sums up.
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
        self.retried += other.retried;
        self.repeated_keys += other.repeated_keys;
        self.batches += other.batches;
        self.lines += other.lines;
        self.occurrences += other.occurrences;
        self.reports += other.reports;
    }
}

/// What is known of one job.
#[derive(Debug)]
pub(crate) struct Known {
    /// In order of acceptance.
    number: usize,
    pub(crate) user: UserId,
    conversation: Option<String>,
    priority: u8,
    /// Ready from its acceptance on: no conversation, no time to wait for.
    is_plain: bool,
    /// When it reached the store, unix milliseconds.
    since_ms: u64,
    /// Not before this time it may run again.
    not_before_ms: Option<u64>,
    max_attempts: u32,
    pub(crate) is_hooked: bool,
    pub(crate) batch: Option<BatchId>,
    /// Retries that reached the store, and those of which its client was told.
    pub(crate) retries: u64,
    sure_retries: u64,
    /// A retry of which nobody knows what became.
    may_go_on: bool,
    is_accepted: bool,
    /// Its end was acknowledged or seen.
    pub(crate) has_ended: bool,
    /// So was that it failed, when it was last looked at.
    pub(crate) has_failed: bool,
    was_poison: bool,
    pub(crate) seen: Vec<Numbered>,
    epoch: u64,
    claims: u64,
    /// The flag of the lease that somebody holds.
    lease: Option<StopFlag>,
    sure_crashes: u64,
    possible_crashes: u64,
}

impl Truth {
    pub(crate) fn blame(&mut self, what: String) {
        self.violations.push(what);
    }

    /// A job reaches the store: from now on it may exist, behind all that reached it before.
    pub(crate) fn offer(&mut self, new: &NewJob, now_ms: u64) {
        let mut known = Known::new(self.next_number(), new.user, now_ms);
        known.take(&new.spec);
        self.jobs.insert(new.id, known);
    }

    /// A job that nobody has submitted: a line of a batch, or an occurrence. Seen once, it must never be lost.
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

    /// A retry reaches the store.
    pub(crate) fn retries(&mut self, job: JobId) {
        self.is_mixed = true;
        self.touched.insert(job);
        if let Some(known) = self.jobs.get_mut(&job) {
            (known.retries, known.may_go_on, known.is_plain) = (known.retries + 1, true, false);
        }
    }

    /// What its client was told of the retry; `None`: nothing that could be trusted.
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
            // Where it stands in its conversation nobody knows.
            None => (known.conversation, known.sure_crashes) = (None, 0),
        }
    }

    /// It may not run again before this time.
    pub(crate) fn postponed(&mut self, job: JobId, until_ms: u64) {
        self.counts.postponed += 1;
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

    /// A write failed, and nobody knows what became of it: the job may or may not wait in its line.
    pub(crate) fn doubt(&mut self, job: JobId) {
        self.touched.insert(job);
        if let Some(known) = self.jobs.get_mut(&job) {
            known.is_plain = false;
        }
    }

    /// A claim reaches the store: whatever is due by this clock may run from now on, even if the clock goes back.
    pub(crate) fn claims_at(&mut self, now_ms: u64) {
        for known in self.jobs.values_mut() {
            known.not_before_ms = known.not_before_ms.filter(|until_ms| now_ms < *until_ms);
        }
    }

    /// A worker has its lease.
    pub(crate) fn claimed(&mut self, store: &RedbStore, lease: &Lease, now_ms: u64) {
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
            wrong.push("does not wait before it is tried again");
        }
        let is_first = known.claims == 0;
        (known.has_ended, known.may_go_on) = (false, false);
        (known.epoch, known.claims, known.lease) = (job.epoch, known.claims + 1, Some(lease.stop.clone()));
        for what in wrong {
            self.blame(format!("{} {what}: {job:?}", job.id));
        }
        self.check_turn(store, job);
        if is_first {
            self.check_rank(job, now_ms);
            self.check_fairness(job);
        }
    }

    /// Lines of batches whose acceptance has reached the store, and occurrences, become jobs by themselves.
    pub(crate) fn may_make(&self, job: &Job) -> bool {
        let is_line = job.batch.is_some_and(|line| self.books.may_run(line.batch));
        is_line || self.books.may_fire(job)
    }

    /// Jobs of one conversation run one after the other, in order of acceptance.
    fn check_turn(&mut self, store: &RedbStore, job: &Job) {
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

    /// Lower priorities first, less what has been waited for: nothing runs before a lower one without its having waited
    /// for that, and nothing keeps waiting that has.
    fn check_rank(&mut self, job: &Job, now_ms: u64) {
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
        // Only where nobody may stand before it at its own level, and where every place is as old as it seems.
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
            let what = format!("{} of priority {level} runs before one that has waited: {other:?}", job.id);
            self.violations.push(what);
        }
    }

    /// Inside a priority, users take turns.
    fn check_fairness(&mut self, job: &Job) {
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
            let gone = self.jobs.values().filter(|k| {
                k.user == waiter && k.priority == level && k.claims == 0 && (k.has_ended || !k.is_accepted)
            });
            let bound = FAIR_BOUND + gone.count() as u64;
            let passed = self.passed.entry((level, waiter, user)).or_default();
            *passed += 1;
            if *passed > bound {
                let what = format!("{user:?} was served {passed} times while {waiter:?} waited ({})", job.id);
                self.violations.push(what);
            }
        }
    }

    /// A claim found nothing: so nothing may wait.
    pub(crate) fn found_nothing(&mut self) {
        let idle = self.jobs.values().find(|known| known.waits());
        if let Some(known) = idle {
            let what = format!("nothing to claim, and yet there is {known:?}");
            self.violations.push(what);
        }
    }

    /// The lease is being given back or ended; whether that succeeds, nobody knows yet.
    pub(crate) fn lets_go(&mut self, job: JobId) {
        self.touched.insert(job);
        if let Some(known) = self.jobs.get_mut(&job) {
            known.sure_crashes = 0;
        }
    }

    /// The lease is gone, for good.
    pub(crate) fn left(&mut self, job: JobId, has_ended: bool) {
        self.touch_batch_of(job);
        if let Some(known) = self.jobs.get_mut(&job) {
            known.lease = None;
            known.has_ended |= has_ended;
        }
    }

    /// The process has died; `lost_claims`: with a claim of which nobody knows what became.
    pub(crate) fn crashed(&mut self, lost_claims: bool) {
        self.counts.crashes += 1;
        self.dark_crashes += u64::from(lost_claims);
        for known in self.jobs.values_mut() {
            if let Some(stop) = known.lease.take() {
                // A lease that was lost to a disk error before counts no crash.
                known.sure_crashes += u64::from(stop.raised().is_none());
                known.possible_crashes += 1;
            }
        }
    }

    /// The process has ended in good order. What the disk would not let go of counts a crash all the same.
    pub(crate) fn stopped(&mut self, lost_claims: bool) {
        self.counts.restarts += 1;
        self.dark_crashes += u64::from(lost_claims);
        for known in self.jobs.values_mut() {
            known.possible_crashes += u64::from(known.lease.take().is_some());
        }
    }

    /// A call is about to have its effect.
    pub(crate) fn runs(&mut self, store: &RedbStore, job: JobId, call: &ToolCall, is_idempotent: bool) {
        use nanoclaw::domain::event::{Mark, Record};
        self.counts.runs += 1;
        let count = self.runs.entry((job, call.id_ref.clone())).or_default();
        *count += 1;
        if *count > 1 && !is_idempotent {
            let what = format!("{job}: {} ({}) had its effect {count} times", call.id_ref, call.name);
            self.violations.push(what);
        }
        let is_recorded = |record: &Record| match record {
            Record::Event(Event::ToolResult { id_ref, .. })
            | Record::Mark(Mark::ToolFinished { id_ref, .. }) => *id_ref == call.id_ref,
            _ => false,
        };
        if store.log(job).is_ok_and(|log| log.iter().any(is_recorded)) {
            self.blame(format!("{job}: {} has its result and runs again", call.id_ref));
        }
        if self.jobs.get(&job).is_some_and(|known| known.has_ended) {
            self.blame(format!("{job}: {} runs after the job's end", call.id_ref));
        }
    }

    /// How often this call had its effect.
    pub(crate) fn runs_of(&self, job: JobId, id_ref: &str) -> u64 {
        self.runs.get(&(job, id_ref.to_owned())).copied().unwrap_or(0)
    }

    /// A reader goes on from where it was.
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

    /// Holds a job against the store.
    pub(crate) fn check(&mut self, store: &RedbStore, job: JobId) {
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
            wrong.push("has a log whose end is not its terminal event");
        }
        wrong.extend(known.check_lives(&page.events));
        if has_ended && row.last_event_id != page.last_seq {
            wrong.push("has events after its end");
        }
        if !page.events.starts_with(&known.seen) {
            wrong.push("has lost or changed what a reader saw");
        }
        if known.has_ended && !has_ended && !known.may_go_on {
            wrong.push("had ended");
        }
        if row.failed_runs >= known.max_attempts {
            wrong.push("is tried too often");
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

    /// Holds every job against the store.
    pub(crate) fn check_all(&mut self, store: &RedbStore) {
        let all: Vec<_> = self.jobs.keys().copied().collect();
        for job in all {
            self.check(store, job);
        }
        self.check_books(store);
    }

    /// Nothing is left to do: so everything has to have ended.
    pub(crate) fn check_ended(&mut self, store: &RedbStore) {
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
    }
}

impl Known {
    fn new(number: usize, user: UserId, since_ms: u64) -> Self {
        Self {
            number,
            user,
            conversation: None,
            priority: 0,
            is_plain: false,
            since_ms,
            not_before_ms: None,
            max_attempts: u32::MAX,
            is_hooked: false,
            batch: None,
            retries: 0,
            sure_retries: 0,
            may_go_on: false,
            is_accepted: false,
            has_ended: false,
            has_failed: false,
            was_poison: false,
            seen: Vec::new(),
            epoch: 0,
            claims: 0,
            lease: None,
            sure_crashes: 0,
            possible_crashes: 0,
        }
    }

    fn take(&mut self, spec: &JobSpec) {
        self.conversation = spec.conversation_id.as_ref().map(|name| name.as_str().to_owned());
        self.priority = spec.priority.level();
        self.is_plain = spec.conversation_id.is_none() && spec.run_at_ms.is_none();
        (self.max_attempts, self.is_hooked) = (spec.max_attempts, spec.webhook_url.is_some());
    }

    /// Stands in the queue since it was accepted.
    fn waits(&self) -> bool {
        self.is_plain && self.is_accepted && !self.has_ended && self.claims == 0
    }

    /// One terminal event for each life of the job; a retry begins the next one, and nothing else does.
    fn check_lives(&self, events: &[Numbered]) -> Option<&'static str> {
        let mut again = 0;
        for (event, next) in events.iter().zip(events.iter().skip(1)) {
            if event.event.is_terminal() {
                again += 1;
                let has_failed = matches!(event.event, Event::Error { .. });
                if !has_failed || !matches!(next.event, Event::Status { status: Phase::Queued, .. }) {
                    return Some("goes on after its end");
                }
            }
        }
        let is_right = (self.sure_retries..=self.retries).contains(&again);
        if is_right { None } else { Some("has more or fewer lives than retries") }
    }

    fn check_crashes(&self, row: &Job, dark_crashes: u64) -> Option<&'static str> {
        let ended = row.status.is_terminal();
        if is_poison(row) && self.possible_crashes + dark_crashes < POISON_CRASHES {
            return Some("is poison after too few crashes");
        }
        if !ended && self.sure_crashes >= POISON_CRASHES {
            return Some("was running at three crashes and is no poison");
        }
        None
    }
}

fn is_poison(row: &Job) -> bool {
    row.error.as_ref().is_some_and(|error| error.code == FailureCode::Poison)
}
