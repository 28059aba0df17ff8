//! Inserts new jobs: row, request, place in the queue and first event, many jobs in one statement. The
//! database numbers them and finds their places.

use crate::domain::job::JobSpec;
use crate::domain::log_chain::{ChainLink, RecordPlace};
use crate::ports::StoreError;
use crate::store::postgres::jobs::row::{place_name, place_named};
use crate::store::postgres::session::{Columns, Params, document, sql_number, sql_user};
use crate::store::postgres::writer::act::{Act, NewJobRow};
use crate::store::rows::job::{JobRow, QueuePlace};

/// Bytes that the row of a job counts for its owner, however it grows.
pub(crate) const ROW_BYTES: i64 = 1_024;

/// The first record of each log, as it is stored.
const FIRST_RECORD: &str = r#"{"event":"status","status":"queued","attempt":0}"#;

/// The link of the first record of a job's log, if the log is chained.
pub(crate) fn first_link(row: &JobRow) -> Option<ChainLink> {
    row.chain_start().map(|start| start.after(RecordPlace::FIRST, FIRST_RECORD.as_bytes()))
}

/// A statement sees the jobs before it, so it counts its own by itself: `row_number`. The outer query numbers
/// them in the order in which they were accepted. `EXISTS` would read all unfinished jobs into a hash table.
const INSERT: &str = "WITH given AS (SELECT * FROM unnest($2::text[], $3::bigint[], $4::text[], $5::text[], $6::smallint[], \
      $7::boolean[], $8::bigint[], $9::boolean[], $10::text[], $11::integer[], $12::text[], $13::text[], $14::bigint[], \
      $15::text[], $16::text[], $18::bytea[], $19::bigint[]) WITH ORDINALITY AS g(id, user_id, place, conversation, priority, is_background, \
      due_ms, is_completion, batch, line, parent, model, created_at_ms, row, spec, link, ends_at_ms, nth)), \
    placed AS (SELECT g.*, CASE WHEN conversation IS NOT NULL AND NOT is_background AND (SELECT j.id FROM jobs j \
        WHERE j.user_id = g.user_id AND j.conversation = g.conversation AND NOT j.is_background \
        AND j.status IN ('queued', 'running', 'waiting') LIMIT 1) IS NOT NULL THEN 'behind' ELSE place END AS found \
      FROM given g OFFSET 0), \
    ordered AS (SELECT p.*, CASE found WHEN 'ready' THEN greatest(CASE priority \
          WHEN 0 THEN (SELECT last_value FROM served_0) WHEN 1 THEN (SELECT last_value FROM served_1) \
          WHEN 2 THEN (SELECT last_value FROM served_2) WHEN 3 THEN (SELECT last_value FROM served_3) \
          WHEN 4 THEN (SELECT last_value FROM served_4) WHEN 5 THEN (SELECT last_value FROM served_5) \
          WHEN 6 THEN (SELECT last_value FROM served_6) WHEN 7 THEN (SELECT last_value FROM served_7) \
          WHEN 8 THEN (SELECT last_value FROM served_8) ELSE (SELECT last_value FROM served_9) END, \
          coalesce((SELECT max(j.fair) FROM jobs j WHERE j.place = 'ready' AND j.user_id = p.user_id \
            AND j.priority = p.priority), 0)) \
        + row_number() OVER (PARTITION BY user_id, priority, found ORDER BY nth) END AS fair FROM placed p ORDER BY nth), \
    job AS (INSERT INTO jobs (id, accept, user_id, status, place, priority, fair, ready_since_ms, due_ms, \
        conversation, is_background, is_completion, batch, line, parent, model, created_at_ms, row, spec, ends_at_ms) \
      SELECT id, nextval('accept_numbers'), user_id, 'queued', found, priority, fair, CASE found WHEN 'ready' THEN $1::bigint END, \
        due_ms, conversation, is_background, is_completion, batch, line, parent, model, created_at_ms, row::json, spec::json, ends_at_ms \
      FROM ordered RETURNING accept, place, fair), \
    event AS (INSERT INTO records (job, seq, sub, body, link) SELECT id, 1, 0, $17::text::json, link FROM given) \
    SELECT accept, place, fair FROM job";

