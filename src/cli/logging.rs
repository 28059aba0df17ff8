//! Where log lines go: to stderr, as text or as JSON lines.

use crate::config::{LogFormat, LogLevel, LogOptions};
use std::io::IsTerminal;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The SDK of MCP, which tells every message whole.
const CHATTY: &str = "rmcp";

/// Starts logging; a second start in one process is ignored.
pub(super) fn start(options: &LogOptions) {
    let level = match options.level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    let chatter = if level == Level::TRACE { Level::TRACE } else { Level::WARN };
    let is_told =
        move |event: &Metadata<'_>| !event.target().starts_with(CHATTY) || *event.level() <= chatter;
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    let started = match options.format {
        LogFormat::Text => lines.finish().with(filter_fn(is_told)).try_init(),
        LogFormat::Json => lines.json().finish().with(filter_fn(is_told)).try_init(),
    };
    drop(started);
}
