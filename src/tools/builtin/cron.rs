//! `cron`: schedules of the job's user. A job of a schedule cannot make schedules: that would never end.

use super::builtin_tool::{ACTS, BuiltinTool, spec, trimmed};
use super::submit_job::{caller, rejected, rights_without_submission};
use crate::domain::id::ScheduleId;
use crate::domain::job::{JobOrigin, JobStatus};
use crate::domain::schedule::Schedule;
use crate::domain::timing::{Timing, TimingRequest, read_time};
use crate::domain::tool::ToolReach;
use crate::ports::{NewSchedule, ScheduleStatus, Tool, ToolContext, ToolError};
use crate::tools::registry::{AgentServices, ToolDeps};
use serde::Deserialize;
use serde_json::{Value, json};

const NAME_CHARS: usize = 64;
/// Schedules in a list.
const MAX_LISTED: usize = 100;

#[derive(Deserialize)]
struct CronArguments {
    action: CronAction,
    name: Option<String>,
    message: Option<String>,
    at: Option<String>,
    every_s: Option<u64>,
    cron: Option<String>,
    tz: Option<String>,
    id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum CronAction {
    Add,
    List,
    Remove,
}

struct CronTool {
    agents: AgentServices,
    max_message_bytes: usize,
}

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let spec = spec(
        "cron",
        "Schedule a message to yourself in this conversation. 'add' needs message and one of at, every_s, cron; 'remove' needs \
         id; 'list' shows all. Scheduled runs get no approvals.",
        json!({
            "action": {"type": "string", "enum": ["add", "list", "remove"]},
            "name": {"type": "string", "minLength": 1, "maxLength": NAME_CHARS},
            "message": {"type": "string", "minLength": 1, "description": "All that has to be known and done then"},
            "at": {"type": "string", "description": "Once: date and time in RFC 3339"},
            "every_s": {"type": "integer", "minimum": 1, "description": "Interval in seconds"},
            "cron": {"type": "string", "description": "Five fields: minute hour day month weekday"},
            "tz": {"type": "string", "description": "IANA time zone of cron or at; default UTC"},
            "id": {"type": "string"},
        }),
        &["action"],
    );
    let tool = CronTool { agents: deps.agents.clone(), max_message_bytes: deps.options.limits.input_bytes };
    let run = move |arguments: CronArguments, context: &ToolContext| match arguments.action {
        CronAction::Add => tool.add(&arguments, context),
        CronAction::List => tool.list(context),
        CronAction::Remove => tool.remove(trimmed(arguments.id.as_deref()), context),
    };
    Box::new(BuiltinTool { reach: ToolReach::HandsIn, ..BuiltinTool::new(spec, ACTS, run) })
}

impl CronTool {
    fn add(&self, arguments: &CronArguments, context: &ToolContext) -> Result<Value, ToolError> {
        let origin = match context.origin {
            JobOrigin::Client => None,
            JobOrigin::Schedule { .. } => Some("A run of a schedule"),
            JobOrigin::Agent { .. } => Some("A background job"),
        };
        if let Some(origin) = origin {
            return Err(ToolError::failed(format!(
                "{origin} cannot make schedules; tell the user what you would have planned"
            )));
        }
        let schedule = self.new_schedule(arguments, context)?;
        let schedule =
            self.agents.jobs.schedule(&caller(context), schedule).map_err(|error| rejected(&error))?;
        Ok(schedule_json(&ScheduleStatus { schedule, last_status: None }))
    }

