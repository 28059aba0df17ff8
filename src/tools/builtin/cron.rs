//! `cron`: schedules of the job's user. A job of a schedule cannot make schedules: that would never end.

use super::submit_job::{caller, refused, without_handing_in};
use crate::domain::id::ScheduleId;
use crate::domain::job::{JobOrigin, JobStatus};
use crate::domain::schedule::Schedule;
use crate::domain::timing::{Timing, TimingRequest, read_time};
use crate::domain::tool::{FileAccess, ToolReach, ToolSpec, ToolTraits};
use crate::ports::{NewSchedule, ScheduleStatus, Tool, ToolContext, ToolError};
use crate::tools::registry::{AgentServices, ToolDeps};
use serde_json::{Map, Value, json};

/// The longest name, characters.
const NAME_CHARS: usize = 64;
/// Schedules that a list shows.
const LISTED: usize = 100;

struct CronTool {
    agents: AgentServices,
    /// Of a message, bytes.
    message_bytes: usize,
}

/// For the registry.
pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    Box::new(CronTool { agents: deps.agents.clone(), message_bytes: deps.options.limits.input_bytes })
}

impl Tool for CronTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "cron".into(),
            description: "Schedules: a message to yourself, in this conversation, once or again and again. 'add' takes a message \
                          and exactly one of at, every_s and cron; 'list' shows the user's schedules; 'remove' takes an id. \
                          What a schedule runs gets no approvals: calls that need one are denied."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": ["add", "list", "remove"]},
                    "name": {"type": "string", "minLength": 1, "maxLength": NAME_CHARS, "description": "A few words for the user"},
                    "message": {"type": "string", "minLength": 1, "description": "What you are to do then: all that has to be known"},
                    "at": {"type": "string", "description": "Once: RFC 3339 as in 2030-01-31T09:00:00+01:00, or without an offset a time in tz"},
                    "every_s": {"type": "integer", "minimum": 1, "description": "Again and again after so many seconds"},
                    "cron": {"type": "string", "description": "An expression of five fields, as in 30 9 * * MON-FRI"},
                    "tz": {"type": "string", "description": "Time zone of cron or at, as in Europe/Berlin; UTC when left out"},
                    "id": {"type": "string", "description": "Which schedule to remove, sched_…"},
                },
                "required": ["action"],
                "additionalProperties": false,
            }),
        }
    }

    /// Adding twice makes two.
    fn traits(&self) -> ToolTraits {
        ToolTraits { idempotent: false, cacheable: false, files: FileAccess::None }
    }

    fn reach(&self) -> ToolReach {
        ToolReach::HandsIn
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        let text =
            |name: &str| arguments.get(name).and_then(Value::as_str).map(str::trim).unwrap_or_default();
        match text("action") {
            "add" => self.add(arguments, context),
            "remove" => self.remove(text("id"), context),
            _ => self.list(context),
        }
    }
}

impl CronTool {
    fn add(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        match context.origin {
            JobOrigin::Client => {}
            JobOrigin::Schedule => {
                return Err(ToolError::failed(
                    "A run of a schedule cannot make schedules; tell the user what you would have planned",
                ));
            }
            JobOrigin::Agent { .. } => {
                return Err(ToolError::failed(
                    "A background job cannot make schedules; tell the user what you would have planned",
                ));
            }
        }
        let plan = self.plan(arguments, context)?;
        let added = self.agents.jobs.schedule(&caller(context), plan).map_err(|error| refused(&error))?;
        Ok(shown(&ScheduleStatus { schedule: added, last_status: None }))
    }

    fn plan(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<NewSchedule, ToolError> {
        let text = |name: &str| {
            let text = arguments.get(name).and_then(Value::as_str).map(str::trim);
            text.filter(|text| !text.is_empty())
        };
        let message = text("message").ok_or_else(|| {
            invalid("'message' is missing: say what is to be done when the schedule is due")
        })?;
        if message.len() > self.message_bytes {
            let most = self.message_bytes;
            return Err(invalid(&format!("'message' has more than {most} bytes (limits.input_bytes)")));
        }
        let name: Option<String> =
            text("name").map(|name| name.chars().filter(|c| !c.is_control()).collect());
        let timing = self.timing(text, arguments.get("every_s").and_then(Value::as_u64))?;
        let tools = without_handing_in(&self.agents, context)?;
        Ok(NewSchedule { name, timing, message: message.to_owned(), tools })
    }

    fn timing<'a>(
        &self,
        text: impl Fn(&str) -> Option<&'a str>,
        every_s: Option<u64>,
    ) -> Result<Timing, ToolError> {
        let (at, cron, tz) = (text("at"), text("cron"), text("tz"));
        let at_ms = at.map(|at| {
            let seconds = at.parse::<u64>().ok().and_then(|seconds| seconds.checked_mul(1_000));
            seconds.or_else(|| read_time(at, tz)).ok_or_else(|| {
                let shown: String = at.chars().take(64).collect();
                invalid(&format!(
                    "'at' is no time: '{shown}'. Write it as in 2030-01-31T09:00:00+01:00, or without an offset and with a 'tz' \
                     such as Europe/Berlin"
                ))
            })
        });
        // The zone of a time is used up by reading it.
        let tz = if at.is_some() && cron.is_none() { None } else { tz.map(str::to_owned) };
        let given = TimingRequest { at_ms: at_ms.transpose()?, every_s, cron: cron.map(str::to_owned), tz };
        given.check(self.agents.clock.now_ms()).map_err(|fault| invalid(&fault.message))
    }

    fn list(&self, context: &ToolContext) -> Result<Value, ToolError> {
        let (found, has_more) =
            self.agents.jobs.schedules(&caller(context), LISTED).map_err(|error| refused(&error))?;
        let schedules: Vec<Value> = found.iter().map(shown).collect();
        Ok(json!({"schedules": schedules, "total": schedules.len(), "has_more": has_more}))
    }

    fn remove(&self, id: &str, context: &ToolContext) -> Result<Value, ToolError> {
        if id.is_empty() {
            return Err(invalid("'id' is missing: action 'list' tells the ids of the schedules"));
        }
        let is_removed = match id.parse::<ScheduleId>() {
            Ok(id) => self.agents.jobs.unschedule(&caller(context), id).map_err(|error| refused(&error))?,
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

fn shown(standing: &ScheduleStatus) -> Value {
    let ScheduleStatus { schedule, last_status } = standing;
    let Schedule { id, name, timing, next_run_ms, runs, .. } = schedule;
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
        "runs": runs,
        "last_status": last_status.map(JobStatus::as_str),
    })
}

/// A time as a model reads it.
fn time(ms: u64) -> String {
    let instant = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    instant.map(|instant| instant.to_string()).unwrap_or_default()
}

fn invalid(message: &str) -> ToolError {
    ToolError::Invalid(message.to_owned())
}
