//! What clients know about the store: acknowledged writes and read data.

use crate::support::store::{ANN, BOB, MessagePages, done, job};
use nanoclaw::domain::event::{Event, Record, SequencedEvent, StatusPhase};
use nanoclaw::domain::id::{BatchId, JobId};
use nanoclaw::domain::idempotency::IdempotencyKey;
use nanoclaw::domain::job::{Job, JobStatus};
use nanoclaw::domain::job_filter::JobFilter;
use nanoclaw::domain::usage::Usage;
use nanoclaw::domain::webhook::WebhookSubject;
use nanoclaw::ports::{
    Accounts, Batches, ChatMessage, ConversationQuery, Conversations, DeliveryQuery, Idempotent, JobQuery,
    LineOutcome, Outbox, Store,
};
use nanoclaw::store::RedbStore;
use std::collections::{BTreeMap, BTreeSet};

/// For each job the seen log and, after its end, the answer; for each key its job; for each batch its lines.
#[derive(Debug, Clone, Default)]
pub(crate) struct Oracle {
    jobs: BTreeMap<JobId, Known>,
    keys: BTreeMap<[u8; 32], (IdempotencyKey, JobId)>,
    batches: BTreeMap<BatchId, u32>,
}

#[derive(Debug, Clone, Default)]
struct Known {
    log: Vec<Record>,
    end: Option<(JobStatus, String)>,
    /// A retry was sent and is not answered yet.
    is_reopening: bool,
}

impl Oracle {
    /// Records the current state of a job. A reader does this all the time, so all readable data counts as
    /// seen.
    pub(crate) fn note(&mut self, store: &RedbStore, job: JobId) {
        let log = store.log(job).unwrap();
        let known = self.jobs.entry(job).or_default();
        assert!(log.starts_with(&known.log), "the log of a running store only grows");
        known.log = log;
        let is_reopening = known.is_reopening;
        if let Some(row) = find(store, job).filter(|row| row.status.is_terminal() && !is_reopening) {
            known.end = Some((row.status, store.output(job).unwrap().unwrap()));
        }
    }

    /// A retry was sent: the job may continue after its end.
    pub(crate) fn reopens(&mut self, job: JobId) {
        let known = self.jobs.entry(job).or_default();
        (known.end, known.is_reopening) = (None, true);
    }

    /// The outcome of the retry is known.
    pub(crate) fn reopened(&mut self, store: &RedbStore, job: JobId) {
        self.jobs.entry(job).or_default().is_reopening = false;
        self.note(store, job);
    }

    /// A key has returned a job.
    pub(crate) fn key_returned(&mut self, key: IdempotencyKey, job: JobId) {
        let (_, first) = *self.keys.entry(key.key).or_insert((key, job));
        assert_eq!(first, job, "a key returns always the same job");
    }

    /// A batch is accepted.
    pub(crate) fn accepted(&mut self, batch: BatchId, lines: u32) {
        self.batches.insert(batch, lines);
    }

    /// Checks that keys still return the same jobs.
    pub(crate) fn check_keys(&self, store: &RedbStore) -> Result<(), String> {
        for (number, (key, owed)) in (1_000_000..).zip(self.keys.values()) {
            let result = store.submit_once(job(number, ANN), *key).wait().map_err(|e| e.to_string())?;
            if !matches!(&result, Idempotent::Replayed(job) if job.id == *owed) {
                return Err(format!("a key returned {owed} and now returns {result:?}"));
            }
        }
        Ok(())
    }

    /// Checks that a reopened store contains everything in this oracle.
    pub(crate) fn check(&self, store: &RedbStore) -> Result<(), String> {
        for (job, known) in self.jobs.iter().filter(|(_, known)| !known.log.is_empty()) {
            let row = find(store, *job).ok_or_else(|| format!("{job} is lost"))?;
            let log = store.log(*job).map_err(|e| e.to_string())?;
            if !log.starts_with(&known.log) {
                return Err(format!("{job}: seen {:#?}, now {log:#?}", known.log));
            }
            if let Some((status, output)) = &known.end {
                let now = store.output(*job).map_err(|e| e.to_string())?;
                if row.status != *status || now.as_ref() != Some(output) {
                    return Err(format!(
                        "{job} had ended {status:?} with {output:?}, now {:?} with {now:?}",
                        row.status
                    ));
                }
            }
        }
        for (batch, lines) in &self.batches {
            let row = store.batch(ANN, *batch).map_err(|e| e.to_string())?;
            if row.as_ref().is_none_or(|row| row.counts.total != *lines) {
                return Err(format!("{batch} had {lines} lines and is {row:?}"));
            }
        }
        consistent_all(store, false)
    }
}

