//! Shared by tests of several tools: small jobs and schedules, a toolbox, and a model that follows a script.

mod fakes;

pub(in crate::tools) use fakes::{
    Act, RecordingJournal, ScriptedTool, any, bounds, call, context, deps, one, one_result, real, real_at,
    run,
};

use super::executor::{BatchLimits, Executor, ExecutorOptions};
use super::registry::ToolDeps;
use crate::domain::id::{JobId, ScheduleId, UserId};
use crate::domain::job::{ApprovalMode, Job, JobOrigin, JobSpec, OnDisconnect, Priority};
use crate::domain::limits::Limits;
use crate::domain::schedule::Schedule;
use crate::domain::timing::Timing;
use crate::domain::tool::ToolChoice;
use crate::ports::Toolbox;
use crate::tools::ToolCacheOptions;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A queued job of the user of single mode.
pub(super) fn job(bits: u128) -> Job {
    let spec = JobSpec {
        input: Vec::new(),
        model: "m".to_owned(),
        conversation_id: None,
        project_id: None,
        system_prompt: None,
        temperature: None,
        max_tokens: None,
        thinking: false,
        tools: ToolChoice::All(true),
        strictness: None,
        max_steps: 1,
        timeout_s: 1,
        max_total_tokens: None,
        priority: Priority::DEFAULT,
        run_at_ms: None,
        max_attempts: 1,
        on_disconnect: OnDisconnect::Continue,
        metadata: BTreeMap::new(),
        webhook_url: None,
        approval: ApprovalMode::Wait,
        origin: JobOrigin::Client,
    };
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
