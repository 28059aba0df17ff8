//! The threads that run the queued writes. One gathers the writes of jobs into groups and serves waiting
//! claims at their ends; others run one write at a time.

use crate::ports::{CancelReason, CancelToken, StoreError, Urgency};
use crate::store::postgres::pool::Connections;
use crate::store::postgres::session::{Columns, SqlFault, SqlSession};
use crate::store::postgres::shared::PostgresShared;
use crate::store::postgres::writer::act::CommitOutcome;
use crate::store::postgres::writer::group::{GroupClaims, GroupFailure, run_group};
use crate::store::postgres::writer::write::QueuedWrite;
use crate::store::waiting_claims::WaitingClaim;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Maximum writes of a group, and their weight.
const GROUP_WRITES: usize = 128;
const GROUP_BYTES: usize = 8 * 1024 * 1024;
/// How long writes of clients wait for a database that is away.
const PATIENCE: Duration = Duration::from_secs(3);
/// Pause before a database that is away is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// How often a group is tried that another transaction is in the way of.
const CONFLICTS: usize = 20;
/// How often the queue is looked at without a hint: notifications may be lost.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A message to a writer.
pub(crate) enum WriterRequest {
    /// A write to run.
    Write(Box<dyn QueuedWrite>),
    /// Waiting claims may find a job.
    Claims,
    /// The store closes.
    Close,
}

/// What became of a group.
enum GroupResult {
    /// Its writes are settled.
    Committed(Box<CommitOutcome>),
    /// Its writes are settled with errors, or were run one by one.
    Failed,
    /// The database is away; these writes wait for it.
    Away(Vec<Box<dyn QueuedWrite>>),
}

/// The thread of the writes of jobs.
pub(crate) struct JobWriter {
    pub(crate) shared: Arc<PostgresShared>,
    /// Its own: a thread that waits for another's replies wakes twice for each.
    pub(crate) connections: Connections,
    /// When the last group ended, on the scale of the monotonic clock.
    pub(crate) last_commit_ms: u64,
    /// Writes that wait for a database that is away.
    pub(crate) waiting: Vec<Box<dyn QueuedWrite>>,
    /// Whether this node takes jobs.
    pub(crate) takes_jobs: bool,
    /// Whether the last group was committed.
    pub(crate) has_committed: bool,
}