/// Runs every job to its end: no job may be stuck.
pub(crate) fn drain(store: &RedbStore) -> Result<(), String> {
    loop {
        let leases = store.claim(3).wait().map_err(|e| e.to_string())?;
        if leases.is_empty() {
            break;
        }
        for lease in leases {
            let ending = done(lease.job.id, "drained");
            store.finish(lease.fence(), Vec::new(), ending).wait().map_err(|e| e.to_string())?;
        }
    }
    for job in all(store)? {
        if !job.status.is_terminal() {
            return Err(format!("{job:?} can never run"));
        }
    }
    consistent_all(store, true)
}

/// Checks all jobs, batches and deliveries while no worker runs; `is_over`: everything has ended.
fn consistent_all(store: &RedbStore, is_over: bool) -> Result<(), String> {
    let jobs = all(store)?;
    for job in &jobs {
        consistent(store, job.id)?;
    }
    chatted_once(store, &jobs)?;
    told_once(store, &jobs)?;
    booked_once(store, &jobs, is_over)?;
    let page = store.batches(ANN, None, 10_000).map_err(|e| e.to_string())?;
    let known: BTreeSet<_> = page.batches.iter().map(|batch| batch.id).collect();
    if let Some(lost) = jobs.iter().find(|job| job.batch.is_some_and(|line| !known.contains(&line.batch))) {
        return Err(format!("{lost:?} is a line of no batch"));
    }
    for batch in page.batches {
        let own = || jobs.iter().filter(|job| job.batch.is_some_and(|line| line.batch == batch.id));
        let ended = store.ended(batch.id, 0, 10_000).map_err(|e| e.to_string())?;
        let order: BTreeSet<_> = ended.results.iter().map(|result| result.line).collect();
        let has_job = |outcome: &LineOutcome| !matches!(outcome, LineOutcome::NotStarted);
        let finished = ended.results.iter().filter(|result| has_job(&result.outcome)).count();
        let good = own().filter(|job| job.status == JobStatus::Succeeded).count();
        let lines: BTreeSet<_> = own().filter_map(|job| job.batch.map(|line| line.line)).collect();
        let fits = order.len() == ended.results.len()
            && finished >= own().filter(|job| job.status.is_terminal()).count()
            && lines.len() == own().count()
            && batch.counts.completed as usize == good
            && batch.status.is_terminal() == (batch.counts.open() == 0)
            && ended.is_last == batch.status.is_terminal()
            && (!is_over || (ended.is_last && order.len() == batch.counts.total as usize));
        if !fits {
            return Err(format!("{batch:#?} does not fit {ended:#?}"));
        }
    }
    Ok(())
}

/// Checks that recorded usage equals the usage of ended jobs. A retried job has recorded its earlier usage
/// already, so the sums must be equal only when everything has ended.
fn booked_once(store: &RedbStore, jobs: &[Job], is_over: bool) -> Result<(), String> {
    for user in [ANN, BOB] {
        let (mut spent, mut owed, mut running) = (Usage::default(), Usage::default(), Usage::default());
        for day in store.usage(user, 0, u32::MAX).map_err(|e| e.to_string())? {
            spent += day.usage;
        }
        for job in jobs.iter().filter(|job| job.user == user) {
            *if job.status.is_terminal() { &mut owed } else { &mut running } += job.usage;
        }
        let max_tokens = owed.total_tokens + running.total_tokens;
        let fits = (owed.total_tokens..=max_tokens).contains(&spent.total_tokens);
        if !fits || (is_over && spent != owed) {
            return Err(format!("{user:?} has recorded {spent:?} and used {owed:?}, then {running:?}"));
        }
    }
    Ok(())
}

