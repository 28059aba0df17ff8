//! An answer once its job has ended.

use super::super::failure;
use super::ending::AnswerEnding;
use super::parts::{AnswerLog, AnswerParts};
use crate::domain::event::{Event, FailureCode, SequencedEvent, StepKind};
use crate::domain::id::JobId;
use crate::domain::job::Job;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::v1::jobs::stream::StoredJob;
use crate::http::v1::wait;
use crate::ports::{EventPage, ReadMemory, Store, StoreError};
use std::sync::Arc;

/// Events read at once.
const PAGE_EVENTS: usize = 1_024;

/// A job that ended with an answer.
pub(crate) struct FinishedAnswer {
    pub(crate) job: Job,
    pub(crate) parts: AnswerParts,
    pub(crate) ending: AnswerEnding,
}

/// Waits for the end of the job; an error if it ended without an answer. The job's own limits bound the wait.
pub(crate) async fn wait_for(
    context: &Arc<ServerContext>,
    stored: StoredJob,
    final_text_only: bool,
) -> Result<FinishedAnswer, ApiError> {
    let StoredJob { job, mut guard, .. } = stored;
    let (user, id) = (job.user, job.id);
    wait::for_job(context, user, id, u32::MAX.into()).await?;
    let Some(job) = context.app.store.job(user, id)? else { return Err(ApiError::NotFound("job")) };
    if let Some(guard) = &mut guard {
        guard.disarm();
    }
    if !job.status.is_terminal() {
        return Err(failure::interrupted(context, id));
    }
    context.read(user, move |store| Ok(read(store, job, final_text_only, &mut |_| Ok(())))).await?
}

/// The answer of an ended job. Reads the store.
pub(crate) fn read(
    store: &dyn Store,
    job: Job,
    final_text_only: bool,
    memory: &mut ReadMemory<'_>,
) -> Result<FinishedAnswer, ApiError> {
    let mut log = log(store, job.id, memory)?;
    let end = log.end.take();
    let mut parts = AnswerParts::of(job.id, log, final_text_only);
    if !parts.has_text() {
        // Retention may have removed the events of an old job.
        let output = store.output(job.id)?.unwrap_or_default();
        if !output.is_empty() {
            parts.push(StepKind::Text, &output);
        }
    }
    match end {
        Some(Event::Done { finish_reason, stop_sequence, .. }) => {
            let ending = AnswerEnding { reason: finish_reason, stop_sequence };
            Ok(FinishedAnswer { job, parts, ending })
        }
        Some(Event::Error { content, code, retry_after_ms }) => {
            Err(failure::of_job(code, content, retry_after_ms))
        }
        _ => {
            let error = job.error.map_or((FailureCode::Internal, String::new()), |e| (e.code, e.message));
            Err(failure::of_job(error.0, error.1, None))
        }
    }
}

fn log(store: &dyn Store, job: JobId, memory: &mut ReadMemory<'_>) -> Result<AnswerLog, StoreError> {
    let (mut log, mut after) = (AnswerLog::default(), 0);
    loop {
        let EventPage { events, last_seq } = store.events(job, after, PAGE_EVENTS)?;
        let Some(last) = events.last() else { return Ok(log) };
        after = last.seq;
        for SequencedEvent { event, .. } in events {
            memory(log.take(event))?;
        }
        if after >= last_seq {
            return Ok(log);
        }
    }
}
