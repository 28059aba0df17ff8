//! Jobs, from their submission to their end, and the port that changes and reads them.

use crate::domain::approval::ApprovalDecision;
use crate::domain::event::Record;
use crate::domain::id::{JobId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::{History, Job, JobOutcome, JobSpec};
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::ports::{
    CancelToken, DecidedJob, EventPage, Fence, Idempotent, JobChangeError, JobPage, JobQuery, Lease,
    LeaseError, NewJob, Store, StoreError, SubmitError, Ticket, Urgency,
};
use crate::store::postgres::accounts::quota_counts::unfinished_counts;
use crate::store::postgres::conversations::history;
use crate::store::postgres::migrations;
use crate::store::postgres::session::SqlSession;
use crate::store::postgres::store::PostgresStore;
use crate::store::postgres::writer::act::Act;
use crate::store::postgres::writer::write::{WriteOptions, WriteScope};
use crate::store::rows::weight::{record_bytes, spec_bytes};
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
pub(crate) mod insert;
pub(crate) mod quarantine;
pub(crate) mod queue;
pub(crate) mod read;
pub(crate) mod release;
pub(crate) mod retry;
pub(crate) mod row;
pub(crate) mod runs;
pub(crate) mod span_exports;
pub(crate) mod stats;
pub(crate) mod submit;
pub(crate) mod take_over;
pub(crate) mod unfinished;

impl PostgresStore {
    /// The error for a log that this node cannot read. A log that a newer version has written is not damaged:
    /// a node of that version goes on with its job, and this one takes no more.
    fn unreadable_log(&self, job: JobId, error: StoreError) -> StoreError {
        let StoreError::Corrupt(_) = error else { return error };
        match self.read(async |session: &SqlSession<'_>| migrations::stored_layout(session).await) {
            Ok(layout) if layout.newest > migrations::NEWEST => {
                let reason = || {
                    format!(
                        "a newer version has written to the log of {job} what this one cannot read, so this \
                             node takes no jobs"
                    )
                };
                StoreError::Outdated(self.shared.outdated.get_or_init(reason).clone())
            }
            _ => error,
        }
    }
}

impl Store for PostgresStore {
    fn submit(&self, jobs: Vec<NewJob>) -> Ticket<Vec<Job>, SubmitError> {
        let bytes = jobs.iter().map(|job| spec_bytes(&job.spec)).sum();
        let is_of_others =
            |job: &NewJob| job.spec.conversation_id.is_some() || !job.spec.conditions.after.is_empty();
        let scope = if jobs.iter().any(is_of_others) { WriteScope::Any } else { WriteScope::Alone };
        self.offer(WriteOptions::weighing(bytes).scoped(scope), async move |act: &mut Act<'_>| {
            act.submit_jobs(&jobs).await
        })
    }

    fn submit_once(&self, job: NewJob, key: IdempotencyKey) -> Ticket<Idempotent<Job>, SubmitError> {
        let options = WriteOptions::weighing(spec_bytes(&job.spec));
        self.offer(options, async move |act: &mut Act<'_>| act.submit_idempotent(&job, &key).await)
    }

    fn claim(&self, max: usize) -> Ticket<Vec<Lease>> {
        self.push(WriteOptions::default(), async move |act: &mut Act<'_>| act.claim_jobs(max).await)
    }

    fn append(&self, fence: Fence, records: Vec<Record>, urgency: Urgency) -> Ticket<(), LeaseError> {
        let weight = records.iter().map(record_bytes).sum();
        let options = WriteOptions { weight, urgency, scope: WriteScope::Alone, ..WriteOptions::default() };
        self.push(options, async move |act: &mut Act<'_>| act.append_records(fence, &records))
    }

    fn finish(&self, fence: Fence, records: Vec<Record>, ending: JobOutcome) -> Ticket<(), LeaseError> {
        let bytes = records.iter().map(record_bytes).sum::<usize>().saturating_add(ending.output_text.len());
        // A job of a conversation locks that first, and its own row in its turn.
        let is_of_conversation = self
            .shared
            .leases()
            .get(&fence.job)
            .is_some_and(|leased| leased.row.job.conversation_id.is_some());
        let scope = if is_of_conversation { WriteScope::Any } else { WriteScope::EndsLease(fence.job) };
        self.push(WriteOptions::weighing(bytes).scoped(scope), async move |act: &mut Act<'_>| {
            act.finish_job(fence, &records, &ending).await
        })
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
        (ended, lease)
    }

    fn release(&self, fence: Fence) -> Ticket<(), LeaseError> {
        self.push(WriteOptions::default(), async move |act: &mut Act<'_>| act.release_job(fence).await)
    }

    fn postpone(&self, fence: Fence, reason: String, delay_ms: u64) -> Ticket<(), LeaseError> {
        self.push(WriteOptions::default(), async move |act: &mut Act<'_>| {
            act.postpone_job(fence, &reason, delay_ms).await
        })
    }

    fn defer(&self, fence: Fence, reason: String, delay_ms: u64) -> Ticket<(), LeaseError> {
        self.push(WriteOptions::default(), async move |act: &mut Act<'_>| {
            act.defer_job(fence, &reason, delay_ms).await
        })
    }

    fn wait_for_approval(
        &self,
        fence: Fence,
        calls: Vec<ToolCall>,
        timeout_ms: u64,
    ) -> Ticket<(), LeaseError> {
        let bytes = calls.iter().map(|call| call.arguments.len()).sum();
        self.push(WriteOptions::weighing(bytes), async move |act: &mut Act<'_>| {
            act.wait_for_decision(fence, &calls, timeout_ms).await
        })
    }

    fn decide(
        &self,
        user: UserId,
        job: JobId,
        decision: ApprovalDecision,
    ) -> Ticket<Option<DecidedJob>, JobChangeError> {
        self.offer(WriteOptions::default(), async move |act: &mut Act<'_>| {
            act.decide_approval(user, job, &decision).await
        })
    }

    fn retry(&self, user: UserId, job: JobId) -> Ticket<Option<Job>, JobChangeError> {
        self.offer(WriteOptions::default(), async move |act: &mut Act<'_>| act.retry_job(user, job).await)
    }

    fn delete(&self, user: UserId, job: JobId) -> Ticket<bool, JobChangeError> {
        self.offer(WriteOptions::default(), async move |act: &mut Act<'_>| act.delete_job(user, job).await)
    }

    fn cancel(&self, user: UserId, job: JobId) -> Ticket<Option<Job>> {
        self.offer(WriteOptions::default(), async move |act: &mut Act<'_>| act.cancel_job(user, job).await)
    }

    fn end_due(&self) -> Ticket<bool> {
        let now_ms = self.shared.now_ms();
        match self.next_due(&self.shared.due_ends, conditions::NEXT_END) {
            Ok(Some(at_ms)) if at_ms == 0 || (at_ms <= now_ms && self.is_clock_trusted()) => {
                let until_ms = if self.is_clock_trusted() { now_ms } else { 0 };
                self.push(WriteOptions::default(), async move |act: &mut Act<'_>| {
                    act.end_due_job(until_ms).await
                })
            }
            due => Ticket::resolved(due.map(|_| false)),
        }
    }

    fn probe(&self) -> Ticket<()> {
        self.offer(WriteOptions::default(), async move |act: &mut Act<'_>| {
            let sql = "INSERT INTO settings VALUES ('probe', '') ON CONFLICT (key) DO UPDATE SET value = ''";
            act.session.execute(sql, &[]).await.map(|_| ())
        })
    }

    fn job(&self, user: UserId, job: JobId) -> Result<Option<Job>, StoreError> {
        let now_ms = self.shared.now_ms();
        self.read(async |session: &SqlSession<'_>| read::job(session, (user, job), now_ms).await)
    }

    fn has_ended(&self, user: UserId, job: JobId) -> Result<bool, StoreError> {
        // Of a job that runs here, no other node can write the end.
        if self.shared.leases().get(&job).is_some_and(|leased| leased.row.job.user == user) {
            return Ok(false);
        }
        Ok(self.job(user, job)?.is_none_or(|job| job.status.is_terminal()))
    }

    fn output(&self, job: JobId) -> Result<Option<String>, StoreError> {
        self.read(async |session: &SqlSession<'_>| read::output(session, job).await)
    }

    fn input(&self, job: JobId) -> Result<Option<Vec<Message>>, StoreError> {
        let spec = self.read(async |session: &SqlSession<'_>| row::find_spec(session, job).await)?;
        Ok(spec.map(|spec| spec.input))
    }

    fn request(&self, user: UserId, job: JobId) -> Result<Option<JobSpec>, StoreError> {
        self.read(async |session: &SqlSession<'_>| read::request(session, user, job).await)
    }

    fn jobs(&self, query: &JobQuery) -> Result<JobPage, StoreError> {
        let now_ms = self.shared.now_ms();
        self.read(async |session: &SqlSession<'_>| read::jobs(session, query, now_ms).await)
    }

    fn is_known(&self, user: UserId, key: &[u8; 32]) -> Result<bool, StoreError> {
        let now_ms = self.shared.now_ms();
        self.read(async |session: &SqlSession<'_>| idempotency::is_known(session, user, key, now_ms).await)
    }

    fn unfinished_count(&self, user: UserId, limit: u64) -> Result<u64, StoreError> {
        let counts = self.read(async |session: &SqlSession<'_>| unfinished_counts(session, user).await)?;
        Ok(counts.all().min(limit))
    }

    fn events(&self, job: JobId, after: u64, max: usize) -> Result<EventPage, StoreError> {
        let page = self.read(async |session: &SqlSession<'_>| read::events(session, job, after, max).await);
        page.map_err(|error| self.unreadable_log(job, error))
    }

    fn step_text(&self, job: JobId, first_seq: u64, up_to: u64) -> Result<String, StoreError> {
        self.read(async |session: &SqlSession<'_>| read::step_text(session, job, first_seq, up_to).await)
    }

    fn log(&self, job: JobId) -> Result<Vec<Record>, StoreError> {
        let log = self.read(async |session: &SqlSession<'_>| read::log(session, job).await);
        log.map_err(|error| self.unreadable_log(job, error))
    }

    fn history(&self, job: &Job, max: usize) -> Result<History, StoreError> {
        if job.conversation_id.is_none() {
            return Ok(History::default());
        }
        let budget = history::HistoryBudget { messages: max, bytes: self.shared.limits.history_bytes };
        self.read(async |session: &SqlSession<'_>| history::history(session, job.id, budget).await)
    }

    fn watch(&self, job: JobId) -> watch::Receiver<u64> {
        let receiver = self.shared.watches.subscribe(job);
        // Subscribed first, read second: one of them sees a commit in between. A failed read loses only
        // the first hint; the reader's own read reports the error.
        if let Ok(seq) = self.read(async |session: &SqlSession<'_>| read::last_seq(session, job).await) {
            self.shared.watches.bump(job, seq);
        }
        receiver
    }

    fn claim_next(&self, stop: &CancelToken, timeout: Duration) -> Result<Option<Lease>, StoreError> {
        if timeout.is_zero() {
            return Ok(self.claim(1).wait()?.pop());
        }
        self.shared.claims.wait(stop, timeout, &*self.shared.clock, || self.shared.wake_job_writer())
    }
}
