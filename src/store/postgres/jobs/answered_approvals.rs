//! Requests for approvals that were handed to a client: the answer to one counts once, in the transaction of
//! the job that acts on it. So no second request, at the same time or after a restart, runs the call again
//! (P3).

use crate::domain::id::JobId;
use crate::domain::job::JobSpec;
use crate::domain::response_request::response_id;
use crate::ports::{NewJob, StoreError, SubmitError};
use crate::store::postgres::session::{Columns, sql_number};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::approval::answered_requests;

impl Act<'_> {
    /// Refuses jobs that act on a request for an approval which an earlier job has acted on. Others who
    /// answer for the same jobs, on any node, wait until this transaction ends.
    pub(crate) async fn refuse_second_answers(&mut self, jobs: &[NewJob]) -> Result<(), SubmitError> {
        let (asked, places) = columns(jobs.iter().map(|job| &job.spec));
        if asked.is_empty() {
            return Ok(());
        }
        let lock = "SELECT pg_advisory_xact_lock(hashtext('answers'), hashtext(job)) \
                    FROM (SELECT DISTINCT job FROM unnest($1::text[]) AS u(job) ORDER BY job) AS asked";
        self.session.send(lock, &[&asked]).await?;
        let sql = "SELECT answering FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS u(job, place, nth) \
                   JOIN answered_approvals USING (job, place) ORDER BY nth LIMIT 1";
        match self.session.row(sql, &[&asked, &places]).await? {
            Some(row) => Err(SubmitError::ApprovalAnswered { response: response_id(row.parsed(0)?) }),
            None => Ok(()),
        }
    }

    /// Notes the requests that a new job acts on.
    pub(crate) async fn note_answers(&mut self, job: JobId, spec: &JobSpec) -> Result<(), StoreError> {
        let (asked, places) = columns(std::iter::once(spec));
        if asked.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO answered_approvals (job, place, answering) \
                   SELECT DISTINCT u.job, u.place, $3 FROM unnest($1::text[], $2::bigint[]) AS u(job, place) \
                   ON CONFLICT (job, place) DO UPDATE SET answering = excluded.answering";
        self.session.send(sql, &[&asked, &places, &job.to_string()]).await
    }
}

/// The asked jobs and the places of all requests that these jobs act on.
fn columns<'s>(specs: impl Iterator<Item = &'s JobSpec>) -> (Vec<String>, Vec<i64>) {
    let requests = specs.flat_map(answered_requests);
    requests.map(|request| (request.job.to_string(), sql_number(request.place))).unzip()
}
