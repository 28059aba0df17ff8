//! What clients know about batches, and the invariants of batches.

use super::client_records::list;
use super::oracle::Oracle;
use nanoclaw::domain::batch::{Batch, BatchStatus};
use nanoclaw::domain::id::{BatchId, JobId, UserId};
use nanoclaw::domain::job::{Job, JobStatus};
use nanoclaw::ports::{LineOutcome, NodeStore};
use std::collections::BTreeSet;

/// The known facts about one batch.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
pub(crate) struct KnownBatch {
    pub(crate) user: UserId,
    pub(crate) lines: u32,
    pub(crate) concurrency: u32,
    pub(crate) is_hooked: bool,
    /// Its acceptance was sent to the store.
    pub(crate) is_sent: bool,
    pub(crate) is_accepted: bool,
    pub(crate) has_ended: bool,
    pub(crate) is_cancelled: bool,
    /// The number of its jobs when its cancel was acknowledged.
    pub(crate) started: usize,
    /// Lines in the observed order of their ends.
    pub(crate) ended: Vec<u32>,
}

impl Oracle {
    /// A cancel is sent to the store: jobs of the batch may end by it at any time.
    pub(crate) fn doubt_batch(&mut self, batch: BatchId) {
        self.client_records.touched.insert(batch);
        let jobs: Vec<_> =
            self.jobs.iter().filter(|(_, known)| known.batch == Some(batch)).map(|(id, _)| *id).collect();
        for job in jobs {
            self.doubt(job);
        }
    }

    /// Its cancel is acknowledged: no further line may start.
    pub(crate) fn cancelled_batch(&mut self, row: &Batch, store: &dyn NodeStore) {
        if row.status == BatchStatus::InProgress {
            self.blame(format!("a batch continues after its cancel: {row:?}"));
        }
        let Some(jobs) = list(store) else { return };
        let started = jobs.iter().filter(|job| job.batch.is_some_and(|line| line.batch == row.id)).count();
        if let Some(known) = self.client_records.batches.get_mut(&row.id) {
            known.is_cancelled = row.status != BatchStatus::Completed;
            if known.is_cancelled {
                known.started = known.started.min(started);
            }
        }
    }

    /// Checks the batches that have changed.
    pub(crate) fn check_touched_batches(&mut self, store: &dyn NodeStore) {
        for batch in std::mem::take(&mut self.client_records.touched) {
            self.check_batch(store, batch);
        }
        self.violations.append(&mut self.client_records.wrong);
    }

    /// A line has ended or was retried.
    pub(crate) fn touch_batch_of(&mut self, job: JobId) {
        let batch = self.jobs.get(&job).and_then(|known| known.batch);
        self.client_records.touched.extend(batch);
    }

    /// Checks the invariants of a batch at any time.
    pub(crate) fn check_batch(&mut self, store: &dyn NodeStore, batch: BatchId) {
        let retries = self.retries_of(batch);
        let Some(known) = self.client_records.batches.get_mut(&batch) else { return };
        let (Ok(row), user) = (store.batch(known.user, batch), known.user) else { return };
        let Some(row) = row else {
            if known.is_accepted || known.has_ended {
                self.blame(format!("{batch} of {user:?} is lost"));
            }
            return;
        };
        let mut wrong = Vec::new();
        let (counts, is_over) = (row.counts, row.status.is_terminal());
        if !known.is_sent {
            wrong.push("exists although its acceptance was never sent");
        }
        if counts.total != known.lines || counts.completed + counts.failed > counts.total {
            wrong.push("counts wrong");
        }
        if is_over != (counts.open() == 0) || is_over != row.finished_at_ms.is_some() {
            wrong.push("has ended with open lines, or has not ended without open lines");
        }
        if known.has_ended && !is_over && retries == 0 {
            wrong.push("continues after its end");
        }
        known.has_ended = is_over;
        if known.is_cancelled && matches!(row.status, BatchStatus::InProgress | BatchStatus::Completed) {
            wrong.push("was cancelled");
        }
        wrong.extend(known.check_ended(store, &row, self.client_records.loses_a_line));
        for what in wrong {
            self.violations
                .push(format!("{batch} {what}: {row:?} {:?}", self.client_records.batches.get(&batch)));
        }
    }

