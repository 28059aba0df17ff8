//! The lines of a new batch: checked and stored as they arrive, from a request or from a file. Dropped before
//! the batch is accepted, they are abandoned.

use super::jsonl::{LineSplitter, NumberedLine};
use super::line;
use super::line_fault::LineFault;
use crate::domain::batch::{Batch, BatchEndpoint, BatchFault};
use crate::domain::id::{BatchId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::limits::Limits;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::v1::jobs::images;
use crate::http::v1::openai::headers::JobHeaders;
use crate::ports::{BatchError, Idempotent, NewBatch, NewLine, NewWork, PinnedContent};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::sync::Arc;

/// Lines are handed to the store in pieces of this many bytes or lines.
const PIECE_BYTES: usize = 512 * 1024;
const PIECE_LINES: usize = 256;
/// Faults that are collected. Reading ends at the last one, except in a dry run.
const FAULTS: usize = 100;

/// Whose lines they are.
#[derive(Debug)]
pub(crate) struct NewBatchLines {
    pub(crate) id: BatchId,
    pub(crate) user: UserId,
    /// The route that all lines of a file have to name, in the format of `OpenAI`. Its faults are collected.
    /// Without a file the first fault is an error.
    pub(crate) file: Option<BatchEndpoint>,
    /// Whether the lines are only checked. Faults are collected, and nothing is stored.
    pub(crate) is_dry_run: bool,
    /// Settings of the lines whose bodies have no field for them.
    pub(crate) headers: JobHeaders,
}

/// The lines of a batch that is not accepted yet.
pub(crate) struct BatchIntake {
    context: Arc<ServerContext>,
    batch: NewBatchLines,
    splitter: LineSplitter,
    /// Lines that are not stored yet, and the bytes since the last ones were.
    waiting: Vec<NumberedLine>,
    waiting_bytes: usize,
    bytes: u64,
    stored: u32,
    /// Lines that were checked, and those of them that have no fault.
    checked: u64,
    valid: u64,
    /// Half of the SHA-256 of each `custom_id` so far.
    names: HashSet<[u8; 16]>,
    faults: Vec<LineFault>,
    /// Faults that are not collected.
    further_faults: u64,
    is_given_up: bool,
    has_begun: bool,
    is_accepted: bool,
}

impl BatchIntake {
    pub(crate) fn new(context: &Arc<ServerContext>, batch: NewBatchLines) -> Self {
        Self {
            context: Arc::clone(context),
            batch,
            splitter: LineSplitter::new(context.app.limits.body_bytes),
            waiting: Vec::new(),
            waiting_bytes: 0,
            bytes: 0,
            stored: 0,
            checked: 0,
            valid: 0,
            names: HashSet::new(),
            faults: Vec::new(),
            further_faults: 0,
            is_given_up: false,
            has_begun: false,
            is_accepted: false,
        }
    }

    /// The owner.
    pub(crate) fn user(&self) -> UserId {
        self.batch.user
    }

    /// Whether the lines are only checked.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.batch.is_dry_run
    }

    /// Number of checked lines, and of those without a fault.
    pub(crate) fn line_counts(&self) -> (u64, u64) {
        (self.checked, self.valid)
    }

    /// What accepting the lines would add.
    pub(crate) fn new_work(&self) -> NewWork {
        NewWork { jobs: self.checked.max(1), bytes: self.bytes }
    }

    /// Number of stored lines.
    pub(crate) fn stored(&self) -> u32 {
        self.stored
    }

    /// Whether so many faults are known that no more is read.
    pub(crate) fn is_given_up(&self) -> bool {
        self.is_given_up || (!self.batch.is_dry_run && self.faults.len() >= FAULTS)
    }

    /// Takes the faults of the file.
    pub(crate) fn take_faults(&mut self) -> Vec<BatchFault> {
        self.take_line_faults().0.into_iter().map(|line| line.fault).collect()
    }

    /// Takes the collected faults with the names of their lines, and whether there are more.
    pub(crate) fn take_line_faults(&mut self) -> (Vec<LineFault>, bool) {
        (std::mem::take(&mut self.faults), self.further_faults > 0)
    }

    /// Refuses text of so many bytes if that is too much.
    pub(crate) fn check_bytes(&mut self, bytes: u64) -> Result<(), ApiError> {
        let most = self.context.app.limits.batch_bytes;
        if bytes > most && !self.is_given_up {
            self.fail_whole(ApiError::BatchTooLarge(most))?;
        }
        Ok(())
    }

    /// Takes more of the text. Returns whether the lines should be stored now.
    pub(crate) fn push(&mut self, data: &[u8]) -> Result<bool, ApiError> {
        self.bytes = self.bytes.saturating_add(data.len() as u64);
        self.check_bytes(self.bytes)?;
        if self.is_given_up {
            return Ok(false);
        }
        if let Err(long) = self.splitter.push(data, &mut self.waiting) {
            return self.fail_whole(ApiError::malformed(long.to_string())).map(|()| false);
        }
        self.waiting_bytes = self.waiting_bytes.saturating_add(data.len());
        let is_full = self.waiting_bytes >= PIECE_BYTES && !self.waiting.is_empty();
        Ok(is_full || self.waiting.len() >= PIECE_LINES)
    }

    /// Checks and stores the complete lines on a thread that may block.
    pub(crate) async fn store(mut self) -> Result<Self, ApiError> {
        let (context, user) = (Arc::clone(&self.context), self.batch.user);
        let store = move || {
            self.check_and_store()?;
            Ok(self)
        };
        context.large_write(user, store).await?
    }

    /// Stores the last lines. A batch without lines is an error.
    pub(crate) async fn finish(mut self) -> Result<Self, ApiError> {
        let Self { splitter, waiting, .. } = &mut self;
        splitter.finish(waiting);
        let mut whole = self.store().await?;
        if whole.checked == 0 && whole.faults.is_empty() {
            let rule =
                "the batch is empty: send one JSON object a line, {\"custom_id\":…,\"body\":{\"input\":…}}";
            whole.fail_whole(ApiError::malformed(rule))?;
        }
        Ok(whole)
    }

    /// Accepts the batch on a thread that may block. The lines move there, so that a client that leaves now
    /// cannot abandon a batch that is being accepted.
    pub(crate) async fn accept(
        self,
        new: NewBatch,
        key: Option<IdempotencyKey>,
    ) -> Result<Idempotent<Batch>, ApiError> {
        let (context, user) = (Arc::clone(&self.context), self.batch.user);
        Ok(context.large_write(user, move || self.accept_now(new, key)).await??)
    }

    fn accept_now(
        mut self,
        new: NewBatch,
        key: Option<IdempotencyKey>,
    ) -> Result<Idempotent<Batch>, BatchError> {
        let accepted = self.context.app.batches.accept(new, key).wait()?;
        self.is_accepted = true;
        Ok(accepted)
    }

    fn check_and_store(&mut self) -> Result<(), ApiError> {
        self.waiting_bytes = 0;
        let lines = std::mem::take(&mut self.waiting);
        // Lines before the fault of a whole text are checked.
        let was_given_up = self.is_given_up;
        let mut new: Vec<NewLine> = Vec::with_capacity(lines.len());
        // Until the lines name them.
        let mut pins: Vec<PinnedContent> = Vec::new();
        for (number, text) in lines {
            match self.check(&text) {
                Ok((line, images)) if self.may_store() => {
                    new.push(line);
                    pins.extend(images);
                }
                Ok(_) => {} // no line is stored
                Err(error) => self.fail(Some((number, &text)), error)?,
            }
            if let Err(error) = check_line_count(self.names.len(), &self.context.app.limits) {
                self.fail_whole(error)?;
            }
            if self.is_given_up() && !was_given_up {
                return Ok(());
            }
        }
        let count = u32::try_from(new.len()).unwrap_or(u32::MAX);
        if count > 0 && self.may_store() {
            self.has_begun = true;
            self.context.app.batches.fill((self.batch.user, self.batch.id), self.stored, new).wait()?;
            self.stored = self.stored.saturating_add(count);
        }
        Ok(())
    }

    /// Whether no line had a fault and the lines are to be stored.
    fn may_store(&self) -> bool {
        self.faults.is_empty() && !self.batch.is_dry_run
    }

    /// The line, whose images are on the disk and no longer in memory.
    fn check(&mut self, text: &[u8]) -> Result<(NewLine, Vec<PinnedContent>), ApiError> {
        self.checked = self.checked.saturating_add(1);
        let NewBatchLines { user, file, headers, .. } = &self.batch;
        let mut line = line::parse(text, &self.context.app, *user, (*file, headers))?;
        if !self.names.insert(name_digest(&line.custom_id)) {
            let rule = format!("the custom_id '{}' is used twice", line.custom_id);
            return Err(ApiError::value("custom_id", rule));
        }
        self.valid = self.valid.saturating_add(1);
        if !self.may_store() {
            return Ok((line, Vec::new()));
        }
        let pins = images::store_now(&*self.context.app.contents, &mut line.spec.input)?;
        Ok((line, pins))
    }

    /// A fault of the whole text: nothing more is read.
    fn fail_whole(&mut self, error: ApiError) -> Result<(), ApiError> {
        self.fail(None, error)?;
        self.is_given_up = true;
        Ok(())
    }

    /// Collects a fault of a line, given with its text, or of the whole text. Where faults are not collected
    /// it is an error.
    fn fail(&mut self, line: Option<(u64, &[u8])>, error: ApiError) -> Result<(), ApiError> {
        let is_collected = self.batch.file.is_some() || self.batch.is_dry_run;
        if !is_collected || error.class().0.is_server_error() {
            return Err(match line {
                Some((number, _)) if !error.class().0.is_server_error() => error.at_line(number),
                _ => error,
            });
        }
        if line.is_some() && self.faults.len() >= FAULTS {
            self.further_faults = self.further_faults.saturating_add(1);
            return Ok(());
        }
        let custom_id = line.filter(|_| self.batch.is_dry_run).and_then(|(_, text)| line::custom_id(text));
        self.faults.push(LineFault::of(line.map(|(number, _)| number), &error, custom_id));
        Ok(())
    }
}

fn name_digest(name: &str) -> [u8; 16] {
    let digest: [u8; 32] = Sha256::digest(name).into();
    digest.first_chunk().copied().unwrap_or_default()
}

fn check_line_count(lines: usize, limits: &Limits) -> Result<(), ApiError> {
    if lines > limits.batch_lines {
        let most = limits.batch_lines;
        return Err(ApiError::malformed(format!(
            "the batch has more than limits.batch_lines = {most} lines"
        )));
    }
    Ok(())
}

impl Drop for BatchIntake {
    fn drop(&mut self) {
        if self.is_accepted || !self.has_begun {
            return;
        }
        let (batches, id) = (Arc::clone(&self.context.app.batches), self.batch.id);
        let forget = move || {
            if let Err(error) = batches.abandon(id).wait() {
                tracing::warn!(batch = %id, %error, "lines of a refused batch stay until the next start");
            }
        };
        // At the end of the process the next start abandons them.
        self.context.app.threads_of(self.batch.user).run_later(forget);
    }
}
