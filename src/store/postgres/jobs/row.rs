//! Reads and writes the rows of jobs. Columns repeat what queries ask about; where a statement of the
//! database decides (place, fair time, acceptance number, cancellation), the column is the truth.

use crate::domain::id::{ConversationId, JobId, UserId};
use crate::domain::job::{Job, JobSpec, JobStatus};
use crate::domain::log_chain::{ChainLink, RecordPlace};
use crate::ports::StoreError;
use crate::store::postgres::session::{Columns, SqlSession, document, sql_number, sql_user};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::job::{JobRow, QueuePlace};
use crate::store::rows::lease::{LogTail, TAIL_RECORDS, TailRecord};
use tokio_postgres::Row;

/// The columns that [`read_row`] reads, of the table `jobs` under the name `jobs`.
pub(crate) const ROW: &str =
    "jobs.row::text, jobs.accept, jobs.place, jobs.fair, jobs.cancel_requested, jobs.epoch";

/// The columns that [`read_shown`] reads: those of [`ROW`], and the job of the conversation just before one
/// that waits for it.
pub(crate) const SHOWN: &str = "jobs.row::text, jobs.accept, jobs.place, jobs.fair, jobs.cancel_requested, jobs.epoch, \
     (SELECT b.id FROM jobs AS b WHERE jobs.place = 'behind' AND b.user_id = jobs.user_id \
      AND b.conversation = jobs.conversation AND b.accept < jobs.accept AND NOT b.is_background \
      AND b.status IN ('queued', 'running', 'waiting') ORDER BY b.accept DESC LIMIT 1) AS before";

/// Name of a place in the table.
pub(crate) fn place_name(place: QueuePlace) -> &'static str {
    match place {
        QueuePlace::Ready => "ready",
        QueuePlace::Delayed => "delayed",
        QueuePlace::Behind => "behind",
        QueuePlace::Out => "out",
    }
}

/// The place with this name.
pub(crate) fn place_named(name: &str) -> Result<QueuePlace, StoreError> {
    match name {
        "ready" => Ok(QueuePlace::Ready),
        "delayed" => Ok(QueuePlace::Delayed),
        "behind" => Ok(QueuePlace::Behind),
        "out" => Ok(QueuePlace::Out),
        _ => Err(StoreError::Corrupt(format!("'{name}' is no place of a queue"))),
    }
}

/// Reads the columns [`ROW`], which begin at this one.
pub(crate) fn read_row(row: &Row, first: usize) -> Result<JobRow, StoreError> {
    let at = |offset: usize| first.saturating_add(offset);
    let mut found: JobRow = row.document(first)?;
    found.accept = row.number(at(1))?;
    found.queue_place = place_named(row.column(at(2))?)?;
    found.fair = row.optional_number(at(3))?;
    found.job.cancel_requested = row.column(at(4))?;
    found.job.epoch = row.number(at(5))?;
    Ok(found)
}

/// Reads the columns [`SHOWN`], which begin at this one: the job as its owner sees it.
pub(crate) fn read_shown(row: &Row, first: usize, now_ms: u64) -> Result<Job, StoreError> {
    let before = first.saturating_add(6);
    read_row(row, first)?.into_shown(now_ms, |_| match row.column::<Option<&str>>(before)? {
        Some(_) => row.parsed(before).map(Some),
        None => Ok(None),
    })
}

/// The row of a job.
pub(crate) async fn find(session: &SqlSession<'_>, job: JobId) -> Result<Option<JobRow>, StoreError> {
    let found = session.row(&format!("SELECT {ROW} FROM jobs WHERE id = $1"), &[&job.to_string()]).await?;
    found.map(|row| read_row(&row, 0)).transpose()
}

/// The job as its owner sees it.
pub(crate) async fn shown(session: &SqlSession<'_>, row: JobRow, now_ms: u64) -> Result<Job, StoreError> {
    let before = if row.job.status == JobStatus::Queued && row.queue_place == QueuePlace::Behind {
        job_before(session, &row).await?
    } else {
        None
    };
    row.into_shown(now_ms, |_| Ok(before))
}

/// The unfinished job of a conversation just before this one.
async fn job_before(session: &SqlSession<'_>, row: &JobRow) -> Result<Option<JobId>, StoreError> {
    let Some(conversation) = &row.job.conversation_id else { return Ok(None) };
    let sql = "SELECT id FROM jobs WHERE user_id = $1 AND conversation = $2 AND accept < $3 AND NOT is_background \
               AND status IN ('queued', 'running', 'waiting') ORDER BY accept DESC LIMIT 1";
    let params = (sql_user(row.job.user), conversation.to_string(), sql_number(row.accept));
    let found = session.row(sql, &[&params.0, &params.1, &params.2]).await?;
    found.map(|row| row.parsed(0)).transpose()
}

/// The request of a job.
pub(crate) async fn find_spec(session: &SqlSession<'_>, job: JobId) -> Result<Option<JobSpec>, StoreError> {
    let found = session.row("SELECT spec::text FROM jobs WHERE id = $1", &[&job.to_string()]).await?;
    found.map(|row| row.document(0)).transpose()
}

