//! Ended jobs on their way to or from another server ([`Runs`]).

use crate::domain::event::Record;
use crate::domain::id::{JobId, UserId};
use crate::domain::log_chain::{LogRecord, RecordPlace};
use crate::domain::run::{EndedRun, ImportedRun, LogStage};
use crate::ports::{ImportError, ImportOutcome, NewWork, Runs, StoreError, Ticket};
use crate::store::postgres::jobs::chain::read_record;
use crate::store::postgres::jobs::insert::ROW_BYTES;
use crate::store::postgres::jobs::row::{ROW, read_row};
use crate::store::postgres::retention::jobs::{CUT, FOLDED, WHOLE};
use crate::store::postgres::session::{Columns, Params, SqlSession, document, sql_number, sql_user};
use crate::store::postgres::store::PostgresStore;
use crate::store::postgres::writer::act::Act;
use crate::store::postgres::writer::write::WriteOptions;
use crate::store::rows::job::JobRow;
use crate::store::rows::transfer::jobs::result_handle;

impl Runs for PostgresStore {
    fn ended_run(&self, user: UserId, job: JobId) -> Result<Option<EndedRun>, StoreError> {
        self.read(async |session: &SqlSession<'_>| ended_run(session, user, job).await)
    }

    fn log_records(
        &self,
        job: JobId,
        after: RecordPlace,
        max_bytes: usize,
    ) -> Result<Vec<LogRecord>, StoreError> {
        self.read(async |session: &SqlSession<'_>| log_records(session, job, after, max_bytes).await)
    }

    fn import_run(&self, user: UserId, run: ImportedRun) -> Ticket<ImportOutcome, ImportError> {
        self.offer(WriteOptions::weighing(run.bytes()), async move |act: &mut Act<'_>| {
            act.import_run(user, &run).await
        })
    }
}

async fn ended_run(
    session: &SqlSession<'_>,
    user: UserId,
    job: JobId,
) -> Result<Option<EndedRun>, StoreError> {
    let sql = format!(
        "SELECT {ROW}, retention, spec::text, output::text FROM jobs WHERE id = $1 AND user_id IS NOT DISTINCT FROM $2"
    );
    let Some(found) = session.row(&sql, &[&job.to_string(), &sql_user(user)]).await? else { return Ok(None) };
    let row = read_row(&found, 0)?;
    let Some(finished_at_ms) = row.job.finished_at_ms.filter(|_| row.job.status.is_terminal()) else {
        return Ok(None);
    };
    let log = match found.column::<i16>(6)? {
        WHOLE => LogStage::Whole,
        CUT => LogStage::Cut,
        _ => LogStage::Folded,
    };
    let has_output = found.column::<Option<&str>>(8)?.is_some();
    Ok(Some(EndedRun {
        state: row.run_state(finished_at_ms, log),
        spec: found.document(7)?,
        hides_input: row.job.input.is_none(),
        output: if has_output { found.document(8)? } else { String::new() },
        usage: row.ledger,
    }))
}

/// Records behind a place, at least one if there is any.
async fn log_records(
    session: &SqlSession<'_>,
    job: JobId,
    RecordPlace { seq, sub }: RecordPlace,
    max_bytes: usize,
) -> Result<Vec<LogRecord>, StoreError> {
    let sql = "SELECT seq, sub, body, link FROM (SELECT seq, sub, body::text AS body, link, \
                 sum(octet_length(body::text)) OVER w AS bytes, row_number() OVER w AS nth FROM records \
                 WHERE job = $1 AND (seq, sub) > ($2, $3) WINDOW w AS (ORDER BY seq, sub)) AS r \
               WHERE nth = 1 OR bytes <= $4 ORDER BY seq, sub";
    let place = (sql_number(seq), i32::try_from(sub).unwrap_or(i32::MAX));
    let params: Params<'_> = &[&job.to_string(), &place.0, &place.1, &sql_number(max_bytes)];
    let rows = session.rows(sql, params).await?;
    rows.iter().map(|row| read_record(row, 0)).collect()
}

impl Act<'_> {
    /// Stores a run of another server, unless it is there.
    pub(crate) async fn import_run(
        &mut self,
        user: UserId,
        run: &ImportedRun,
    ) -> Result<ImportOutcome, ImportError> {
        let job = run.run.state.id;
        if let Some(row) = self.find_row(job).await? {
            // The log may have records of this transaction.
            self.flush().await?;
            let sql = "SELECT coalesce(output, '\"\"')::text FROM jobs WHERE id = $1";
            let output: String = self.session.one(sql, &[&job.to_string()]).await?.document(0)?;
            let is_same = row.is_same_run(user, &run.run)
                && output == run.run.output
                && run.has_records(
                    &log_records(&self.session, job, RecordPlace::BEFORE_FIRST, usize::MAX).await?,
                );
            if !is_same {
                return Err(ImportError::Taken { job });
            }
            return Ok(ImportOutcome::Unchanged(self.shown(row).await?));
        }
        self.admit_work::<ImportError>(user, NewWork::bytes(run.bytes())).await?;
        let row = JobRow::imported(run, user, (0, self.now_ms));
        if !self.insert_run(&row, run).await? {
            return Err(ImportError::Taken { job });
        }
        self.insert_log(user, run).await?;
        self.keep_images(user, job.into(), &run.run.spec.input).await?;
        self.announce_event(job, run.run.state.last_event_id);
        Ok(ImportOutcome::Stored(self.shown(row).await?))
    }

