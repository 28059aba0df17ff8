//! An answer once its job has ended.

use super::super::failure;
use super::ending::AnswerEnding;
use super::parts::AnswerParts;
use crate::domain::event::{Event, FailureCode, SequencedEvent, StepKind};
use crate::domain::id::JobId;
use crate::domain::job::Job;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::v1::jobs::stream::StoredJob;
use crate::http::v1::wait;
use crate::ports::{Store, StoreError};
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
    context.read(move |store| Ok(read(store, job, final_text_only))).await?
}

/// The answer of an ended job. Reads the store.
pub(crate) fn read(store: &dyn Store, job: Job, final_text_only: bool) -> Result<FinishedAnswer, ApiError> {
    let events = log(store, job.id)?;
    let end = events.last().map(|last| last.event.clone());
    let mut parts = AnswerParts::of(job.id, events, final_text_only);
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

fn log(store: &dyn Store, job: JobId) -> Result<Vec<SequencedEvent>, StoreError> {
    let mut events = Vec::new();
    loop {
        let after = events.last().map_or(0, |last: &SequencedEvent| last.seq);
        let page = store.events(job, after, PAGE_EVENTS)?;
        let is_last = page.events.last().is_none_or(|last| last.seq >= page.last_seq);
        events.extend(page.events);
        if is_last {
            return Ok(events);
        }
    }
}
