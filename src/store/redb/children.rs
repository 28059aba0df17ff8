//! The jobs that a job's model asked for. Owns how far one page looks for them: no table names them by their parent, because
//! they are few and were accepted after it.

use super::read::{listed, listing, row};
use crate::domain::id::JobId;
use crate::ports::{JobPage, JobQuery, StoreError};
use redb::ReadTransaction;

/// Rows that one page reads at most.
const SCAN: usize = 1_000;

/// A page of them, newest first. It is short where the look ended before the page was full; `next` goes on from there.
pub(super) fn children(
    reading: &ReadTransaction,
    query: &JobQuery,
    parent: JobId,
) -> Result<JobPage, StoreError> {
    // Where the parent is gone, nobody knows how far to look.
    let since = row(reading, parent)?.map_or(0, |row| row.first_accept.unwrap_or(row.accept));
    let (found, mut next) = listing(reading, query, SCAN)?;
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
        let id = JobId::from_bytes(id);
        let child = listed(id, row(reading, id))?.filter(|row| row.job.origin.parent() == Some(parent));
        jobs.extend(child.map(|row| row.job));
        last = Some(accept);
    }
    Ok(JobPage { jobs, next })
}