impl Act<'_> {
    /// Inserts a job now, if it is of a conversation: its place depends on the others there. Nobody asks for
    /// the numbers of other jobs before a claim reads them: they wait for [`Act::insert_jobs`].
    pub(crate) async fn place_job(&mut self, row: &mut JobRow, spec: &JobSpec) -> Result<(), StoreError> {
        let is_delayed = row.due_ms().is_some_and(|due_ms| due_ms > self.now_ms);
        let place = if is_delayed { QueuePlace::Delayed } else { QueuePlace::Ready };
        let new = NewJobRow {
            place,
            row_text: document(row)?,
            spec_text: document(spec)?,
            link: first_link(row),
            is_completion: spec.is_stored_completion,
            row: row.clone(),
        };
        let bytes = sql_number(new.spec_text.len().saturating_add(FIRST_RECORD.len()));
        self.count_bytes(row.job.user, bytes.saturating_add(ROW_BYTES));
        row.queue_place = place;
        if row.job.conversation_id.is_none() {
            self.new_jobs.push(new);
            return Ok(());
        }
        self.insert_jobs().await?;
        if let Some((accept, place, fair)) = self.insert(&[new], true).await? {
            (row.accept, row.queue_place, row.fair) = (accept, place, fair);
        }
        Ok(())
    }

    /// Inserts the jobs that wait for it. Whatever reads them calls this first.
    pub(crate) async fn insert_jobs(&mut self) -> Result<(), StoreError> {
        let new = std::mem::take(&mut self.new_jobs);
        if new.is_empty() { Ok(()) } else { self.insert(&new, false).await.map(|_| ()) }
    }

    /// Returns number, place and fair time of the first, if they are asked for.
    async fn insert(
        &self,
        new: &[NewJobRow],
        is_asked: bool,
    ) -> Result<Option<(u64, QueuePlace, Option<u64>)>, StoreError> {
        let params: Params<'_> = &[
            &sql_number(self.now_ms),
            &column(new, |new| new.row.id().to_string()),
            &column(new, |new| sql_user(new.row.job.user)),
            &column(new, |new| place_name(new.place)),
            &column(new, |new| new.row.job.conversation_id.as_ref().map(ToString::to_string)),
            &column(new, |new| i16::from(new.row.job.priority.level())),
            &column(new, |new| new.row.job.origin.parent().is_some()),
            &column(new, |new| new.row.due_ms().map(sql_number)),
            &column(new, |new| new.is_completion),
            &column(new, |new| new.row.job.batch.map(|line| line.batch.to_string())),
            &column(new, |new| new.row.job.batch.map(|line| i32::try_from(line.line).unwrap_or(i32::MAX))),
            &column(new, |new| new.row.job.origin.parent().map(|parent| parent.to_string())),
            &column(new, |new| new.row.job.model.as_str()),
            &column(new, |new| sql_number(new.row.job.created_at_ms)),
            &column(new, |new| new.row_text.as_str()),
            &column(new, |new| new.spec_text.as_str()),
            &FIRST_RECORD,
            &column(new, |new| new.link.map(|link| link.to_bytes().to_vec())),
            &column(new, |new| new.row.ends_at_ms().map(sql_number)),
        ];
        if !is_asked {
            self.session.send(INSERT, params).await?;
            return Ok(None);
        }
        let found = self.session.one(INSERT, params).await?;
        Ok(Some((found.number(0)?, place_named(found.column(1)?)?, found.optional_number(2)?)))
    }
}

fn column<'n, T>(new: &'n [NewJobRow], value: impl Fn(&'n NewJobRow) -> T) -> Vec<T> {
    new.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::event::{Event, StatusPhase};

    #[test]
    fn the_first_record_is_the_status_of_a_queued_job() {
        let event = Event::Status { status: StatusPhase::Queued, attempt: 0, reason: None };
        assert_eq!(document(&event).unwrap(), FIRST_RECORD);
    }
}
