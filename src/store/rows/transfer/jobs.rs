//! Jobs, their logs, idempotency keys, schedules, webhook deliveries, and the counters of the store.

use crate::domain::event::{EngineMark, Event, Record};
use crate::domain::id::{JobId, UserId};
use crate::domain::job::JobSpec;
use crate::domain::log_chain::{ChainLink, RecordPlace, StoredCheckpoint};
use crate::domain::schedule::{Schedule, ScheduledRequest};
use crate::domain::webhook::{Delivery, WebhookSubject};
use crate::ports::{SpanExport, StoreError};
use crate::store::rows::idempotency::IdempotencyRow;
use crate::store::rows::job::{JobRow, QueuePlace};
use crate::store::rows::transfer::TransferRow;
use crate::store::rows::transfer::documents::JsonDocument;
use crate::store::rows::transfer::text_row::TextRow;

/// Numbers of the store as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TransferCounters {
    /// The newest acceptance number.
    pub(crate) accept: u64,
    /// The fair time of the job that each priority served last.
    pub(crate) served: [u64; 10],
}

impl TransferRow for TransferCounters {
    const TABLE: &'static str = "counters";
    const COLUMNS: &'static [&'static str] = &[
        "accept", "served_0", "served_1", "served_2", "served_3", "served_4", "served_5", "served_6",
        "served_7", "served_8", "served_9",
    ];
    const KEY: usize = 0;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let row = TextRow::default().number(self.accept);
        Ok(self.served.iter().fold(row, |row, served| row.number(*served)))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        let mut counters = Self { accept: cells.text()?, served: [0; 10] };
        for served in &mut counters.served {
            *served = cells.text()?;
        }
        Ok(counters)
    }
}

/// The stage of a job that retention leaves alone, because it cannot be read.
pub(crate) const NO_STAGE: u8 = 3;

/// A job with its request and its answer.
pub(crate) struct TransferJob {
    pub(crate) row: JobRow,
    /// Of a ready job.
    pub(crate) ready_since_ms: Option<u64>,
    pub(crate) is_completion: bool,
    /// The stage of retention of an ended job.
    pub(crate) stage: u8,
    pub(crate) spec: JsonDocument<JobSpec>,
    pub(crate) output: Option<String>,
}

impl TransferRow for TransferJob {
    const TABLE: &'static str = "jobs";
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "accept",
        "user_id",
        "status",
        "place",
        "priority",
        "fair",
        "ready_since_ms",
        "due_ms",
        "conversation",
        "is_background",
        "is_completion",
        "batch",
        "line",
        "parent",
        "model",
        "epoch",
        "cancel_requested",
        "created_at_ms",
        "finished_at_ms",
        "retention",
        "row",
        "spec",
        "output",
        "has_dependents",
        "ends_at_ms",
    ];
    const KEY: usize = 1;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let (row, job) = (&self.row, &self.row.job);
        let is_ready = row.queue_place == QueuePlace::Ready;
        let stage = if job.finished_at_ms.is_some() { self.stage } else { 0 };
        let columns = TextRow::default()
            .text(job.id)
            .number(row.accept)
            .user(job.user)
            .text(job.status.as_str())
            .name(&row.queue_place)?
            .number(job.priority.level())
            .optional_number(row.fair)
            .optional_number(self.ready_since_ms.filter(|_| is_ready))
            .optional_number(row.due_ms())
            .optional(job.conversation_id.as_ref())
            .flag(job.origin.parent().is_some())
            .flag(self.is_completion)
            .optional(job.batch.map(|line| line.batch))
            .optional(job.batch.map(|line| line.line))
            .optional(job.origin.parent())
            .text(&job.model)
            .number(job.epoch)
            .flag(job.cancel_requested)
            .number(job.created_at_ms)
            .optional_number(job.finished_at_ms)
            .number(stage)
            .json(row)?
            .document(&self.spec);
        let columns = match &self.output {
            Some(output) => columns.json(output)?,
            None => columns.optional(None::<String>),
        };
        // An unfinished job may have dependents.
        let is_unfinished = !job.status.is_terminal();
        Ok(columns.flag(is_unfinished).optional_number(row.ends_at_ms().filter(|_| is_unfinished)))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        cells.skip(1)?;
        let accept = cells.text()?;
        cells.skip(1)?;
        let (status, place): (String, String) = (cells.text()?, cells.text()?);
        cells.skip(1)?;
        let (fair, ready_since_ms) = (cells.optional()?, cells.optional()?);
        cells.skip(3)?;
        let is_completion = cells.flag()?;
        cells.skip(4)?;
        let (epoch, cancel_requested) = (cells.text()?, cells.flag()?);
        cells.skip(2)?;
        let stage = cells.text()?;
        // Where statements of the database decide, the column is the truth.
        let mut row = cells.document::<JobRow>()?.value;
        if row.job.status.as_str() != status {
            return Err(StoreError::Corrupt(format!("it is {} and '{status}'", row.job.status.as_str())));
        }
        row.accept = accept;
        row.fair = fair;
        row.queue_place = JsonDocument::read(format!("\"{place}\""))?.value;
        row.job.epoch = epoch;
        row.job.cancel_requested = cancel_requested;
        let spec = cells.document()?;
        let output = cells.optional_document::<String>()?.map(|output| output.value);
        Ok(Self { row, ready_since_ms, is_completion, stage, spec, output })
    }
}

