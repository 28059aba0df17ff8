//! Lists jobs in memory together with stored ones.

use crate::domain::job::Job;
use crate::ports::{JobPage, JobQuery, StoreError};

/// A page of jobs. Those in memory are the newest; `stored` reads a page of the others.
pub(crate) fn listed(
    mut volatile: Vec<(u64, Job)>,
    query: &JobQuery,
    stored: impl Fn(&JobQuery) -> Result<JobPage, StoreError>,
) -> Result<JobPage, StoreError> {
    if volatile.is_empty() {
        return stored(query);
    }
    let (count, left) = (volatile.len(), query.limit.saturating_sub(volatile.len()));
    // One is read even if there is no room for it: to know whether a page follows.
    let page = stored(&JobQuery { limit: left.max(1), ..query.clone() })?;
    volatile.retain(|(_, job)| page.jobs.iter().all(|stored| stored.id != job.id));
    if volatile.len() < count {
        // A job was stored between the two reads.
        return listed(volatile, query, stored);
    }
    if left > 0 {
        let jobs = volatile.into_iter().map(|(_, job)| job).chain(page.jobs).collect();
        return Ok(JobPage { jobs, next: page.next });
    }
    let has_more = count > query.limit || !page.jobs.is_empty() || page.next.is_some();
    volatile.truncate(query.limit);
    let next = volatile.last().map(|(position, _)| *position).filter(|_| has_more);
    Ok(JobPage { jobs: volatile.into_iter().map(|(_, job)| job).collect(), next })
}
