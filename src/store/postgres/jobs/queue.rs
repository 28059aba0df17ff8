//! Which job runs next, and the places of jobs in the queue.

use crate::domain::fair_share::{FairShare, Holdings, queue_rank};
use crate::domain::id::{ConversationId, JobId, UserId};
use crate::domain::job::JobStatus;
use crate::ports::StoreError;
use crate::store::postgres::jobs::row::{ROW, read_row};
use crate::store::postgres::session::{Columns, sql_number, sql_user};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::job::{JobRow, QueuePlace};
use tokio_postgres::Row;

/// Maximum delayed jobs that one claim makes ready; the next claim continues.
const DUE_JOBS: i64 = 256;

/// A ready job that a claim may take; the least goes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u64,
    priority: u8,
    fair: u64,
    accept: u64,
    since_ms: u64,
    user: UserId,
    job: JobId,
}

/// A job that a claim takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadyJob {
    pub(crate) job: JobId,
    pub(crate) since_ms: u64,
    pub(crate) priority: u8,
    pub(crate) fair: u64,
}

/// The first jobs of each priority.
const FIRST_OF_PRIORITIES: &str = "SELECT c.id, c.user_id, c.priority, c.fair, c.accept, c.ready_since_ms \
    FROM generate_series(0, 9) AS p CROSS JOIN LATERAL (SELECT * FROM jobs WHERE place = 'ready' AND priority = p \
    ORDER BY fair, accept LIMIT $1) AS c";

/// The first jobs of each user and priority.
const FIRST_OF_USERS: &str = "WITH RECURSIVE users AS (\
    (SELECT user_id FROM jobs WHERE place = 'ready' ORDER BY user_id LIMIT 1) UNION ALL \
    SELECT (SELECT j.user_id FROM jobs j WHERE j.place = 'ready' AND j.user_id > users.user_id ORDER BY j.user_id LIMIT 1) \
    FROM users WHERE users.user_id IS NOT NULL) \
    SELECT c.id, c.user_id, c.priority, c.fair, c.accept, c.ready_since_ms FROM users, generate_series(0, 9) AS p \
    CROSS JOIN LATERAL (SELECT * FROM jobs j WHERE j.place = 'ready' AND j.user_id = users.user_id AND j.priority = p \
    ORDER BY j.fair, j.accept LIMIT $1) AS c WHERE users.user_id IS NOT NULL";

