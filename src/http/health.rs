//! `/healthz` and `/readyz`. Owns how long a probe may take; refuses to know what is probed.

use super::door::Door;
use super::error::Error;
use super::reply::{self, Reply};
use super::shutdown::Stage;
use hyper::StatusCode;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// Probes that take longer count as failed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Serialize)]
struct Health {
    status: &'static str,
}

#[derive(Serialize)]
struct Readiness {
    status: &'static str,
    checks: Vec<Check>,
}

#[derive(Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Alive: answering is the proof.
pub(crate) fn alive() -> Reply {
    reply::json(StatusCode::OK, &Health { status: "ok" })
}

/// Ready, or not and why.
pub(crate) async fn ready(door: &Arc<Door>) -> Result<Reply, Error> {
    let mut checks = probe(door).await;
    if door.shutdown.stage() > Stage::Open {
        checks.push(Check {
            name: "shutdown",
            ok: false,
            reason: Some("the server is shutting down".into()),
        });
    }
    let ok = checks.iter().all(|check| check.ok);
    let (code, status) =
        if ok { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, "unavailable") };
    Ok(reply::json(code, &Readiness { status, checks }))
}

async fn probe(door: &Arc<Door>) -> Vec<Check> {
    let asked = async {
        let turn = Arc::clone(&door.probing).acquire_owned().await.ok();
        let room = Arc::clone(&door.room);
        let asking = tokio::task::spawn_blocking(move || {
            let _turn = turn; // held until the probes have answered, even when nobody waits any more
            room.probes.iter().map(|probe| check(probe.name(), probe.check())).collect()
        });
        asking.await.unwrap_or_else(|_| vec![check("probes", Err("a probe panicked".to_owned()))])
    };
    let late = |_| {
        let reason = format!("no answer within {} seconds", PROBE_TIMEOUT.as_secs());
        vec![check("probes", Err(reason))]
    };
    tokio::time::timeout(PROBE_TIMEOUT, asked).await.unwrap_or_else(late)
}

fn check(name: &'static str, found: Result<(), String>) -> Check {
    Check { name, ok: found.is_ok(), reason: found.err() }
}
