//! Progress notifications of a running request.

use super::message;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc;

/// Notifications that wait for the client; more are left out.
const WAITING: usize = 16;
/// Time between two notifications.
const INTERVAL: Duration = Duration::from_secs(1);

/// Sends progress under the token of the client.
#[derive(Debug)]
pub(super) struct ProgressNotifier {
    token: Value,
    sender: mpsc::Sender<Value>,
}

impl ProgressNotifier {
    /// The two ends.
    pub(super) fn new(token: Value) -> (Self, mpsc::Receiver<Value>) {
        let (sender, notifications) = mpsc::channel(WAITING);
        (Self { token, sender }, notifications)
    }

    fn send(&self, progress: u64, text: &str) {
        let params = json!({"progressToken": self.token, "progress": progress, "message": text});
        // A client that does not read gets fewer.
        drop(self.sender.try_send(message::notification("notifications/progress", &params)));
    }
}

/// Does the work, and reports about once a second until it is done. `report` gets the seconds so far and
/// returns progress and text; a progress that has not grown is not sent.
pub(super) async fn reported<T>(
    notifier: Option<&ProgressNotifier>,
    report: impl Fn(u64) -> (u64, String),
    work: impl Future<Output = T>,
) -> T {
    let Some(notifier) = notifier else { return work.await };
    let mut work = std::pin::pin!(work);
    let (mut seconds, mut last) = (0_u64, None);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::time::sleep(INTERVAL) => {
                seconds = seconds.saturating_add(1);
                let (progress, text) = report(seconds);
                if last.is_none_or(|last| progress > last) {
                    last = Some(progress);
                    notifier.send(progress, &text);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn progress_only_grows_and_ends_with_the_work() {
        let (notifier, mut notifications) = ProgressNotifier::new(json!("t"));
        let report = |seconds| (seconds / 2, format!("{seconds} s"));
        let work = tokio::time::sleep(Duration::from_millis(6_500));
        reported(Some(&notifier), report, work).await;
        drop(notifier);
        let mut seen = Vec::new();
        while let Some(sent) = notifications.recv().await {
            assert_eq!(sent["params"]["progressToken"], "t");
            seen.push(sent["params"]["progress"].as_u64().expect("a number"));
        }
        assert_eq!(seen, [0, 1, 2, 3]);
    }
}
