//! Batches and their lines.

use crate::domain::id::{BatchId, JobId, UserId};
use crate::domain::job::JobSpec;
use crate::domain::message::Message;
use crate::ports::StoreError;
use crate::store::rows::batch::BatchRow;
use crate::store::rows::transfer::TransferRow;
use crate::store::rows::transfer::documents::JsonDocument;
use crate::store::rows::transfer::text_row::TextRow;

/// A batch.
pub(crate) struct TransferBatch(pub(crate) JsonDocument<BatchRow>);

impl TransferRow for TransferBatch {
    const TABLE: &'static str = "batches";
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "user_id",
        "status",
        "total",
        "next_line",
        "active",
        "waiting_for",
        "misses_files",
        "created_at_ms",
        "expires_at_ms",
        "finished_at_ms",
        "row",
    ];
    const KEY: usize = 1;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let (row, batch) = (&self.0.value, &self.0.value.batch);
        let columns = TextRow::default()
            .text(batch.id)
            .user(batch.user)
            .name(&batch.status)?
            .number(batch.counts.total)
            .number(row.next_line)
            .number(row.active);
        let columns = match &batch.waiting_for {
            Some(quota) => columns.name(quota)?,
            None => columns.optional(None::<String>),
        };
        Ok(columns
            .flag(batch.misses_files())
            .number(batch.created_at_ms)
            .optional_number(row.due_ms())
            .optional_number(batch.finished_at_ms)
            .document(&self.0))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        cells.skip(11)?;
        cells.document().map(Self)
    }
}

/// A line of a batch.
pub(crate) struct TransferLine {
    pub(crate) batch: BatchId,
    pub(crate) line: u32,
    pub(crate) custom_id: String,
    /// The request, until it is moved to a job.
    pub(crate) spec: Option<JsonDocument<JobSpec>>,
    /// The job, once the line has started.
    pub(crate) job: Option<JobId>,
    /// Whether the job has not ended.
    pub(crate) is_active: bool,
    /// Its number in the order of ends.
    pub(crate) ended: Option<u32>,
}

impl TransferRow for TransferLine {
    const TABLE: &'static str = "batch_lines";
    const COLUMNS: &'static [&'static str] =
        &["batch", "line", "bytes", "custom_id", "spec", "has_images", "job", "is_active", "ended"];
    const KEY: usize = 2;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let custom_id = JsonDocument::of(&self.custom_id)?;
        let spec_bytes = self.spec.as_ref().map_or(0, |spec| spec.text.len());
        // A line that has started may have images.
        let has_images = self.spec.as_ref().is_none_or(|spec| Message::have_images(&spec.value.input));
        Ok(TextRow::default()
            .text(self.batch)
            .number(self.line)
            .number(custom_id.text.len().saturating_add(spec_bytes))
            .document(&custom_id)
            .optional(self.spec.as_ref().map(|spec| &spec.text))
            .flag(has_images)
            .optional(self.job)
            .flag(self.is_active)
            .optional(self.ended))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        let (batch, line) = (cells.text()?, cells.text()?);
        cells.skip(1)?;
        let (custom_id, spec) = (cells.document::<String>()?.value, cells.optional_document()?);
        cells.skip(1)?;
        Ok(Self {
            batch,
            line,
            custom_id,
            spec,
            job: cells.optional()?,
            is_active: cells.flag()?,
            ended: cells.optional()?,
        })
    }
}

/// A batch without a row whose lines still exist: it was removed, or never accepted.
pub(crate) struct TransferRemovedBatch {
    pub(crate) batch: BatchId,
    pub(crate) user: UserId,
}

impl TransferRow for TransferRemovedBatch {
    const TABLE: &'static str = "removed_batches";
    const COLUMNS: &'static [&'static str] = &["batch", "user_id"];
    const KEY: usize = 1;

    fn columns(&self) -> Result<TextRow, StoreError> {
        Ok(TextRow::default().text(self.batch).user(self.user))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        Ok(Self { batch: cells.text()?, user: cells.user()? })
    }
}
