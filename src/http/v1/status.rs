//! `GET /v1/status`: the state of the server. It calls no provider. Administrators see all of it; for others
//! only their own jobs are counted, and what shows the configuration or the use of others is null (P7).

use crate::domain::account::Role;
use crate::domain::id::UserId;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::health;
use crate::http::readiness::ReadinessCheck;
use crate::http::request::context::RequestContext;
use crate::http::response::{self, HandlerResult};
use crate::ports::{
    McpServerInfo, McpServerState, ModelHealth, ModelInfo, ModelState, Percentiles, SandboxLevelInfo,
    SandboxLevelState, ServerFigures, StoreStats,
};
use hyper::StatusCode;
use serde::Serialize;
use std::sync::Arc;

/// Checks younger than this are given again, milliseconds: pages ask every few seconds, and a check commits
/// to the disk.
const CHECKS_AGE_MS: u64 = 10_000;

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct StatusResponse {
    object: &'static str,
    version: &'static str,
    mode: &'static str,
    /// Unix seconds.
    started_at: Option<u64>,
    uptime_s: Option<u64>,
    workers: WorkersStatus,
    /// Null if the store cannot be read.
    jobs: Option<JobsStatus>,
    /// Open event streams.
    streams: Option<u64>,
    /// Resident memory of the process.
    memory_bytes: Option<u64>,
    store: Option<StoreStatus>,
    first_token_ms: Option<PercentilesMs>,
    job_ms: Option<PercentilesMs>,
    models: Vec<ModelStatus>,
    mcp: Option<Vec<McpStatus>>,
    sandbox: Vec<SandboxStatus>,
    checks: Option<Vec<CheckStatus>>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
struct WorkersStatus {
    busy: u64,
    total: u64,
}

// Unfinished jobs.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
struct JobsStatus {
    /// Jobs that have not started, delayed ones and lines of batches included.
    queued: u64,
    /// Those of them that wait for their time.
    delayed: Option<u64>,
    /// Jobs that wait for an approval.
    waiting: u64,
    running: u64,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
struct StoreStatus {
    bytes: u64,
    commit_ms: Option<PercentilesMs>,
}

// Of the times since the start; estimated from the buckets of a histogram.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct PercentilesMs {
    p50: f64,
    p99: f64,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
struct ModelStatus {
    id: String,
    name: String,
    /// Host of the provider.
    provider: Option<String>,
    state: ModelState,
    /// When the provider is asked again, unix seconds.
    until: Option<u64>,
    reason: Option<String>,
    /// Calls since the start.
    calls: Option<u64>,
    failures: Option<u64>,
    /// Whether chat requests that name no tools get the server's tools.
    agent: bool,
    /// Whether it reads images.
    vision: bool,
    context_window: Option<u32>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
struct McpStatus {
    name: String,
    state: McpServerState,
    reason: Option<String>,
    tools: usize,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
struct SandboxStatus {
    level: &'static str,
    state: SandboxLevelState,
    reason: Option<String>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
struct CheckStatus {
    name: &'static str,
    ok: bool,
    reason: Option<String>,
    hint: Option<String>,
}

pub(crate) async fn show(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let is_admin = request.caller.role == Role::Admin;
    let checks = if is_admin { Some(health::probe(context, CHECKS_AGE_MS).await) } else { None };
    let (app, user) = (Arc::clone(&context.app), request.user);
    let read = move || if is_admin { of_server(&app, checks) } else { of_user(&app, user) };
    Ok(response::json(StatusCode::OK, &context.app.blocking(user, read).await?))
}

/// What administrators see.
fn of_server(app: &AppDependencies, checks: Option<Vec<ReadinessCheck>>) -> StatusResponse {
    let figures = app.status.figures();
    let stats =
        app.status.store().inspect_err(|error| tracing::warn!(%error, "cannot read the store's state"));
    let stats = stats.ok();
    StatusResponse {
        started_at: Some(figures.started_at_ms / 1_000),
        uptime_s: Some(app.status.uptime_s()),
        jobs: stats.as_ref().map(JobsStatus::of_server),
        streams: Some(figures.streams),
        memory_bytes: figures.memory_bytes,
        store: stats.map(|stats| StoreStatus {
            bytes: stats.file_bytes,
            commit_ms: figures.commit.map(PercentilesMs::of),
        }),
        first_token_ms: figures.first_token.map(PercentilesMs::of),
        job_ms: figures.job.map(PercentilesMs::of),
        mcp: Some(app.status.mcp_servers().into_iter().map(McpStatus::of).collect()),
        checks: checks.map(|checks| checks.into_iter().map(CheckStatus::of).collect()),
        ..StatusResponse::common(app, &figures, true)
    }
}

/// What other users see.
fn of_user(app: &AppDependencies, user: UserId) -> StatusResponse {
    let counts = app.status.jobs_of(user);
    let counts = counts.inspect_err(|error| tracing::warn!(%error, "cannot count the jobs of a user"));
    let jobs = counts.ok().map(|counts| JobsStatus {
        queued: counts.queued,
        delayed: None,
        waiting: counts.waiting,
        running: counts.running,
    });
    StatusResponse { jobs, ..StatusResponse::common(app, &app.status.figures(), false) }
}

impl StatusResponse {
    /// What everybody sees.
    fn common(app: &AppDependencies, figures: &ServerFigures, is_admin: bool) -> Self {
        let health = app.model.health(app.clock.monotonic_ms());
        let now_ms = app.clock.now_ms();
        let model = |info: ModelInfo| {
            let health = health.iter().find(|health| health.id == info.id);
            let model = ModelStatus::of(info, health, figures, now_ms);
            if is_admin { model } else { model.for_users() }
        };
        let hidden =
            |level: SandboxLevelInfo| SandboxLevelInfo { reason: level.reason.filter(|_| is_admin), ..level };
        Self {
            object: "status",
            version: env!("CARGO_PKG_VERSION"),
            mode: app.auth.mode.as_str(),
            started_at: None,
            uptime_s: None,
            workers: WorkersStatus { busy: figures.workers_busy, total: figures.workers },
            jobs: None,
            streams: None,
            memory_bytes: None,
            store: None,
            first_token_ms: None,
            job_ms: None,
            models: app.model.models().into_iter().map(model).collect(),
            mcp: None,
            sandbox: app.status.sandbox_levels().into_iter().map(hidden).map(SandboxStatus::of).collect(),
            checks: None,
        }
    }
}

impl JobsStatus {
    fn of_server(stats: &StoreStats) -> Self {
        let StoreStats { queued, delayed, waiting, running, .. } = *stats;
        Self { queued, delayed: Some(delayed), waiting, running }
    }
}

impl PercentilesMs {
    /// Rounded to microseconds.
    pub(crate) fn of(Percentiles { p50_ms, p99_ms }: Percentiles) -> Self {
        let rounded = |ms: f64| (ms * 1_000.0).round() / 1_000.0;
        Self { p50: rounded(p50_ms), p99: rounded(p99_ms) }
    }
}

impl ModelStatus {
    fn of(info: ModelInfo, health: Option<&ModelHealth>, figures: &ServerFigures, now_ms: u64) -> Self {
        let retry_in_ms = health.and_then(|health| health.retry_in_ms);
        let made = figures.models.iter().find(|made| made.model == info.id);
        Self {
            id: info.id,
            name: info.name,
            provider: info.host,
            state: health.map_or(ModelState::Unknown, |health| health.state),
            until: retry_in_ms.map(|ms| now_ms.saturating_add(ms).div_ceil(1_000)),
            reason: health.and_then(|health| health.reason.clone()),
            calls: Some(made.map_or(0, |made| made.calls)),
            failures: Some(made.map_or(0, |made| made.failures)),
            agent: info.is_agent,
            vision: info.sees_images,
            context_window: info.context_window,
        }
    }

    /// Without the provider, and without what the calls of others have shown but the state.
    fn for_users(self) -> Self {
        Self { provider: None, reason: None, calls: None, failures: None, ..self }
    }
}

impl McpStatus {
    fn of(McpServerInfo { name, state, reason, tools }: McpServerInfo) -> Self {
        Self { name, state, reason, tools }
    }
}

impl SandboxStatus {
    fn of(SandboxLevelInfo { level, state, reason }: SandboxLevelInfo) -> Self {
        Self { level, state, reason }
    }
}

impl CheckStatus {
    fn of(check: ReadinessCheck) -> Self {
        let (reason, hint) = check.fault.map_or((None, None), |fault| (Some(fault.reason), fault.hint));
        Self { name: check.name, ok: check.ok, reason, hint }
    }
}