/// A record of a job's log.
pub(crate) struct TransferRecord {
    pub(crate) job: JobId,
    pub(crate) place: RecordPlace,
    /// Its document.
    pub(crate) body: String,
    /// Its link in the chain of the log, if it has one.
    pub(crate) link: Option<ChainLink>,
    /// The handle of the full tool result that it holds.
    handle: Option<String>,
}

impl TransferRecord {
    /// Fails if the body is no record.
    pub(crate) fn new(
        job: JobId,
        place: RecordPlace,
        body: String,
        link: Option<ChainLink>,
    ) -> Result<Self, StoreError> {
        let unreadable = |error: serde_json::Error| StoreError::Corrupt(error.to_string());
        let handle = if place.sub == 0 {
            serde_json::from_str::<Event>(&body).map_err(unreadable)?;
            None
        } else {
            let mark: EngineMark = serde_json::from_str(&body).map_err(unreadable)?;
            result_handle(&Record::Mark(mark)).map(str::to_owned)
        };
        Ok(Self { job, place, body, link, handle })
    }
}

/// The handle of the full tool result that a record holds.
pub(crate) fn result_handle(record: &Record) -> Option<&str> {
    match record {
        // No text of the database holds U+0000; handles have none.
        Record::Mark(EngineMark::ToolWhole { handle, .. }) if !handle.contains('\0') => Some(handle),
        _ => None,
    }
}

impl TransferRow for TransferRecord {
    const TABLE: &'static str = "records";
    const COLUMNS: &'static [&'static str] = &["job", "seq", "sub", "body", "handle", "link"];
    const KEY: usize = 3;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let RecordPlace { seq, sub } = self.place;
        let row = TextRow::default().text(self.job).number(seq).number(sub).text(&self.body);
        let row = row.optional(self.handle.as_ref());
        Ok(row.optional_bytes(
            self.link.map(ChainLink::to_bytes).as_ref().map(<[u8; ChainLink::BYTES]>::as_slice),
        ))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        let (job, place) = (cells.text()?, RecordPlace { seq: cells.text()?, sub: cells.text()? });
        let body = cells.text()?;
        cells.skip(1)?;
        Self::new(job, place, body, cells.optional_bytes()?.map(ChainLink::from_bytes))
    }
}

/// An answered request for an approval, and the job that acts on the answer.
pub(crate) struct TransferAnswer {
    pub(crate) job: JobId,
    pub(crate) place: u64,
    pub(crate) answering: JobId,
}

impl TransferRow for TransferAnswer {
    const TABLE: &'static str = "answered_approvals";
    const COLUMNS: &'static [&'static str] = &["job", "place", "answering"];
    const KEY: usize = 2;

    fn columns(&self) -> Result<TextRow, StoreError> {
        Ok(TextRow::default().text(self.job).number(self.place).text(self.answering))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        Ok(Self { job: cells.text()?, place: cells.text()?, answering: cells.text()? })
    }
}

/// A checkpoint over heads of logs.
pub(crate) struct TransferCheckpoint(pub(crate) JsonDocument<StoredCheckpoint>);

impl TransferRow for TransferCheckpoint {
    const TABLE: &'static str = "log_checkpoints";
    const COLUMNS: &'static [&'static str] = &["number", "checkpoint"];
    const KEY: usize = 1;

    fn columns(&self) -> Result<TextRow, StoreError> {
        Ok(TextRow::default().number(self.0.value.checkpoint.number).document(&self.0))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        cells.skip(1)?;
        cells.document().map(Self)
    }
}

/// An imported job that the next checkpoint looks at.
pub(crate) struct TransferCheckpointImport(pub(crate) JobId);

impl TransferRow for TransferCheckpointImport {
    const TABLE: &'static str = "checkpoint_imports";
    const COLUMNS: &'static [&'static str] = &["job"];
    const KEY: usize = 1;

    fn columns(&self) -> Result<TextRow, StoreError> {
        Ok(TextRow::default().text(self.0))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        row.cells().text().map(Self)
    }
}

