//! Progress of a batch on stderr: a bar on a terminal, otherwise lines at the start and the end.

use crate::cli::terminal::Terminal;
use crate::cli::terminal::progress::draw;
use indicatif::ProgressBar;
use serde::Deserialize;
use serde_json::Value;

/// Template of the bar. `{msg}` is the number of failures.
const BAR: &str = "{bar:30} {pos}/{len}{msg}  {per_sec}  ETA {eta}";

/// The fields of a batch that are needed here.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct BatchResponse {
    /// `batch_…`
    pub(super) id: String,
    /// `in_progress`, `completed`, `cancelling`, `cancelled`, `expired` …
    pub(super) status: String,
    pub(super) request_counts: BatchLineCounts,
    /// The exhausted quota that the remaining lines wait for.
    #[serde(default)]
    pub(super) waiting_for: Option<String>,
    /// The whole batch as the server sent it.
    #[serde(skip)]
    pub(super) json: Value,
}

/// Lines of a batch.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct BatchLineCounts {
    pub(super) total: u64,
    pub(super) completed: u64,
    pub(super) failed: u64,
}

impl BatchResponse {
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.status.as_str(), "completed" | "cancelled" | "expired")
    }
}

impl BatchLineCounts {
    /// Lines that have ended.
    pub(super) fn done(self) -> u64 {
        self.completed.saturating_add(self.failed)
    }
}

/// All clones share the bar.
#[derive(Debug, Clone)]
pub(super) struct BatchProgress {
    terminal: Terminal,
    bar: ProgressBar,
}

impl BatchProgress {
    pub(super) fn new(terminal: &Terminal) -> Self {
        Self { terminal: terminal.clone(), bar: ProgressBar::hidden() }
    }

    /// Whether a bar is shown.
    pub(super) fn is_watched(&self) -> bool {
        self.terminal.is_watched()
    }

    /// A line of information above the bar.
    pub(super) fn info(&self, text: &str) {
        self.bar.suspend(|| self.terminal.info(text));
    }

    /// Shows the bar, if stderr is a terminal.
    pub(super) fn begin(&self, counts: BatchLineCounts) {
        if self.is_watched() {
            self.bar.set_length(counts.total);
            self.bar.set_position(counts.done());
            self.bar.reset_eta(); // lines done before this run do not count for the speed
            draw(&self.bar, BAR);
        }
    }

    pub(super) fn show(&self, counts: BatchLineCounts) {
        let failed = if counts.failed > 0 { format!(", {} failed", counts.failed) } else { String::new() };
        self.bar.set_message(failed);
        self.bar.set_position(counts.done());
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_bar_template_is_valid() {
        assert!(indicatif::ProgressStyle::with_template(BAR).is_ok());
    }

    #[test]
    fn a_batch_response_is_parsed() {
        let text = r#"{"id":"batch_1","object":"batch","status":"cancelling","concurrency":4,
            "request_counts":{"total":5,"completed":2,"failed":1}}"#;
        let response: BatchResponse = serde_json::from_str(text).expect("read");
        assert_eq!((response.request_counts.done(), response.has_ended()), (3, false));
    }
}
