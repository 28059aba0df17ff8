//! Where log lines go: to stderr, as text or as JSON lines.

use crate::config::{LogFormat, LogLevel, LogOptions};
use std::io::IsTerminal;
use tracing::Level;

/// Starts logging; a second start in one process is ignored.
pub(super) fn start(options: &LogOptions) {
    let level = match options.level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    let started = match options.format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    drop(started);
}
