//! `/healthz` and `/readyz`.

use super::blocking::on_own_thread;
use super::context::ServerContext;
use super::readiness::{DegradedPart, ReadinessCheck};
use super::request::context::RequestContext;
use super::response::{self, HandlerResult, HttpResponse};
use super::server::shutdown::ShutdownStage;
use crate::ports::{PartFault, ReadinessProbe};
use hyper::StatusCode;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// A probe that takes longer has failed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// `/readyz` gives a result younger than this again, milliseconds.
const FRESH_MS: u64 = 1_000;

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
    let mut checks = probe(context, FRESH_MS).await;
    if context.shutdown.stage() > ShutdownStage::Open {
        let fault = PartFault::new("the server is shutting down", "ask again when it has started anew");
        checks.push(check("shutdown", Err(fault)));
    }
    let (code, status) = overall_status(&checks);
    let degraded = checks.iter().filter_map(|check| check.degraded.clone()).collect();
    Ok(response::json(code, &ReadinessResponse { status, checks, degraded }))
}

/// The results of all probes, younger than `max_age_ms`.
pub(crate) async fn probe(context: &Arc<ServerContext>, max_age_ms: u64) -> Vec<ReadinessCheck> {
    let probing = async {
        let turn = Arc::clone(&context.readiness.turn).acquire_owned().await.ok();
        if let Some(checks) = context.readiness.fresh(context.app.clock.monotonic_ms(), max_age_ms) {
            return checks;
        }
        let (app, readiness) = (Arc::clone(&context.app), Arc::clone(&context.readiness));
        let asking = on_own_thread("readiness", move || {
            let _turn = turn; // held until the probes have answered, even if the client leaves
            let checks: Vec<_> = app.probes.iter().map(|probe| run_probe(probe.as_ref())).collect();
            readiness.keep(app.clock.monotonic_ms(), &checks);
            checks
        });
        asking.await.unwrap_or_else(|_| vec![check("probes", Err("a probe panicked".to_owned().into()))])
    };
    let late = |_| {
        let reason = format!("no answer within {} seconds", PROBE_TIMEOUT.as_secs());
        vec![check("probes", Err(reason.into()))]
    };
    tokio::time::timeout(PROBE_TIMEOUT, probing).await.unwrap_or_else(late)
}

fn run_probe(probe: &dyn ReadinessProbe) -> ReadinessCheck {
    let check = check(probe.name(), probe.check());
    if !check.ok {
        return check;
    }
    let fault = probe.degradation();
    let reason = fault.as_ref().map(ToString::to_string);
    let degraded = reason.clone().map(|reason| DegradedPart { part: probe.part(), reason });
    ReadinessCheck { ok: fault.is_none() || !probe.is_off(), reason, fault, degraded, ..check }
}

fn check(name: &'static str, found: Result<(), PartFault>) -> ReadinessCheck {
    let fault = found.err();
    let reason = fault.as_ref().map(ToString::to_string);
    ReadinessCheck { name, ok: fault.is_none(), is_fatal: fault.is_some(), reason, fault, degraded: None }
}
