//! `spawn` and `cron` with job services that only record the requests.

use crate::domain::id::{JobId, ScheduleId, UserId};
use crate::domain::job::{Job, JobOrigin, JobStatus};
use crate::domain::job_rights::JobRights;
use crate::domain::schedule::Schedule;
use crate::domain::timing::Timing;
use crate::domain::tool::{Strictness, ToolChoice};
use crate::domain::usage::Usage;
use crate::ports::{
    BackgroundTask, JobBudget, JobServiceError, JobServices, NewSchedule, ScheduleStatus, SpawnError, Tool,
    ToolCaller, ToolContext, Toolbox,
};
use crate::tools::builtin::{cron, spawn};
use crate::tools::testing::{self, context, deps};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Records and accepts every request.
#[derive(Default)]
struct RecordingJobs {
    tasks: Mutex<Vec<(ToolCaller, BackgroundTask)>>,
    schedules_added: Mutex<Vec<NewSchedule>>,
    full: bool,
}

impl JobServices for RecordingJobs {
    fn spawn(&self, caller: &ToolCaller, task: BackgroundTask) -> Result<Job, JobServiceError> {
        if self.full {
            return Err(SpawnError::SpawnedFull { limit: 8 }.into());
        }
        self.tasks.lock().unwrap().push((caller.clone(), task));
        Ok(testing::job(7))
    }
    fn spawned(&self, _: &ToolCaller) -> Result<Vec<Job>, JobServiceError> {
        Ok(vec![testing::job(7)])
    }
    fn cancel(&self, _: &ToolCaller, job: JobId) -> Result<Option<Job>, JobServiceError> {
        Ok((job == JobId::from_bits(7)).then(|| Job { status: JobStatus::Cancelled, ..testing::job(7) }))
    }
    fn schedule(&self, caller: &ToolCaller, new_schedule: NewSchedule) -> Result<Schedule, JobServiceError> {
        let timing = new_schedule.timing.clone();
        self.schedules_added.lock().unwrap().push(new_schedule);
        Ok(testing::schedule(3, caller.user, timing))
    }
    fn schedules(
        &self,
        caller: &ToolCaller,
        _: usize,
    ) -> Result<(Vec<ScheduleStatus>, bool), JobServiceError> {
        let schedule = testing::schedule(3, caller.user, Timing::Every { seconds: 60, anchor_ms: 0 });
        Ok((vec![ScheduleStatus { schedule, last_status: Some(JobStatus::Failed) }], false))
    }
    fn unschedule(&self, caller: &ToolCaller, id: ScheduleId) -> Result<bool, JobServiceError> {
        Ok(caller.user == UserId::SINGLE && id == ScheduleId::from_bits(3))
    }
}

/// The two tools over these notes; the executor keeps the toolbox alive.
fn tools(jobs: &Arc<RecordingJobs>) -> (Box<dyn Tool>, Box<dyn Tool>, Arc<dyn Toolbox>) {
    let mut deps = deps();
    deps.agents.jobs = Arc::<RecordingJobs>::clone(jobs);
    let toolbox = testing::filled(&deps);
    (spawn::register(&deps), cron::register(&deps), toolbox)
}

fn make(tool: &dyn Tool, arguments: Value, context: &ToolContext) -> Result<Value, String> {
    let Value::Object(arguments) = arguments else { panic!("an object") };
    tool.call(&arguments, context).map_err(|error| error.to_string())
}

fn from(origin: JobOrigin) -> ToolContext {
    ToolContext { origin, id_ref: "call_5".into(), ..context(ToolChoice::All(true)) }
}

