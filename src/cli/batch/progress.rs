//! How far a batch is, told on stderr: a bar on a terminal, else a line at its begin and its end. Owns what is shown while
//! it runs; refuses to ask the server.

use crate::cli::terminal::Terminal;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Deserialize;
use std::time::Duration;

/// The line under the talk. `{msg}` is the count of failures.
const BAR: &str = "{bar:30} {pos}/{len}{msg}  {per_sec}  ETA {eta}";

/// How often the bar moves without news.
const TICK: Duration = Duration::from_millis(500);

/// A batch as the server tells it; what is not named here is not needed.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Standing {
    /// `batch_…`
    pub(super) id: String,
    /// `in_progress`, `completed`, `cancelling`, `cancelled`.
    pub(super) status: String,
    /// Lines, all and by how they ended.
    pub(super) request_counts: Counts,
}

/// Lines of a batch.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Counts {
    /// All of them.
    pub(super) total: u64,
    /// Those with an answer.
    pub(super) completed: u64,
    /// Those without one.
    pub(super) failed: u64,
}

impl Standing {
    /// Whether nothing more will happen.
    pub(super) fn has_ended(&self) -> bool {
        self.status == "completed" || self.status == "cancelled"
    }
}

impl Counts {
    /// Those that have ended.
    pub(super) fn done(self) -> u64 {
        self.completed.saturating_add(self.failed)
    }
}

/// What is shown of a batch.
#[derive(Debug)]
pub(super) struct Progress {
    terminal: Terminal,
    bar: ProgressBar,
}

impl Progress {
    /// Nothing is shown yet.
    pub(super) fn new(terminal: &Terminal) -> Self {
        Self { terminal: terminal.twin(), bar: ProgressBar::hidden() }
    }

    /// Another hand on the same bar, for another thread.
    pub(super) fn twin(&self) -> Self {
        Self { terminal: self.terminal.twin(), bar: self.bar.clone() }
    }

    /// Whether somebody watches a bar.
    pub(super) fn is_watched(&self) -> bool {
        self.terminal.is_watched()
    }

    /// A line of talk above the bar.
    pub(super) fn say(&self, text: &str) {
        self.bar.suspend(|| self.terminal.say(text));
    }

    /// Shows the bar from here on, if anybody watches.
    pub(super) fn begin(&self, counts: Counts) {
        if !self.is_watched() {
            return;
        }
        self.bar.set_length(counts.total);
        // A template that does not parse would cost the bar's looks, nothing else; a test holds it.
        if let Ok(style) = ProgressStyle::with_template(BAR) {
            self.bar.set_style(style);
        }
        self.bar.set_position(counts.done());
        self.bar.reset_eta(); // what was done before is no sign of the speed
        self.bar.set_draw_target(ProgressDrawTarget::stderr());
        self.bar.enable_steady_tick(TICK);
    }

    /// Moves the bar.
    pub(super) fn show(&self, counts: Counts) {
        let failed = if counts.failed > 0 { format!(", {} failed", counts.failed) } else { String::new() };
        self.bar.set_message(failed);
        self.bar.set_position(counts.done());
    }

    /// Takes the bar away.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_has_a_template() {
        assert!(ProgressStyle::with_template(BAR).is_ok());
    }

    #[test]
    fn a_standing_is_read_from_the_servers_object() {
        let text = r#"{"id":"batch_1","object":"batch","status":"cancelling","concurrency":4,
            "request_counts":{"total":5,"completed":2,"failed":1}}"#;
        let standing: Standing = serde_json::from_str(text).expect("read");
        assert_eq!((standing.request_counts.done(), standing.has_ended()), (3, false));
    }
}
