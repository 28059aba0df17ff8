//! From the JSON of a request to a schedule. Its `job` is read as a job of `/v1/jobs`.

use crate::domain::account::Role;
use crate::domain::id::UserId;
use crate::domain::job::JobSpec;
use crate::domain::timing::{EVERY_MAX_S, Timing, TimingRequest};
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::values::{PlainText, UnixMillis, WholeNumber};
use crate::http::v1::jobs::spec;
use crate::ports::MinInterval;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Fields of a job that make sense for one run only.
const OF_ONE_RUN: [&str; 5] = ["run_at", "after", "on_failure", "deadline_at", "expires_at"];

/// The body of `POST /v1/schedules`.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleRequest {
    name: Option<PlainText<1, 64>>,
    at: Option<UnixMillis>,
    every_s: Option<WholeNumber<1, EVERY_MAX_S>>,
    cron: Option<String>,
    tz: Option<String>,
    job: Map<String, Value>,
}

/// The body of `POST /v1/schedules/preview`: the timing of a schedule.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PreviewRequest {
    at: Option<UnixMillis>,
    every_s: Option<WholeNumber<1, EVERY_MAX_S>>,
    cron: Option<String>,
    tz: Option<String>,
}

/// The body of `PATCH /v1/schedules/{id}`.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleChange {
    pub(crate) paused: bool,
}

/// A valid request.
pub(crate) struct ValidSchedule {
    pub(crate) name: Option<String>,
    pub(crate) timing: Timing,
    pub(crate) spec: JobSpec,
    pub(crate) given: Map<String, Value>,
}

impl ScheduleRequest {
    pub(crate) fn check(
        self,
        app: &AppDependencies,
        user: UserId,
        role: Role,
    ) -> Result<ValidSchedule, ApiError> {
        let Self { name, at, every_s, cron, tz, job } = self;
        let timing = PreviewRequest { at, every_s, cron, tz }.check(app, role)?;
        let given = job;
        let is_given = |name: &&&str| given.get(**name).is_some_and(|value| !value.is_null());
        if let Some(name) = OF_ONE_RUN.iter().find(is_given) {
            let reason =
                format!("a schedule's job has no '{name}': the schedule says when it runs, again and again");
            return Err(ApiError::value(&format!("job.{name}"), reason));
        }
        let spec = spec::from_json(given.clone(), app, user).map_err(inside_job)?;
        Ok(ValidSchedule { name: name.map(|name| name.0), timing, spec, given })
    }
}

impl PreviewRequest {
    pub(crate) fn check(self, app: &AppDependencies, role: Role) -> Result<Timing, ApiError> {
        let timing = TimingRequest {
            at_ms: self.at.map(|at| at.0),
            every_s: self.every_s.map(|seconds| seconds.0),
            cron: self.cron,
            tz: self.tz,
        };
        let timing = timing.check(app.clock.now_ms()).map_err(|fault| match fault.key {
            Some("at") => {
                ApiError::value("at", format!("{}; to run something now, POST it to /v1/jobs", fault.message))
            }
            Some(key) => ApiError::value(key, fault.message),
            None => ApiError::malformed(fault.message),
        })?;
        let field = if matches!(timing, Timing::Every { .. }) { "every_s" } else { "cron" };
        MinInterval::of_role(role, &app.limits).check(&timing, app.clock.now_ms()).map_err(|error| {
            ApiError::value(field, format!("{error}; choose a longer interval, or ask an administrator"))
        })?;
        Ok(timing)
    }
}

