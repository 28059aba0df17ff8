//! Shared by tests of several tools: small jobs and schedules, a toolbox, and a model that follows a script.

mod fakes;

pub(in crate::tools) use fakes::{
    Act, RecordingJournal, ScriptedTool, any, bounds, call, context, context_at, deps, one, one_result, real,
    real_at, run,
};

use super::executor::{BatchLimits, Executor, ExecutorOptions};
use super::registry::ToolDeps;
use crate::domain::id::{JobId, ScheduleId, UserId};
use crate::domain::job::{Job, JobSpec};
use crate::domain::limits::Limits;
use crate::domain::schedule::Schedule;
use crate::domain::timing::Timing;
use crate::ports::Toolbox;
use crate::tools::ToolCacheOptions;
use std::sync::Arc;

/// A queued job of the user of single mode.
pub(super) fn job(bits: u128) -> Job {
    let spec = JobSpec::new("m".to_owned(), Vec::new(), 1, 1);
    Job::queued(JobId::from_bits(bits), UserId::SINGLE, 0, &spec)
}

/// A schedule that has never fired.
pub(super) fn schedule(bits: u128, user: UserId, timing: Timing) -> Schedule {
    Schedule {
        id: ScheduleId::from_bits(bits),
        user,
        name: None,
        next_run_ms: timing.first(0),
        timing,
        created_at_ms: 0,
        armed_at_ms: 0,
        last_due_ms: None,
        last_run_ms: None,
        last_job: None,
        runs: 0,
        model_tokens: None,
        last_skip: None,
        recomputed_ms: None,
        is_paused: false,
    }
}

/// All tools, which `deps` know while the caller keeps the toolbox.
pub(super) fn filled(deps: &ToolDeps) -> Arc<dyn Toolbox> {
    let options = ExecutorOptions::new(BatchLimits::new(&Limits::default(), 4, ToolCacheOptions::default()));
    let toolbox: Arc<dyn Toolbox> =
        Arc::new(Executor::new(super::registered(deps), Vec::new(), options).expect("valid tools"));
    deps.agents.toolbox.get_or_init(|| Arc::downgrade(&toolbox));
    toolbox
}