/// A job that waits for the end of another.
pub(crate) struct TransferDependent {
    pub(crate) predecessor: JobId,
    pub(crate) dependent: JobId,
}

impl TransferRow for TransferDependent {
    const TABLE: &'static str = "job_dependents";
    const COLUMNS: &'static [&'static str] = &["predecessor", "dependent"];
    const KEY: usize = 2;

    fn columns(&self) -> Result<TextRow, StoreError> {
        Ok(TextRow::default().text(self.predecessor).text(self.dependent))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        Ok(Self { predecessor: cells.text()?, dependent: cells.text()? })
    }
}

/// The end of a job whose spans wait for the export.
pub(crate) struct TransferSpanExport(pub(crate) SpanExport);

impl TransferRow for TransferSpanExport {
    const TABLE: &'static str = "span_exports";
    const COLUMNS: &'static [&'static str] = &["finished_at_ms", "job", "user_id"];
    const KEY: usize = 2;

    fn columns(&self) -> Result<TextRow, StoreError> {
        Ok(TextRow::default().number(self.0.finished_at_ms).text(self.0.job).user(self.0.user))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        let (finished_at_ms, job, user) = (cells.text()?, cells.text()?, cells.user()?);
        Ok(Self(SpanExport { finished_at_ms, job, user }))
    }
}

/// An idempotency key.
pub(crate) struct TransferKey {
    pub(crate) user: UserId,
    pub(crate) key: [u8; 32],
    pub(crate) row: IdempotencyRow,
}

impl TransferRow for TransferKey {
    const TABLE: &'static str = "idempotency";
    const COLUMNS: &'static [&'static str] = &["user_id", "key", "fingerprint", "effect", "until_ms"];
    const KEY: usize = 2;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let row = TextRow::default().user(self.user).bytes(&self.key).bytes(&self.row.fingerprint);
        Ok(row.text(self.row.effect).number(self.row.until_ms))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        let (user, key, fingerprint) = (cells.user()?, cells.bytes()?, cells.bytes()?);
        let effect: String = cells.text()?;
        let job = effect.parse().map(WebhookSubject::Job);
        let effect = job.or_else(|_| effect.parse().map(WebhookSubject::Batch));
        let effect = effect.map_err(|error| StoreError::Corrupt(error.to_string()))?;
        Ok(Self { user, key, row: IdempotencyRow { fingerprint, effect, until_ms: cells.text()? } })
    }
}

/// A schedule and the request of its runs.
pub(crate) struct TransferSchedule {
    pub(crate) schedule: JsonDocument<Schedule>,
    pub(crate) request: JsonDocument<ScheduledRequest>,
}

impl TransferRow for TransferSchedule {
    const TABLE: &'static str = "schedules";
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "user_id",
        "next_run_ms",
        "armed_at_ms",
        "is_paused",
        "runs",
        "last_job",
        "model_day",
        "model_tokens",
        "schedule",
        "request",
    ];
    const KEY: usize = 1;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let schedule = &self.schedule.value;
        Ok(TextRow::default()
            .text(schedule.id)
            .user(schedule.user)
            .optional_number(schedule.next_run_ms)
            .number(schedule.armed_at_ms)
            .flag(schedule.is_paused)
            .number(schedule.runs)
            .optional(schedule.last_job)
            .optional_number(schedule.model_tokens.map(|tokens| tokens.day))
            .optional_number(schedule.model_tokens.map(|tokens| tokens.tokens))
            .document(&self.schedule)
            .document(&self.request))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        cells.skip(9)?;
        Ok(Self { schedule: cells.document()?, request: cells.document()? })
    }
}

/// A webhook delivery. Which node sends it does not move.
pub(crate) struct TransferDelivery(pub(crate) JsonDocument<Delivery>);

impl TransferRow for TransferDelivery {
    const TABLE: &'static str = "deliveries";
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "user_id",
        "subject",
        "host",
        "state",
        "tries",
        "last_status",
        "created_at_ms",
        "next_try_ms",
        "settled_at_ms",
        "delivery",
    ];
    const KEY: usize = 1;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let delivery = &self.0.value;
        Ok(TextRow::default()
            .text(delivery.id)
            .user(delivery.user)
            .text(delivery.subject)
            .text(delivery.url.host_and_port())
            .text(delivery.state.as_str())
            .number(delivery.tries)
            .optional(delivery.last_status)
            .number(delivery.created_at_ms)
            .optional_number(delivery.next_try_ms)
            .optional_number(delivery.settled_at_ms)
            .document(&self.0))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        cells.skip(10)?;
        cells.document().map(Self)
    }
}