/// Where the log of a job ends.
pub(crate) async fn tail(session: &SqlSession<'_>, job: JobId) -> Result<LogTail, StoreError> {
    let sql = "SELECT seq, sub, CASE sub WHEN 0 THEN body::text END, link FROM records WHERE job = $1 \
               ORDER BY seq DESC, sub DESC LIMIT $2";
    let rows = session.rows(sql, &[&job.to_string(), &sql_number(TAIL_RECORDS)]).await?;
    LogTail::read(rows.iter().map(|row| {
        let sub = u32::try_from(row.column::<i32>(1)?).unwrap_or_default();
        let body: Option<&str> = row.column(2)?;
        let event = body.map(crate::store::postgres::session::read_document).transpose()?;
        let place = RecordPlace { seq: row.number(0)?, sub };
        Ok(TailRecord { place, event, link: read_link(row, 3)? })
    }))
}

/// The link in this column, if the record has one.
pub(crate) fn read_link(row: &Row, column: usize) -> Result<Option<ChainLink>, StoreError> {
    let Some(bytes) = row.column::<Option<&[u8]>>(column)? else { return Ok(None) };
    let bytes = <[u8; ChainLink::BYTES]>::try_from(bytes);
    let bytes = bytes.map_err(|_| StoreError::Corrupt("a link of the log has a wrong length".to_owned()))?;
    Ok(Some(ChainLink::from_bytes(bytes)))
}

impl Act<'_> {
    /// The row of a job, locked until the end of the transaction.
    pub(crate) async fn find_row(&self, job: JobId) -> Result<Option<JobRow>, StoreError> {
        let sql = format!("SELECT {ROW} FROM jobs WHERE id = $1 FOR NO KEY UPDATE");
        let found = self.session.row(&sql, &[&job.to_string()]).await?;
        found.map(|row| read_row(&row, 0)).transpose()
    }

    /// The same, if the job is this user's.
    pub(crate) async fn find_own_row(&self, user: UserId, job: JobId) -> Result<Option<JobRow>, StoreError> {
        Ok(self.find_row(job).await?.filter(|row| row.job.user == user))
    }

    /// The row of a user's job, locked after its conversation until the end of the transaction: an act that
    /// may end the job changes both, and all acts lock them in this order.
    pub(crate) async fn lock_own_row(
        &mut self,
        user: UserId,
        job: JobId,
    ) -> Result<Option<JobRow>, StoreError> {
        let sql = "SELECT conversation FROM jobs WHERE id = $1 AND user_id IS NOT DISTINCT FROM $2";
        let Some(found) = self.session.row(sql, &[&job.to_string(), &sql_user(user)]).await? else {
            return Ok(None);
        };
        if let Some(conversation) = found.column::<Option<String>>(0)? {
            let id = ConversationId::try_from(conversation).map_err(StoreError::Corrupt)?;
            self.lock_conversation(user, Some(&id)).await?;
        }
        self.find_own_row(user, job).await
    }

    /// The job as its owner sees it.
    pub(crate) async fn shown(&self, row: JobRow) -> Result<Job, StoreError> {
        shown(&self.session, row, self.now_ms).await
    }

    /// The request of a job that must exist.
    pub(crate) async fn spec(&self, job: JobId) -> Result<JobSpec, StoreError> {
        let spec = find_spec(&self.session, job).await?;
        spec.ok_or_else(|| StoreError::Corrupt(format!("{job} has no spec")))
    }

    /// Writes the row of a job with its columns. A running job stays with the node that has its lease.
    pub(crate) async fn put_row(&mut self, row: &JobRow) -> Result<(), StoreError> {
        self.confirmed.remove(&row.id());
        let sql = "UPDATE jobs SET accept = $2, status = $3, place = $4, fair = $5, due_ms = $6, epoch = $7, \
                   lease_node = CASE $3::text WHEN 'running' THEN lease_node END, cancel_requested = $8, finished_at_ms = $9, \
                   row = $10::text::json, ready_since_ms = CASE WHEN $4::text <> 'ready' THEN NULL \
                   WHEN place = 'ready' THEN ready_since_ms ELSE $11::bigint END WHERE id = $1";
        self.session
            .send(
                sql,
                &[
                    &row.id().to_string(),
                    &sql_number(row.accept),
                    &row.job.status.as_str(),
                    &place_name(row.queue_place),
                    &row.fair.map(sql_number),
                    &row.due_ms().map(sql_number),
                    &sql_number(row.job.epoch),
                    &row.job.cancel_requested,
                    &row.job.finished_at_ms.map(sql_number),
                    &document(row)?,
                    &sql_number(self.now_ms),
                ],
            )
            .await
    }
}

/// Moves a job into another state. The caller writes its row.
pub(crate) fn move_row(row: &mut JobRow, next: JobStatus) -> Result<(), StoreError> {
    row.become_status(next)?;
    if next == JobStatus::Running {
        row.queue_place = QueuePlace::Out;
    }
    Ok(())
}
