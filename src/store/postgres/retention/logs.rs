//! Shrinks the logs of old jobs: joins the deltas of each step, or cuts the log to its terminal event.

use crate::domain::event::{EngineMark, Event, Record};
use crate::domain::id::UserId;
use crate::ports::StoreError;
use crate::store::postgres::retention::jobs::{CUT, DUE, FOLDED, WHOLE, report_unreadable};
use crate::store::postgres::session::{Columns, document, read_document, sql_number};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::fold::{FoldPlan, RecordPlace, plan};
use std::collections::HashMap;
use tokio_postgres::Row;

/// Jobs whose logs one transaction shrinks.
const SWEEP_JOBS: usize = 100;
/// Bytes of logs that one transaction folds, as the table keeps them; the last job may exceed it.
const FOLD_BYTES: i64 = 4 * 1024 * 1024;

/// A job whose log is folded.
struct OldLog {
    id: String,
    user: UserId,
    /// Only a failed job may run again, so only it needs its marks.
    has_failed: bool,
}

/// Columns of the statement that writes folded logs.
#[derive(Default)]
struct FoldedLogs {
    jobs: Vec<String>,
    removed: (Vec<String>, Vec<i64>, Vec<i32>),
    written: (Vec<String>, Vec<i64>, Vec<String>),
    unreadable: Vec<String>,
}

/// The log of a job, and the length of each record.
#[derive(Default)]
struct ReadLog {
    records: Vec<(RecordPlace, Record)>,
    bytes: HashMap<RecordPlace, usize>,
}

impl ReadLog {
    /// Adds the record in the columns `seq`, `sub` and `body`, which begin at 1.
    fn add(&mut self, row: &Row) -> Result<(), StoreError> {
        let sub = u32::try_from(row.column::<i32>(2)?).unwrap_or_default();
        let place = RecordPlace { seq: row.number(1)?, sub };
        let body: &str = row.column(3)?;
        self.bytes.insert(place, body.len());
        let record = match sub {
            0 => Record::Event(read_document(body)?),
            _ => Record::Mark(read_document::<EngineMark>(body)?),
        };
        self.records.push((place, record));
        Ok(())
    }
}

