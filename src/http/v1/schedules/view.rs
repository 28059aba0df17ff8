//! A schedule as clients see it.

use crate::domain::account::QuotaKind;
use crate::domain::id::{JobId, ScheduleId};
use crate::domain::job::JobStatus;
use crate::domain::timing::{DEFAULT_ZONE, Timing};
use crate::ports::ScheduleStatus;
use serde::Serialize;
use serde_json::{Map, Value};

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Serialize)]
pub(crate) struct ScheduleResponse {
    id: ScheduleId,
    object: &'static str,
    name: Option<String>,
    at: Option<u64>,
    every_s: Option<u64>,
    cron: Option<String>,
    tz: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<Map<String, Value>>,
    created_at: u64,
    /// Whether it is paused. `next_run_at` is `null` then.
    paused: bool,
    next_run_at: Option<u64>,
    last_run: Option<LastRunResponse>,
    runs: u64,
    last_skip: Option<SkippedRunResponse>,
    /// When the server's clock had gone back and `next_run_at` was computed again. The schedule may have run
    /// too early or not at all before.
    clock_went_back_at: Option<u64>,
}

/// The last occurrence that was skipped, because a quota of the account was used up.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Serialize)]
struct SkippedRunResponse {
    at: u64,
    quota: QuotaKind,
}

/// The newest job of a schedule. Its status is `null` once the job is deleted.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Serialize)]
struct LastRunResponse {
    job_id: JobId,
    status: Option<JobStatus>,
    at: u64,
}

impl ScheduleResponse {
    /// Without the job request, for lists.
    pub(crate) fn brief(status: ScheduleStatus) -> Self {
        let ScheduleStatus { schedule, last_status } = status;
        let (at, every_s, cron) = match &schedule.timing {
            Timing::At(at_ms) => (Some(seconds(*at_ms)), None, None),
            Timing::Every { seconds, .. } => (None, Some(*seconds), None),
            Timing::Cron(cron) => (None, None, Some(cron)),
        };
        let last_run = schedule.last_job.zip(schedule.last_run_ms);
        Self {
            id: schedule.id,
            object: "schedule",
            name: schedule.name,
            at,
            every_s,
            tz: cron.map_or(DEFAULT_ZONE, |cron| cron.zone()).to_owned(),
            cron: cron.map(|cron| cron.expression().to_owned()),
            job: None,
            created_at: seconds(schedule.created_at_ms),
            paused: schedule.is_paused,
            next_run_at: schedule.next_run_ms.map(seconds),
            last_run: last_run.map(|(job_id, at_ms)| LastRunResponse {
                job_id,
                status: last_status,
                at: seconds(at_ms),
            }),
            runs: schedule.runs,
            clock_went_back_at: schedule.recomputed_ms.map(seconds),
            last_skip: schedule
                .last_skip
                .map(|skip| SkippedRunResponse { at: seconds(skip.at_ms), quota: skip.quota }),
        }
    }

    /// With the job request as the client wrote it.
    pub(crate) fn whole(status: ScheduleStatus, given: Map<String, Value>) -> Self {
        Self { job: Some(given), ..Self::brief(status) }
    }
}

pub(super) fn seconds(millis: u64) -> u64 {
    millis / 1_000
}
