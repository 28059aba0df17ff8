//! One call of a tool that no job makes: an operator's, over HTTP or from the command line. Owns its context and where its
//! result is caught; refuses to run it any other way than jobs' calls run.

use crate::domain::id::{JobId, ProjectId, UserId};
use crate::domain::job::JobOrigin;
use crate::domain::tool::{Reach, ToolCall, ToolChoice};
use crate::ports::{
    Approved, Clock, Journal, Leash, ModelTerms, StopFlag, ToolContext, ToolOutcome, Toolbox,
};
use serde_json::{Map, Value, json};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Whose call it is, and where it works.
pub struct Trial {
    /// Whose.
    pub user: UserId,
    /// Names the call's run; there is no such job.
    pub job: JobId,
    /// The project, and its directory.
    pub project: Option<(ProjectId, PathBuf)>,
    /// What tools ask that ask a model.
    pub model: String,
    /// The longest that all of it may take.
    pub time: Duration,
    /// Raised when nobody waits any more.
    pub stop: StopFlag,
    /// Tells how late it is.
    pub clock: Arc<dyn Clock>,
}

/// What the call came to.
#[derive(Default)]
struct Caught(Mutex<Option<String>>);

impl Journal for Caught {
    fn started(&self, _: &ToolCall) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn finished(&self, _: &ToolCall, outcome: ToolOutcome) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome.content);
    }
    /// There is no job that could keep it.
    fn keeps_whole(&self) -> bool {
        false
    }
}

impl Trial {
    /// Makes the call: the result as a model would get it. Blocks for as long as it takes.
    pub fn call(self, toolbox: &dyn Toolbox, name: &str, arguments: Map<String, Value>) -> Value {
        if matches!(toolbox.reach(name), Reach::Agents | Reach::HandsIn) {
            return unanswered("this tool needs a job: submit one, and let its model call the tool");
        }
        let call = ToolCall {
            id_ref: "call_0".to_owned(),
            name: name.to_owned(),
            arguments: Value::Object(arguments).to_string(),
        };
        let caught = Caught::default();
        toolbox.run(&[call], &self.into_context(), &caught);
        let told = caught.0.into_inner().unwrap_or_else(PoisonError::into_inner).unwrap_or_default();
        serde_json::from_str(&told).unwrap_or_else(|_| unanswered("the tool told nothing"))
    }

    fn into_context(self) -> ToolContext {
        let (project_id, workdir) = self.project.unzip();
        let millis = u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX);
        let deadline_ms = self.clock.monotonic_ms().saturating_add(millis);
        ToolContext {
            user: self.user,
            job: self.job,
            conversation_id: None,
            project_id,
            allowed: ToolChoice::All(true),
            strictness: None,
            workdir,
            terms: ModelTerms { model: self.model, ..ModelTerms::default() },
            origin: JobOrigin::Client,
            is_trial: true,
            id_ref: String::new(),
            approved: Approved::All,
            leash: Leash { stop: self.stop, deadline_ms, clock: self.clock },
        }
    }
}

fn unanswered(why: &str) -> Value {
    json!({"success": false, "data": null, "error": why, "execution_time": 0.0})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::tool::Offer;
    use crate::http::testing::HandClock;

    /// Has one tool of this reach, and says of a run whether more than the model is told would be kept.
    struct One(Reach);

    impl Toolbox for One {
        fn offered(&self, _: &ToolChoice, _: bool) -> Vec<Offer> {
            Vec::new()
        }
        fn knows(&self, _: &str) -> bool {
            true
        }
        fn reach(&self, _: &str) -> Reach {
            self.0
        }
        fn run(&self, calls: &[ToolCall], _: &ToolContext, journal: &dyn Journal) {
            let content = json!({"success": true, "data": journal.keeps_whole()}).to_string();
            journal.finished(&calls[0], ToolOutcome { content, skipped: false, whole: None });
        }
    }

    fn told_of(reach: Reach) -> Value {
        let trial = Trial {
            user: UserId::SINGLE,
            job: JobId::from_bits(1),
            project: None,
            model: "m".into(),
            time: Duration::from_secs(1),
            stop: StopFlag::default(),
            clock: Arc::new(HandClock::default()),
        };
        trial.call(&One(reach), "one", Map::new())
    }

    #[test]
    fn what_needs_a_job_is_refused_before_anything_runs() {
        for reach in [Reach::Agents, Reach::HandsIn] {
            let told = told_of(reach);
            assert_eq!(told["success"], false);
            assert!(told["error"].as_str().is_some_and(|error| error.contains("needs a job")), "{told}");
        }
        for reach in [Reach::Here, Reach::Speaks] {
            assert_eq!(told_of(reach), json!({"success": true, "data": false}), "nothing is kept");
        }
    }
}