#[test]
fn a_background_job_gets_its_task_and_tools_but_cannot_submit_jobs() {
    let jobs = Arc::new(RecordingJobs::default());
    let (spawn, _, _toolbox) = tools(&jobs);
    let started =
        make(spawn.as_ref(), json!({"task": " count\nthe words "}), &from(JobOrigin::Client)).unwrap();
    let id = JobId::from_bits(7).to_string();
    assert_eq!(started, json!({"job_id": id, "label": "count the words", "status": "queued"}));
    let (caller, task) = jobs.tasks.lock().unwrap().pop().unwrap();
    assert_eq!((caller.id_ref.as_str(), task.task.as_str()), ("call_5", "count\nthe words"));
    let ToolChoice::Named(names) = task.rights.tools else { panic!("names") };
    assert!(names.contains(&"bash".to_owned()) && names.contains(&"file_mkdir".to_owned()), "{names:?}");
    assert!(names.contains(&"multi_agent".to_owned()), "agents within a job are no jobs: {names:?}");
    assert!(!names.iter().any(|name| name == "spawn" || name == "cron"), "{names:?}");
    let few = ToolContext { id_ref: "call_5".into(), ..context(ToolChoice::Named(vec!["spawn".into()])) };
    make(spawn.as_ref(), json!({"task": "x", "label": "y"}), &few).unwrap();
    assert_eq!(jobs.tasks.lock().unwrap().pop().unwrap().1.rights.tools, ToolChoice::All(false));
}

#[test]
fn what_a_job_submits_has_its_rights_or_fewer() {
    let jobs = Arc::new(RecordingJobs::default());
    let (spawn, cron, _toolbox) = tools(&jobs);
    let rights = JobRights {
        approval_tools: vec!["calculator".into()],
        max_tool_calls: Some(9),
        strictness: Some(Strictness::Strict),
        deadline_ms: Some(5),
        max_total_tokens: Some(100),
        max_cost_micros: Some(50),
        ..JobRights::new(ToolChoice::Named(vec!["calculator".into(), "spawn".into()]), 3, 4)
    };
    let mut here = ToolContext { rights: rights.clone(), ..from(JobOrigin::Client) };
    here.terms.budget = JobBudget::new(Some(30), Some(20), Some(7));
    here.terms.budget.spend(Usage::new(6, 4));
    make(spawn.as_ref(), json!({"task": "x"}), &here).unwrap();
    let submitted = ToolChoice::Named(vec!["calculator".into()]);
    let left = JobRights {
        tools: submitted.clone(),
        max_tool_calls: Some(7),
        max_total_tokens: Some(20),
        max_cost_micros: Some(20),
        ..rights.clone()
    };
    assert_eq!(jobs.tasks.lock().unwrap().pop().unwrap().1.rights, left, "what is left of the job");
    make(cron.as_ref(), json!({"action": "add", "message": "x", "every_s": 60}), &here).unwrap();
    let of_each_run = JobRights { tools: submitted, ..rights }.of_schedule();
    assert_eq!(jobs.schedules_added.lock().unwrap().pop().unwrap().rights, of_each_run);
}

#[test]
fn only_a_job_of_a_client_can_submit_jobs() {
    let jobs = Arc::new(RecordingJobs::default());
    let (spawn, cron, _toolbox) = tools(&jobs);
    for origin in [JobOrigin::Schedule { schedule: None }, JobOrigin::Agent { parent: JobId::from_bits(1) }] {
        let refused = make(spawn.as_ref(), json!({"task": "x"}), &from(origin)).unwrap_err();
        assert!(refused.contains("do the task yourself"), "{refused}");
        let add = json!({"action": "add", "message": "x", "every_s": 60});
        let refused = make(cron.as_ref(), add, &from(origin)).unwrap_err();
        assert!(refused.contains("cannot make schedules"), "{refused}");
        assert!(make(cron.as_ref(), json!({"action": "list"}), &from(origin)).is_ok());
    }
    assert!(jobs.tasks.lock().unwrap().is_empty() && jobs.schedules_added.lock().unwrap().is_empty());
}

