//! Calls of tools that operators make: how many run at once, and how the shutdown ends them.

use crate::domain::tool::{ToolCall, ToolDefinition};
use crate::http::ShutdownStage;
use crate::http::testing::{Server, read_all, request};
use crate::ports::{Journal, ToolContext, ToolOutcome, ToolScope, Toolbox};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

/// Each call waits until it is told to stop, and then says why it was.
#[derive(Default)]
struct Waiting(AtomicUsize);

impl Toolbox for Waiting {
    fn offered(&self, _: &ToolScope<'_>) -> Vec<ToolDefinition> {
        Vec::new()
    }
    fn has_tool(&self, _: &str) -> bool {
        true
    }
    fn run(&self, calls: &[ToolCall], context: &ToolContext, journal: &dyn Journal) {
        self.0.fetch_add(1, Ordering::SeqCst);
        let stop = context.cancel.wait(Duration::from_secs(60));
        let told = serde_json::json!({"error": format!("{stop:?}")}).to_string();
        journal.finished(&calls[0], ToolOutcome { content: told, skipped: false, full_result: None });
    }
}

#[tokio::test]
async fn p8_operator_calls_are_bounded_and_cancelled_at_shutdown() {
    let toolbox = Arc::new(Waiting::default());
    let server = Server::with(|app| app.toolbox = Arc::<Waiting>::clone(&toolbox));
    let mut running = Vec::new();
    for _ in 0..2 {
        let mut client = server.connect();
        client.write_all(&request("POST /v1/tools/x/call", &[], "{}")).await.expect("sends");
        running.push(client);
    }
    while toolbox.0.load(Ordering::SeqCst) < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let third = server.ask("POST /v1/tools/x/call", &[], "{}").await;
    assert_eq!((third.status, third.code().as_str()), (429, "rate_limited"), "{}", third.body);
    assert!(third.header("retry-after").is_some());
    server.advance(ShutdownStage::Draining);
    for client in running {
        let answer = read_all(client).await;
        assert!(answer.status == 200 && answer.body.contains("Shutdown"), "{}", answer.body);
    }
}
