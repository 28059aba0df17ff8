//! The answer of a job as the route of its line gives it.

use crate::domain::batch::BatchEndpoint;
use crate::domain::event::FailureCode;
use crate::domain::id::JobId;
use crate::domain::job::{Job, JobStatus};
use crate::domain::job_object::JobObject;
use crate::http::error::ApiError;
use crate::http::v1::jobs::view;
use crate::http::v1::openai::chat::completion::ChatCompletion;
use crate::http::v1::openai::{chat, failure, responses};
use crate::ports::Store;
use serde::Serialize;
use serde_json::Value;

/// An answer.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum LineAnswer {
    Completion(Box<ChatCompletion>),
    Response(Value),
    Job(Box<JobObject>),
}

impl LineAnswer {
    /// The answer of an ended job, or the error that its route gives. Reads the store.
    pub(crate) fn read(store: &dyn Store, job: Job, endpoint: BatchEndpoint) -> Result<Self, ApiError> {
        if job.status != JobStatus::Succeeded {
            let error = job.error.map_or((FailureCode::Internal, String::new()), |e| (e.code, e.message));
            return Err(failure::of_job(error.0, error.1, None));
        }
        Ok(match endpoint {
            BatchEndpoint::ChatCompletions => Self::Completion(Box::new(chat::line_answer(store, job)?)),
            BatchEndpoint::Responses => Self::Response(responses::line_answer(store, &job)?),
            BatchEndpoint::Jobs => Self::Job(Box::new(view::read(store, job)?)),
        })
    }
}

/// The form of request ids in results of `OpenAI`.
pub(crate) fn request_id(job: JobId) -> String {
    job.to_string().replacen(JobId::PREFIX, "batch_req_", 1)
}
