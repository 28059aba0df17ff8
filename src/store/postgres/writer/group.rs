//! Runs a group of writes in one transaction, and finds out what became of a commit without a reply.

use crate::domain::id::JobId;
use crate::ports::{Lease, Measurement, StoreError};
use crate::store::postgres::pool::Connections;
use crate::store::postgres::session::{SqlFault, SqlSession, failed};
use crate::store::postgres::shared::PostgresShared;
use crate::store::postgres::writer::act::{Act, CommitOutcome};
use crate::store::postgres::writer::commit_marks::CommitMark;
use crate::store::postgres::writer::write::{QueuedWrite, WriteScope};
use crate::store::slow_commits::CommitTiming;
use deadpool_postgres::Client;

/// Why a group was not committed.
#[derive(Debug)]
pub(crate) struct GroupFailure {
    pub(crate) error: StoreError,
    pub(crate) fault: SqlFault,
}

/// Claims that wait for the end of a group.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GroupClaims {
    /// How many there are.
    pub(crate) wanted: usize,
    /// Whether to look at the queue even if the group makes no job ready.
    pub(crate) may_have_work: bool,
}

/// Two nodes may lock what their groups touch in different orders. The group that waits gives way long before
/// the database would notice the deadlock. A single write waits as long as it takes.
const GROUP_LOCK_TIMEOUT_MS: u64 = 100;

/// What became of the transaction of a group.
enum GroupEnd {
    /// It is committed.
    Committed(CommitOutcome),
    /// The reply to its commit was lost.
    InDoubt(CommitOutcome),
}

/// Runs the writes, and serves the claims, in one transaction.
pub(crate) async fn run_group(
    shared: &PostgresShared,
    connections: &Connections,
    writes: &mut [Box<dyn QueuedWrite>],
    claims: GroupClaims,
) -> Result<CommitOutcome, GroupFailure> {
    // With the time for a connection: it is what the callers wait for.
    let (began_ms, count) = (shared.clock.monotonic_ms(), writes.len());
    let mark = shared.commit_marks.next().map_err(|error| failure(error, None))?;
    let getting = shared.silence.unless_silent(connections.pool.get()).await;
    let client = getting.and_then(Result::ok).ok_or_else(unreachable)?;
    match run_transaction((shared, connections), &client, (writes, claims), &mark).await {
        Ok(GroupEnd::Committed(outcome)) => {
            let ended_ms = shared.clock.monotonic_ms();
            shared.watch_commit(CommitTiming { began_ms, ended_ms, writes: count });
            Ok(outcome)
        }
        Ok(GroupEnd::InDoubt(outcome)) => {
            // The question may need the place of this connection in the pool.
            drop(Client::take(client));
            let is_committed = is_committed((shared, connections), &mark, outcome.node).await?;
            if is_committed { Ok(outcome) } else { Err(unreachable()) }
        }
        Err(failure) => {
            if shared.silence.is_silent() {
                // Its next user would wait behind replies that may never come.
                drop(Client::take(client));
            }
            Err(failure)
        }
    }
}

async fn run_transaction(
    (shared, connections): (&PostgresShared, &Connections),
    client: &Client,
    (writes, claims): (&mut [Box<dyn QueuedWrite>], GroupClaims),
    mark: &CommitMark<'_>,
) -> Result<GroupEnd, GroupFailure> {
    let count = writes.len();
    let writing = Box::pin(write(shared, connections, client, (writes, claims), mark));
    let written = shared.silence.unless_silent(writing).await;
    let (session, outcome) = written.unwrap_or_else(|| Err(unreachable()))?;
    let began_us = shared.clock.monotonic_us();
    let fault = match shared.silence.unless_silent(session.commit()).await {
        Some(Ok(())) => {
            if let Some(meter) = shared.meter.get().filter(|_| outcome.has_written) {
                let took_us = shared.clock.monotonic_us().saturating_sub(began_us);
                meter.record(Measurement::Committed { writes: count, took_us });
            }
            return Ok(GroupEnd::Committed(outcome));
        }
        Some(Err(error)) => SqlFault::of(&error),
        None => SqlFault::Connection,
    };
    if fault == SqlFault::Connection && outcome.has_written {
        return Ok(GroupEnd::InDoubt(outcome));
    }
    Err(GroupFailure { error: StoreError::Unreachable, fault })
}

