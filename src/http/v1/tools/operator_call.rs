//! A tool call without a job: by an operator, over HTTP or from the command line. The executor runs it like
//! the call of a job.

use crate::domain::id::{JobId, ProjectId, UserId};
use crate::domain::job::JobOrigin;
use crate::domain::job_rights::JobRights;
use crate::domain::tool::{ToolCall, ToolChoice, ToolReach};
use crate::ports::{
    ApprovedCalls, CancelToken, Journal, ModelParameters, SeenFiles, ToolContext, ToolOutcome, Toolbox,
};
use serde_json::{Map, Value, json};
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A tool call by an operator.
pub struct OperatorToolCall {
    /// The user that the tool sees.
    pub user: UserId,
    /// An id for this run; no such job exists.
    pub job: JobId,
    /// The project, which is the user's.
    pub project: Option<ProjectId>,
    /// The model for tools that ask one.
    pub model: String,
    /// The time limit of the call.
    pub time: Duration,
    /// Whether the caller may make calls that need approval.
    pub approved: ApprovedCalls,
    /// Cancelled when the caller leaves.
    pub cancel: CancelToken,
}

#[derive(Default)]
struct CapturedResult(Mutex<Option<String>>);

impl Journal for CapturedResult {
    fn started(&self, _: &ToolCall) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn finished(&self, _: &ToolCall, outcome: ToolOutcome) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome.content);
    }
    /// No job could keep it.
    fn keeps_full_result(&self) -> bool {
        false
    }
}

impl OperatorToolCall {
    /// Runs the tool and returns its result as a model would get it. Blocks until the end.
    pub fn call(self, toolbox: &dyn Toolbox, name: &str, arguments: Map<String, Value>) -> Value {
        if matches!(toolbox.reach(name), ToolReach::Agents | ToolReach::HandsIn) {
            return unanswered("this tool needs a job: submit one, and let its model call the tool");
        }
        let call = ToolCall {
            id_ref: "call_0".to_owned(),
            name: name.to_owned(),
            arguments: Value::Object(arguments).to_string(),
        };
        let caught = CapturedResult::default();
        toolbox.run(&[call], &self.into_context(), &caught);
        let told = caught.0.into_inner().unwrap_or_else(PoisonError::into_inner).unwrap_or_default();
        serde_json::from_str(&told).unwrap_or_else(|_| unanswered("the tool told nothing"))
    }

    fn into_context(self) -> ToolContext {
        ToolContext {
            user: self.user,
            job: self.job,
            conversation_id: None,
            project_id: self.project,
            rights: JobRights::new(ToolChoice::All(true), 1, self.time.as_secs()),
            seen_files: SeenFiles::default(),
            terms: ModelParameters { model: self.model, ..ModelParameters::default() },
            origin: JobOrigin::Client,
            is_trial: true,
            id_ref: String::new(),
            approved: self.approved,
            cancel: self.cancel.with_timeout(self.time),
        }
    }
}

fn unanswered(why: &str) -> Value {
    json!({"success": false, "data": null, "error": why, "execution_time": 0.0})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::tool::ToolDefinition;
    use crate::http::testing::HandClock;
    use crate::ports::ToolScope;
    use std::sync::Arc;

    /// Has one tool of this reach. Its result says whether the full result would be kept.
    struct One(ToolReach);

    impl Toolbox for One {
        fn offered(&self, _: &ToolScope<'_>) -> Vec<ToolDefinition> {
            Vec::new()
        }
        fn has_tool(&self, _: &str) -> bool {
            true
        }
        fn reach(&self, _: &str) -> ToolReach {
            self.0
        }
        fn run(&self, calls: &[ToolCall], _: &ToolContext, journal: &dyn Journal) {
            let content = json!({"success": true, "data": journal.keeps_full_result()}).to_string();
            journal.finished(&calls[0], ToolOutcome { content, skipped: false, full_result: None });
        }
    }

    fn told_of(reach: ToolReach) -> Value {
        let trial = OperatorToolCall {
            user: UserId::SINGLE,
            job: JobId::from_bits(1),
            project: None,
            model: "m".into(),
            time: Duration::from_secs(1),
            approved: ApprovedCalls::All,
            cancel: CancelToken::new(Arc::new(HandClock::default())),
        };
        trial.call(&One(reach), "one", Map::new())
    }

    #[test]
    fn an_operator_call_of_a_tool_that_needs_a_job_is_refused() {
        for reach in [ToolReach::Agents, ToolReach::HandsIn] {
            let told = told_of(reach);
            assert_eq!(told["success"], false);
            assert!(told["error"].as_str().is_some_and(|error| error.contains("needs a job")), "{told}");
        }
        for reach in [ToolReach::Here, ToolReach::Speaks] {
            assert_eq!(told_of(reach), json!({"success": true, "data": false}), "nothing is kept");
        }
    }
}
