//! Shrinks the logs of old jobs: joins the deltas of each step, or cuts the log to its terminal event.

use crate::domain::event::Event;
use crate::domain::id::UserId;
use crate::domain::log_chain::{FoldNote, LogRecord, RecordPlace};
use crate::ports::StoreError;
use crate::store::postgres::jobs::chain::{RECORD, read_record};
use crate::store::postgres::jobs::row::{ROW, read_link, read_row};
use crate::store::postgres::retention::jobs::{CUT, DUE, FOLDED, WHOLE, report_unreadable};
use crate::store::postgres::session::{Columns, Params, document, read_document, sql_number};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::job::JobRow;
use crate::store::rows::log_fold::{LogChanges, LogEnd, cut_note, join_deltas};
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

/// Job, place, text and link of each record.
type WrittenRecords = (Vec<String>, Vec<i64>, Vec<i32>, Vec<String>, Vec<Option<Vec<u8>>>);

/// Columns of the statement that writes folded logs.
#[derive(Default)]
struct FoldedLogs {
    /// The jobs, and their rows if these have a new note.
    jobs: (Vec<String>, Vec<Option<String>>),
    removed: (Vec<String>, Vec<i64>, Vec<i32>),
    written: WrittenRecords,
    unreadable: Vec<String>,
}

/// The newest two records of a log, in the columns [`END`], which begin at this one.
fn read_end(row: &Row, first: usize) -> Result<Option<LogEnd>, StoreError> {
    let at = |offset: usize| first.saturating_add(offset);
    if row.column::<Option<i64>>(first)?.is_none() {
        return Ok(None);
    }
    let terminal = read_record(row, first)?;
    let Some(seq) = row.optional_number(at(4))? else { return Ok(Some(LogEnd { terminal, before: None })) };
    let sub = u32::try_from(row.column::<i32>(at(5))?).unwrap_or_default();
    Ok(Some(LogEnd { terminal, before: Some((RecordPlace { seq, sub }, read_link(row, at(6))?)) }))
}

/// The columns of the newest two records, from [`ENDS`].
const END: &str = "newest.seq, newest.sub, newest.body, newest.link, before.seq, before.sub, before.link";
/// The newest two records of each job.
const ENDS: &str = "LEFT JOIN LATERAL (SELECT seq, sub, body::text AS body, link FROM records WHERE job = jobs.id \
    ORDER BY seq DESC, sub DESC LIMIT 1) AS newest ON true \
    LEFT JOIN LATERAL (SELECT seq, sub, link FROM records WHERE job = jobs.id \
    ORDER BY seq DESC, sub DESC OFFSET 1 LIMIT 1) AS before ON true";

/// A row that has a new note about its log.
fn with_note(row: &JobRow, note: Option<FoldNote>) -> Result<Option<String>, StoreError> {
    if note == row.fold { Ok(None) } else { document(&JobRow { fold: note, ..row.clone() }).map(Some) }
}

