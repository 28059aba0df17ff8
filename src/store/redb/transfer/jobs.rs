//! Jobs, their logs, idempotency keys, schedules, webhook deliveries, and the counters of the store.

use crate::domain::id::JobId;
use crate::domain::log_chain::RecordPlace;
use crate::ports::StoreError;
use crate::store::redb::codec::keys::conversations::TurnKey;
use crate::store::redb::codec::keys::jobs::{
    AnsweredApprovalBytes, BackgroundJobKey, DelayedKey, EndedKey, FairKey, IdempotencyExpiryKey,
    IdempotencyRef, JobBytes, JobDependentBytes, JobDependentKey, JobEndKey, JobOwnerKey, LogKey,
    OwnedCompletionKey, ReadyEntry, ReadyKey, SpanExportBytes, SpanExportKey, answered_approval_key,
    checkpoint_key,
};
use crate::store::redb::codec::keys::schedules::{ScheduleDueKey, ScheduleOwnerKey};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::{
    ANSWERED_APPROVALS, CHECKPOINT_IMPORTS, COMPLETIONS_OWNED, DELIVERIES, ENDED, IDEMPOTENCY,
    JOB_DEPENDENTS, JOBS, LOG, LOG_CHECKPOINTS, OUTPUTS, READY, SCHEDULED_REQUESTS, SCHEDULES, SPAN_EXPORTS,
    SPECS, Tables, counters,
};
use crate::store::redb::codec::values;
use crate::store::redb::retention::sweep::STAGES;
use crate::store::redb::transfer::{EachRow, RedbRow, document, scan, stored};
use crate::store::rows::job::{JobRow, QueuePlace};
use crate::store::rows::transfer::jobs::{
    NO_STAGE, TransferAnswer, TransferCheckpoint, TransferCheckpointImport, TransferCounters,
    TransferDelivery, TransferDependent, TransferJob, TransferKey, TransferRecord, TransferSchedule,
    TransferSpanExport,
};

impl RedbRow for TransferCounters {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        let counters = counters(reading)?;
        each(Self { accept: counters.accept, served: counters.served })
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let mut counters = tables.load_counters()?;
        (counters.accept, counters.served) = (self.accept, self.served);
        tables.store_counters(&counters)
    }
}

fn ready_key(row: &JobRow) -> Option<ReadyKey> {
    let fair = row.fair.filter(|_| row.queue_place == QueuePlace::Ready)?;
    Some(ReadyKey { priority: row.job.priority.level(), fair, accept: row.accept })
}

impl RedbRow for TransferJob {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        let (specs, outputs) = (SPECS.read(reading)?, OUTPUTS.read(reading)?);
        let (ready, ended) = (READY.read(reading)?, ENDED.read(reading)?);
        let completions = COMPLETIONS_OWNED.read(reading)?;
        scan(JOBS, reading, |key, bytes| {
            let row: JobRow = values::decode(bytes)?;
            let (user, job) = (row.job.user, row.id());
            let spec = specs.get(key)?.ok_or_else(|| StoreError::Corrupt("it has no request".to_owned()))?;
            let output = outputs.get(key)?.map(|text| values::decode_text(text.value())).transpose()?;
            let entry = ready_key(&row).map(|key| ready.get(&key.encode())).transpose()?.flatten();
            let mut stage = NO_STAGE;
            for of_index in STAGES {
                let finished_at_ms = row.job.finished_at_ms.unwrap_or_default();
                if ended.get(&EndedKey { stage: of_index, finished_at_ms, job }.encode())?.is_some() {
                    stage = of_index;
                }
            }
            each(Self {
                ready_since_ms: entry.map(|entry| ReadyEntry::decode(entry.value()).since_ms),
                is_completion: completions.get(&OwnedCompletionKey { user, job }.encode())?.is_some(),
                stage,
                spec: document(spec.value())?,
                output,
                row,
            })
        })
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let (row, id) = (&self.row, self.row.id());
        let (key, user) = (id.to_bytes(), row.job.user);
        tables.jobs.put_row(&key, row)?;
        tables.specs.insert(&key, stored(&self.spec).as_slice())?;
        if let Some(output) = &self.output {
            tables.outputs.insert(&key, values::encode_text(output).as_slice())?;
        }
        let owned = JobOwnerKey { user, status: row.job.status, accept: row.accept };
        tables.owned.insert(&owned.encode(), &key)?;
        if self.is_completion {
            tables.completions_owned.insert(&OwnedCompletionKey { user, job: id }.encode(), ())?;
        }
        if let Some(finished_at_ms) = row.job.finished_at_ms.filter(|_| STAGES.contains(&self.stage)) {
            tables.ended.insert(&EndedKey { stage: self.stage, finished_at_ms, job: id }.encode(), ())?;
        }
        if row.job.status.is_terminal() { Ok(()) } else { self.put_in_queue(tables) }
    }
}

