//! Supervises one server: opens its session, follows changes of its tools, and restarts it with exponential
//! backoff.

use super::catalogue::Catalogue;
use super::resources::{has_resources, with_reader};
use super::server::{McpPorts, Server, ServerState, unknown_tools};
use super::session::{Session, SessionError, describe_error, list_tools, open, usable_tools};
use rmcp::model::{ClientRequest, PingRequest};
use rmcp::service::{Peer, RoleClient};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// First and longest pause before a restart.
const FIRST_PAUSE_S: u64 = 1;
const LONGEST_PAUSE_S: u64 = 60;
/// After a session of this length the backoff starts again.
const STABLE_MS: u64 = 60_000;
/// Time to answer a ping after the time-out of a call.
const PING_GRACE: Duration = Duration::from_millis(400);
/// Minimum time between two listings that a server requests.
const LISTING_PAUSE: Duration = Duration::from_secs(1);

/// Runs the server until `stop` becomes true.
pub(super) async fn supervise(
    server: Arc<Server>,
    catalogue: Arc<Catalogue>,
    ports: McpPorts,
    mut stop: watch::Receiver<bool>,
) {
    let (mut failures, mut starts) = (0, 0_u64);
    loop {
        let started_ms = server.clock.monotonic_ms();
        server.set_state(ServerState::Starting);
        if starts > 0 {
            server.count_restart();
        }
        starts += 1;
        let opened = tokio::select! {
            opened = open(&server.name, &server.options, &ports) => opened,
            () = stopped(&mut stop) => break,
        };
        let error = match opened {
            Ok((session, tools)) => {
                publish(&server, &catalogue, tools, has_resources(&session.peer));
                server.set_state(ServerState::Running(session.peer.clone()));
                match follow(session, &server, &catalogue, &mut stop).await {
                    FollowEnd::Stopped => break,
                    FollowEnd::Hung(reason) if server.options.restart => {
                        // At once: its other tools should work again, and each round costs a time-out.
                        tracing::warn!(server = server.name, reason, "MCP server hangs and is started again");
                        continue;
                    }
                    FollowEnd::Hung(reason) | FollowEnd::Ended(reason) => {
                        SessionError { reason, stderr: String::new() }
                    }
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

/// Why a session is not followed any more.
enum FollowEnd {
    /// This process is stopping.
    Stopped,
    /// The server or the connection has ended.
    Ended(String),
    /// The server did not respond, and was ended.
    Hung(String),
}

/// Follows a session to its end.
async fn follow(
    mut session: Session,
    server: &Arc<Server>,
    catalogue: &Catalogue,
    stop: &mut watch::Receiver<bool>,
) -> FollowEnd {
    let (changed, peer) = (Arc::clone(&session.tools_changed), session.peer.clone());
    let list_timeout = Duration::from_secs(server.options.start_timeout_s);
    let relist = async {
        loop {
            changed.notified().await;
            let error = match timeout(list_timeout, list_tools(&peer)).await {
                Ok(Ok(tools)) => {
                    refresh(server, catalogue, tools, has_resources(&peer));
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
    let end = tokio::select! {
        reason = session.closed() => FollowEnd::Ended(reason),
        () = stopped(stop) => FollowEnd::Stopped,
        () = relist => FollowEnd::Stopped,
        reason = detect_hang(server, &peer) => FollowEnd::Hung(reason),
    };
    // The next state is set first, so that no waiting call uses the session that ends.
    match &end {
        FollowEnd::Hung(_) if server.options.restart => {
            server.set_state(ServerState::Starting);
            session.kill().await;
        }
        FollowEnd::Hung(_) => {
            server.set_state(ServerState::Stopped);
            session.kill().await;
        }
        FollowEnd::Stopped | FollowEnd::Ended(_) => {
            server.set_state(ServerState::Stopped);
            session.close().await;
        }
    }
    server.clear_suspicion();
    end
}

/// Waits until the server hangs: a call has reached its time-out, and the server has not answered the ping
/// that was sent shortly before. A server that only works long on one call answers it.
async fn detect_hang(server: &Server, peer: &Peer<RoleClient>) -> String {
    let mut timed_out_calls = server.timed_out_calls.subscribe();
    loop {
        server.slow_call.notified().await;
        timed_out_calls.mark_unchanged();
        server.is_pinged.store(true, Ordering::Release);
        let ping = ClientRequest::PingRequest(PingRequest::default());
        let mut answer = Box::pin(peer.send_request(ping));
        tokio::select! {
            // An error is an answer, or the end of the session, which is seen elsewhere.
            _ = &mut answer => {
                server.clear_suspicion();
                continue;
            }
            _ = timed_out_calls.changed() => {}
        }
        if timeout(PING_GRACE, answer).await.is_err() {
            let timeout_s = server.options.timeout_s;
            return format!("it answered neither a call within {timeout_s} s nor a ping, and was ended");
        }
        server.clear_suspicion();
    }
}

/// Publishes the tools if they differ from the known ones.
pub(super) fn refresh(
    server: &Arc<Server>,
    catalogue: &Catalogue,
    tools: Vec<rmcp::model::Tool>,
    has_resources: bool,
) {
    if server.tools() != with_reader(usable_tools(tools.clone()).0, has_resources) {
        publish(server, catalogue, tools, has_resources);
    }
}

fn publish(server: &Arc<Server>, catalogue: &Catalogue, tools: Vec<rmcp::model::Tool>, has_resources: bool) {
    let (tools, unusable) = usable_tools(tools);
    let tools = with_reader(tools, has_resources);
    for (tool, reason) in unusable {
        tracing::warn!(server = server.name, tool, reason, "left out a tool of an MCP server");
    }
    tracing::info!(server = server.name, tools = tools.len(), "MCP server listed its tools");
    for (key, name) in unknown_tools(&server.name, &server.options, &tools) {
        tracing::warn!(server = server.name, key, tool = name, "MCP server has no such tool");
    }
    server.set_tools(tools);
    catalogue.rebuild(server);
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
