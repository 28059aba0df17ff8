//! Reads committed jobs, lists and logs. A read transaction lasts no longer than one page.

use crate::domain::event::{EngineMark, Record, SequencedEvent};
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{Job, JobStatus};
use crate::domain::job_filter::JobFilter;
use crate::ports::{EventPage, JobPage, JobQuery, StoreError};
use crate::store::queue_length::QueueLength;
use crate::store::redb::codec::keys::jobs::{
    DelayedKey, EndedKey, JobBytes, JobOwnerBytes, JobOwnerKey, LogBytes, LogKey,
};
use crate::store::redb::codec::lazy_table::RawBytes;
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::{
    CONVERSATION_QUEUE, DELAYED, ENDED, JOBS, LOG, OUTPUTS, OWNED, READY, counters,
};
use crate::store::redb::codec::values;
use crate::store::redb::jobs::row::shown;
use crate::store::redb::retention::sweep::WHOLE;
use crate::store::rows::job::JobRow;
use crate::store::rows::page::{JoinedDeltas, PAGE_BYTES};

/// The row of a job.
pub(crate) fn row(reading: &ReadTransaction, job: JobId) -> Result<Option<JobRow>, StoreError> {
    JOBS.read(reading)?.row(&job.to_bytes())
}

/// The job, if it is this user's, with what it waits for now.
pub(crate) fn job(
    reading: &ReadTransaction,
    (user, job): (UserId, JobId),
    now_ms: u64,
) -> Result<Option<Job>, StoreError> {
    let found = row(reading, job)?.filter(|row| row.job.user == user);
    found.map(|row| shown(row, now_ms, &CONVERSATION_QUEUE.read(reading)?)).transpose()
}

/// The answer of an ended job; an empty one has no row.
pub(crate) fn output(reading: &ReadTransaction, job: JobId) -> Result<Option<String>, StoreError> {
    if let Some(bytes) = OUTPUTS.read(reading)?.get(&job.to_bytes())? {
        return values::decode_text(bytes.value()).map(Some);
    }
    match row(reading, job)?.filter(|row| row.job.status.is_terminal()) {
        Some(row) if row.has_output => Err(StoreError::Corrupt(format!("{job} has no output"))),
        ended => Ok(ended.map(|_| String::new())),
    }
}

/// A user's jobs, newest first: the lists of the wanted states, merged.
pub(crate) fn jobs(reading: &ReadTransaction, query: &JobQuery, now_ms: u64) -> Result<JobPage, StoreError> {
    if query.filter != JobFilter::NONE {
        return filtered(reading, query, now_ms);
    }
    let (found, next) = listing(reading, query, query.limit)?;
    let (table, lines) = (JOBS.read(reading)?, CONVERSATION_QUEUE.read(reading)?);
    let mut jobs = Vec::with_capacity(found.len());
    for (_, id) in found {
        let row = values::listed(JobId::from_bytes(id), table.row::<JobRow>(&id))?;
        jobs.push(shown(row, now_ms, &lines)?);
    }
    Ok(JobPage { jobs, next })
}

/// Acceptance numbers and ids, and the number after which the next page starts.
pub(crate) type JobListing = (Vec<(u64, JobBytes)>, Option<u64>);