    /// Checks the invariants of a batch and its jobs.
    pub(crate) fn check_lines(&mut self, store: &dyn NodeStore, batch: BatchId, jobs: &[Job]) {
        let retries = self.retries_of(batch);
        let own: Vec<_> =
            jobs.iter().filter(|job| job.batch.is_some_and(|line| line.batch == batch)).collect();
        let Some(known) = self.client_records.batches.get(&batch) else { return };
        let Ok(Some(row)) = store.batch(known.user, batch) else {
            if !own.is_empty() {
                self.blame(format!("{batch} runs but is not accepted: {own:?}"));
            }
            return;
        };
        let mut wrong = Vec::new();
        let lines: BTreeSet<_> = own.iter().filter_map(|job| job.batch.map(|line| line.line)).collect();
        if lines.len() != own.len() || own.len() > known.lines as usize {
            wrong.push("has a line with two jobs");
        }
        if own.len() > known.started {
            wrong.push("has started a line after its cancel");
        }
        let active = own.iter().filter(|job| !job.status.is_terminal()).count();
        if active as u64 > u64::from(known.concurrency) + retries {
            wrong.push("exceeds its concurrency");
        }
        let count = |status| own.iter().filter(|job| job.status == status).count() as u64;
        let cut =
            if row.status == BatchStatus::InProgress { 0 } else { u64::from(known.lines) - own.len() as u64 };
        let failed = count(JobStatus::Failed) + count(JobStatus::Cancelled) + cut;
        if u64::from(row.counts.completed) != count(JobStatus::Succeeded)
            || u64::from(row.counts.failed) != failed
        {
            wrong.push("has counts that differ from its jobs");
        }
        let results = store.results(batch, 0, known.lines).map_or(Vec::new(), |page| page.results);
        let is_complete = results.iter().map(|result| result.line).eq(0..known.lines)
            && results.iter().all(|result| result.custom_id == format!("line-{}", result.line));
        if row.status.is_terminal() && !is_complete {
            wrong.push("has ended without all results");
        }
        let wrong: Vec<_> = wrong.iter().map(|what| format!("{batch} {what}: {row:?} {own:#?}")).collect();
        self.violations.extend(wrong);
    }

    /// Checks that every batch has ended.
    pub(crate) fn check_batches_ended(&mut self, store: &dyn NodeStore) {
        let mut wrong = Vec::new();
        for (id, known) in &self.client_records.batches {
            let Ok(Some(row)) = store.batch(known.user, *id) else { continue };
            self.counts.batches += 1;
            self.counts.lines += u64::from(row.counts.total);
            if !row.status.is_terminal() {
                wrong.push(format!("{id} never ends: {row:?}"));
            }
        }
        self.violations.extend(wrong);
    }

    pub(crate) fn retries_of(&self, batch: BatchId) -> u64 {
        self.jobs.values().filter(|known| known.batch == Some(batch)).map(|known| known.retries).sum()
    }
}

impl KnownBatch {
    /// Checks the order of ended lines: each once, complete, and the seen prefix unchanged.
    fn check_ended(&mut self, store: &dyn NodeStore, row: &Batch, loses_one: bool) -> Option<&'static str> {
        let mut page = store.ended(row.id, 0, self.lines).ok()?;
        if loses_one {
            page.results.pop();
        }
        let all: BTreeSet<_> = page.results.iter().map(|result| result.line).collect();
        if all.len() != page.results.len() {
            return Some("lists an end twice");
        }
        if page.is_last != row.status.is_terminal() || (page.is_last && all.len() != self.lines as usize) {
            return Some("has an incomplete list of ends");
        }
        let has_job = |outcome: &LineOutcome| !matches!(outcome, LineOutcome::NotStarted);
        let ended: Vec<_> =
            page.results.iter().filter(|result| has_job(&result.outcome)).map(|result| result.line).collect();
        let is_kept = ended.starts_with(&self.ended);
        self.ended = ended;
        if is_kept { None } else { Some("has changed the order of its ends") }
    }
}
