//! `/healthz` and `/readyz`. Owns how long a probe may take and how long its answer holds; refuses to know what is probed.

use super::door::Door;
use super::error::Error;
use super::reply::{self, Reply};
use super::shutdown::Stage;
use crate::http::blocking::blocking;
use crate::ports::ReadinessProbe;
use hyper::StatusCode;
use serde::Serialize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Probes that take longer count as failed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// An answer younger than this is given again, milliseconds.
const FRESH_MS: u64 = 1_000;

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct Health {
    status: &'static str,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct Verdict {
    status: &'static str,
    checks: Vec<Check>,
}

/// What the probes said last. A probe commits to the disk, so whoever asks more often gets the same answer again.
pub(crate) struct Readiness {
    /// One asks the probes at a time: they may block, and a hung one must not eat thread after thread.
    turn: Arc<Semaphore>,
    last: Mutex<Option<(u64, Vec<Check>)>>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self { turn: Arc::new(Semaphore::new(1)), last: Mutex::new(None) }
    }
}

impl Readiness {
    fn fresh(&self, now_ms: u64) -> Option<Vec<Check>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref()
            .filter(|(at, _)| now_ms.saturating_sub(*at) < FRESH_MS)
            .map(|(_, checks)| checks.clone())
    }

    fn keep(&self, now_ms: u64, checks: &[Check]) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((now_ms, checks.to_vec()));
    }
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Check {
    name: &'static str,
    ok: bool,
    // What does not work and what to do about it; beside `ok: true`, what the server is of use without.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Alive: answering is the proof.
pub(crate) fn alive() -> Reply {
    reply::json(StatusCode::OK, &Health { status: "ok" })
}

/// What all checks together mean: whoever sends clients here looks at the code alone.
fn verdict(checks: &[Check]) -> (StatusCode, &'static str) {
    if checks.iter().any(|check| !check.ok) {
        (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
    } else if checks.iter().any(|check| check.reason.is_some()) {
        (StatusCode::OK, "degraded")
    } else {
        (StatusCode::OK, "ok")
    }
}

/// Ready, or not and why.
pub(crate) async fn ready(door: &Arc<Door>) -> Result<Reply, Error> {
    let mut checks = probe(door).await;
    if door.shutdown.stage() > Stage::Open {
        checks.push(Check {
            name: "shutdown",
            ok: false,
            reason: Some("the server is shutting down; ask again when it has started anew".into()),
        });
    }
    let (code, status) = verdict(&checks);
    Ok(reply::json(code, &Verdict { status, checks }))
}

async fn probe(door: &Arc<Door>) -> Vec<Check> {
    let asked = async {
        let turn = Arc::clone(&door.readiness.turn).acquire_owned().await.ok();
        if let Some(checks) = door.readiness.fresh(door.room.clock.monotonic_ms()) {
            return checks;
        }
        let (room, readiness) = (Arc::clone(&door.room), Arc::clone(&door.readiness));
        let asking = blocking(move || {
            let _turn = turn; // held until the probes have answered, even when nobody waits any more
            let checks: Vec<_> = room.probes.iter().map(|probe| asked_of(probe.as_ref())).collect();
            readiness.keep(room.clock.monotonic_ms(), &checks);
            checks
        });
        asking.await.unwrap_or_else(|_| vec![check("probes", Err("a probe panicked".to_owned()))])
    };
    let late = |_| {
        let reason = format!("no answer within {} seconds", PROBE_TIMEOUT.as_secs());
        vec![check("probes", Err(reason))]
    };
    tokio::time::timeout(PROBE_TIMEOUT, asked).await.unwrap_or_else(late)
}

fn asked_of(probe: &dyn ReadinessProbe) -> Check {
    let check = check(probe.name(), probe.check());
    if check.ok { Check { reason: probe.degradation(), ..check } } else { check }
}

fn check(name: &'static str, found: Result<(), String>) -> Check {
    Check { name, ok: found.is_ok(), reason: found.err() }
}
