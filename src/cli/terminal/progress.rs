//! Progress of a long task on stderr: a bar or an elapsed time on a terminal, otherwise nothing.

use crate::cli::terminal::Terminal;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// Bytes of a known total, and of an unknown one.
const BAR: &str = "{bar:30} {bytes}/{total_bytes}  {bytes_per_sec}  ETA {eta}";
const COUNT: &str = "{spinner} {bytes}  {bytes_per_sec}";

/// A task that reports no progress.
const CLOCK: &str = "{spinner} {msg}  {elapsed}";

/// Time between two redraws.
const TICK: Duration = Duration::from_millis(200);

/// Removed from the screen when dropped.
#[derive(Debug)]
pub(crate) struct TaskProgress(ProgressBar);

impl TaskProgress {
    /// Progress in bytes, of `total` if that is known.
    pub(crate) fn bytes(total: Option<u64>, terminal: &Terminal) -> Self {
        let progress = Self::begin(if total.is_some() { BAR } else { COUNT }, terminal);
        if let Some(total) = total {
            progress.0.set_length(total);
        }
        progress
    }

    /// Elapsed time.
    pub(crate) fn time(task: &'static str, terminal: &Terminal) -> Self {
        let progress = Self::begin(CLOCK, terminal);
        progress.0.set_message(task);
        progress
    }

    /// Says what is done now.
    pub(crate) fn describe(&self, text: String) {
        self.0.set_message(text);
    }

    /// Sets the bytes done so far.
    pub(crate) fn show(&self, bytes: u64) {
        self.0.set_position(bytes);
    }

    pub(crate) fn end(self) {
        drop(self);
    }

    fn begin(template: &str, terminal: &Terminal) -> Self {
        let bar = ProgressBar::hidden();
        if terminal.is_watched() {
            draw(&bar, template);
        }
        Self(bar)
    }
}

/// Draws the bar on stderr until it is finished.
pub(crate) fn draw(bar: &ProgressBar, template: &str) {
    // A template that does not parse only changes the look; tests check them.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_draw_target(ProgressDrawTarget::stderr());
    bar.enable_steady_tick(TICK);
}

impl Drop for TaskProgress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_progress_template_is_valid() {
        for template in [BAR, COUNT, CLOCK] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
