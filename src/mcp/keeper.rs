//! Keeps one server running: opens its session, follows its list of tools, starts it again with growing patience. Owns the
//! back-off; what fails here fails for this server alone.

use super::server::{Phase, Server};
use super::servers::{Catalogue, McpPorts};
use super::session::{Failure, Session, list, open, sort_out, tell};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// The first pause before a server is started again, and the longest.
const FIRST_PAUSE_S: u64 = 1;
const LONGEST_PAUSE_S: u64 = 60;
/// A session that lasted so long was a good one: the next pause is the first again.
const GOOD_MS: u64 = 60_000;

/// Between two listings that a server asks for.
const LISTING_PAUSE: Duration = Duration::from_secs(1);

/// How a session ended.
enum End {
    Stopped,
    Lost(String),
}

/// Keeps the server until `stop` says otherwise.
pub(super) async fn keep(
    server: Arc<Server>,
    catalogue: Arc<Catalogue>,
    ports: Arc<McpPorts>,
    mut stop: watch::Receiver<bool>,
) {
    let mut failures = 0;
    loop {
        let begun_ms = server.in_ms(0);
        server.enter(Phase::Starting);
        let opened = tokio::select! {
            opened = open(&server.name, &server.options, &ports) => opened,
            () = stopped(&mut stop) => break,
        };
        let why = match opened {
            Ok((session, tools)) => {
                publish(&server, &catalogue, tools);
                server.enter(Phase::Running(session.peer.clone()));
                match stay(session, &server, &catalogue, &mut stop).await {
                    End::Stopped => break,
                    End::Lost(why) => Failure { why, stderr: String::new() },
                }
            }
            Err(failure) => failure,
        };
        failures = if server.since_ms(begun_ms) >= GOOD_MS { 1 } else { failures + 1 };
        if !rest(&server, &why, failures, &mut stop).await {
            break;
        }
    }
    server.enter(Phase::Stopped);
}

/// Waits until it is time to start again; whether it is.
async fn rest(server: &Server, failure: &Failure, failures: u32, stop: &mut watch::Receiver<bool>) -> bool {
    let (name, Failure { why, stderr }) = (&server.name, failure);
    if !server.options.restart {
        tracing::warn!(server = name, stderr, "the MCP server is not running: {why}");
        server.enter(Phase::Down { why: why.clone(), again_at_ms: None });
        stopped(stop).await;
        return false;
    }
    let pause_s = pause_s(failures);
    tracing::warn!(server = name, stderr, "the MCP server is not running: {why}; again in {pause_s} s");
    let again_at_ms = Some(server.in_ms(pause_s.saturating_mul(1_000)));
    server.enter(Phase::Down { why: why.clone(), again_at_ms });
    tokio::select! {
        () = sleep(Duration::from_secs(pause_s)) => true,
        () = stopped(stop) => false,
    }
}

/// Doubles with every failure in a row.
fn pause_s(failures: u32) -> u64 {
    let doublings = failures.saturating_sub(1).min(16);
    (FIRST_PAUSE_S << doublings).min(LONGEST_PAUSE_S)
}

/// Follows a session to its end.
async fn stay(
    mut session: Session,
    server: &Arc<Server>,
    catalogue: &Catalogue,
    stop: &mut watch::Receiver<bool>,
) -> End {
    let (changed, peer) = (Arc::clone(&session.changed), session.peer.clone());
    let patience = Duration::from_secs(server.options.start_timeout_s);
    let follow = async {
        loop {
            changed.notified().await;
            match timeout(patience, list(&peer)).await {
                Ok(Ok(tools)) => refresh(server, catalogue, tools),
                Ok(Err(error)) => {
                    tracing::warn!(server = server.name, "the tools have changed, but: {}", tell(&error));
                }
                Err(_) => tracing::warn!(server = server.name, "the tools have changed, but are not told"),
            }
            // What is said meanwhile is heard once, afterwards.
            sleep(LISTING_PAUSE).await;
        }
    };
    let end = tokio::select! {
        why = session.lost() => End::Lost(why),
        () = stopped(stop) => End::Stopped,
        () = follow => End::Stopped,
    };
    // Nobody calls a session that is being closed.
    server.enter(Phase::Stopped);
    session.close().await;
    end
}

/// Only what differs is a change: a server that says so all the time moves nothing.
pub(super) fn refresh(server: &Arc<Server>, catalogue: &Catalogue, tools: Vec<rmcp::model::Tool>) {
    if server.listed() != sort_out(tools.clone()).0 {
        publish(server, catalogue, tools);
    }
}

fn publish(server: &Arc<Server>, catalogue: &Catalogue, tools: Vec<rmcp::model::Tool>) {
    let (listed, left_out) = sort_out(tools);
    for (tool, why) in left_out {
        tracing::warn!(server = server.name, tool, "a tool is left out: {why}");
    }
    tracing::info!(server = server.name, tools = listed.len(), "the MCP server has told its tools");
    server.told(listed);
    catalogue.rebuild();
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone means the same.
    drop(stop.wait_for(|stop| *stop).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_a_minute() {
        let pauses: Vec<u64> = (1..=9).map(pause_s).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(pause_s(u32::MAX), 60);
    }
}
