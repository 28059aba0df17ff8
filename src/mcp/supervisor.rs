//! Supervises one server: opens its session, follows changes of its tools, and restarts it with exponential
//! backoff.

use super::catalogue::Catalogue;
use super::server::{McpPorts, Server, ServerState};
use super::session::{Session, SessionError, describe_error, list_tools, open, usable_tools};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// First and longest pause before a restart.
const FIRST_PAUSE_S: u64 = 1;
const LONGEST_PAUSE_S: u64 = 60;
/// After a session of this length the backoff starts again.
const STABLE_MS: u64 = 60_000;
/// Minimum time between two listings that a server requests.
const LISTING_PAUSE: Duration = Duration::from_secs(1);

/// Runs the server until `stop` becomes true.
pub(super) async fn supervise(
    server: Arc<Server>,
    catalogue: Arc<Catalogue>,
    ports: McpPorts,
    mut stop: watch::Receiver<bool>,
) {
    let mut failures = 0;
    loop {
        let started_ms = server.clock.monotonic_ms();
        server.set_state(ServerState::Starting);
        let opened = tokio::select! {
            opened = open(&server.name, &server.options, &ports) => opened,
            () = stopped(&mut stop) => break,
        };
        let error = match opened {
            Ok((session, tools)) => {
                publish(&server, &catalogue, tools);
                server.set_state(ServerState::Running(session.peer.clone()));
                match follow(session, &server, &catalogue, &mut stop).await {
                    None => break,
                    Some(reason) => SessionError { reason, stderr: String::new() },
                }
            }
            Err(error) => error,
        };
        let lasted_ms = server.clock.monotonic_ms().saturating_sub(started_ms);
        failures = if lasted_ms >= STABLE_MS { 1 } else { failures + 1 };
        if !wait_for_restart(&server, error, failures, &mut stop).await {
            break;
        }
    }
    server.set_state(ServerState::Stopped);
}

/// Waits for the next start. False if the server is to stop instead.
async fn wait_for_restart(
    server: &Server,
    error: SessionError,
    failures: u32,
    stop: &mut watch::Receiver<bool>,
) -> bool {
    let SessionError { reason, stderr } = error;
    let pause_s = server.options.restart.then(|| pause_s(failures));
    tracing::warn!(server = server.name, reason, stderr, restart_in_s = pause_s, "MCP server is not running");
    let now_ms = server.clock.monotonic_ms();
    let restart_at_ms = pause_s.map(|pause_s| now_ms.saturating_add(pause_s.saturating_mul(1_000)));
    server.set_state(ServerState::Down { reason, restart_at_ms });
    let restart = async {
        match pause_s {
            Some(pause_s) => sleep(Duration::from_secs(pause_s)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = restart => true,
        () = stopped(stop) => false,
    }
}

/// Doubles with each consecutive failure.
fn pause_s(failures: u32) -> u64 {
    let doublings = failures.saturating_sub(1).min(16);
    (FIRST_PAUSE_S << doublings).min(LONGEST_PAUSE_S)
}

/// Follows a session to its end. `None` if it was stopped, else the reason why it ended.
async fn follow(
    mut session: Session,
    server: &Arc<Server>,
    catalogue: &Catalogue,
    stop: &mut watch::Receiver<bool>,
) -> Option<String> {
    let (changed, peer) = (Arc::clone(&session.tools_changed), session.peer.clone());
    let list_timeout = Duration::from_secs(server.options.start_timeout_s);
    let relist = async {
        loop {
            changed.notified().await;
            let error = match timeout(list_timeout, list_tools(&peer)).await {
                Ok(Ok(tools)) => {
                    refresh(server, catalogue, tools);
                    None
                }
                Ok(Err(error)) => Some(describe_error(&error)),
                Err(_) => Some(format!("no answer within {} s", list_timeout.as_secs())),
            };
            if let Some(error) = error {
                tracing::warn!(server = server.name, error, "cannot list the changed tools of an MCP server");
            }
            // Changes during the pause cause one listing after it.
            sleep(LISTING_PAUSE).await;
        }
    };
    let end_reason = tokio::select! {
        reason = session.closed() => Some(reason),
        () = stopped(stop) => None,
        () = relist => None,
    };
    // No call may use a session that is being closed.
    server.set_state(ServerState::Stopped);
    session.close().await;
    end_reason
}

/// Publishes the tools if they differ from the known ones.
pub(super) fn refresh(server: &Arc<Server>, catalogue: &Catalogue, tools: Vec<rmcp::model::Tool>) {
    if server.tools() != usable_tools(tools.clone()).0 {
        publish(server, catalogue, tools);
    }
}

fn publish(server: &Arc<Server>, catalogue: &Catalogue, tools: Vec<rmcp::model::Tool>) {
    let (tools, unusable) = usable_tools(tools);
    for (tool, reason) in unusable {
        tracing::warn!(server = server.name, tool, reason, "left out a tool of an MCP server");
    }
    tracing::info!(server = server.name, tools = tools.len(), "MCP server listed its tools");
    server.set_tools(tools);
    catalogue.rebuild();
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A closed channel means the same.
    drop(stop.wait_for(|stop| *stop).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute() {
        let pauses: Vec<u64> = (1..=9).map(pause_s).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(pause_s(u32::MAX), 60);
    }
}
