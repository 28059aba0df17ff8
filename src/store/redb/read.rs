//! Reading committed state. Owns every query; refuses to hold a transaction longer than one page.

use super::children;
use super::keys::{DelayedKey, JobBytes, LogBytes, LogKey, OwnerBytes, OwnerKey};
use super::row::Row;
use super::schema::{DELAYED, JOBS, LOG, OUTPUTS, OWNED, READY};
use super::table::ReadableTable;
use super::value;
use crate::domain::event::{EngineMark, Event, Record, SequencedEvent};
use crate::domain::id::{JobId, UserId};
use crate::domain::job::JobStatus;
use crate::ports::{EventPage, JobPage, JobQuery, StoreError};
use redb::ReadTransaction;
use std::fmt::Display;

/// A page of events ends after so many bytes.
const PAGE_BYTES: usize = 64 * 1024;

const ALL_STATES: [JobStatus; 6] = [
    JobStatus::Queued,
    JobStatus::Running,
    JobStatus::Waiting,
    JobStatus::Succeeded,
    JobStatus::Failed,
    JobStatus::Cancelled,
];

/// The row of a job.
pub(super) fn row(reading: &ReadTransaction, job: JobId) -> Result<Option<Row>, StoreError> {
    let jobs = JOBS.read(reading)?;
    jobs.get(&job.to_bytes())?.map(|bytes| value::decode(bytes.value())).transpose()
}

/// The answer of an ended job; an empty one has no row.
pub(super) fn output(reading: &ReadTransaction, job: JobId) -> Result<Option<String>, StoreError> {
    if let Some(bytes) = OUTPUTS.read(reading)?.get(&job.to_bytes())? {
        return value::decode_text(bytes.value()).map(Some);
    }
    Ok(row(reading, job)?.filter(|row| row.job.status.is_terminal()).map(|_| String::new()))
}

/// A user's jobs, newest first: the lists of the wanted states, merged.
pub(super) fn jobs(reading: &ReadTransaction, query: &JobQuery) -> Result<JobPage, StoreError> {
    if let Some(parent) = query.parent {
        return children::children(reading, query, parent);
    }
    let (found, next) = listing(reading, query, query.limit)?;
    let table = JOBS.read(reading)?;
    let mut jobs = Vec::with_capacity(found.len());
    for (_, id) in found {
        let row = table.get(&id)?.map(|bytes| value::decode::<Row>(bytes.value())).transpose();
        jobs.extend(listed(JobId::from_bytes(id), row)?.map(|row| row.job));
    }
    Ok(JobPage { jobs, next })
}

/// Acceptance numbers and ids, and behind which of them more would follow.
pub(super) type Listed = (Vec<(u64, JobBytes)>, Option<u64>);

/// Their acceptance numbers and ids, at most `limit`, and behind which of them more would follow.
pub(super) fn listing(
    reading: &ReadTransaction,
    query: &JobQuery,
    limit: usize,
) -> Result<Listed, StoreError> {
    let before = query.before.unwrap_or(u64::MAX);
    let owned = OWNED.read(reading)?;
    let wanted = ALL_STATES.iter().filter(|status| query.status.is_none_or(|only| only == **status));
    let mut found: Vec<(u64, JobBytes)> = Vec::new();
    for status in wanted {
        let key = |accept| OwnerKey { user: query.user, status: *status, accept }.encode();
        for entry in owned.range::<&OwnerBytes>(&key(0)..&key(before))?.rev().take(limit.saturating_add(1)) {
            let (key, job) = entry?;
            found.push((OwnerKey::accept(key.value()), *job.value()));
        }
    }
    found.sort_unstable_by(|one, two| two.cmp(one));
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().map(|(accept, _)| *accept).filter(|_| has_more);
    Ok((found, next))
}

/// How many of a user's jobs have not ended; the counting ends at `most`.
pub(super) fn unfinished_count(
    reading: &ReadTransaction,
    user: UserId,
    most: u64,
) -> Result<u64, StoreError> {
    let owned = OWNED.read(reading)?;
    let mut count = 0_u64;
    for status in ALL_STATES.iter().copied().filter(|status| !status.is_terminal()) {
        let key = |accept| OwnerKey { user, status, accept }.encode();
        for entry in owned.range::<&OwnerBytes>(&key(0)..=&key(u64::MAX))? {
            if count >= most {
                return Ok(count);
            }
            entry?;
            count = count.saturating_add(1);
        }
    }
    Ok(count)
}