/// Sends everything of the transaction but its commit.
async fn write<'c>(
    shared: &'c PostgresShared,
    connections: &Connections,
    client: &'c Client,
    (writes, claims): (&mut [Box<dyn QueuedWrite>], GroupClaims),
    mark: &CommitMark<'_>,
) -> Result<(SqlSession<'c>, CommitOutcome), GroupFailure> {
    let lock_timeout_ms = if writes.len() > 1 { GROUP_LOCK_TIMEOUT_MS } else { 0 };
    let begun = connections.begin(client, lock_timeout_ms).await;
    let session =
        begun.map_err(|error| GroupFailure { error: failed(&error), fault: SqlFault::of(&error) })?;
    let mut act = Act::new(session, shared);
    let written = async {
        let leases = apply(&mut act, writes, claims).await?;
        act.finish(leases, mark).await
    };
    match written.await {
        Ok(outcome) => Ok((act.session, outcome)),
        Err(error) => {
            // Not left to the drop: on this thread nothing would send it before the next group.
            act.session.rollback().await;
            Err(failure(error, act.session.fault()))
        }
    }
}

async fn apply(
    act: &mut Act<'_>,
    writes: &mut [Box<dyn QueuedWrite>],
    claims: GroupClaims,
) -> Result<Vec<Lease>, StoreError> {
    let ending = writes.iter().filter_map(|write| match write.options().scope {
        WriteScope::EndsLease(job) => Some(job),
        WriteScope::Any | WriteScope::Alone => None,
    });
    let ending: Vec<JobId> = ending.collect();
    act.confirm_ahead(&ending).await?;
    for write in writes {
        if write.options().scope == WriteScope::Any {
            act.write_pending().await?;
        }
        write.apply(act).await?;
    }
    act.write_ended().await?;
    act.settle_line_ends().await?;
    let is_worth_a_look = claims.may_have_work || act.effects.announcement.queue.has_ready_job;
    if claims.wanted == 0 || !is_worth_a_look {
        return Ok(Vec::new());
    }
    let leases = act.claim_jobs(claims.wanted).await?;
    act.has_looked = true;
    // The queue is empty: other nodes need not look.
    act.effects.announcement.queue.has_ready_job &= leases.len() == claims.wanted;
    Ok(leases)
}

fn unreachable() -> GroupFailure {
    GroupFailure { error: StoreError::Unreachable, fault: SqlFault::Connection }
}

fn failure(error: StoreError, fault: Option<SqlFault>) -> GroupFailure {
    let fault = fault.unwrap_or(match error {
        // A node whose lease has ended tries again until it has a new one; then it finds no leases.
        StoreError::Unreachable => SqlFault::Connection,
        _ => SqlFault::Statement,
    });
    GroupFailure { error, fault }
}

/// Whether a transaction was committed whose reply was lost. Asks until the database answers: neither "yes"
/// nor "no" may be guessed.
async fn is_committed(
    (shared, connections): (&PostgresShared, &Connections),
    mark: &CommitMark<'_>,
    node: i64,
) -> Result<bool, GroupFailure> {
    let lost = || GroupFailure { error: StoreError::Unreachable, fault: SqlFault::InDoubt };
    let deadline = tokio::time::Instant::now() + shared.database.lease;
    loop {
        let ask = async |session: &SqlSession<'_>| mark.is_committed(session, node).await;
        let asking = shared.silence.unless_silent(connections.read(ask));
        match tokio::time::timeout_at(deadline, asking).await.ok().flatten() {
            Some(Ok(Some(is_committed))) => return Ok(is_committed),
            // This node has lost its lease, and with it its marks.
            Some(Ok(None)) => return Err(lost()),
            Some(Err(_)) => {}
            None => connections.close_idle(),
        }
        if tokio::time::Instant::now() >= deadline {
            return Err(lost());
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
