//! Chat completions that a client stored: jobs that are listed beside all others once they have succeeded.

use crate::domain::id::{JobId, UserId};
use crate::domain::job::{Job, JobStatus};
use crate::ports::{CompletionPage, CompletionQuery, StoreError, StoredCompletions, Ticket};
use crate::store::postgres::jobs::row::{ROW, read_row};
use crate::store::postgres::session::{Columns, SqlSession, sql_number, sql_user};
use crate::store::postgres::store::PostgresStore;
use crate::store::postgres::writer::act::Act;
use crate::store::postgres::writer::write::WriteOptions;
use std::collections::BTreeMap;

impl Act<'_> {
    async fn label_completion(
        &mut self,
        user: UserId,
        job: JobId,
        metadata: BTreeMap<String, String>,
    ) -> Result<Option<Job>, StoreError> {
        let row = self.find_own_row(user, job).await?;
        let Some(mut row) = row.filter(|row| row.job.status == JobStatus::Succeeded) else {
            return Ok(None);
        };
        let sql = "SELECT is_completion FROM jobs WHERE id = $1";
        if !self.session.one(sql, &[&job.to_string()]).await?.column::<bool>(0)? {
            return Ok(None);
        }
        row.job.metadata = metadata;
        self.put_row(&row).await?;
        Ok(Some(row.job))
    }
}

impl StoredCompletions for PostgresStore {
    fn completion(&self, user: UserId, job: JobId) -> Result<Option<Job>, StoreError> {
        let sql = format!(
            "SELECT {ROW} FROM jobs WHERE id = $1 AND user_id IS NOT DISTINCT FROM $2 AND is_completion AND status = 'succeeded'"
        );
        let params = (job.to_string(), sql_user(user));
        let found =
            self.read(async |session: &SqlSession<'_>| session.row(&sql, &[&params.0, &params.1]).await)?;
        found.map(|row| Ok(read_row(&row, 0)?.job)).transpose()
    }

    fn completions(&self, query: &CompletionQuery) -> Result<CompletionPage, StoreError> {
        self.read(async |session: &SqlSession<'_>| page(session, query).await)
    }

    fn label_completion(
        &self,
        user: UserId,
        job: JobId,
        metadata: BTreeMap<String, String>,
    ) -> Ticket<Option<Job>> {
        let bytes = metadata.iter().map(|(key, value)| key.len().saturating_add(value.len())).sum();
        self.offer(WriteOptions::weighing(bytes), async move |act: &mut Act<'_>| {
            act.label_completion(user, job, metadata.clone()).await
        })
    }
}

async fn page(session: &SqlSession<'_>, query: &CompletionQuery) -> Result<CompletionPage, StoreError> {
    let (compare, order) = if query.is_newest_first { ("<", "DESC") } else { (">", "ASC") };
    // The name of no model holds U+0000, and no text of the database can.
    if query.model.as_ref().is_some_and(|model| model.contains('\0')) {
        return Ok(CompletionPage::default());
    }
    let sql = format!(
        "SELECT {ROW} FROM jobs WHERE user_id = $1 AND is_completion AND status = 'succeeded' \
         AND ($2::text IS NULL OR model = $2) AND ($3::text IS NULL OR id {compare} $3) ORDER BY id {order} LIMIT $4"
    );
    let params = (query.after.map(|job| job.to_string()), sql_number(query.limit.saturating_add(1)));
    let found = session.rows(&sql, &[&sql_user(query.user), &query.model, &params.0, &params.1]).await?;
    let jobs = found.iter().take(query.limit).map(|row| Ok(read_row(row, 0)?.job));
    Ok(CompletionPage { jobs: jobs.collect::<Result<_, StoreError>>()?, has_more: found.len() > query.limit })
}