    /// Inserts the row. Returns false if another transaction has just done so.
    async fn insert_run(&mut self, row: &JobRow, run: &ImportedRun) -> Result<bool, StoreError> {
        let EndedRun { state, spec, output, .. } = &run.run;
        let stage = match state.log {
            LogStage::Whole => WHOLE,
            LogStage::Folded => FOLDED,
            LogStage::Cut => CUT,
        };
        let sql = "INSERT INTO jobs (id, accept, user_id, status, place, priority, due_ms, conversation, is_background, \
                     is_completion, parent, model, epoch, created_at_ms, finished_at_ms, retention, row, spec, output) \
                   VALUES ($1, nextval('accept_numbers'), $2, $3, 'out', $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, \
                     $15::text::json, $16::text::json, $17::text::json) ON CONFLICT (id) DO NOTHING";
        let job = &row.job;
        let (row_text, spec_text) = (document(row)?, document(spec)?);
        let output_text = if output.is_empty() { None } else { Some(document(output)?) };
        let params: Params<'_> = &[
            &job.id.to_string(),
            &sql_user(job.user),
            &job.status.as_str(),
            &i16::from(job.priority.level()),
            &row.due_ms().map(sql_number),
            &job.conversation_id.as_ref().map(ToString::to_string),
            &job.origin.parent().is_some(),
            &spec.is_stored_completion,
            &job.origin.parent().map(|parent| parent.to_string()),
            &job.model,
            &sql_number(job.epoch),
            &sql_number(job.created_at_ms),
            &job.finished_at_ms.map(sql_number),
            &stage,
            &row_text,
            &spec_text,
            &output_text,
        ];
        let inserted = self.session.execute(sql, params).await? > 0;
        if inserted && job.log_head.is_some() {
            let sql = "INSERT INTO checkpoint_imports (job) VALUES ($1) ON CONFLICT DO NOTHING";
            self.session.send(sql, &[&job.id.to_string()]).await?;
        }
        if inserted {
            let bytes = spec_text.len().saturating_add(output_text.map_or(0, |text| text.len()));
            self.count_bytes(job.user, sql_number(bytes).saturating_add(ROW_BYTES));
        }
        Ok(inserted)
    }

    /// Inserts the log as it is.
    async fn insert_log(&mut self, user: UserId, run: &ImportedRun) -> Result<(), StoreError> {
        let (mut seqs, mut subs, mut bodies, mut handles) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut bytes = 0_usize;
        let mut links = Vec::new();
        for record in &run.records {
            let RecordPlace { seq, sub } = record.place;
            let parsed = if sub == 0 { None } else { record.parse().ok() };
            seqs.push(sql_number(seq));
            subs.push(i32::try_from(sub).unwrap_or(i32::MAX));
            bodies.push(record.body.as_str());
            links.push(record.link.map(|link| link.to_bytes().to_vec()));
            handles.push(parsed.as_ref().and_then(|mark: &Record| result_handle(mark)).map(str::to_owned));
            bytes = bytes.saturating_add(record.body.len());
        }
        let sql = "INSERT INTO records (job, seq, sub, body, handle, link) SELECT $1, s, b, t::json, h, l \
                   FROM unnest($2::bigint[], $3::integer[], $4::text[], $5::text[], $6::bytea[]) AS r(s, b, t, h, l)";
        let job = run.run.state.id.to_string();
        self.session.send(sql, &[&job, &seqs, &subs, &bodies, &handles, &links]).await?;
        self.count_bytes(user, sql_number(bytes));
        Ok(())
    }
}