impl Act<'_> {
    /// The next jobs, at most `max`, in queue order and within the users' shares. Others may take them first.
    pub(crate) async fn next_ready(&mut self, max: usize) -> Result<Vec<ReadyJob>, StoreError> {
        let sql = if self.limits.share.is_some() { FIRST_OF_USERS } else { FIRST_OF_PRIORITIES };
        // Some that another node takes at the same moment are skipped.
        let rows = self.session.rows(sql, &[&sql_number(max.saturating_add(4))]).await?;
        let mut candidates: Vec<Candidate> =
            rows.iter().map(|row| self.candidate(row)).collect::<Result<_, _>>()?;
        sort(&mut candidates);
        let picked = match self.limits.share {
            None => candidates.into_iter().collect(),
            Some(share) => by_share(candidates, share, self.running_jobs().await?),
        };
        Ok(picked
            .into_iter()
            .map(|Candidate { job, since_ms, priority, fair, .. }| ReadyJob { job, since_ms, priority, fair })
            .collect())
    }

    fn candidate(&self, row: &Row) -> Result<Candidate, StoreError> {
        let priority = u8::try_from(row.column::<i16>(2)?).unwrap_or_default();
        let since_ms = row.optional_number(5)?.unwrap_or_default();
        Ok(Candidate {
            rank: queue_rank(priority, since_ms.min(self.now_ms), self.limits.ageing_ms),
            priority,
            fair: row.optional_number(3)?.unwrap_or_default(),
            accept: row.number(4)?,
            since_ms,
            user: row.user(1)?,
            job: row.parsed(0)?,
        })
    }

    /// The running jobs of each user, on all nodes.
    async fn running_jobs(&self) -> Result<Holdings<UserId>, StoreError> {
        let sql = "SELECT user_id, count(*) FROM jobs WHERE status = 'running' GROUP BY user_id";
        let mut running = Holdings::default();
        for row in self.session.rows(sql, &[]).await? {
            running.take(row.user(0)?, usize::try_from(row.number(1)?).unwrap_or(usize::MAX));
        }
        Ok(running)
    }

    /// Records the fair time of a served job.
    pub(crate) async fn note_served(&mut self, served: &[ReadyJob]) -> Result<(), StoreError> {
        for priority in 0..=9_u8 {
            let of_priority = served.iter().filter(|job| job.priority == priority).map(|job| job.fair);
            let Some(fair) = of_priority.max() else { continue };
            let sql = format!(
                "SELECT setval('served_{priority}', greatest($1, (SELECT last_value FROM served_{priority})))"
            );
            self.session.send(&sql, &[&sql_number(fair)]).await?;
        }
        Ok(())
    }

    /// Makes delayed jobs ready that are due, and jobs whose approval has expired.
    async fn admit_due(&mut self) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT {ROW}, jobs.id FROM jobs WHERE place = 'delayed' AND due_ms <= $1 ORDER BY due_ms, accept LIMIT $2 \
             FOR NO KEY UPDATE SKIP LOCKED"
        );
        for found in self.session.rows(&sql, &[&sql_number(self.now_ms), &DUE_JOBS]).await? {
            let Some(mut row) = self.readable(read_row(&found, 0), &found, 6).await? else { continue };
            if row.job.status == JobStatus::Waiting {
                self.expire(&mut row).await?;
            } else {
                self.make_ready(&mut row).await?;
                self.put_row(&row).await?;
            }
        }
        Ok(())
    }

    /// Makes due jobs ready, and learns when the next delayed job is due, if either may have changed.
    pub(crate) async fn look_for_due(&mut self) -> Result<(), StoreError> {
        let due_jobs = &self.shared.due_jobs;
        let question = match due_jobs.known(self.now_ms, self.shared.clock.monotonic_ms()) {
            Ok(next_ms) if !self.effects.announcement.queue.has_delayed_job => {
                self.next_due_ms = next_ms;
                return Ok(());
            }
            Ok(_) => None,
            Err(question) => Some(question),
        };
        self.admit_due().await?;
        let sql = "SELECT min(due_ms) FROM jobs WHERE place = 'delayed'";
        self.next_due_ms = self.session.one(sql, &[]).await?.optional_number(0)?;
        if let Some(question) = question {
            due_jobs.learn(question, self.next_due_ms);
        }
        Ok(())
    }

    /// Queues a job: ready, or delayed until its start time. The caller writes its row.
    pub(crate) async fn enter_queue(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        self.effects.announcement.queue.has_ready_job = true;
        match row.due_ms() {
            Some(run_at_ms) if run_at_ms > self.now_ms => {
                row.queue_place = QueuePlace::Delayed;
                self.effects.announcement.queue.has_delayed_job = true;
                Ok(())
            }
            _ => self.make_ready(row).await,
        }
    }

    async fn make_ready(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        self.effects.announcement.queue.has_ready_job = true;
        row.queue_place = QueuePlace::Ready;
        if row.fair.is_none() {
            let priority = row.job.priority.level();
            let sql = format!(
                "SELECT 1 + greatest((SELECT last_value FROM served_{priority}), coalesce((SELECT max(fair) FROM jobs \
                 WHERE place = 'ready' AND user_id = $1 AND priority = $2), 0))"
            );
            let params = (sql_user(row.job.user), i16::from(priority));
            row.fair = Some(self.session.one(&sql, &[&params.0, &params.1]).await?.number(0)?);
        }
        Ok(())
    }

    /// Queues an accepted job again: behind its conversation, delayed, or ready. The caller writes its row.
    pub(crate) async fn enqueue(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        if let Some(conversation) =
            row.job.conversation_id.as_ref().filter(|_| row.job.origin.parent().is_none())
        {
            let sql = "SELECT EXISTS (SELECT FROM jobs WHERE user_id = $1 AND conversation = $2 AND id <> $3 \
                       AND accept < $4 AND NOT is_background AND status IN ('queued', 'running', 'waiting'))";
            let params = (
                sql_user(row.job.user),
                conversation.to_string(),
                row.id().to_string(),
                sql_number(row.accept),
            );
            let found = self.session.one(sql, &[&params.0, &params.1, &params.2, &params.3]).await?;
            if found.column(0)? {
                row.queue_place = QueuePlace::Behind;
                return Ok(());
            }
        }
        self.enter_queue(row).await
    }

    /// Queues the next job of the conversation of a job that has ended; its row is written already.
    pub(crate) async fn admit_next(&mut self, ended: &JobRow) -> Result<(), StoreError> {
        let Some(conversation) =
            ended.job.conversation_id.as_ref().filter(|_| ended.job.origin.parent().is_none())
        else {
            return Ok(());
        };
        self.admit_first(ended.job.user, conversation).await
    }

    /// Queues the first unfinished job of a conversation, if it waits for an earlier one.
    pub(crate) async fn admit_first(
        &mut self,
        user: UserId,
        conversation: &ConversationId,
    ) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT {ROW}, jobs.id FROM jobs WHERE user_id = $1 AND conversation = $2 AND NOT is_background \
             AND status IN ('queued', 'running', 'waiting') ORDER BY accept LIMIT 1 FOR NO KEY UPDATE"
        );
        let params = (sql_user(user), conversation.to_string());
        let Some(found) = self.session.row(&sql, &[&params.0, &params.1]).await? else { return Ok(()) };
        let Some(mut next) = self.readable(read_row(&found, 0), &found, 6).await? else { return Ok(()) };
        if next.queue_place == QueuePlace::Behind {
            self.enter_queue(&mut next).await?;
            self.put_row(&next).await?;
        }
        Ok(())
    }
}

/// Sorts jobs into queue order. Within a priority users take turns, so a job that has waited for longer than
/// the one before it gains nothing from that.
fn sort(candidates: &mut [Candidate]) {
    candidates.sort_unstable_by_key(|job| (job.priority, job.fair, job.accept));
    let mut before: Option<(u8, u64)> = None;
    for job in candidates.iter_mut() {
        if let Some((_, rank)) = before.filter(|(priority, _)| *priority == job.priority) {
            job.rank = job.rank.max(rank);
        }
        before = Some((job.priority, job.rank));
    }
    candidates.sort_unstable();
}

/// Those that users may run now: of the users with the fewest running jobs the first in rank, repeatedly.
fn by_share(mut waiting: Vec<Candidate>, share: FairShare, mut running: Holdings<UserId>) -> Vec<Candidate> {
    let mut picked = Vec::new();
    while let Some(at) = running.next(share, waiting.iter().map(|candidate| candidate.user)) {
        if at >= waiting.len() {
            break;
        }
        let next = waiting.remove(at);
        running.take(next.user, 1);
        picked.push(next);
    }
    picked
}