/// Acceptance numbers and ids of at most `limit` matching jobs, and the number after which the next page
/// starts.
pub(crate) fn listing(
    reading: &ReadTransaction,
    query: &JobQuery,
    limit: usize,
) -> Result<JobListing, StoreError> {
    let before = query.before.unwrap_or(u64::MAX);
    let owned = OWNED.read(reading)?;
    let wanted = JobStatus::ALL.iter().filter(|status| query.status.is_none_or(|only| only == **status));
    let mut found: Vec<(u64, JobBytes)> = Vec::new();
    for status in wanted {
        let key = |accept| JobOwnerKey { user: query.user, status: *status, accept }.encode();
        for entry in owned.range::<&JobOwnerBytes>(&key(0)..&key(before))?.rev().take(limit.saturating_add(1))
        {
            let (key, job) = entry?;
            found.push((JobOwnerKey::accept(key.value()), *job.value()));
        }
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().map(|(accept, _)| *accept).filter(|_| has_more);
    Ok((found, next))
}

/// Number of a user's unfinished jobs, counted by reading.
pub(crate) fn unfinished_count(
    owned: &impl ReadableTable<&'static JobOwnerBytes, &'static JobBytes>,
    user: UserId,
) -> Result<u64, StoreError> {
    let mut count = 0_u64;
    for status in JobStatus::ALL.iter().copied().filter(|status| !status.is_terminal()) {
        let key = |accept| JobOwnerKey { user, status, accept }.encode();
        for entry in owned.range::<&JobOwnerBytes>(&key(0)..=&key(u64::MAX))? {
            entry?;
            count = count.saturating_add(1);
        }
    }
    Ok(count)
}

/// The newest event of a log.
pub(crate) fn last_seq(reading: &ReadTransaction, job: JobId) -> Result<u64, StoreError> {
    newest_seq(&LOG.read(reading)?, job)
}

fn newest_seq(log: &impl ReadableTable<&'static LogBytes, RawBytes>, job: JobId) -> Result<u64, StoreError> {
    let (first, last) = (LogKey { job, seq: 0, sub: 0 }.encode(), LogKey::last(job).encode());
    let newest = log.range::<&LogBytes>(&first..=&last)?.next_back().transpose()?;
    Ok(newest.map_or(0, |(key, _)| LogKey::decode(key.value()).seq))
}

/// Events after the cursor.
pub(crate) fn events(
    reading: &ReadTransaction,
    job: JobId,
    after: u64,
    max: usize,
) -> Result<EventPage, StoreError> {
    let log = LOG.read(reading)?;
    let Some(from) = after.checked_add(1) else {
        return Ok(EventPage { events: Vec::new(), last_seq: newest_seq(&log, job)? });
    };
    let (first, last) = (LogKey { job, seq: from, sub: 0 }.encode(), LogKey::last(job).encode());
    let (mut events, mut bytes, mut newest) = (Vec::new(), 0_usize, None);
    for entry in log.range::<&LogBytes>(&first..=&last)? {
        if events.len() >= max || bytes >= PAGE_BYTES {
            break;
        }
        let (key, stored) = entry?;
        let key = LogKey::decode(key.value());
        newest = Some(key.seq);
        if key.sub == 0 {
            bytes = bytes.saturating_add(stored.value().len());
            let (event, link) = (values::decode(stored.value())?, values::link(stored.value()));
            events.push(SequencedEvent::linked(key.seq, event, link));
        }
    }
    let is_full = events.len() >= max || bytes >= PAGE_BYTES;
    // A page that is not full has read up to the end of the log.
    let last_seq = match newest.filter(|_| !is_full) {
        Some(newest) => newest,
        None => newest_seq(&log, job)?,
    };
    refuse_lost_events(reading, job, (after, Some(last_seq).filter(|_| !is_full)), &events)?;
    Ok(EventPage { events, last_seq })
}

/// Fails if events are lost: those of a log begin after one number, end at the last one, if it is known, and
/// have no gap but those of retention.
fn refuse_lost_events(
    reading: &ReadTransaction,
    job: JobId,
    (after, last): (u64, Option<u64>),
    events: &[SequencedEvent],
) -> Result<(), StoreError> {
    let end = events.last().map_or(after, |event| event.seq);
    let seqs = std::iter::once(after).chain(events.iter().map(|event| event.seq));
    let has_gap = !seqs.is_sorted_by(|one, next| one.checked_add(1) == Some(*next));
    if last.is_some_and(|last| last > end) || (has_gap && is_complete(reading, job)?) {
        return Err(StoreError::Corrupt(format!("the log of {job} lacks events")));
    }
    Ok(())
}

/// Whether retention has left the log of this job alone.
pub(crate) fn is_complete(reading: &ReadTransaction, job: JobId) -> Result<bool, StoreError> {
    let Some(row) = row(reading, job)?.filter(|row| row.retried_at_ms.is_none()) else { return Ok(false) };
    let Some(finished_at_ms) = row.job.finished_at_ms else { return Ok(true) };
    let whole = EndedKey { stage: WHOLE, finished_at_ms, job }.encode();
    Ok(ENDED.read(reading)?.get(&whole)?.is_some())
}

/// The text of the step that begins at `first_seq`.
pub(crate) fn step_text(
    reading: &ReadTransaction,
    job: JobId,
    first_seq: u64,
    up_to: u64,
) -> Result<String, StoreError> {
    let log = LOG.read(reading)?;
    let first = LogKey { job, seq: first_seq, sub: 0 }.encode();
    let last = LogKey { job, seq: up_to.max(first_seq), sub: 0 }.encode();
    let mut step_text = JoinedDeltas::default();
    for entry in log.range::<&LogBytes>(&first..=&last)? {
        let (key, bytes) = entry?;
        if LogKey::decode(key.value()).sub > 0 {
            continue;
        }
        step_text.add(&values::decode(bytes.value())?);
    }
    Ok(step_text.text)
}

/// The complete log.
pub(crate) fn log(reading: &ReadTransaction, job: JobId) -> Result<Vec<Record>, StoreError> {
    let log = LOG.read(reading)?;
    let (first, last) = (LogKey { job, seq: 0, sub: 0 }.encode(), LogKey::last(job).encode());
    let mut records = Vec::new();
    for entry in log.range::<&LogBytes>(&first..=&last)? {
        let (key, bytes) = entry?;
        let mut record = match LogKey::decode(key.value()).sub {
            0 => Record::Event(values::decode(bytes.value())?),
            _ => Record::Mark(values::decode(bytes.value())?),
        };
        // Large, and only its presence matters here; `Results` reads its content.
        if let Record::Mark(EngineMark::ToolWhole { content, .. }) = &mut record {
            content.clear();
        }
        records.push(record);
    }
    Ok(records)
}

/// How many jobs there are to do.
pub(crate) fn queue(reading: &ReadTransaction) -> Result<QueueLength, StoreError> {
    let ready = READY.read(reading)?.len()?;
    let delayed = DELAYED.read(reading)?.skipping_damaged();
    let next = delayed.first()?.map(|(key, _)| DelayedKey::decode(key.value()).run_at_ms);
    Ok(QueueLength { ready, due_ms: next, unfinished: counters(reading)?.unfinished })
}

/// Maximum rows that one page reads.
const SCAN: usize = 1_000;

/// A page of the jobs that pass the filter, newest first. It is short when the scan limit is reached first;
/// `next` continues there.
fn filtered(reading: &ReadTransaction, query: &JobQuery, now_ms: u64) -> Result<JobPage, StoreError> {
    // A background job is newer than its parent. Without its parent, the scan has no lower end.
    let parent = query.filter.parent.map(|parent| row(reading, parent)).transpose()?.flatten();
    let since = parent.map_or(0, |row| row.first_accept.unwrap_or(row.accept));
    let (found, mut next) = listing(reading, query, SCAN)?;
    let (table, lines) = (JOBS.read(reading)?, CONVERSATION_QUEUE.read(reading)?);
    let mut jobs = Vec::new();
    let mut last = None;
    for (accept, id) in found {
        if accept <= since {
            next = None;
            break;
        }
        if jobs.len() >= query.limit {
            next = last;
            break;
        }
        let row = values::listed(JobId::from_bytes(id), table.row::<JobRow>(&id))?;
        if query.filter.matches(&row.job) {
            jobs.push(shown(row, now_ms, &lines)?);
        }
        last = Some(accept);
    }
    Ok(JobPage { jobs, next })
}
