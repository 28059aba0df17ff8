//! `/healthz` and `/readyz`.

use super::blocking::blocking;
use super::context::ServerContext;
use super::readiness::{DegradedPart, ReadinessCheck};
use super::request::context::RequestContext;
use super::response::{self, HandlerResult, HttpResponse};
use super::server::shutdown::ShutdownStage;
use crate::ports::ReadinessProbe;
use hyper::StatusCode;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// A probe that takes longer has failed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct HealthResponse {
    status: &'static str,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct ReadinessResponse {
    status: &'static str,
    checks: Vec<ReadinessCheck>,
    // The parts of a ready server that do not work, or not fully.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    degraded: Vec<DegradedPart>,
}

/// `/healthz`: to answer is the proof. It reads no store, so it works while the store recovers.
pub(crate) fn alive(_: &ServerContext, _: &RequestContext) -> HttpResponse {
    response::json(StatusCode::OK, &HealthResponse { status: "ok" })
}

/// The overall result. Load balancers look at the status code alone.
fn overall_status(checks: &[ReadinessCheck]) -> (StatusCode, &'static str) {
    if checks.iter().any(|check| check.is_fatal) {
        (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
    } else if checks.iter().any(|check| check.reason.is_some()) {
        (StatusCode::OK, "degraded")
    } else {
        (StatusCode::OK, "ok")
    }
}

/// `/readyz`.
pub(crate) async fn ready(context: &Arc<ServerContext>, _: &RequestContext) -> HandlerResult {
    let mut checks = probe(context).await;
    if context.shutdown.stage() > ShutdownStage::Open {
        checks.push(ReadinessCheck {
            name: "shutdown",
            ok: false,
            is_fatal: true,
            reason: Some("the server is shutting down; ask again when it has started anew".into()),
            degraded: None,
        });
    }
    let (code, status) = overall_status(&checks);
    let degraded = checks.iter().filter_map(|check| check.degraded.clone()).collect();
    Ok(response::json(code, &ReadinessResponse { status, checks, degraded }))
}

async fn probe(context: &Arc<ServerContext>) -> Vec<ReadinessCheck> {
    let probing = async {
        let turn = Arc::clone(&context.readiness.turn).acquire_owned().await.ok();
        if let Some(checks) = context.readiness.fresh(context.app.clock.monotonic_ms()) {
            return checks;
        }
        let (app, readiness) = (Arc::clone(&context.app), Arc::clone(&context.readiness));
        let asking = blocking(move || {
            let _turn = turn; // held until the probes have answered, even if the client leaves
            let checks: Vec<_> = app.probes.iter().map(|probe| run_probe(probe.as_ref())).collect();
            readiness.keep(app.clock.monotonic_ms(), &checks);
            checks
        });
        asking.await.unwrap_or_else(|_| vec![check("probes", Err("a probe panicked".to_owned()))])
    };
    let late = |_| {
        let reason = format!("no answer within {} seconds", PROBE_TIMEOUT.as_secs());
        vec![check("probes", Err(reason))]
    };
    tokio::time::timeout(PROBE_TIMEOUT, probing).await.unwrap_or_else(late)
}

fn run_probe(probe: &dyn ReadinessProbe) -> ReadinessCheck {
    let check = check(probe.name(), probe.check());
    if !check.ok {
        return check;
    }
    let reason = probe.degradation();
    let degraded = reason.clone().map(|reason| DegradedPart { part: probe.part(), reason });
    ReadinessCheck { ok: reason.is_none() || !probe.is_off(), reason, degraded, ..check }
}

fn check(name: &'static str, found: Result<(), String>) -> ReadinessCheck {
    let (ok, is_fatal) = (found.is_ok(), found.is_err());
    ReadinessCheck { name, ok, is_fatal, reason: found.err(), degraded: None }
}
