//! Exports one batch of ended jobs at a time: takes them, folds their logs, sends the spans, and removes them
//! from the queue.

use super::encode::{EncodedSpans, ExportRequest, RequestEncoder};
use super::outcome::RequestOutcome;
use super::sender::CollectorClient;
use crate::domain::job::JobStatus;
use crate::domain::log_chain::RecordPlace;
use crate::domain::run::LogStage;
use crate::domain::spans::{SpanFold, SpanOptions};
use crate::ports::{Clock, Measurement, Meter, NodeStore, SpanExport, StoreError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Most jobs of a batch.
const BATCH_JOBS: usize = 256;
/// Size of the spans of a batch, bytes; the last job may exceed it.
const BATCH_BYTES: usize = 2 * 1_024 * 1_024;
/// Bytes of a log that are read at once.
const LOG_BYTES: usize = 256 * 1_024;
/// Ends that are counted for the metric.
const COUNTED_ENDS: usize = 10_000;

/// The ports that an exporter needs.
#[derive(Clone)]
pub struct ExporterPorts {
    /// The queue, and the logs.
    pub store: Arc<dyn NodeStore>,
    /// Clock.
    pub clock: Arc<dyn Clock>,
    /// Counts requests, spans and jobs.
    pub meter: Arc<dyn Meter>,
}

/// Result of a tick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ExportOutcome {
    /// Nothing waits.
    Idle,
    /// A batch has left the queue.
    Exported,
    /// The batch stays in the queue: the collector is away, or busy for so long.
    Failed { reason: String, after_ms: u64 },
}