    fn new_schedule(
        &self,
        arguments: &CronArguments,
        context: &ToolContext,
    ) -> Result<NewSchedule, ToolError> {
        let message = trimmed(arguments.message.as_deref()).ok_or_else(|| {
            invalid(
                "'message' is missing: say what is to be done when the schedule is due. A valid call: {\"action\": \"add\", \
                 \"message\": \"<what to do>\", \"every_s\": 86400}",
            )
        })?;
        if message.len() > self.max_message_bytes {
            let max_bytes = self.max_message_bytes;
            return Err(invalid(&format!("'message' has more than {max_bytes} bytes (limits.input_bytes)")));
        }
        let name = trimmed(arguments.name.as_deref());
        Ok(NewSchedule {
            name: name.map(|name| name.chars().filter(|c| !c.is_control()).collect()),
            timing: self.timing(arguments)?,
            message: message.to_owned(),
            rights: rights_without_submission(&self.agents, context)?.of_schedule(),
        })
    }

    fn timing(&self, arguments: &CronArguments) -> Result<Timing, ToolError> {
        let CronArguments { at, cron, tz, every_s, .. } = arguments;
        let (at, cron, tz) = (trimmed(at.as_deref()), trimmed(cron.as_deref()), trimmed(tz.as_deref()));
        let at_ms = at.map(|at| {
            let seconds = at.parse::<u64>().ok().and_then(|seconds| seconds.checked_mul(1_000));
            seconds.or_else(|| read_time(at, tz)).ok_or_else(|| {
                let quoted: String = at.chars().take(64).collect();
                invalid(&format!(
                    "'at' is no time: '{quoted}'. Write it as in 2030-01-31T09:00:00+01:00, or without an offset and with a 'tz' \
                     such as Europe/Berlin"
                ))
            })
        });
        // `at` has used the zone already.
        let tz = tz.filter(|_| at.is_none() || cron.is_some()).map(str::to_owned);
        let request =
            TimingRequest { at_ms: at_ms.transpose()?, every_s: *every_s, cron: cron.map(str::to_owned), tz };
        request.check(self.agents.clock.now_ms()).map_err(|fault| invalid(&fault.message))
    }

    fn list(&self, context: &ToolContext) -> Result<Value, ToolError> {
        let listed = self.agents.jobs.schedules(&caller(context), MAX_LISTED);
        let (schedules, has_more) = listed.map_err(|error| rejected(&error))?;
        let schedules: Vec<Value> = schedules.iter().map(schedule_json).collect();
        Ok(json!({"schedules": schedules, "total": schedules.len(), "has_more": has_more}))
    }

    fn remove(&self, id: Option<&str>, context: &ToolContext) -> Result<Value, ToolError> {
        let id =
            id.ok_or_else(|| invalid(
                "'id' is missing: action 'list' tells the ids of the schedules. A valid call: {\"action\": \"remove\", \
                 \"id\": \"<id>\"}",
            ))?;
        let is_removed = match id.parse::<ScheduleId>() {
            Ok(id) => self.agents.jobs.unschedule(&caller(context), id).map_err(|error| rejected(&error))?,
            Err(_) => false,
        };
        let quoted: String = id.chars().take(64).collect();
        if is_removed {
            return Ok(json!({"removed": quoted}));
        }
        Err(ToolError::failed(format!(
            "There is no schedule '{quoted}'; action 'list' tells those that there are"
        )))
    }
}

fn schedule_json(ScheduleStatus { schedule, last_status }: &ScheduleStatus) -> Value {
    let Schedule { id, name, timing, next_run_ms, runs, is_paused, .. } = schedule;
    let timing = match timing {
        Timing::At(at_ms) => json!({"at": time(*at_ms)}),
        Timing::Every { seconds, .. } => json!({"every_s": seconds}),
        Timing::Cron(cron) => json!({"cron": cron.expression(), "tz": cron.zone()}),
    };
    json!({
        "id": id.to_string(),
        "name": name,
        "timing": timing,
        "next_run": next_run_ms.map(time),
        "paused": is_paused,
        "runs": runs,
        "last_status": last_status.map(JobStatus::as_str),
    })
}

/// The time in RFC 3339.
fn time(ms: u64) -> String {
    let instant = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    instant.map(|instant| instant.to_string()).unwrap_or_default()
}

fn invalid(message: &str) -> ToolError {
    ToolError::Invalid(message.to_owned())
}
