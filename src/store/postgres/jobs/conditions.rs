//! Jobs that come after others, and jobs that end at a time. The end of a job releases those that wait for it
//! in the same transaction, and marks those that its failure ends; the scheduler of any node ends these, and
//! jobs whose time has passed, one in a transaction.

use crate::domain::id::{JobId, UserId};
use crate::domain::job::JobStatus;
use crate::ports::{CancelReason, NewJob, StoreError, SubmitError};
use crate::store::postgres::jobs::row::{ROW, read_row};
use crate::store::postgres::session::{Columns, sql_number, sql_user};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::conditions::OVERDUE_CHECK_MS;
use crate::store::rows::job::{JobRow, QueuePlace};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as NameError;
use std::collections::HashMap;

/// Ended jobs whose dependents a turn of retention releases: nodes of earlier versions do not.
const HEALED: i64 = 64;

/// When the store has to look next whether a job ends, unix milliseconds.
pub(crate) const NEXT_END: &str = "SELECT min(ends_at_ms) FROM jobs WHERE ends_at_ms IS NOT NULL";

/// A predecessor as its locked row has it.
struct Predecessor {
    status: JobStatus,
    dependents: u64,
}

impl Act<'_> {
    /// Refuses jobs that come after a job that the user does not have, or after one with too many dependents.
    pub(crate) async fn check_predecessors(&mut self, jobs: &[NewJob]) -> Result<(), SubmitError> {
        let limit = self.limits.job_dependents;
        for new in jobs.iter().filter(|new| !new.spec.conditions.after.is_empty()) {
            self.write_pending().await?;
            // All acts lock the conversation of a job before rows of jobs.
            self.lock_conversation(new.user, new.spec.conversation_id.as_ref()).await?;
            let found = self.predecessors(new.user, &new.spec.conditions.after).await?;
            for job in &new.spec.conditions.after {
                let found = found.get(job).ok_or(SubmitError::NoPredecessor { job: *job })?;
                if !found.status.is_terminal() && found.dependents >= limit {
                    return Err(SubmitError::DependentsFull { job: *job, limit });
                }
            }
        }
        Ok(())
    }

    /// Reads and locks jobs of a user, so that none ends before this transaction.
    async fn predecessors(
        &self,
        user: UserId,
        jobs: &[JobId],
    ) -> Result<HashMap<JobId, Predecessor>, StoreError> {
        let ids: Vec<String> = jobs.iter().map(ToString::to_string).collect();
        // All nodes lock in this order.
        let sql = "SELECT id, status, (SELECT count(*) FROM job_dependents AS d WHERE d.predecessor = jobs.id) FROM jobs \
                   WHERE id = ANY($1) AND user_id IS NOT DISTINCT FROM $2 ORDER BY id FOR NO KEY UPDATE OF jobs";
        let rows = self.session.rows(sql, &[&ids, &sql_user(user)]).await?;
        let read = |row: &tokio_postgres::Row| {
            let name: &str = row.column(1)?;
            let status = JobStatus::deserialize(IntoDeserializer::<NameError>::into_deserializer(name));
            // One that cannot be read has ended without success.
            let status = status.unwrap_or(JobStatus::Failed);
            Ok((row.parsed(0)?, Predecessor { status, dependents: row.number(2)? }))
        };
        rows.iter().map(read).collect()
    }

    /// Applies the conditions of a job that is about to be queued. The caller writes its row, and
    /// [`JobRow::ends_at_ms`] with it.
    pub(crate) async fn apply_conditions(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        let after = &row.job.conditions.after;
        if after.is_empty() {
            return Ok(());
        }
        let found = self.predecessors(row.job.user, after).await?;
        let states: Vec<_> = after.iter().filter_map(|job| Some((*job, found.get(job)?.status))).collect();
        row.wait_after(states);
        if row.blocked_by.is_empty() {
            return Ok(());
        }
        for predecessor in &row.blocked_by {
            // Its end may be a later act of this transaction.
            if let Some(confirmed) = self.confirmed.get_mut(predecessor) {
                confirmed.has_dependents = true;
            }
        }
        let ids: Vec<String> = row.blocked_by.iter().map(ToString::to_string).collect();
        let sql = "WITH noted AS (UPDATE jobs SET has_dependents = true WHERE id = ANY($1)) \
                   INSERT INTO job_dependents SELECT unnest($1::text[]), $2 ON CONFLICT DO NOTHING";
        self.session.send(sql, &[&ids, &row.id().to_string()]).await
    }

    /// Writes when the store looks whether a job ends.
    pub(crate) async fn put_end(&mut self, job: JobId, at_ms: Option<u64>) -> Result<(), StoreError> {
        self.effects.announcement.queue.has_job_end |= at_ms.is_some();
        let sql = "UPDATE jobs SET ends_at_ms = $2 WHERE id = $1";
        self.session.send(sql, &[&job.to_string(), &at_ms.map(sql_number)]).await
    }

    /// Forgets for which jobs one has waited that ends.
    pub(crate) async fn forget_predecessors(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        if !row.blocked_by.is_empty() {
            let ids: Vec<String> = row.blocked_by.iter().map(ToString::to_string).collect();
            let sql = "DELETE FROM job_dependents WHERE predecessor = ANY($1) AND dependent = $2";
            self.session.send(sql, &[&ids, &row.id().to_string()]).await?;
        }
        row.forget_predecessors();
        Ok(())
    }

    /// Releases the jobs that wait for one that has ended, whose row is locked.
    pub(crate) async fn release_dependents(
        &mut self,
        ended: JobId,
        has_succeeded: bool,
    ) -> Result<(), StoreError> {
        // A job that has come after it in this transaction is one of them.
        self.insert_jobs().await?;
        let id = ended.to_string();
        let sql = format!(
            "SELECT {ROW}, jobs.id FROM jobs WHERE status IS NOT DISTINCT FROM 'queued' \
             AND id IN (SELECT dependent FROM job_dependents WHERE predecessor = $1) ORDER BY id FOR NO KEY UPDATE"
        );
        for found in self.session.rows(&sql, &[&id]).await? {
            let Some(mut row) = self.readable(read_row(&found, 0), &found, 6).await? else { continue };
            row.unblock(ended, has_succeeded);
            // Behind its conversation it waits for that as well.
            if row.queue_place == QueuePlace::Delayed {
                self.enter_queue(&mut row).await?;
            }
            self.put_row(&row).await?;
            if row.failed_predecessor.is_some() {
                self.put_end(row.id(), row.ends_at_ms()).await?;
            }
        }
        self.session.send("DELETE FROM job_dependents WHERE predecessor = $1", &[&id]).await
    }

    /// Whether a ready job has to end instead of running. Such a job leaves the queue; the scheduler ends it.
    pub(crate) async fn hold_overdue(&mut self, row: &JobRow) -> Result<bool, StoreError> {
        if row.due_end(self.now_ms).is_none() || !self.shared.is_clock_trusted() {
            return Ok(false);
        }
        self.put_row(&JobRow { queue_place: QueuePlace::Out, ..row.clone() }).await?;
        Ok(true)
    }

    /// Ends a job whose time has passed, or whose predecessor has failed; the lease of one that runs on this
    /// node is cancelled. Returns whether there may be more. `until_ms`: times up to this one count.
    pub(crate) async fn end_due_job(&mut self, until_ms: u64) -> Result<bool, StoreError> {
        // One node at a time ends jobs; each cancels those that it runs.
        let sql = "SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || ' ends', 0))";
        if !self.session.one(sql, &[]).await?.column::<bool>(0)? {
            return Ok(false);
        }
        let sql = "SELECT id, user_id FROM jobs WHERE ends_at_ms <= $1 AND (status <> 'running' OR lease_node = $2) \
                   ORDER BY ends_at_ms LIMIT 1";
        let Some(found) = self.session.row(sql, &[&sql_number(until_ms), &self.node]).await? else {
            return Ok(false);
        };
        let job: JobId = found.parsed(0)?;
        match self.lock_own_row(found.user(1)?, job).await {
            Ok(Some(row)) if !row.job.status.is_terminal() => self.end_if_due(row).await?,
            Ok(_) => self.put_end(job, None).await?,
            Err(StoreError::Corrupt(reason)) if self.session.fault().is_none() => {
                tracing::error!(%job, reason, "job cannot be read; it does not end at its time");
                self.put_end(job, None).await?;
            }
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    async fn end_if_due(&mut self, mut row: JobRow) -> Result<(), StoreError> {
        let Some((code, content)) = row.due_end(self.now_ms) else {
            return self.put_end(row.id(), row.ends_at_ms()).await;
        };
        if row.job.status != JobStatus::Running {
            return self.end_unleased(&mut row, code, &content).await;
        }
        if let Some(leased) = self.shared.leases().get(&row.id()) {
            leased.cancel.cancel(CancelReason::DeadlineExceeded);
        }
        self.put_end(row.id(), Some(self.now_ms.saturating_add(OVERDUE_CHECK_MS))).await
    }

    /// Releases jobs that wait for one that has ended: a node of an earlier version has ended it.
    pub(crate) async fn release_forgotten_dependents(&mut self) -> Result<(), StoreError> {
        let sql = "SELECT DISTINCT d.predecessor, coalesce(p.status = 'succeeded', true) FROM job_dependents AS d \
                   LEFT JOIN jobs AS p ON p.id = d.predecessor \
                   WHERE p.id IS NULL OR p.status NOT IN ('queued', 'running', 'waiting') LIMIT $1";
        for found in self.session.rows(sql, &[&HEALED]).await? {
            self.release_dependents(found.parsed(0)?, found.column(1)?).await?;
        }
        Ok(())
    }
}