/// What there is of a job's spans. `missing`: why it is not all.
enum JobSpans {
    Added { missing: Option<&'static str> },
    Gone { missing: Option<&'static str> },
}

/// Exports spans to one collector.
pub struct SpanExporter {
    ports: ExporterPorts,
    collector: CollectorClient,
    options: SpanOptions,
    encoder: RequestEncoder,
    lease_s: u64,
}

impl SpanExporter {
    /// An exporter for this service; `instance` tells its nodes apart.
    pub fn new(
        ports: ExporterPorts,
        collector: CollectorClient,
        options: SpanOptions,
        (service_name, instance): (&str, &str),
        timeout_s: u64,
    ) -> Self {
        let encoder = RequestEncoder::new(service_name, instance);
        // A batch is a few requests.
        let lease_s = timeout_s.saturating_mul(8).saturating_add(60);
        Self { ports, collector, options, encoder, lease_s }
    }

    /// Exports a batch, if any end waits.
    pub(super) fn tick(&self) -> Result<ExportOutcome, StoreError> {
        let taken = self.ports.store.take_span_exports(BATCH_JOBS, self.lease_s)?;
        let waiting = self.ports.store.waiting_span_exports(COUNTED_ENDS)?;
        self.ports.meter.record(Measurement::SpanExportsWaiting(waiting));
        if taken.is_empty() {
            return Ok(ExportOutcome::Idle);
        }
        let (mut encoded, mut sent, mut gone) = (EncodedSpans::default(), Vec::new(), Vec::new());
        for export in taken {
            if encoded.bytes >= BATCH_BYTES {
                break;
            }
            match self.encode(export, &mut encoded)? {
                JobSpans::Added { missing } => sent.push((export, missing)),
                JobSpans::Gone { missing } => gone.push((export, missing)),
            }
        }
        // Whatever the collector answers, there is nothing to send of these.
        self.settle(gone)?;
        for request in self.encoder.requests(encoded) {
            if let Err(failed) = self.send(&request) {
                return Ok(failed);
            }
        }
        self.settle(sent)?;
        Ok(ExportOutcome::Exported)
    }

    /// Adds the spans of a job.
    fn encode(&self, export: SpanExport, encoded: &mut EncodedSpans) -> Result<JobSpans, StoreError> {
        let SpanExport { finished_at_ms, job, user } = export;
        let run = match self.ports.store.ended_run(user, job) {
            // It ended once more since, and that end has a place of its own in the queue.
            Ok(Some(run)) if run.state.finished_at_ms != finished_at_ms => {
                return Ok(JobSpans::Gone { missing: None });
            }
            Ok(Some(run)) => run,
            Ok(None) => {
                let runs_again = self.ports.store.job(user, job)?.is_some();
                return Ok(JobSpans::Gone { missing: (!runs_again).then_some("removed") });
            }
            Err(StoreError::Corrupt(_)) => return Ok(JobSpans::Gone { missing: Some("unreadable") }),
            Err(error) => return Err(error),
        };
        let mut missing = match run.state.log {
            LogStage::Cut => Some("log_cut"),
            // Retention leaves the marks, and so the model calls, of failed jobs only.
            LogStage::Folded if run.state.status != JobStatus::Failed => Some("log_folded"),
            LogStage::Folded | LogStage::Whole => None,
        };
        let mut fold = SpanFold::new(&run, user, &self.options);
        match self.read_log(export, &mut fold) {
            Err(StoreError::Corrupt(_)) => missing = Some("unreadable"),
            read => read?,
        }
        encoded.extend(&fold.finish());
        Ok(JobSpans::Added { missing })
    }

    fn read_log(&self, export: SpanExport, fold: &mut SpanFold<'_>) -> Result<(), StoreError> {
        let mut after = RecordPlace::BEFORE_FIRST;
        loop {
            let records = self.ports.store.log_records(export.job, after, LOG_BYTES)?;
            let Some(last) = records.last() else { return Ok(()) };
            after = last.place;
            for record in &records {
                fold.push(record).map_err(|error| StoreError::Corrupt(error.to_string()))?;
            }
        }
    }

    /// Removes ends from the queue. Whatever is missing of their spans is logged and counted.
    fn settle(&self, ends: Vec<(SpanExport, Option<&'static str>)>) -> Result<(), StoreError> {
        if ends.is_empty() {
            return Ok(());
        }
        self.ports.store.remove_span_exports(ends.iter().map(|(export, _)| *export).collect()).wait()?;
        for (export, missing) in ends {
            if let Some(reason) = missing {
                tracing::warn!(job = %export.job, reason, "spans of an ended job are lost");
                self.ports.meter.record(Measurement::SpanJobLost(reason));
            }
        }
        Ok(())
    }

    /// Sends a request. Fails if it is to be repeated.
    fn send(&self, request: &ExportRequest) -> Result<(), ExportOutcome> {
        let tried = |outcome| self.ports.meter.record(Measurement::SpanExportTried(outcome));
        let spans = |outcome, spans| self.ports.meter.record(Measurement::SpansExported { outcome, spans });
        let now_ms = self.ports.clock.now_ms();
        // A panic in the HTTP client fails one request and must not end the thread.
        let response = catch_unwind(AssertUnwindSafe(|| self.collector.post(&request.body, now_ms)))
            .unwrap_or_else(|_| Err("a fault of this server".to_owned()));
        let response = response.map_err(|reason| {
            tried("failed");
            ExportOutcome::Failed { reason, after_ms: 0 }
        })?;
        match RequestOutcome::of(&response) {
            RequestOutcome::Taken { rejected, message } => {
                tried("taken");
                let rejected = rejected.min(request.spans);
                if rejected > 0 || !message.is_empty() {
                    let answer = self.collector.quoted(&message);
                    tracing::warn!(rejected, answer, "the collector has not taken all spans");
                }
                spans("exported", request.spans.saturating_sub(rejected));
                spans("rejected", rejected);
                Ok(())
            }
            RequestOutcome::Retry { after_ms } => {
                tried("failed");
                let reason = format!("the collector answered {}", response.status);
                Err(ExportOutcome::Failed { reason, after_ms })
            }
            RequestOutcome::Refused => {
                tried("refused");
                spans("dropped", request.spans);
                let (status, answer) = (response.status, self.collector.quoted(&response.body));
                tracing::error!(
                    status,
                    answer,
                    spans = request.spans,
                    "the collector refused spans; they are dropped"
                );
                Ok(())
            }
        }
    }
}