/// Puts `job.` before the name of a field of the job.
fn inside_job(error: ApiError) -> ApiError {
    match error {
        ApiError::Invalid { message, param, code } => {
            let param = param.map_or_else(|| "job".to_owned(), |name| format!("job.{name}"));
            ApiError::Invalid { message, param: Some(param), code }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::typed::from_map;
    use crate::http::testing::{MemoryStore, app};
    use serde_json::json;
    use std::sync::Arc;

    /// The time of the test clock.
    const NOW_S: u64 = 1_700_000_000;

    fn asked(value: Value) -> Result<ValidSchedule, ApiError> {
        asked_by(Role::Admin, value)
    }

    fn asked_by(role: Role, value: Value) -> Result<ValidSchedule, ApiError> {
        let Value::Object(map) = value else { panic!("an object") };
        let request: ScheduleRequest = from_map(map)?;
        request.check(&app(&Arc::new(MemoryStore::default())), UserId::SINGLE, role)
    }

    fn refused(value: Value) -> (String, String) {
        match asked(value).err().expect("refused") {
            ApiError::Invalid { message, param, .. } => (param.unwrap_or_default(), message),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_schedule_timing_is_parsed() {
        let timing = |field: &str, value: Value| {
            asked(json!({field: value, "job": {"input": "x"}})).expect("a schedule").timing
        };
        assert_eq!(timing("at", json!(NOW_S + 5)), Timing::At((NOW_S + 5) * 1_000));
        assert_eq!(
            timing("at", json!(NOW_S - 30)),
            Timing::At((NOW_S - 30) * 1_000),
            "a moment ago means now"
        );
        assert_eq!(timing("at", json!("2030-01-01T00:00:00+01:00")), Timing::At(1_893_452_400_000));
        assert_eq!(
            timing("every_s", json!(60)),
            Timing::Every { seconds: 60, anchor_ms: NOW_S * 1_000 + 123 }
        );
        let Timing::Cron(cron) = timing("cron", json!("30 9 * * MON-FRI")) else { panic!("a cron") };
        assert_eq!((cron.expression(), cron.zone()), ("30 9 * * MON-FRI", "UTC"));
    }

    #[test]
    fn p8_schedules_of_users_have_a_least_interval_and_those_of_administrators_none() {
        let often = |field: &str, value: Value| json!({field: value, "job": {"input": "x"}});
        for (field, value) in [("every_s", json!(59)), ("cron", json!("*/30 * * * * *"))] {
            match asked_by(Role::User, often(field, value.clone())).err().expect("refused") {
                ApiError::Invalid { message, param, .. } => {
                    assert_eq!(param.as_deref(), Some(field), "{message}");
                    assert!(
                        message.contains("every 60 s") && message.contains("limits.schedule_s"),
                        "{message}"
                    );
                }
                other => panic!("{other:?}"),
            }
            assert!(asked_by(Role::Admin, often(field, value)).is_ok(), "{field}");
        }
        for (field, value) in [("every_s", json!(60)), ("cron", json!("* * * * *")), ("at", json!(NOW_S + 1))]
        {
            assert!(asked_by(Role::User, often(field, value)).is_ok(), "{field}");
        }
    }

    #[test]
    fn schedule_errors_name_their_field() {
        let job = json!({"input": "x"});
        for (body, param, word) in [
            (json!({"job": job}), "", "exactly one"),
            (json!({"job": job, "at": NOW_S + 5, "every_s": 1}), "", "exactly one"),
            (json!({"job": job, "cron": "@daily", "every_s": 1}), "", "exactly one"),
            (json!({"job": job, "every_s": 0}), "every_s", "1 to 315360000"),
            (json!({"job": job, "every_s": 315_360_001}), "every_s", "1 to 315360000"),
            (json!({"job": job, "every_s": 5, "tz": "UTC"}), "tz", "without it"),
            (json!({"job": job, "at": NOW_S - 100}), "at", "in the past"),
            (json!({"job": job, "at": "tomorrow"}), "at", "RFC 3339"),
            (json!({"job": job, "cron": "* * * *"}), "cron", "4 fields"),
            (json!({"job": job, "cron": 5}), "cron", "a string"),
            (json!({"job": job, "cron": "0 0 30 2 *"}), "cron", "never"),
            (json!({"job": job, "cron": "@daily", "tz": "Europe/Berln"}), "tz", "Europe/Berlin"),
            (json!({"job": job, "every_s": 1, "name": ""}), "name", "1 to 64"),
            (json!({"job": job, "every_s": 1, "name": "x".repeat(65)}), "name", "1 to 64"),
            (json!({"job": job, "evry_s": 1}), "evry_s", "every_s"),
            (json!({"every_s": 1}), "job", "missing"),
            (json!({"every_s": 1, "job": "x"}), "job", "an object"),
            (json!({"every_s": 1, "job": {"input": ""}}), "job.input", "is empty"),
            (json!({"every_s": 1, "job": {"input": "x", "temprature": 1}}), "job.temprature", "temperature"),
            (json!({"every_s": 1, "job": {"input": "x", "run_at": NOW_S + 9}}), "job.run_at", "says when"),
        ] {
            let (place, message) = refused(body.clone());
            assert_eq!(place, param, "{body}: {message}");
            assert!(message.contains(word), "{body}: {message}");
        }
    }
}
