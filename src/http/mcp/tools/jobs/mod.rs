//! Tools for jobs. They do what the routes below `/v1/jobs` do, with the same checks.

mod follow;
mod job;
mod submit;

use super::definition::{ToolHints, definition, object};
use super::result;
use crate::domain::limits::Limits;
use crate::http::error::ApiError;
use crate::http::mcp::client_request::McpClientRequest;
use job::{JOB_ID, job_id_schema, job_schema};
use serde_json::{Map, Value, json};

/// A tool for jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobTool {
    Submit,
    Wait,
    Events,
    Cancel,
}

impl JobTool {
    pub(super) const ALL: [Self; 4] = [Self::Submit, Self::Wait, Self::Events, Self::Cancel];

    /// The tool of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Submit => "submit_job",
            Self::Wait => "wait_job",
            Self::Events => "job_events",
            Self::Cancel => "cancel_job",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Submit => "Submit a job",
            Self::Wait => "Wait for a job",
            Self::Events => "Events of a job",
            Self::Cancel => "Cancel a job",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Submit => {
                "Hand a task to an agent of this server and return at once with the job. It goes on when this client leaves, or \
                 at the next start of the server. wait_job waits for its answer."
            }
            Self::Wait => {
                "Wait until a job has ended, and return it; output_text is its answer. If it has not ended in timeout_s, it is \
                 returned as it is: wait again."
            }
            Self::Events => {
                "The events of a job after an event: steps of the agent, its tool calls and their results, the end. Call it \
                 again with after = last_event_id for more."
            }
            Self::Cancel => "Cancel a job. One that has ended stays as it is.",
        }
    }

    /// Whether a key without the scope `write` may call it.
    pub(super) fn only_reads(self) -> bool {
        matches!(self, Self::Wait | Self::Events)
    }

    pub(super) fn definition(self, limits: &Limits) -> Value {
        let (input, output) = match self {
            Self::Submit => (submit::schema(), job_schema()),
            Self::Wait => (follow::wait_schema(limits), job_schema()),
            Self::Events => (follow::events_schema(limits), follow::page_schema()),
            Self::Cancel => (object(&json!({JOB_ID: job_id_schema()}), &[JOB_ID]), job_schema()),
        };
        let hints = ToolHints {
            only_reads: self.only_reads(),
            destroys: self == Self::Cancel,
            is_idempotent: self != Self::Submit,
        };
        definition([self.name(), self.title(), self.description()], &input, &output, hints)
    }

    pub(super) async fn call(
        self,
        request: &McpClientRequest,
        arguments: Map<String, Value>,
    ) -> Result<Value, ApiError> {
        let structured = match self {
            Self::Submit => submit::submit(request, arguments).await,
            Self::Wait => follow::wait(request, arguments).await,
            Self::Events => follow::events(request, arguments).await,
            Self::Cancel => follow::cancel(request, arguments).await,
        };
        Ok(result::done(structured?))
    }
}
