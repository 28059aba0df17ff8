//! Background jobs: a model starts them, and they run beside their conversation. Neither waits for the other.
//! A user has at most `limits.spawned_jobs` unfinished ones.

use crate::domain::id::{JobId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::{Job, JobSpec};
use crate::ports::{BackgroundJobs, Idempotent, NewJob, SpawnError, StoreError, Ticket};
use crate::store::postgres::jobs::read::request;
use crate::store::postgres::jobs::row::{ROW, read_row};
use crate::store::postgres::session::{Columns, SqlSession, sql_user};
use crate::store::postgres::store::PostgresStore;
use crate::store::postgres::writer::act::Act;
use crate::store::postgres::writer::write::WriteOptions;
use crate::store::rows::weight::spec_bytes;

impl Act<'_> {
    /// Stores a background job, unless its key is known or its user has `limit` unfinished ones.
    pub(crate) async fn spawn_job(
        &mut self,
        new: &NewJob,
        key: &IdempotencyKey,
        limit: u64,
    ) -> Result<Idempotent<Job>, SpawnError> {
        if let Some(job) = self.replayed_job(new.user, key).await? {
            return Ok(Idempotent::Replayed(job));
        }
        if self.count_background_jobs(new.user).await? >= limit {
            return Err(SpawnError::SpawnedFull { limit });
        }
        Ok(Idempotent::New(self.submit_first(new, key).await?))
    }

    /// Number of a user's unfinished background jobs. Others who count those of the same user, on any node,
    /// wait until this transaction ends.
    async fn count_background_jobs(&mut self, user: UserId) -> Result<u64, StoreError> {
        let lock = "SELECT pg_advisory_xact_lock(hashtext('background jobs'), hashint8($1))";
        self.session.send(lock, &[&sql_user(user)]).await?;
        let sql = "SELECT count(*) FROM jobs WHERE user_id = $1 AND is_background \
                   AND status IN ('queued', 'running', 'waiting')";
        self.session.one(sql, &[&sql_user(user)]).await?.number(0)
    }
}

impl BackgroundJobs for PostgresStore {
    fn spec(&self, user: UserId, job: JobId) -> Result<Option<JobSpec>, StoreError> {
        self.read(async |session: &SqlSession<'_>| request(session, user, job).await)
    }

    fn spawn(&self, job: NewJob, key: IdempotencyKey, limit: u64) -> Ticket<Idempotent<Job>, SpawnError> {
        let options = WriteOptions::weighing(spec_bytes(&job.spec));
        self.offer(options, async move |act: &mut Act<'_>| act.spawn_job(&job, &key, limit).await)
    }

    fn spawned(&self, user: UserId) -> Result<Vec<Job>, StoreError> {
        let sql = format!(
            "SELECT {ROW} FROM jobs WHERE user_id = $1 AND is_background \
             AND status IN ('queued', 'running', 'waiting') ORDER BY id"
        );
        let found =
            self.read(async |session: &SqlSession<'_>| session.rows(&sql, &[&sql_user(user)]).await)?;
        found.iter().map(|row| Ok(read_row(row, 0)?.job)).collect()
    }
}
