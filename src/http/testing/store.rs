//! A store in memory. Owns no rule of its own: what the real store promises is repeated
//! here as simply as it can be.

use crate::domain::approval::ApprovalDecision;
use crate::domain::event::{Event, FailureCode, FinishReason, Record, SequencedEvent, StatusPhase, StepKind};
use crate::domain::id::{JobId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::{History, Job, JobOutcome, JobSpec, JobStatus, PendingApproval};
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::ports::{
    CancelToken, DecidedJob, EventPage, Fence, Idempotent, JobChangeError, JobPage, JobQuery, Lease,
    LeaseError, NewJob, Store, StoreError, SubmitError, Ticket, Urgency,
};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// One stored job.
struct Entry {
    job: Job,
    new: NewJob,
    events: Vec<SequencedEvent>,
    output: Option<String>,
    newest: watch::Sender<u64>,
}

/// Where the answer to a submission goes.
type Unanswered = oneshot::Sender<Result<Vec<Job>, SubmitError>>;

/// The store.
#[derive(Default)]
pub(crate) struct MemoryStore {
    jobs: Mutex<BTreeMap<JobId, Entry>>,
    /// What the next writes answer with.
    pub(crate) refuse: Mutex<Option<SubmitError>>,
    /// What reads of jobs and events answer with.
    pub(crate) unreadable: Mutex<Option<StoreError>>,
    /// Submissions are stored but not acknowledged while this holds their tickets.
    pub(crate) unanswered: Mutex<Option<Vec<Unanswered>>>,
    /// Calls of `cancel`.
    pub(crate) cancels: Mutex<u32>,
    /// Wake-ups go astray: what is watched never changes.
    pub(crate) mute: Mutex<Option<watch::Sender<u64>>>,
    /// What was decided, as it was asked for.
    pub(crate) decisions: Mutex<Vec<ApprovalDecision>>,
    /// Calls of `step_text`.
    pub(crate) step_texts: Mutex<u32>,
    /// Calls of `events`.
    pub(crate) pages: Mutex<u32>,
    /// Idempotency keys and what they were used for.
    keys: Mutex<Vec<(IdempotencyKey, JobId)>>,
}

impl MemoryStore {
    fn check_readable(&self) -> Result<(), StoreError> {
        self.unreadable.lock().expect("lock").clone().map_or(Ok(()), Err)
    }

    /// Appends an event, filling in `first_seq` as the real store does.
    pub(crate) fn push(&self, id: JobId, mut event: Event) {
        let mut jobs = self.jobs.lock().expect("lock");
        let entry = jobs.get_mut(&id).expect("the job");
        let seq = entry.events.len() as u64 + 1;
        if let Event::Delta { index, first_seq, .. } = &mut event {
            let same = |n: &&SequencedEvent| matches!(&n.event, Event::Delta { index: i, .. } if i == index);
            *first_seq = entry.events.iter().find(same).map_or(seq, |n| n.seq);
        }
        entry.events.push(SequencedEvent::new(seq, event));
        entry.newest.send_replace(seq);
    }

    /// A piece of text at the end of a step.
    pub(crate) fn say(&self, id: JobId, index: u32, text: &str) {
        let offset = self.text_of(id, index).len() as u64;
        let (kind, text) = (StepKind::Text, text.to_owned());
        self.push(id, Event::Delta { index, kind, offset, first_seq: 0, text });
    }

    /// Everything that a step has said.
    pub(crate) fn text_of(&self, id: JobId, wanted: u32) -> String {
        let jobs = self.jobs.lock().expect("lock");
        let pieces = jobs[&id].events.iter().filter_map(|n| match &n.event {
            Event::Delta { index, text, .. } if *index == wanted => Some(text.as_str()),
            _ => None,
        });
        pieces.collect()
    }

    /// Ends a job.
    pub(crate) fn end(&self, id: JobId, output: &str) {
        let usage = Usage::new(3, 4);
        let ending = JobOutcome {
            event: Event::Done {
                message_id: id.message_id(),
                token_count: 4,
                suggested_title: None,
                usage,
                finish_reason: FinishReason::Stop,
                stop_sequence: None,
            },
            output_text: output.to_owned(),
            messages: Vec::new(),
            summary: None,
        };
        self.settle(id, ending);
    }

    /// Ends a job in any way.
    pub(crate) fn settle(&self, id: JobId, ending: JobOutcome) {
        let mut jobs = self.jobs.lock().expect("lock");
        let entry = jobs.get_mut(&id).expect("the job");
        let seq = entry.events.len() as u64 + 1;
        entry.job.status = ending.status();
        entry.job.error = ending.error();
        if let Event::Done { usage, .. } = &ending.event {
            entry.job.usage = *usage;
        }
        entry.job.finished_at_ms = Some(9_000);
        entry.job.last_event_id = seq;
        entry.output = Some(ending.output_text);
        entry.events.push(SequencedEvent::new(seq, ending.event));
        entry.newest.send_replace(seq);
    }

    /// The newest job.
    pub(crate) fn newest_id(&self) -> JobId {
        *self.jobs.lock().expect("lock").keys().next_back().expect("a job")
    }

    pub(crate) fn count(&self) -> usize {
        self.jobs.lock().expect("lock").len()
    }

    pub(crate) fn new_job(&self, id: JobId) -> NewJob {
        self.jobs.lock().expect("lock")[&id].new.clone()
    }

    pub(crate) fn status(&self, id: JobId) -> JobStatus {
        self.jobs.lock().expect("lock")[&id].job.status
    }

    /// The job waits for approval of these calls.
    pub(crate) fn ask(&self, id: JobId, calls: Vec<ToolCall>) {
        let pending = PendingApproval { calls, expires_at_ms: 60_000 };
        let (reason, calls) = (pending.approval_text(id), pending.id_refs());
        let mut jobs = self.jobs.lock().expect("lock");
        let job = &mut jobs.get_mut(&id).expect("the job").job;
        job.status = JobStatus::Waiting;
        job.approval = Some(pending);
        drop(jobs);
        self.push(id, Event::WaitingApproval { attempt: 0, reason, calls });
    }

    /// Makes the job another user's.
    pub(crate) fn give_away(&self, id: JobId) {
        self.jobs.lock().expect("lock").get_mut(&id).expect("the job").job.user = UserId(2);
    }

    fn entry(new: NewJob) -> Entry {
        let mut job = Job::queued(new.id, new.user, new.created_at_ms, &new.spec);
        job.last_event_id = 1;
        let event = Event::Status { status: StatusPhase::Queued, attempt: 0, reason: None };
        Entry {
            job,
            new,
            events: vec![SequencedEvent::new(1, event)],
            output: None,
            newest: watch::channel(1).0,
        }
    }
}

impl Store for MemoryStore {
    fn submit(&self, jobs: Vec<NewJob>) -> Ticket<Vec<Job>, SubmitError> {
        if let Some(error) = self.refuse.lock().expect("lock").clone() {
            return Ticket::resolved(Err(error));
        }
        let mut stored = self.jobs.lock().expect("lock");
        let entries = jobs.into_iter().map(|new| {
            let entry = Self::entry(new);
            let job = entry.job.clone();
            stored.insert(job.id, entry);
            job
        });
        let entries = entries.collect();
        if let Some(unanswered) = &mut *self.unanswered.lock().expect("lock") {
            let (sender, ticket) = Ticket::new();
            unanswered.push(sender);
            return ticket;
        }
        Ticket::resolved(Ok(entries))
    }

    fn submit_once(&self, job: NewJob, key: IdempotencyKey) -> Ticket<Idempotent<Job>, SubmitError> {
        let mut keys = self.keys.lock().expect("lock");
        match keys.iter().find(|(seen, _)| seen.key == key.key) {
            Some((seen, _)) if seen.fingerprint != key.fingerprint => {
                Ticket::resolved(Err(SubmitError::KeyReused))
            }
            Some((_, id)) => {
                Ticket::resolved(Ok(Idempotent::Replayed(self.jobs.lock().expect("lock")[id].job.clone())))
            }
            None => {
                keys.push((key, job.id));
                let id = job.id;
                drop(self.submit(vec![job]));
                Ticket::resolved(Ok(Idempotent::New(self.jobs.lock().expect("lock")[&id].job.clone())))
            }
        }
    }

    fn delete(&self, user: UserId, id: JobId) -> Ticket<bool, JobChangeError> {
        let mut jobs = self.jobs.lock().expect("lock");
        let Some(entry) = jobs.get(&id).filter(|entry| entry.job.user == user) else {
            return Ticket::resolved(Ok(false));
        };
        let status = entry.job.status;
        if !status.is_terminal() {
            return Ticket::resolved(Err(JobChangeError::WrongState { status }));
        }
        jobs.remove(&id);
        Ticket::resolved(Ok(true))
    }

    fn decide(
        &self,
        user: UserId,
        id: JobId,
        decision: ApprovalDecision,
    ) -> Ticket<Option<DecidedJob>, JobChangeError> {
        let mut jobs = self.jobs.lock().expect("lock");
        let Some(entry) = jobs.get_mut(&id).filter(|entry| entry.job.user == user) else {
            return Ticket::resolved(Ok(None));
        };
        let status = entry.job.status;
        let Some(pending) = &mut entry.job.approval else {
            return Ticket::resolved(Err(JobChangeError::WrongState { status }));
        };
        let waiting = pending.id_refs();
        let id_refs = decision.id_refs.clone().unwrap_or_else(|| waiting.clone());
        if let Some(id_ref) = id_refs.iter().find(|id_ref| !waiting.contains(id_ref)) {
            return Ticket::resolved(Err(JobChangeError::NotPending { id_ref: id_ref.clone() }));
        }
        pending.calls.retain(|call| !id_refs.contains(&call.id_ref));
        if pending.calls.is_empty() {
            entry.job.approval = None;
            entry.job.status = JobStatus::Queued;
        }
        let job = entry.job.clone();
        drop(jobs);
        self.decisions.lock().expect("lock").push(decision);
        Ticket::resolved(Ok(Some(DecidedJob { job, calls: id_refs })))
    }

    fn retry(&self, user: UserId, id: JobId) -> Ticket<Option<Job>, JobChangeError> {
        let mut jobs = self.jobs.lock().expect("lock");
        let Some(entry) = jobs.get_mut(&id).filter(|entry| entry.job.user == user) else {
            return Ticket::resolved(Ok(None));
        };
        if entry.job.status != JobStatus::Failed {
            return Ticket::resolved(Err(JobChangeError::WrongState { status: entry.job.status }));
        }
        entry.job.status = JobStatus::Queued;
        entry.job.error = None;
        Ticket::resolved(Ok(Some(entry.job.clone())))
    }

    fn cancel(&self, user: UserId, id: JobId) -> Ticket<Option<Job>> {
        *self.cancels.lock().expect("lock") += 1;
        let Ok(Some(job)) = self.job(user, id) else { return Ticket::resolved(Ok(None)) };
        if !job.status.is_terminal() {
            let code = FailureCode::Cancelled;
            let event = Event::Error { content: "cancelled".into(), code, retry_after_ms: None };
            let output_text = String::new();
            self.settle(id, JobOutcome { event, output_text, messages: Vec::new(), summary: None });
        }
        Ticket::resolved(self.job(user, id))
    }

    fn job(&self, user: UserId, id: JobId) -> Result<Option<Job>, StoreError> {
        self.check_readable()?;
        let jobs = self.jobs.lock().expect("lock");
        Ok(jobs.get(&id).map(|entry| entry.job.clone()).filter(|job| job.user == user))
    }

    fn output(&self, id: JobId) -> Result<Option<String>, StoreError> {
        Ok(self.jobs.lock().expect("lock").get(&id).and_then(|entry| entry.output.clone()))
    }

    fn is_known(&self, user: UserId, key: &[u8; 32]) -> Result<bool, StoreError> {
        let (keys, jobs) = (self.keys.lock().expect("lock"), self.jobs.lock().expect("lock"));
        Ok(keys.iter().any(|(seen, id)| seen.key == *key && jobs[id].job.user == user))
    }

    fn unfinished_count(&self, user: UserId, most: u64) -> Result<u64, StoreError> {
        let jobs = self.jobs.lock().expect("lock");
        let count =
            jobs.values().filter(|entry| entry.job.user == user && !entry.job.status.is_terminal()).count();
        Ok((count as u64).min(most))
    }

    fn input(&self, id: JobId) -> Result<Option<Vec<Message>>, StoreError> {
        let jobs = self.jobs.lock().expect("lock");
        Ok(jobs.get(&id).map(|entry| entry.new.spec.input.clone()))
    }

    fn request(&self, user: UserId, id: JobId) -> Result<Option<JobSpec>, StoreError> {
        let jobs = self.jobs.lock().expect("lock");
        Ok(jobs.get(&id).filter(|entry| entry.job.user == user).map(|entry| entry.new.spec.clone()))
    }

    fn jobs(&self, query: &JobQuery) -> Result<JobPage, StoreError> {
        let jobs = self.jobs.lock().expect("lock");
        let fits = |(place, job): &(u64, &Job)| {
            job.user == query.user
                && query.status.is_none_or(|status| job.status == status)
                && query.filter.matches(job)
                && query.before.is_none_or(|before| *place < before)
        };
        let placed: Vec<(u64, &Job)> = (1..).zip(jobs.values().map(|entry| &entry.job)).collect();
        let mut found: Vec<_> = placed.into_iter().rev().filter(fits).collect();
        let has_more = found.len() > query.limit;
        found.truncate(query.limit);
        let next = found.last().map(|(place, _)| *place).filter(|_| has_more);
        Ok(JobPage { jobs: found.into_iter().map(|(_, job)| job.clone()).collect(), next })
    }

    fn events(&self, id: JobId, after: u64, max: usize) -> Result<EventPage, StoreError> {
        self.check_readable()?;
        *self.pages.lock().expect("lock") += 1;
        let jobs = self.jobs.lock().expect("lock");
        let all = &jobs[&id].events;
        let seen = usize::try_from(after).expect("small").min(all.len());
        let events = all[seen..].iter().take(max).cloned().collect();
        Ok(EventPage { events, last_seq: all.len() as u64 })
    }

    fn step_text(&self, id: JobId, first_seq: u64, up_to: u64) -> Result<String, StoreError> {
        *self.step_texts.lock().expect("lock") += 1;
        let jobs = self.jobs.lock().expect("lock");
        Ok(step_text(&jobs[&id].events, first_seq, up_to))
    }

    fn watch(&self, id: JobId) -> watch::Receiver<u64> {
        if let Some(silence) = &*self.mute.lock().expect("lock") {
            return silence.subscribe();
        }
        let jobs = self.jobs.lock().expect("lock");
        jobs.get(&id).map_or_else(|| watch::channel(0).1, |entry| entry.newest.subscribe())
    }

    fn probe(&self) -> Ticket<()> {
        Ticket::resolved(Ok(()))
    }

    fn claim(&self, _max: usize) -> Ticket<Vec<Lease>> {
        unreachable!("HTTP runs no job")
    }
    fn append(&self, _: Fence, _: Vec<Record>, _: Urgency) -> Ticket<(), LeaseError> {
        unreachable!("HTTP writes no event")
    }
    fn finish(&self, _: Fence, _: Vec<Record>, _: JobOutcome) -> Ticket<(), LeaseError> {
        unreachable!("HTTP ends no job")
    }
    fn finish_and_claim(
        &self,
        _: Fence,
        _: Vec<Record>,
        _: JobOutcome,
    ) -> (Result<(), LeaseError>, Option<Lease>) {
        unreachable!("HTTP ends no job")
    }
    fn wait_for_approval(&self, _: Fence, _: Vec<ToolCall>, _: u64) -> Ticket<(), LeaseError> {
        unreachable!("HTTP holds no lease")
    }
    fn defer(&self, _: Fence, _: String, _: u64) -> Ticket<(), LeaseError> {
        unreachable!("HTTP holds no lease")
    }
    fn postpone(&self, _: Fence, _: String, _: u64) -> Ticket<(), LeaseError> {
        unreachable!("HTTP holds no lease")
    }
    fn release(&self, _: Fence) -> Ticket<(), LeaseError> {
        unreachable!("HTTP holds no lease")
    }
    fn log(&self, _: JobId) -> Result<Vec<Record>, StoreError> {
        unreachable!("HTTP reads no marks")
    }
    fn history(&self, _: &Job, _: usize) -> Result<History, StoreError> {
        unreachable!("HTTP reads no history")
    }
    fn claim_next(&self, _: &CancelToken, _: Duration) -> Result<Option<Lease>, StoreError> {
        unreachable!("HTTP holds no lease")
    }
}

/// The text of the step that starts at `first_seq`, as the real store reads it.
pub(crate) fn step_text(events: &[SequencedEvent], first_seq: u64, up_to: u64) -> String {
    let index_of = |n: &SequencedEvent| match &n.event {
        Event::Delta { index, .. } => Some(*index),
        _ => None,
    };
    let step = events.iter().find(|n| n.seq == first_seq).and_then(index_of);
    let pieces = events.iter().filter(|n| n.seq >= first_seq && n.seq <= up_to && index_of(n) == step);
    let texts = pieces.filter_map(|n| match &n.event {
        Event::Delta { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}
