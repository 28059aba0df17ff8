//! Removes old jobs. Their conversations are locked before them, in one order.

use crate::domain::id::{ConversationId, JobId, UserId};
use crate::ports::StoreError;
use crate::store::postgres::session::{Columns, sql_number};
use crate::store::postgres::writer::act::Act;
use std::collections::BTreeSet;

/// Stages of an ended job in the column `retention`: whole, deltas joined, log cut.
pub(crate) const WHOLE: i16 = 0;
pub(crate) const FOLDED: i16 = 1;
pub(crate) const CUT: i16 = 2;
/// The job cannot be read: retention leaves it to the operator.
const UNREADABLE: i16 = 3;

/// The ids of jobs of the stages `$1` that ended before `$2`, at most `$3` of each. Locks nothing.
pub(crate) const DUE: &str = "SELECT due.id FROM unnest($1::smallint[]) AS stages(stage) \
    CROSS JOIN LATERAL (SELECT id FROM jobs WHERE retention = stages.stage AND finished_at_ms < $2::bigint \
    ORDER BY finished_at_ms LIMIT $3::bigint) AS due";

/// Jobs that one transaction removes.
const SWEEP_JOBS: usize = 50;

impl Act<'_> {
    /// Removes some jobs that ended before this time. Returns whether there may be more.
    pub(crate) async fn forget_old_jobs(&mut self, before_ms: u64) -> Result<bool, StoreError> {
        let sql = format!("SELECT id, user_id, conversation FROM jobs WHERE id IN ({DUE}) LIMIT $3");
        let (stages, before_ms) = ([WHOLE, FOLDED, CUT].as_slice(), sql_number(before_ms));
        let due = self.session.rows(&sql, &[&stages, &before_ms, &sql_number(SWEEP_JOBS)]).await?;
        let (mut ids, mut conversations) = (Vec::new(), BTreeSet::new());
        for row in &due {
            ids.push(row.column::<String>(0)?);
            if let Some(conversation) = row.column::<Option<String>>(2)? {
                conversations.insert((row.user(1)?, conversation));
            }
        }
        self.lock_conversations(conversations).await?;
        // A job that runs again since then, or that is locked, is not due now.
        let sql = "SELECT id FROM jobs WHERE id = ANY($1) AND finished_at_ms < $2 ORDER BY id \
                   FOR UPDATE SKIP LOCKED";
        let locked = self.session.rows(sql, &[&ids, &before_ms]).await?;
        let mut unreadable = Vec::new();
        for row in &locked {
            let id: String = row.column(0)?;
            if !self.forget_or_report(&id).await? {
                unreadable.push(id);
            }
        }
        self.leave_unreadable(&unreadable).await?;
        Ok(locked.len() >= SWEEP_JOBS)
    }

    async fn lock_conversations(
        &mut self,
        conversations: BTreeSet<(UserId, String)>,
    ) -> Result<(), StoreError> {
        for (user, conversation) in conversations {
            // A job of a conversation whose id cannot be read cannot be read either.
            let Ok(id) = ConversationId::try_from(conversation) else { continue };
            self.lock_conversation(user, Some(&id)).await?;
        }
        Ok(())
    }

    /// Removes a job. Returns false if it cannot be read.
    async fn forget_or_report(&mut self, id: &str) -> Result<bool, StoreError> {
        let forgotten = match id.parse::<JobId>() {
            Ok(job) => self.forget(job).await,
            Err(error) => Err(StoreError::Corrupt(error.to_string())),
        };
        match forgotten {
            Err(StoreError::Corrupt(reason)) => {
                report_unreadable(id, &reason);
                Ok(false)
            }
            other => other,
        }
    }

    /// Takes jobs out of retention that cannot be read, so that they do not block others.
    pub(crate) async fn leave_unreadable(&mut self, ids: &[String]) -> Result<(), StoreError> {
        if !ids.is_empty() {
            let sql = "UPDATE jobs SET retention = $2 WHERE id = ANY($1)";
            self.session.send(sql, &[&ids, &UNREADABLE]).await?;
        }
        Ok(())
    }
}

/// Logs a job that cannot be read.
pub(crate) fn report_unreadable(job: &str, reason: &str) {
    tracing::error!(job, reason, "ended job cannot be read; retention skips it");
}