impl Act<'_> {
    /// Cuts some logs of jobs that ended before this time. Returns whether there may be more.
    pub(crate) async fn cut_old_logs(&mut self, before_ms: u64) -> Result<bool, StoreError> {
        let sql = format!(
            "SELECT jobs.id, newest.seq, newest.body FROM jobs LEFT JOIN LATERAL \
             (SELECT seq, body::text AS body FROM records WHERE job = jobs.id ORDER BY seq DESC, sub DESC LIMIT 1) \
             AS newest ON true WHERE jobs.id IN ({DUE}) AND jobs.retention = ANY($1) AND jobs.finished_at_ms < $2 \
             LIMIT $3 FOR NO KEY UPDATE OF jobs SKIP LOCKED"
        );
        let (stages, limit) = ([WHOLE, FOLDED].as_slice(), sql_number(SWEEP_JOBS));
        let due = self.session.rows(&sql, &[&stages, &sql_number(before_ms), &limit]).await?;
        let (mut jobs, mut ends, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
        for row in &due {
            let id: String = row.column(0)?;
            let body: Option<&str> = row.column(2)?;
            if let Some(seq) = row.optional_number(1)?.filter(|_| body.is_some_and(is_terminal)) {
                jobs.push(id);
                ends.push(sql_number(seq));
            } else {
                report_unreadable(&id, "its log does not end");
                unreadable.push(id);
            }
        }
        self.cut_logs(&jobs, &ends).await?;
        self.leave_unreadable(&unreadable).await?;
        Ok(due.len() >= SWEEP_JOBS)
    }

    /// Removes all records of these jobs but the events with these numbers, and marks the jobs.
    async fn cut_logs(&mut self, jobs: &[String], ends: &[i64]) -> Result<(), StoreError> {
        if jobs.is_empty() {
            return Ok(());
        }
        let sql = "WITH kept AS (SELECT * FROM unnest($1::text[], $2::bigint[]) AS k(job, seq)), \
                   gone AS (DELETE FROM records USING kept WHERE records.job = kept.job \
                     AND (records.seq <> kept.seq OR records.sub <> 0) RETURNING records.job, \
                     CASE WHEN $4::boolean THEN octet_length(records.body::text) ELSE 0 END AS bytes), \
                   marked AS (UPDATE jobs SET retention = $3 WHERE id = ANY($1)) \
                   SELECT jobs.user_id, sum(gone.bytes)::bigint FROM gone JOIN jobs ON jobs.id = gone.job \
                   GROUP BY jobs.user_id";
        let freed = self.session.rows(sql, &[&jobs, &ends, &CUT, &self.limits.has_quotas]).await?;
        for row in &freed {
            self.count_bytes(row.user(0)?, row.column::<i64>(1)?.saturating_neg());
        }
        Ok(())
    }

    /// Joins the deltas of some jobs that ended before this time. Returns whether there may be more.
    pub(crate) async fn fold_old_logs(&mut self, before_ms: u64) -> Result<bool, StoreError> {
        let (logs, is_last) = self.old_logs(before_ms).await?;
        let ids: Vec<&String> = logs.iter().map(|log| &log.id).collect();
        let sql = "SELECT job, seq, sub, body::text FROM records WHERE job = ANY($1) ORDER BY job, seq, sub";
        let rows = self.session.rows(sql, &[&ids]).await?;
        let mut read: HashMap<&str, Result<ReadLog, StoreError>> = HashMap::new();
        for row in &rows {
            let log = read.entry(row.column(0)?).or_insert_with(|| Ok(ReadLog::default()));
            if let Ok(found) = log
                && let Err(error) = found.add(row)
            {
                *log = Err(error);
            }
        }
        let mut folded = FoldedLogs::default();
        for log in logs {
            match read.remove(log.id.as_str()).unwrap_or_else(|| Ok(ReadLog::default())) {
                Ok(found) => self.fold(log, found, &mut folded)?,
                Err(error) => {
                    report_unreadable(&log.id, &error.to_string());
                    folded.unreadable.push(log.id);
                }
            }
        }
        self.write_folded(&folded).await?;
        self.leave_unreadable(&folded.unreadable).await?;
        Ok(!is_last)
    }

    /// The next jobs to fold, locked, and whether no more may be due.
    async fn old_logs(&mut self, before_ms: u64) -> Result<(Vec<OldLog>, bool), StoreError> {
        let sql = format!(
            "WITH due AS (SELECT id, user_id, status, finished_at_ms FROM jobs WHERE id IN ({DUE}) \
               AND retention = ANY($1) AND finished_at_ms < $2 LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED), \
             sized AS (SELECT due.*, coalesce((SELECT sum(pg_column_size(body)) FROM records WHERE job = due.id), 0) \
               AS bytes FROM due), \
             summed AS (SELECT sized.*, sum(bytes) OVER (ORDER BY finished_at_ms, id) - bytes AS before, \
               count(*) OVER () AS due FROM sized) \
             SELECT id, user_id, status = 'failed', due FROM summed WHERE before < $4::bigint"
        );
        let (stages, limit) = ([WHOLE].as_slice(), sql_number(SWEEP_JOBS));
        let rows = self.session.rows(&sql, &[&stages, &sql_number(before_ms), &limit, &FOLD_BYTES]).await?;
        let mut logs = Vec::with_capacity(rows.len());
        let mut due = 0;
        for row in &rows {
            logs.push(OldLog { id: row.column(0)?, user: row.user(1)?, has_failed: row.column(2)? });
            due = row.column::<i64>(3)?;
        }
        let is_last = due < limit && sql_number(logs.len()) >= due;
        Ok((logs, is_last))
    }

    fn fold(&mut self, log: OldLog, found: ReadLog, folded: &mut FoldedLogs) -> Result<(), StoreError> {
        let bytes = |place: &RecordPlace| sql_number(found.bytes.get(place).copied().unwrap_or_default());
        let FoldPlan { remove, write } = plan(found.records, log.has_failed);
        let mut change = 0_i64;
        for place in &remove {
            change = change.saturating_sub(bytes(place));
            folded.removed.0.push(log.id.clone());
            folded.removed.1.push(sql_number(place.seq));
            folded.removed.2.push(i32::try_from(place.sub).unwrap_or(i32::MAX));
        }
        for (place, event) in &write {
            let text = document(event)?;
            change = change.saturating_add(sql_number(text.len())).saturating_sub(bytes(place));
            folded.written.0.push(log.id.clone());
            folded.written.1.push(sql_number(place.seq));
            folded.written.2.push(text);
        }
        self.count_bytes(log.user, change);
        folded.jobs.push(log.id);
        Ok(())
    }

    async fn write_folded(&mut self, folded: &FoldedLogs) -> Result<(), StoreError> {
        let FoldedLogs { jobs, removed, written, .. } = folded;
        if jobs.is_empty() {
            return Ok(());
        }
        let sql = "WITH gone AS (DELETE FROM records USING unnest($1::text[], $2::bigint[], $3::integer[]) \
                     AS g(job, seq, sub) WHERE records.job = g.job AND records.seq = g.seq AND records.sub = g.sub), \
                   marked AS (UPDATE jobs SET retention = $4 WHERE id = ANY($5)) \
                   UPDATE records SET body = w.body::json FROM unnest($6::text[], $7::bigint[], $8::text[]) \
                     AS w(job, seq, body) WHERE records.job = w.job AND records.seq = w.seq AND records.sub = 0";
        let (gone, new) = (removed, written);
        self.session.send(sql, &[&gone.0, &gone.1, &gone.2, &FOLDED, &jobs, &new.0, &new.1, &new.2]).await
    }
}

/// Whether this is a terminal event.
fn is_terminal(body: &str) -> bool {
    read_document::<Event>(body).is_ok_and(|event| event.is_terminal())
}
