//! Jobs, from their submission to their end, and the ports that read and change them.

use crate::domain::approval::ApprovalDecision;
use crate::domain::event::{EngineMark, Record};
use crate::domain::handle::ResultHandle;
use crate::domain::id::{JobId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::{History, Job, JobOutcome, JobSpec};
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::ports::{
    BackgroundJobs, CancelReason, CancelToken, DecidedJob, EventPage, Fence, Idempotent, JobChangeError,
    JobPage, JobQuery, Lease, LeaseError, NewJob, Results, SpawnError, Store, StoreError, SubmitError,
    Ticket, Urgency,
};
use crate::store::redb::accounts::unfinished_work::unfinished_work;
use crate::store::redb::codec::keys::jobs::{LogBytes, LogKey};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::tables::{LOG, SPECS};
use crate::store::redb::codec::values;
use crate::store::redb::conversations::history;
use crate::store::redb::store::RedbStore;
use crate::store::redb::volatile::read::listed;
use crate::store::redb::writer::write::WriteOptions;
use crate::store::rows::history::HistoryBudget;
use crate::store::rows::weight::record_bytes;
use crate::store::rows::weight::spec_bytes;
use std::time::Duration;
use tokio::sync::watch;

pub(crate) mod answered_approvals;
pub(crate) mod append;
pub(crate) mod approval;
pub(crate) mod background;
pub(crate) mod cancel;
pub(crate) mod chain;
pub(crate) mod claim;
pub(crate) mod completions;
pub(crate) mod conditions;
pub(crate) mod delete;
pub(crate) mod finish;
pub(crate) mod idempotency;
pub(crate) mod log;
pub(crate) mod log_chains;
pub(crate) mod quarantine;
pub(crate) mod read;
pub(crate) mod release;
pub(crate) mod retry;
pub(crate) mod row;
pub(crate) mod runs;
pub(crate) mod span_exports;
pub(crate) mod stats;
pub(crate) mod submit;

impl Store for RedbStore {
    fn submit(&self, jobs: Vec<NewJob>) -> Ticket<Vec<Job>, SubmitError> {
        let bytes = jobs.iter().map(|job| spec_bytes(&job.spec)).sum();
        let options =
            WriteOptions { jobs: jobs.iter().map(|job| job.id).collect(), ..WriteOptions::default() };
        self.offer(options.weighing(bytes), move |transaction| transaction.submit_jobs(&jobs))
    }

    fn submit_once(&self, job: NewJob, key: IdempotencyKey) -> Ticket<Idempotent<Job>, SubmitError> {
        let options = WriteOptions::of(job.id).weighing(spec_bytes(&job.spec));
        self.offer(options, move |transaction| transaction.submit_idempotent(&job, &key))
    }

    fn begin_in_memory(&self, job: Box<NewJob>) -> Result<Job, Box<NewJob>> {
        self.lease_in_memory(job)
    }

    fn claim(&self, max: usize) -> Ticket<Vec<Lease>> {
        // An empty queue costs no commit, not even a message to the writer.
        if max == 0 || !self.shared.claims.may_have_work(self.shared.clock.now_ms()) {
            return Ticket::resolved(Ok(Vec::new()));
        }
        // No lease exists before the commit, and recovery finds those that a failed one left behind.
        self.push(WriteOptions::default(), move |transaction| Ok(transaction.claim_jobs(max)?.into_all()))
    }

    fn append(&self, fence: Fence, records: Vec<Record>, urgency: Urgency) -> Ticket<(), LeaseError> {
        let weight = records.iter().map(record_bytes).sum();
        let records = match self.shared.volatile.append(fence, records, weight) {
            Ok(seq) => {
                self.shared.watches.bump(fence.job, seq);
                return Ticket::resolved(Ok(()));
            }
            Err(records) => records,
        };
        let options = WriteOptions { jobs: vec![fence.job], weight, urgency };
        self.push(options, move |transaction| transaction.append_records(fence, &records))
    }

    fn finish(&self, fence: Fence, records: Vec<Record>, ending: JobOutcome) -> Ticket<(), LeaseError> {
        let bytes = records.iter().map(record_bytes).sum::<usize>().saturating_add(ending.output_text.len());
        let options = WriteOptions::of(fence.job).weighing(bytes);
        self.push(options, move |transaction| transaction.finish_job(fence, &records, &ending))
    }

    fn finish_and_claim(
        &self,
        fence: Fence,
        records: Vec<Record>,
        ending: JobOutcome,
    ) -> (Result<(), LeaseError>, Option<Lease>) {
        let claims = &self.shared.claims;
        let claim = claims.join(false);
        let ended = self.finish(fence, records, ending).wait();
        // The worker learns of a failed claim when it claims again.
        let lease = claim.and_then(|id| claims.leave(id)).ok().flatten();
        // An early lease ends with a commit that fails.
        (ended, lease.filter(|lease| lease.cancel.reason() != Some(CancelReason::LeaseLost)))
    }

    fn release(&self, fence: Fence) -> Ticket<(), LeaseError> {
        self.push(WriteOptions::of(fence.job), move |transaction| transaction.release_job(fence))
    }

    fn postpone(&self, fence: Fence, reason: String, delay_ms: u64) -> Ticket<(), LeaseError> {
        let options = WriteOptions::of(fence.job);
        self.push(options, move |transaction| transaction.postpone_job(fence, &reason, delay_ms))
    }

    fn defer(&self, fence: Fence, reason: String, delay_ms: u64) -> Ticket<(), LeaseError> {
        let options = WriteOptions::of(fence.job);
        self.push(options, move |transaction| transaction.defer_job(fence, &reason, delay_ms))
    }

    fn wait_for_approval(
        &self,
        fence: Fence,
        calls: Vec<ToolCall>,
        timeout_ms: u64,
    ) -> Ticket<(), LeaseError> {
        let bytes = calls.iter().map(|call| call.arguments.len()).sum();
        let options = WriteOptions::of(fence.job).weighing(bytes);
        self.push(options, move |transaction| transaction.wait_for_decision(fence, &calls, timeout_ms))
    }

    fn decide(
        &self,
        user: UserId,
        job: JobId,
        decision: ApprovalDecision,
    ) -> Ticket<Option<DecidedJob>, JobChangeError> {
        let options = WriteOptions::of(job);
        self.offer(options, move |transaction| transaction.decide_approval(user, job, &decision))
    }

    fn delete(&self, user: UserId, job: JobId) -> Ticket<bool, JobChangeError> {
        self.offer(WriteOptions::of(job), move |transaction| transaction.delete_job(user, job))
    }

    fn retry(&self, user: UserId, job: JobId) -> Ticket<Option<Job>, JobChangeError> {
        self.offer(WriteOptions::of(job), move |transaction| transaction.retry_job(user, job))
    }

    fn cancel(&self, user: UserId, job: JobId) -> Ticket<Option<Job>> {
        self.offer(WriteOptions::of(job), move |transaction| transaction.cancel_job(user, job))
    }

    fn end_due(&self) -> Ticket<bool> {
        let now_ms = self.shared.clock.now_ms();
        match self.read(conditions::next_end_ms) {
            Ok(Some(at_ms)) if at_ms == 0 || (at_ms <= now_ms && self.is_clock_trusted()) => {
                self.push(WriteOptions::default(), conditions::end_due_jobs)
            }
            due => Ticket::resolved(due.map(|_| false)),
        }
    }

    fn probe(&self) -> Ticket<()> {
        self.offer(WriteOptions::default(), |transaction| {
            transaction.beat();
            Ok(())
        })
    }

    fn job(&self, user: UserId, job: JobId) -> Result<Option<Job>, StoreError> {
        if let Some(job) = self.shared.volatile.with(job, |volatile| volatile.job()) {
            return Ok(Some(job).filter(|job| job.user == user));
        }
        let now_ms = self.shared.clock.now_ms();
        self.read(|reading| read::job(reading, (user, job), now_ms))
    }

    fn output(&self, job: JobId) -> Result<Option<String>, StoreError> {
        self.read(|reading| read::output(reading, job))
    }

    fn input(&self, job: JobId) -> Result<Option<Vec<Message>>, StoreError> {
        Ok(self.spec_of(job)?.map(|spec| spec.input))
    }

    fn request(&self, user: UserId, job: JobId) -> Result<Option<JobSpec>, StoreError> {
        BackgroundJobs::spec(self, user, job)
    }

    fn jobs(&self, query: &JobQuery) -> Result<JobPage, StoreError> {
        let (volatile, now_ms) = (self.shared.volatile.listed(query), self.shared.clock.now_ms());
        listed(volatile, query, |query| self.read(|reading| read::jobs(reading, query, now_ms)))
    }

    fn is_known(&self, user: UserId, key: &[u8; 32]) -> Result<bool, StoreError> {
        let now_ms = self.shared.clock.now_ms();
        self.read(|reading| idempotency::is_known(reading, user, key, now_ms))
    }

    fn unfinished_count(&self, user: UserId, limit: u64) -> Result<u64, StoreError> {
        let volatile = self.shared.volatile.count_of(user) as u64;
        let stored = self.read(|reading| unfinished_work(reading, user))?;
        Ok(stored.all().saturating_add(volatile).min(limit))
    }

    fn events(&self, job: JobId, after: u64, max: usize) -> Result<EventPage, StoreError> {
        match self.shared.volatile.with(job, |volatile| volatile.log.events(after, max)) {
            Some(page) => Ok(page),
            None => self.read(|reading| read::events(reading, job, after, max)),
        }
    }

    fn step_text(&self, job: JobId, first_seq: u64, up_to: u64) -> Result<String, StoreError> {
        match self.shared.volatile.with(job, |volatile| volatile.log.step_text(first_seq, up_to)) {
            Some(text) => Ok(text),
            None => self.read(|reading| read::step_text(reading, job, first_seq, up_to)),
        }
    }

    fn log(&self, job: JobId) -> Result<Vec<Record>, StoreError> {
        match self.shared.volatile.with(job, |volatile| volatile.log.records()) {
            Some(records) => Ok(records),
            None => self.read(|reading| read::log(reading, job)),
        }
    }

    fn history(&self, job: &Job, max: usize) -> Result<History, StoreError> {
        if job.conversation_id.is_none() {
            return Ok(History::default());
        }
        let budget = HistoryBudget { messages: max, bytes: self.shared.bounds.history_bytes };
        self.read(|reading| history::history(reading, job.id, budget))
    }

    fn watch(&self, job: JobId) -> watch::Receiver<u64> {
        let receiver = self.shared.watches.subscribe(job);
        // Subscribed first, read second: one of them sees a commit in between. A failed read loses only
        // the first hint; the reader's own read reports the error.
        let seq = match self.shared.volatile.with(job, |volatile| volatile.log.last_seq()) {
            Some(seq) => Ok(seq),
            None => self.read(|reading| read::last_seq(reading, job)),
        };
        if let Ok(seq) = seq {
            self.shared.watches.bump(job, seq);
        }
        receiver
    }

    fn claim_next(&self, stop: &CancelToken, timeout: Duration) -> Result<Option<Lease>, StoreError> {
        if timeout.is_zero() {
            return Ok(self.claim(1).wait()?.pop());
        }
        self.shared.claims.wait(stop, timeout, &*self.shared.clock, || self.wake_writer())
    }
}

impl RedbStore {
    fn spec_of(&self, job: JobId) -> Result<Option<JobSpec>, StoreError> {
        match self.shared.volatile.with(job, |volatile| JobSpec::clone(&volatile.spec)) {
            Some(spec) => Ok(Some(spec)),
            None => self.read(|reading| SPECS.read(reading)?.row(&job.to_bytes())),
        }
    }
}

impl BackgroundJobs for RedbStore {
    fn spec(&self, user: UserId, job: JobId) -> Result<Option<JobSpec>, StoreError> {
        if self.job(user, job)?.is_none() {
            return Ok(None);
        }
        self.spec_of(job)
    }

    fn spawn(&self, job: NewJob, key: IdempotencyKey, limit: u64) -> Ticket<Idempotent<Job>, SpawnError> {
        let options = WriteOptions::of(job.id).weighing(spec_bytes(&job.spec));
        self.offer(options, move |transaction| transaction.spawn_job(&job, &key, limit))
    }

    fn spawned(&self, user: UserId) -> Result<Vec<Job>, StoreError> {
        self.read(|reading| background::jobs_of(reading, user, None))
    }
}

impl Results for RedbStore {
    fn result(&self, user: UserId, handle: &ResultHandle) -> Result<Option<String>, StoreError> {
        self.read(|reading| match read::row(reading, handle.job)? {
            Some(row) if row.job.user == user => find(reading, handle),
            _ => Ok(None),
        })
    }
}

fn find(reading: &ReadTransaction, handle: &ResultHandle) -> Result<Option<String>, StoreError> {
    let (first, last) = (LogKey { job: handle.job, seq: 0, sub: 0 }, LogKey::last(handle.job));
    let wanted = handle.to_string();
    let log = LOG.read(reading)?;
    for entry in log.range::<&LogBytes>(&first.encode()..=&last.encode())? {
        let (key, bytes) = entry?;
        // Events have no sub-number; only marks are read.
        if LogKey::decode(key.value()).sub == 0 {
            continue;
        }
        match values::decode(bytes.value())? {
            EngineMark::ToolWhole { handle, content } if handle == wanted => return Ok(Some(content)),
            _ => {}
        }
    }
    Ok(None)
}
