//! How far something long is, told on stderr: a bar or a clock on a terminal, else nothing. Owns what is shown while it runs.

use super::terminal::Terminal;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// For bytes whose sum is known, and for others.
const BAR: &str = "{bar:30} {bytes}/{total_bytes}  {bytes_per_sec}  ETA {eta}";
const COUNT: &str = "{spinner} {bytes}  {bytes_per_sec}";

/// For what tells nothing of itself.
const CLOCK: &str = "{spinner} {msg}  {elapsed}";

/// How often it moves without news.
const TICK: Duration = Duration::from_millis(200);

/// Something long. Dropped, it takes itself away.
#[derive(Debug)]
pub(super) struct Gauge(ProgressBar);

impl Gauge {
    /// Of bytes that come, so many in all.
    pub(super) fn bytes(all: Option<u64>, terminal: &Terminal) -> Self {
        let gauge = Self::begin(if all.is_some() { BAR } else { COUNT }, terminal);
        if let Some(all) = all {
            gauge.0.set_length(all);
        }
        gauge
    }

    /// Of the time that this takes.
    pub(super) fn time(what: &'static str, terminal: &Terminal) -> Self {
        let gauge = Self::begin(CLOCK, terminal);
        gauge.0.set_message(what);
        gauge
    }

    /// So many by now.
    pub(super) fn show(&self, bytes: u64) {
        self.0.set_position(bytes);
    }

    /// Takes it away.
    pub(super) fn end(self) {
        drop(self);
    }

    fn begin(template: &str, terminal: &Terminal) -> Self {
        let bar = ProgressBar::hidden();
        if terminal.is_watched() {
            // A template that does not parse would cost the looks, nothing else; a test holds them.
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.enable_steady_tick(TICK);
        }
        Self(bar)
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gauge_has_a_template() {
        for template in [BAR, COUNT, CLOCK] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