/// What a list shows of a row: one that is missing or cannot be read is told to the operator and left out, because it must
/// not hide the others from their user.
pub(super) fn listed<T>(
    id: impl Display,
    found: Result<Option<T>, StoreError>,
) -> Result<Option<T>, StoreError> {
    match found {
        Ok(None) => tracing::error!(%id, "what is listed has no row"),
        Err(StoreError::Corrupt(reason)) => tracing::error!(%id, reason, "what is listed cannot be read"),
        shown => return shown,
    }
    Ok(None)
}

/// The newest event of a log.
pub(super) fn last_seq(reading: &ReadTransaction, job: JobId) -> Result<u64, StoreError> {
    let log = LOG.read(reading)?;
    let (first, last) = (LogKey { job, seq: 0, sub: 0 }.encode(), LogKey::last(job).encode());
    let newest = log.range::<&LogBytes>(&first..=&last)?.next_back().transpose()?;
    Ok(newest.map_or(0, |(key, _)| LogKey::decode(key.value()).seq))
}

/// Events after the cursor.
pub(super) fn events(
    reading: &ReadTransaction,
    job: JobId,
    after: u64,
    max: usize,
) -> Result<EventPage, StoreError> {
    let last_seq = last_seq(reading, job)?;
    let mut page = EventPage { events: Vec::new(), last_seq };
    let Some(from) = after.checked_add(1) else { return Ok(page) };
    let log = LOG.read(reading)?;
    let (first, last) = (LogKey { job, seq: from, sub: 0 }.encode(), LogKey::last(job).encode());
    let mut bytes = 0_usize;
    for entry in log.range::<&LogBytes>(&first..=&last)? {
        if page.events.len() >= max || bytes >= PAGE_BYTES {
            break;
        }
        let (key, stored) = entry?;
        let key = LogKey::decode(key.value());
        if key.sub == 0 {
            bytes = bytes.saturating_add(stored.value().len());
            page.events.push(SequencedEvent { seq: key.seq, event: value::decode(stored.value())? });
        }
    }
    Ok(page)
}

/// The text of the step that begins at `first_seq`.
pub(super) fn step_text(
    reading: &ReadTransaction,
    job: JobId,
    first_seq: u64,
    up_to: u64,
) -> Result<String, StoreError> {
    let log = LOG.read(reading)?;
    let first = LogKey { job, seq: first_seq, sub: 0 }.encode();
    let last = LogKey { job, seq: up_to.max(first_seq), sub: 0 }.encode();
    let mut step = None;
    let mut whole = String::new();
    for entry in log.range::<&LogBytes>(&first..=&last)? {
        let (key, bytes) = entry?;
        if LogKey::decode(key.value()).sub > 0 {
            continue;
        }
        if let Event::Delta { index, text, .. } = value::decode(bytes.value())?
            && *step.get_or_insert(index) == index
        {
            whole.push_str(&text);
        }
    }
    Ok(whole)
}

/// The whole log.
pub(super) fn log(reading: &ReadTransaction, job: JobId) -> Result<Vec<Record>, StoreError> {
    let log = LOG.read(reading)?;
    let (first, last) = (LogKey { job, seq: 0, sub: 0 }.encode(), LogKey::last(job).encode());
    let mut records = Vec::new();
    for entry in log.range::<&LogBytes>(&first..=&last)? {
        let (key, bytes) = entry?;
        let mut record = match LogKey::decode(key.value()).sub {
            0 => Record::Event(value::decode(bytes.value())?),
            _ => Record::Mark(value::decode(bytes.value())?),
        };
        // Large, and only that there is one matters here: it has a way of its own to whoever wants it.
        if let Record::Mark(EngineMark::ToolWhole { content, .. }) = &mut record {
            content.clear();
        }
        records.push(record);
    }
    Ok(records)
}

/// Length of the ready queue, and when the next delayed job is due.
pub(super) fn queue(reading: &ReadTransaction) -> Result<(u64, Option<u64>), StoreError> {
    let ready = READY.read(reading)?.len()?;
    let delayed = DELAYED.read(reading)?;
    let next = delayed.first()?.map(|(key, _)| DelayedKey::decode(key.value()).run_at_ms);
    Ok((ready, next))
}
