//! Ended jobs on their way to or from another server ([`Runs`]).

use crate::domain::id::{JobId, UserId};
use crate::domain::log_chain::{LogRecord, RecordPlace};
use crate::domain::run::{EndedRun, ImportedRun, LogStage};
use crate::ports::{ImportError, ImportOutcome, NewWork, Runs, StoreError, Ticket};
use crate::store::redb::codec::keys::jobs::{EndedKey, JobOwnerKey, LogKey};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::{ENDED, LOG, SPECS};
use crate::store::redb::codec::values;
use crate::store::redb::jobs::{chain, read};
use crate::store::redb::retention::sweep::{CUT, FOLDED, WHOLE};
use crate::store::redb::store::RedbStore;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::redb::writer::write::WriteOptions;
use crate::store::rows::job::JobRow;

impl Runs for RedbStore {
    fn ended_run(&self, user: UserId, job: JobId) -> Result<Option<EndedRun>, StoreError> {
        self.read(|reading| ended_run(reading, user, job))
    }

    fn log_records(
        &self,
        job: JobId,
        after: RecordPlace,
        max_bytes: usize,
    ) -> Result<Vec<LogRecord>, StoreError> {
        self.read(|reading| chain::records_after(&LOG.read(reading)?, job, after, max_bytes))
    }

    fn import_run(&self, user: UserId, run: ImportedRun) -> Ticket<ImportOutcome, ImportError> {
        let options = WriteOptions::of(run.run.state.id).weighing(run.bytes());
        self.offer(options, move |transaction| transaction.import_run(user, &run))
    }
}

fn ended_run(reading: &ReadTransaction, user: UserId, job: JobId) -> Result<Option<EndedRun>, StoreError> {
    let Some(row) = read::row(reading, job)?.filter(|row| row.job.user == user) else { return Ok(None) };
    let Some(finished_at_ms) = row.job.finished_at_ms.filter(|_| row.job.status.is_terminal()) else {
        return Ok(None);
    };
    let ended = ENDED.read(reading)?;
    let is_at = |stage| -> Result<bool, StoreError> {
        Ok(ended.get(&EndedKey { stage, finished_at_ms, job }.encode())?.is_some())
    };
    let log = if is_at(WHOLE)? {
        LogStage::Whole
    } else if is_at(CUT)? {
        LogStage::Cut
    } else {
        LogStage::Folded
    };
    let spec = SPECS.read(reading)?.row(&job.to_bytes())?;
    Ok(Some(EndedRun {
        state: row.run_state(finished_at_ms, log),
        spec: spec.ok_or_else(|| StoreError::Corrupt(format!("{job} has no spec")))?,
        hides_input: row.job.input.is_none(),
        output: read::output(reading, job)?.unwrap_or_default(),
        usage: row.ledger,
    }))
}

impl Transaction<'_> {
    /// Stores a run of another server, unless it is there.
    pub(crate) fn import_run(
        &mut self,
        user: UserId,
        run: &ImportedRun,
    ) -> Result<ImportOutcome, ImportError> {
        let (job, id) = (run.run.state.id, run.run.state.id.to_bytes());
        if let Some(row) = self.find_row(job)? {
            let output = self.tables.outputs.get(&id)?;
            let output = output.map(|bytes| values::decode_text(bytes.value())).transpose()?;
            let is_same = row.is_same_run(user, &run.run)
                && output.unwrap_or_default() == run.run.output
                && run.has_records(&chain::records(&self.tables.log, job)?);
            if !is_same {
                return Err(ImportError::Taken { job });
            }
            return Ok(ImportOutcome::Unchanged(self.shown(row)?));
        }
        if self.tables.specs.get(&id)?.is_some() || self.volatile.with(job, |_| ()).is_some() {
            return Err(ImportError::Taken { job });
        }
        self.refuse_low_disk()?;
        self.admit_rows::<ImportError>(user, NewWork::bytes(run.bytes()))?;
        Ok(ImportOutcome::Stored(self.put_run(user, run).and_then(|row| self.shown(row))?))
    }

    fn put_run(&mut self, user: UserId, run: &ImportedRun) -> Result<JobRow, StoreError> {
        let EndedRun { state, spec, output, .. } = &run.run;
        let (job, id) = (state.id, state.id.to_bytes());
        self.counters.accept = self.counters.accept.saturating_add(1);
        let row = JobRow::imported(run, user, (self.counters.accept, self.now_ms));
        self.tables.specs.put_row(&id, spec)?;
        self.keep_images(user, job.into(), &spec.input)?;
        self.list_completion(user, job, spec)?;
        let owned = JobOwnerKey { user, status: state.status, accept: row.accept };
        self.tables.owned.insert(&owned.encode(), &id)?;
        let stage = match state.log {
            LogStage::Whole => WHOLE,
            LogStage::Folded => FOLDED,
            LogStage::Cut => CUT,
        };
        let ended = EndedKey { stage, finished_at_ms: state.finished_at_ms, job };
        self.tables.ended.insert(&ended.encode(), ())?;
        if !output.is_empty() {
            self.tables.outputs.insert(&id, values::encode_text(output).as_slice())?;
        }
        for LogRecord { place: RecordPlace { seq, sub }, body, link } in &run.records {
            let key = LogKey { job, seq: *seq, sub: *sub }.encode();
            self.tables.log.insert(&key, values::encode_record_text(body, *link).as_slice())?;
        }
        self.put_row(&row)?;
        if row.job.log_head.is_some() {
            self.tables.checkpoint_imports.insert(&id, ())?;
        }
        self.notify_event(job, state.last_event_id);
        Ok(row)
    }
}