/// Checks that each job is in its conversation once, in order of acceptance, and that the message count is
/// right.
fn chatted_once(store: &RedbStore, jobs: &[Job]) -> Result<(), String> {
    for user in [ANN, BOB] {
        let query = ConversationQuery { user, project: None, search: None, before: None, limit: 10_000 };
        let page = store.conversations(&query).map_err(|e| e.to_string())?;
        let mut owed: BTreeSet<JobId> = jobs
            .iter()
            .filter(|job| job.user == user && job.conversation_id.is_some())
            .map(|job| job.id)
            .collect();
        for row in page.conversations {
            let page = store.message_page(user, &row.id, None, 10_000).map_err(|e| e.to_string())?;
            let mut counted = 0;
            for message in &page.messages {
                match message {
                    ChatMessage::Ask { id, .. } if owed.remove(&id.job()) => counted += 1,
                    ChatMessage::Ask { .. } => return Err(format!("{message:?} is not of {row:?}")),
                    ChatMessage::Answer { job, .. } if job.conversation_id.as_ref() != Some(&row.id) => {
                        return Err(format!("{job:?} is not of {row:?}"));
                    }
                    ChatMessage::Answer { job, .. } => counted += u64::from(job.status.is_terminal()),
                }
            }
            if counted != row.message_count {
                return Err(format!("{row:?} has {counted} messages: {page:#?}"));
            }
        }
        if !owed.is_empty() {
            return Err(format!("{owed:?} are in no conversation"));
        }
    }
    Ok(())
}

/// Checks that each end of a job with a webhook has a delivery.
fn told_once(store: &RedbStore, jobs: &[Job]) -> Result<(), String> {
    let mut deliveries: BTreeMap<JobId, usize> = BTreeMap::new();
    for user in [ANN, BOB] {
        let query = DeliveryQuery { user, state: None, before: None, limit: 10_000 };
        for delivery in store.deliveries(&query).map_err(|e| e.to_string())?.deliveries {
            if let WebhookSubject::Job(job) = delivery.subject {
                *deliveries.entry(job).or_default() += 1;
            }
        }
    }
    for job in jobs {
        let page = store.events(job.id, 0, 100_000).map_err(|e| e.to_string())?;
        let ends = page.events.iter().filter(|e| e.event.is_terminal()).count();
        let owed = if job.webhook_url.is_some() { ends } else { 0 };
        let found = deliveries.get(&job.id).copied().unwrap_or_default();
        if found != owed {
            return Err(format!("{} has {found} of {owed} deliveries: {job:?}", job.id));
        }
    }
    Ok(())
}

/// Whether each earlier end is a failure followed by a retry.
fn goes_on_rightly(events: &[SequencedEvent]) -> bool {
    events.iter().zip(events.iter().skip(1)).all(|(event, next)| {
        let is_retry = matches!(event.event, Event::Error { .. })
            && matches!(next.event, Event::Status { status: StatusPhase::Queued, .. });
        !event.event.is_terminal() || is_retry
    })
}

/// Checks a job while no worker runs.
fn consistent(store: &RedbStore, job: JobId) -> Result<(), String> {
    let row = find(store, job).ok_or_else(|| format!("{job} is listed but does not exist"))?;
    let page = store.events(job, 0, 100_000).map_err(|e| e.to_string())?;
    let gapless = page.events.iter().map(|e| e.seq).eq(1..=page.last_seq);
    let ends_last = page.events.last().is_some_and(|e| e.event.is_terminal());
    let is_terminal = row.status.is_terminal();
    let fits = gapless
        && goes_on_rightly(&page.events)
        && ends_last == is_terminal
        && row.status != JobStatus::Running
        && row.last_event_id == page.last_seq;
    if fits { Ok(()) } else { Err(format!("{row:#?} does not fit {page:#?}")) }
}

fn all(store: &RedbStore) -> Result<Vec<Job>, String> {
    let mut jobs = Vec::new();
    for user in [ANN, BOB] {
        let query = JobQuery { user, status: None, filter: JobFilter::NONE, before: None, limit: 10_000 };
        let page = store.jobs(&query).map_err(|e| e.to_string())?;
        jobs.extend(page.jobs);
    }
    Ok(jobs)
}

fn find(store: &RedbStore, job: JobId) -> Option<nanoclaw::domain::job::Job> {
    [ANN, BOB].into_iter().find_map(|user| store.job(user, job).ok().flatten())
}
