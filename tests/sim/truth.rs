//! What the outside knows, over all lives of the server, and what must hold of it. A broken rule is kept as a text:
//! a worker catches panics.

use nanoclaw::domain::event::{FailureCode, Numbered};
use nanoclaw::domain::id::{JobId, UserId};
use nanoclaw::domain::job::{Job, JobStatus};
use nanoclaw::domain::tool::ToolCall;
use nanoclaw::ports::{Lease, NewJob, StopFlag, Store};
use nanoclaw::store::RedbStore;
use std::collections::{BTreeMap, BTreeSet};

/// How often one user may be served while another one waits, jobs of the other that left their place in line aside.
const FAIR_BOUND: u64 = 2;
/// Crashes in a row that make a job poison.
const POISON_CRASHES: u64 = 3;

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
    is_accepted: bool,
    /// Its end was acknowledged or seen.
    pub(crate) has_ended: bool,
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
    pub(crate) fn offer(&mut self, new: &NewJob) {
        let spec = &new.spec;
        let known = Known {
            number: self.jobs.len(),
            user: new.user,
            conversation: spec.conversation_id.as_ref().map(|name| name.as_str().to_owned()),
            priority: spec.priority.level(),
            is_plain: spec.conversation_id.is_none() && spec.run_at_ms.is_none(),
            is_accepted: false,
            has_ended: false,
            seen: Vec::new(),
            epoch: 0,
            claims: 0,
            lease: None,
            sure_crashes: 0,
            possible_crashes: 0,
        };
        self.jobs.insert(new.id, known);
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

    /// A worker has its lease.
    pub(crate) fn claimed(&mut self, store: &RedbStore, lease: &Lease) {
        let job = &lease.job;
        self.touched.insert(job.id);
        let Some(known) = self.jobs.get_mut(&job.id) else {
            return self.blame(format!("{} was never submitted", job.id));
        };
        let mut wrong = Vec::new();
        if known.has_ended {
            wrong.push("runs after its end");
        }
        if job.epoch <= known.epoch || job.attempt == 0 || u64::from(job.attempt) > job.epoch {
            wrong.push("has an epoch or attempt that does not rise");
        }
        let is_first = known.claims == 0;
        (known.epoch, known.claims, known.lease) = (job.epoch, known.claims + 1, Some(lease.stop.clone()));
        for what in wrong {
            self.blame(format!("{} {what}: {job:?}", job.id));
        }
        self.check_turn(store, job);
        if is_first {
            self.check_order(job);
        }
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

    /// Lower priorities first; inside one, users take turns.
    fn check_order(&mut self, job: &Job) {
        let (level, user) = (job.priority.level(), job.user);
        let waits =
            |known: &&Known| known.is_plain && known.is_accepted && !known.has_ended && known.claims == 0;
        if let Some(before) = self.jobs.values().filter(waits).find(|known| known.priority < level) {
            let what = format!("{} of priority {level} runs before one of {}", job.id, before.priority);
            self.violations.push(what);
        }
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
        let waits = |known: &&Known| known.is_plain && known.is_accepted && !known.has_ended;
        let idle = self.jobs.values().filter(waits).find(|known| known.claims == 0);
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
        use nanoclaw::domain::event::{Event, Mark, Record};
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
        known.has_ended |= page.events.iter().any(|event| event.event.is_terminal());
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
        let ends = page.events.iter().filter(|event| event.event.is_terminal()).count();
        let ends_last = page.events.last().is_some_and(|event| event.event.is_terminal());
        let has_ended = row.status.is_terminal();
        let mut wrong = Vec::new();
        if !page.events.iter().map(|event| event.seq).eq(1..=page.last_seq) {
            wrong.push("has a gap");
        }
        if ends != usize::from(has_ended) || ends_last != has_ended {
            wrong.push("has a log that does not end with its one terminal event");
        }
        if has_ended && row.last_event_id != page.last_seq {
            wrong.push("has events after its end");
        }
        if !page.events.starts_with(&known.seen) {
            wrong.push("has lost or changed what a reader saw");
        }
        if known.has_ended && !has_ended {
            wrong.push("had ended");
        }
        if row.epoch < known.epoch {
            wrong.push("has an epoch that fell");
        }
        known.has_ended |= has_ended;
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
    }

    /// Nothing is left to do: so everything has to have ended.
    pub(crate) fn check_ended(&mut self, store: &RedbStore) {
        let rows: Vec<_> =
            self.jobs.iter().filter_map(|(id, known)| store.job(known.user, *id).ok().flatten()).collect();
        for row in rows {
            self.counts.ends += 1;
            self.counts.cancelled += u64::from(row.status == JobStatus::Cancelled);
            self.counts.poisoned += u64::from(is_poison(&row));
            if !row.status.is_terminal() {
                self.blame(format!("{} never ends: {row:?}", row.id));
            }
        }
    }
}

impl Known {
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
