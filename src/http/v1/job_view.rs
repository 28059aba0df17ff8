//! A job as clients see it (DESIGN §3). Owns the object's shape; refuses to show what is the server's own (user, epoch).

use crate::domain::id::{ConversationId, JobId, UserId};
use crate::domain::job::{Job, JobError, JobStatus};
use crate::domain::usage::Usage;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::ports::{Store, StoreError};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The answer's text, or its absence.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Output {
    /// In lists: twenty answers can be large, and each job has its own address.
    LeftOut,
    /// `null` until the job has ended.
    Told(Option<String>),
}

impl Output {
    fn is_left_out(&self) -> bool {
        matches!(self, Self::LeftOut)
    }
}

/// The job object.
#[derive(Debug, Serialize)]
pub(crate) struct JobView {
    id: JobId,
    object: &'static str,
    pub(crate) status: JobStatus,
    attempt: u32,
    created_at: u64,
    started_at: Option<u64>,
    finished_at: Option<u64>,
    model: String,
    conversation_id: Option<ConversationId>,
    project_id: Option<String>,
    #[serde(skip_serializing_if = "Output::is_left_out")]
    output_text: Output,
    usage: Usage,
    error: Option<JobError>,
    metadata: BTreeMap<String, String>,
    last_event_id: u64,
}

impl JobView {
    /// The job without its answer, for lists.
    pub(crate) fn brief(job: Job) -> Self {
        Self {
            id: job.id,
            object: "job",
            status: job.status,
            attempt: job.attempt,
            created_at: seconds(job.created_at_ms),
            started_at: job.started_at_ms.map(seconds),
            finished_at: job.finished_at_ms.map(seconds),
            model: job.model,
            conversation_id: job.conversation_id,
            project_id: None,
            output_text: Output::LeftOut,
            usage: job.usage,
            error: job.error,
            metadata: job.metadata,
            last_event_id: job.last_event_id,
        }
    }

    /// The job with what the log knows beyond its row. Reads the store.
    pub(crate) fn read(store: &dyn Store, job: Job) -> Result<Self, StoreError> {
        let (id, ended) = (job.id, job.status.is_terminal());
        let mut view = Self::brief(job);
        if ended {
            view.output_text = Output::Told(store.output(id)?);
        } else {
            view.output_text = Output::Told(None);
            view.last_event_id = store.events(id, view.last_event_id, 1)?.last_seq.max(view.last_event_id);
        }
        Ok(view)
    }

    /// A job that was stored a moment ago: there is nothing to look up.
    pub(crate) fn fresh(job: Job) -> Self {
        let mut view = Self::brief(job);
        view.output_text = Output::Told(None);
        view
    }
}

/// The job as it stands now, if it is this user's.
pub(crate) async fn look(door: &Arc<Door>, user: UserId, id: JobId) -> Result<JobView, Error> {
    let found = door.read(move |store| match store.job(user, id)? {
        Some(job) => JobView::read(store, job).map(Some),
        None => Ok(None),
    });
    found.await?.ok_or(Error::NotFound("job"))
}

/// The job's id as a path spells it; a malformed one names no job.
pub(crate) fn parse_id(text: &str) -> Result<JobId, Error> {
    text.parse().map_err(|_| Error::NotFound("job"))
}

fn seconds(millis: u64) -> u64 {
    millis / 1_000
}