impl JobWriter {
    /// Runs until the store closes.
    pub(crate) fn run(mut self, requests: &Receiver<WriterRequest>) {
        let mut is_open = true;
        while is_open || !self.waiting.is_empty() {
            let has_unserved = self.shared.claims.has_unserved();
            let pause = match has_unserved || !self.waiting.is_empty() {
                true if self.has_committed => Duration::ZERO,
                true => RETRY_AFTER,
                false => self.pause(),
            };
            let first = match requests.recv_timeout(pause) {
                Ok(request) => Some(request),
                Err(RecvTimeoutError::Timeout) => {
                    if !has_unserved {
                        self.look();
                    }
                    None
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let (writes, stays_open) = self.gather(first, requests);
            is_open &= stays_open;
            self.serve(writes);
        }
        self.shared.claims.close();
    }

    /// Looks at the queue without a hint, in one statement: most looks find nothing.
    fn look(&self) {
        let sql = "SELECT EXISTS (SELECT FROM jobs WHERE place = 'ready'), min(due_ms) FROM jobs WHERE place = 'delayed'";
        let shared = &self.shared;
        let hints = shared.ready_hints.load(Ordering::SeqCst);
        let look = async |session: &SqlSession<'_>| {
            let found = session.one(sql, &[]).await?;
            Ok::<_, StoreError>((found.column::<bool>(0)?, found.optional_number(1)?))
        };
        let is_due = |due_ms: Option<u64>| due_ms.is_some_and(|due_ms| due_ms <= shared.now_ms());
        match shared.read_on(&self.connections, look) {
            Ok((false, due_ms)) if !is_due(due_ms) => shared.publish_look(0, due_ms, hints),
            Ok(_) => shared.hint_ready(),
            // The next look may find the database again.
            Err(error) => tracing::debug!(%error, "cannot look at the queue"),
        }
    }

    /// Time until a delayed job is due, or until a look without a hint.
    fn pause(&self) -> Duration {
        self.shared.claims.due_in(self.shared.now_ms()).unwrap_or(LOOK_EVERY).min(LOOK_EVERY)
    }

    /// The writes of the next group, and whether the store stays open.
    fn gather(
        &mut self,
        first: Option<WriterRequest>,
        requests: &Receiver<WriterRequest>,
    ) -> (Vec<Box<dyn QueuedWrite>>, bool) {
        let mut writes = std::mem::take(&mut self.waiting);
        let (mut weight, mut is_urgent) = (0_usize, !writes.is_empty());
        let mut next = first;
        let until_ms = self.last_commit_ms.saturating_add(self.shared.options.linger_ms);
        loop {
            match next {
                Some(WriterRequest::Write(write)) => {
                    let options = write.options();
                    weight = weight.saturating_add(options.weight);
                    is_urgent |= options.urgency == Urgency::Now;
                    writes.push(write);
                }
                Some(WriterRequest::Claims) => is_urgent = true,
                Some(WriterRequest::Close) => return (writes, false),
                None => {}
            }
            if writes.len() >= GROUP_WRITES || weight >= GROUP_BYTES {
                return (writes, true);
            }
            next = match requests.try_recv() {
                Ok(request) => Some(request),
                Err(TryRecvError::Disconnected) => return (writes, false),
                Err(TryRecvError::Empty) if is_urgent || writes.is_empty() => return (writes, true),
                Err(TryRecvError::Empty) => match requests.recv_timeout(self.time_until(until_ms)) {
                    Ok(request) => Some(request),
                    Err(_) => return (writes, true),
                },
            };
        }
    }

    fn time_until(&self, monotonic_ms: u64) -> Duration {
        Duration::from_millis(monotonic_ms.saturating_sub(self.shared.clock.monotonic_ms()))
    }

    fn serve(&mut self, writes: Vec<Box<dyn QueuedWrite>>) {
        let hints = self.shared.ready_hints.load(Ordering::SeqCst);
        let takes_jobs = self.check_claims();
        let may_have_work = takes_jobs && self.shared.claims.may_have_work(self.shared.now_ms());
        let claims = self.shared.claims.take();
        if writes.is_empty() && (claims.is_empty() || !may_have_work) {
            self.shared.claims.put_back(claims, false);
            return;
        }
        let wanted = GroupClaims { wanted: if takes_jobs { claims.len() } else { 0 }, may_have_work };
        let result = commit((&self.shared, &self.connections), writes, wanted);
        self.has_committed = matches!(result, GroupResult::Committed(_));
        match result {
            GroupResult::Committed(outcome) => self.settle_claims(claims, *outcome, hints),
            GroupResult::Failed => self.shared.claims.put_back(claims, true),
            GroupResult::Away(writes) => {
                self.shared.claims.put_back(claims, true);
                self.waiting = writes;
            }
        }
        self.last_commit_ms = self.shared.clock.monotonic_ms();
    }

    /// Whether this node takes jobs now; logs a change.
    fn check_claims(&mut self) -> bool {
        let refusal = self.shared.claim_refusal();
        let takes_jobs = refusal.is_none();
        if takes_jobs != std::mem::replace(&mut self.takes_jobs, takes_jobs) {
            if let Some(reason) = refusal {
                tracing::warn!(reason, "this node takes no jobs");
            } else {
                tracing::info!("this node takes jobs again");
            }
        }
        takes_jobs
    }

    fn settle_claims(&self, claims: Vec<WaitingClaim>, outcome: CommitOutcome, hints: u64) {
        let CommitOutcome { leases, next_due_ms, has_looked, own_hints, .. } = outcome;
        if has_looked {
            // The claims have seen what this transaction made ready.
            let expected = hints.wrapping_add(own_hints);
            self.shared.publish_look(u64::from(leases.len() == claims.len()), next_due_ms, expected);
        }
        self.shared.claims.resolve(claims, leases);
    }
}

/// A thread that runs one write at a time.
pub(crate) struct OtherWriter(pub(crate) Arc<PostgresShared>);

impl OtherWriter {
    /// Runs until the store closes. Several threads share the queue.
    pub(crate) fn run(&self, requests: &Mutex<Receiver<WriterRequest>>) {
        loop {
            let queue = requests.lock().unwrap_or_else(PoisonError::into_inner);
            let Ok(WriterRequest::Write(write)) = queue.recv() else { return };
            // Before the next write leaves the queue: see `PostgresStore::wait_for_other_writes`.
            let running = self.0.other_writes.read().unwrap_or_else(PoisonError::into_inner);
            drop(queue);
            let place = (&*self.0, &self.0.connections);
            let mut result = commit(place, vec![write], GroupClaims::default());
            while let GroupResult::Away(writes) = result {
                if writes.is_empty() {
                    break;
                }
                self.0.clock.sleep(&CancelToken::new(Arc::clone(&self.0.clock)), RETRY_AFTER);
                result = commit(place, writes, GroupClaims::default());
            }
            drop(running);
        }
    }
}

/// Commits the writes and settles them. A group that fails at a statement is taken apart: its writes run one
/// by one, so that only those at fault fail.
fn commit(
    (shared, connections): (&PostgresShared, &Connections),
    mut writes: Vec<Box<dyn QueuedWrite>>,
    claims: GroupClaims,
) -> GroupResult {
    for _ in 0..CONFLICTS {
        let GroupFailure { error, fault } =
            match connections.wait(run_group(shared, connections, &mut writes, claims)) {
                Ok(outcome) => return GroupResult::Committed(Box::new(settle(shared, writes, outcome))),
                Err(failure) => failure,
            };
        if shared.node.is_lost() {
            shared.lose_leases();
        }
        match fault {
            // One by one they wait for the other transaction; a group gives way at once.
            SqlFault::Conflict if writes.len() > 1 => {
                return take_apart((shared, connections), writes, &error);
            }
            SqlFault::Conflict => {}
            SqlFault::InDoubt => {
                shared.node.lose();
                shared.lose_leases();
                fail(writes, &error);
                return GroupResult::Failed;
            }
            SqlFault::Connection => return GroupResult::Away(fail_impatient(shared, writes, &error)),
            SqlFault::Statement => return take_apart((shared, connections), writes, &error),
        }
    }
    take_apart((shared, connections), writes, &StoreError::Busy)
}

fn settle(
    shared: &PostgresShared,
    writes: Vec<Box<dyn QueuedWrite>>,
    mut outcome: CommitOutcome,
) -> CommitOutcome {
    let mut leases = shared.leases();
    let is_held = shared.node.is_held_as(outcome.node);
    for (job, change) in outcome.changed.drain() {
        match change {
            Some(changed) if is_held => drop(leases.insert(job, changed)),
            // Since the commit this node has lost its jobs, and others may run them by now.
            Some(changed) => changed.cancel.cancel(CancelReason::LeaseLost),
            None => drop(leases.remove(&job)),
        }
    }
    drop(leases);
    // Callers find watches and cancellations as their writes have left them.
    outcome.own_hints = u64::from(outcome.effects.announcement.queue.has_ready_job);
    shared.apply(std::mem::take(&mut outcome.effects));
    for write in writes {
        write.settle(Ok(()));
    }
    outcome
}

/// Fails the writes that do not wait any longer.
fn fail_impatient(
    shared: &PostgresShared,
    writes: Vec<Box<dyn QueuedWrite>>,
    error: &StoreError,
) -> Vec<Box<dyn QueuedWrite>> {
    let now_ms = shared.clock.monotonic_ms();
    let (mut patient, mut impatient) = (Vec::new(), Vec::new());
    for mut write in writes {
        let away_ms = now_ms.saturating_sub(write.away_since(now_ms));
        // Without its lease this node could not write them anyway.
        let is_patient = write.options().is_patient && !shared.node.is_lost();
        // Of a store that closes, jobs whose last writes are lost are taken over, by this node or by another.
        let waits = !shared.is_closing() && (is_patient || Duration::from_millis(away_ms) < PATIENCE);
        if waits { patient.push(write) } else { impatient.push(write) }
    }
    fail(impatient, error);
    patient
}

fn fail(writes: Vec<Box<dyn QueuedWrite>>, error: &StoreError) {
    for write in writes {
        write.settle(Err(error.clone()));
    }
}

fn take_apart(
    place: (&PostgresShared, &Connections),
    writes: Vec<Box<dyn QueuedWrite>>,
    error: &StoreError,
) -> GroupResult {
    if writes.len() <= 1 {
        fail(writes, error);
        return GroupResult::Failed;
    }
    let mut away = Vec::new();
    for write in writes {
        match commit(place, vec![write], GroupClaims::default()) {
            GroupResult::Committed(_) | GroupResult::Failed => {}
            GroupResult::Away(writes) => away.extend(writes),
        }
    }
    if away.is_empty() { GroupResult::Failed } else { GroupResult::Away(away) }
}