#[test]
fn background_jobs_are_listed_and_cancelled_by_id() {
    let (spawn, _, _toolbox) = tools(&Arc::new(RecordingJobs::default()));
    let here = from(JobOrigin::Client);
    let listed = make(spawn.as_ref(), json!({"action": "list"}), &here).unwrap();
    assert_eq!((&listed["total"], &listed["jobs"][0]["status"]), (&json!(1), &json!("queued")));
    let id = listed["jobs"][0]["job_id"].clone();
    let cancelled = make(spawn.as_ref(), json!({"action": "cancel", "job_id": id}), &here).unwrap();
    assert_eq!(cancelled["status"], "cancelled");
    for (arguments, word) in [
        (json!({"action": "cancel"}), "'job_id' is missing"),
        (json!({"action": "cancel", "job_id": "job_1"}), "no background job 'job_1'"),
        (json!({"action": "cancel", "job_id": JobId::from_bits(8).to_string()}), "no background job"),
        (json!({}), "'task' is missing"),
        (json!({"task": "x".repeat(5_000_000)}), "limits.input_bytes"),
    ] {
        let error = make(spawn.as_ref(), arguments, &here).unwrap_err();
        assert!(error.contains(word), "{error}");
    }
    let full = Arc::new(RecordingJobs { full: true, ..RecordingJobs::default() });
    let (spawn, _, _toolbox) = tools(&full);
    let error = make(spawn.as_ref(), json!({"task": "x"}), &here).unwrap_err();
    assert!(error.contains("8 background jobs") && error.contains("cancel one"), "{error}");
}

#[test]
fn a_schedule_is_checked_before_anything_is_stored() {
    let jobs = Arc::new(RecordingJobs::default());
    let (_, cron, _toolbox) = tools(&jobs);
    let here = from(JobOrigin::Client);
    for (arguments, word) in [
        (json!({"action": "add", "every_s": 60}), "'message' is missing"),
        (json!({"action": "add", "message": "x"}), "exactly one"),
        (json!({"action": "add", "message": "x", "every_s": 60, "cron": "@daily"}), "exactly one"),
        (json!({"action": "add", "message": "x", "cron": "* * * *"}), "4 fields"),
        (json!({"action": "add", "message": "x", "cron": "@daily", "tz": "Europe/Berln"}), "Europe/Berlin"),
        (json!({"action": "add", "message": "x", "every_s": 60, "tz": "UTC"}), "without it"),
        (json!({"action": "add", "message": "x", "at": "tomorrow"}), "'at' is no time"),
        (json!({"action": "remove"}), "'id' is missing"),
        (json!({"action": "remove", "id": "sched_x"}), "no schedule 'sched_x'"),
    ] {
        let error = make(cron.as_ref(), arguments, &here).unwrap_err();
        assert!(error.contains(word), "{error}");
    }
    assert!(jobs.schedules_added.lock().unwrap().is_empty());
    let add = json!({"action": "add", "name": "tea", "message": "drink", "at": "2030-01-01T00:00", "tz": "Europe/Berlin"});
    let added = make(cron.as_ref(), add, &here).unwrap();
    assert_eq!(added["timing"], json!({"at": "2029-12-31T23:00:00Z"}));
    let new_schedule = jobs.schedules_added.lock().unwrap().pop().unwrap();
    assert_eq!((new_schedule.name.as_deref(), new_schedule.message.as_str()), (Some("tea"), "drink"));
    assert_eq!(new_schedule.timing, Timing::At(1_893_452_400_000));
    let listed = make(cron.as_ref(), json!({"action": "list"}), &here).unwrap();
    assert_eq!(listed["schedules"][0]["last_status"], "failed");
    let remove = json!({"action": "remove", "id": ScheduleId::from_bits(3).to_string()});
    assert!(make(cron.as_ref(), remove.clone(), &here).is_ok());
    let other = ToolContext { user: UserId(2), ..from(JobOrigin::Client) };
    assert!(make(cron.as_ref(), remove, &other).unwrap_err().contains("no schedule"), "P7");
}