impl Act<'_> {
    /// Cuts some logs of jobs that ended before this time. Returns whether there may be more.
    pub(crate) async fn cut_old_logs(&mut self, before_ms: u64) -> Result<bool, StoreError> {
        let sql = format!(
            "SELECT {ROW}, jobs.id, {END} FROM jobs {ENDS} WHERE jobs.id IN ({DUE}) AND jobs.retention = ANY($1) \
             AND jobs.finished_at_ms < $2 LIMIT $3 FOR NO KEY UPDATE OF jobs SKIP LOCKED"
        );
        let (stages, limit) = ([WHOLE, FOLDED].as_slice(), sql_number(SWEEP_JOBS));
        let due = self.session.rows(&sql, &[&stages, &sql_number(before_ms), &limit]).await?;
        let (mut jobs, mut ends, mut unreadable) = ((Vec::new(), Vec::new()), Vec::new(), Vec::new());
        for found in &due {
            let id: String = found.column(6)?;
            match self.cut_of(found) {
                Ok((seq, row)) => {
                    jobs.0.push(id);
                    jobs.1.push(row);
                    ends.push(sql_number(seq));
                }
                Err(StoreError::Corrupt(reason)) => {
                    report_unreadable(&id, &reason);
                    unreadable.push(id);
                }
                Err(error) => return Err(error),
            }
        }
        self.cut_logs(&jobs, &ends).await?;
        self.leave_unreadable(&unreadable).await?;
        Ok(due.len() >= SWEEP_JOBS)
    }

    /// The number of the terminal event, and the row with a note if the log is chained.
    fn cut_of(&self, found: &Row) -> Result<(u64, Option<String>), StoreError> {
        let end = read_end(found, 7)?.filter(|end| is_terminal(&end.terminal.body));
        let end = end.ok_or_else(|| StoreError::Corrupt("its log does not end".to_owned()))?;
        let row = read_row(found, 0)?;
        let note = cut_note(&row, &end, self.now_ms, self.shared.log_key.get())?;
        Ok((end.terminal.place.seq, with_note(&row, note)?))
    }

    /// The note about a log that is about to be cut to its newest record; `None`: it is not chained, or does
    /// not end as it should.
    pub(crate) async fn note_of_cut(&self, row: &JobRow) -> Result<Option<FoldNote>, StoreError> {
        let sql = format!("SELECT {END} FROM jobs {ENDS} WHERE jobs.id = $1");
        let found = self.session.row(&sql, &[&row.id().to_string()]).await?;
        let Some(end) = found.map(|found| read_end(&found, 0)).transpose()?.flatten() else {
            return Ok(None);
        };
        match cut_note(row, &end, self.now_ms, self.shared.log_key.get()) {
            Err(StoreError::Corrupt(_)) => Ok(None),
            note => note,
        }
    }

    /// Removes all records of these jobs but the events with these numbers, and marks the jobs.
    async fn cut_logs(
        &mut self,
        (jobs, rows): &(Vec<String>, Vec<Option<String>>),
        ends: &[i64],
    ) -> Result<(), StoreError> {
        if jobs.is_empty() {
            return Ok(());
        }
        let sql = "WITH kept AS (SELECT * FROM unnest($1::text[], $2::bigint[], $5::text[]) AS k(job, seq, row)), \
                   gone AS (DELETE FROM records USING kept WHERE records.job = kept.job \
                     AND (records.seq <> kept.seq OR records.sub <> 0) RETURNING records.job, \
                     CASE WHEN $4::boolean THEN octet_length(records.body::text) ELSE 0 END AS bytes), \
                   marked AS (UPDATE jobs SET retention = $3, row = coalesce(kept.row::json, jobs.row) FROM kept \
                     WHERE jobs.id = kept.job) \
                   SELECT jobs.user_id, sum(gone.bytes)::bigint FROM gone JOIN jobs ON jobs.id = gone.job \
                   GROUP BY jobs.user_id";
        let freed = self.session.rows(sql, &[jobs, &ends, &CUT, &self.limits.has_quotas, rows]).await?;
        for row in &freed {
            self.count_bytes(row.user(0)?, row.column::<i64>(1)?.saturating_neg());
        }
        Ok(())
    }

    /// Joins the deltas of some jobs that ended before this time. Returns whether there may be more.
    pub(crate) async fn fold_old_logs(&mut self, before_ms: u64) -> Result<bool, StoreError> {
        let (logs, is_last) = self.old_logs(before_ms).await?;
        let ids: Vec<&String> = logs.iter().map(|log| &log.id).collect();
        let sql = format!("SELECT {ROW}, jobs.id FROM jobs WHERE id = ANY($1)");
        let mut job_rows = HashMap::new();
        for found in self.session.rows(&sql, &[&ids]).await? {
            job_rows.insert(found.column::<String>(6)?, read_row(&found, 0));
        }
        let sql = format!("SELECT job, {RECORD} FROM records WHERE job = ANY($1) ORDER BY job, seq, sub");
        let rows = self.session.rows(&sql, &[&ids]).await?;
        let mut records: HashMap<&str, Vec<LogRecord>> = HashMap::new();
        for row in &rows {
            records.entry(row.column(0)?).or_default().push(read_record(row, 1)?);
        }
        let mut folded = FoldedLogs::default();
        for log in logs {
            let records = records.remove(log.id.as_str()).unwrap_or_default();
            let missing = || Err(StoreError::Corrupt("it has no row".to_owned()));
            let row = job_rows.remove(&log.id).unwrap_or_else(missing);
            match row.and_then(|row| self.fold(&log, &row, records, &mut folded)) {
                Err(StoreError::Corrupt(reason)) => {
                    report_unreadable(&log.id, &reason);
                    folded.unreadable.push(log.id);
                }
                done => done?,
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

    fn fold(
        &mut self,
        log: &OldLog,
        row: &JobRow,
        records: Vec<LogRecord>,
        folded: &mut FoldedLogs,
    ) -> Result<(), StoreError> {
        let chain = row.log_chain(records);
        let bytes: HashMap<_, _> =
            chain.records.iter().map(|record| (record.place, sql_number(record.body.len()))).collect();
        let bytes = |place: &RecordPlace| bytes.get(place).copied().unwrap_or_default();
        let LogChanges { remove, write, note } =
            join_deltas(&chain, log.has_failed, self.now_ms, self.shared.log_key.get())?;
        folded.jobs.1.push(with_note(row, note.or(row.fold))?);
        folded.jobs.0.push(log.id.clone());
        let sub = |place: RecordPlace| i32::try_from(place.sub).unwrap_or(i32::MAX);
        let mut change = 0_i64;
        for place in &remove {
            change = change.saturating_sub(bytes(place));
            folded.removed.0.push(log.id.clone());
            folded.removed.1.push(sql_number(place.seq));
            folded.removed.2.push(sub(*place));
        }
        for LogRecord { place, body, link } in write {
            change = change.saturating_add(sql_number(body.len())).saturating_sub(bytes(&place));
            folded.written.0.push(log.id.clone());
            folded.written.1.push(sql_number(place.seq));
            folded.written.2.push(sub(place));
            folded.written.3.push(body);
            folded.written.4.push(link.map(|link| link.to_bytes().to_vec()));
        }
        self.count_bytes(log.user, change);
        Ok(())
    }

    async fn write_folded(&mut self, folded: &FoldedLogs) -> Result<(), StoreError> {
        let FoldedLogs { jobs: (jobs, rows), removed: gone, written: new, .. } = folded;
        if jobs.is_empty() {
            return Ok(());
        }
        let sql = "WITH gone AS (DELETE FROM records USING unnest($1::text[], $2::bigint[], $3::integer[]) \
                     AS g(job, seq, sub) WHERE records.job = g.job AND records.seq = g.seq AND records.sub = g.sub), \
                   marked AS (UPDATE jobs SET retention = $4, row = coalesce(k.row::json, jobs.row) \
                     FROM unnest($5::text[], $6::text[]) AS k(job, row) WHERE jobs.id = k.job) \
                   UPDATE records SET body = w.body::json, link = w.link \
                     FROM unnest($7::text[], $8::bigint[], $9::integer[], $10::text[], $11::bytea[]) \
                     AS w(job, seq, sub, body, link) \
                     WHERE records.job = w.job AND records.seq = w.seq AND records.sub = w.sub";
        let params: Params<'_> =
            &[&gone.0, &gone.1, &gone.2, &FOLDED, jobs, rows, &new.0, &new.1, &new.2, &new.3, &new.4];
        self.session.send(sql, params).await
    }
}

/// Whether this is a terminal event.
fn is_terminal(body: &str) -> bool {
    read_document::<Event>(body).is_ok_and(|event| event.is_terminal())
}