impl TransferJob {
    /// Puts an unfinished job where the queue finds it.
    fn put_in_queue(&self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let (row, job) = (&self.row, self.row.id());
        let (key, user) = (job.to_bytes(), row.job.user);
        if row.job.status == crate::domain::job::JobStatus::Running {
            tables.running.insert(&key, ())?;
        }
        if row.job.origin.parent().is_some() {
            tables.background_jobs.insert(&BackgroundJobKey { user, job }.encode(), ())?;
        } else if let Some(turn) = row.turn_key().map(TurnKey::encode) {
            tables.conversation_queue.insert(&turn, &key)?;
        }
        if row.queue_place == QueuePlace::Delayed {
            let run_at_ms = row.due_ms().unwrap_or_default();
            tables.delayed.insert(&DelayedKey { run_at_ms, accept: row.accept }.encode(), &key)?;
        }
        if let Some(at_ms) = row.ends_at_ms() {
            tables.job_ends.insert(&JobEndKey { at_ms, job }.encode(), ())?;
        }
        let Some(ready) = ready_key(row) else { return Ok(()) };
        let since_ms = self.ready_since_ms.unwrap_or(row.job.created_at_ms);
        tables.ready.insert(&ready.encode(), &ReadyEntry { job, since_ms }.encode())?;
        let newest = FairKey { priority: ready.priority, user }.encode();
        let before = tables.fair.get(&newest)?.map_or(0, |fair| fair.value());
        tables.fair.insert(&newest, before.max(ready.fair))?;
        Ok(())
    }
}

impl RedbRow for TransferRecord {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(LOG, reading, |key, bytes| {
            let LogKey { job, seq, sub } = LogKey::decode(key);
            each(Self::new(job, RecordPlace { seq, sub }, values::decode_text(bytes)?, values::link(bytes))?)
        })
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let RecordPlace { seq, sub } = self.place;
        let key = LogKey { job: self.job, seq, sub }.encode();
        tables.log.insert(&key, values::encode_record_text(&self.body, self.link).as_slice())?;
        Ok(())
    }
}

impl RedbRow for TransferAnswer {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(ANSWERED_APPROVALS, reading, |key: &AnsweredApprovalBytes, answering| {
            let malformed = || StoreError::Corrupt("its key is malformed".to_owned());
            let job = key.first_chunk().copied().map(JobId::from_bytes).ok_or_else(malformed)?;
            let place = key.last_chunk().copied().map(u64::from_be_bytes).ok_or_else(malformed)?;
            each(Self { job, place, answering: JobId::from_bytes(*answering) })
        })
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let key = answered_approval_key(self.job, self.place);
        tables.answered_approvals.insert(&key, &self.answering.to_bytes())?;
        Ok(())
    }
}

impl RedbRow for TransferDependent {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(JOB_DEPENDENTS, reading, |key: &JobDependentBytes, ()| {
            let JobDependentKey { predecessor, dependent } = JobDependentKey::decode(key);
            each(Self { predecessor, dependent })
        })
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let key = JobDependentKey { predecessor: self.predecessor, dependent: self.dependent };
        tables.job_dependents.insert(&key.encode(), ())?;
        Ok(())
    }
}

impl RedbRow for TransferSpanExport {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(SPAN_EXPORTS, reading, |key: &SpanExportBytes, ()| each(Self(SpanExportKey::decode(key).into())))
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        tables.span_exports.insert(&SpanExportKey::from(self.0).encode(), ())?;
        Ok(())
    }
}

impl RedbRow for TransferKey {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(IDEMPOTENCY, reading, |key, bytes| {
            let IdempotencyRef { user, key } = IdempotencyRef::decode(key);
            each(Self { user, key, row: values::decode(bytes)? })
        })
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let of = IdempotencyRef { user: self.user, key: self.key };
        tables.idempotency.put_row(&of.encode(), &self.row)?;
        let expiry = IdempotencyExpiryKey { until_ms: self.row.until_ms, of };
        tables.idempotency_expiry.insert(&expiry.encode(), ())?;
        Ok(())
    }
}

impl RedbRow for TransferSchedule {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        let requests = SCHEDULED_REQUESTS.read(reading)?;
        scan(SCHEDULES, reading, |key, bytes| {
            let request = requests.get(key)?;
            let request = request.ok_or_else(|| StoreError::Corrupt("it asks for nothing".to_owned()))?;
            each(Self { schedule: document(bytes)?, request: document(request.value())? })
        })
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let schedule = &self.schedule.value;
        let (id, user) = (schedule.id, schedule.user);
        tables.schedules.insert(&id.to_bytes(), stored(&self.schedule).as_slice())?;
        tables.scheduled_requests.insert(&id.to_bytes(), stored(&self.request).as_slice())?;
        tables.schedules_owned.insert(&ScheduleOwnerKey { user, id }.encode(), ())?;
        if let Some(due_ms) = schedule.next_run_ms {
            tables.schedules_due.insert(&ScheduleDueKey { due_ms, id }.encode(), ())?;
        }
        Ok(())
    }
}

impl RedbRow for TransferCheckpoint {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(LOG_CHECKPOINTS, reading, |_, bytes| each(Self(document(bytes)?)))
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let key = checkpoint_key(self.0.value.checkpoint.number);
        tables.log_checkpoints.insert(&key, stored(&self.0).as_slice())?;
        Ok(())
    }
}

impl RedbRow for TransferCheckpointImport {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(CHECKPOINT_IMPORTS, reading, |key: &JobBytes, ()| each(Self(JobId::from_bytes(*key))))
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        tables.checkpoint_imports.insert(&self.0.to_bytes(), ())?;
        Ok(())
    }
}

impl RedbRow for TransferDelivery {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(DELIVERIES, reading, |_, bytes| each(Self(document(bytes)?)))
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        tables.insert_delivery(&self.0.value)
    }
}
