//! Sends log events to stderr as text, as JSON lines, or in the format of the systemd journal.

mod format;
mod layer;

use crate::app::system::SystemClock;
use crate::config::{LogFormat, LogLevel, LogOptions};
use crate::store::{DAMAGED_EXIT, DAMAGED_STORE, is_about_to_abort};
use format::LineFormat;
use layer::LogLayer;
use std::io::{IsTerminal, Write};
use std::panic::PanicHookInfo;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The MCP SDK logs whole messages at INFO.
const NOISY_CRATE: &str = "rmcp";

/// Starts logging. A second call in the same process does nothing.
pub(super) fn start(options: &LogOptions) {
    let level = match options.level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    let sdk_level = if level == Level::TRACE { Level::TRACE } else { Level::WARN };
    let is_logged =
        move |event: &Metadata<'_>| !event.target().starts_with(NOISY_CRATE) || *event.level() <= sdk_level;
    // There is no other place to report that stderr cannot be written.
    let write = |line: &str| drop(std::io::stderr().lock().write_all(line.as_bytes()));
    let lines = LogLayer::new(line_format(options.format), Box::new(SystemClock::new()), Box::new(write));
    let filtered =
        tracing_subscriber::registry().with(LevelFilter::from_level(level)).with(filter_fn(is_logged));
    drop(filtered.with(lines).try_init());
    std::panic::set_hook(Box::new(log_panic));
}

/// Logs a panic as one line, in the format of the log.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let at = panic.location().map(tracing::field::display);
    let payload = panic.payload();
    let reason =
        payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    tracing::error!(thread = thread.name(), at, reason, "a thread panicked");
    if is_about_to_abort(panic) {
        tracing::error!("{DAMAGED_STORE}");
        std::process::exit(DAMAGED_EXIT);
    }
}

fn line_format(configured: LogFormat) -> LineFormat {
    let is_journal = stderr_is_journal();
    match configured {
        LogFormat::Auto if is_journal => LineFormat::Journal,
        LogFormat::Auto | LogFormat::Text => LineFormat::Text { in_colour: std::io::stderr().is_terminal() },
        // The journal removes the priority and keeps only the JSON.
        LogFormat::Json => LineFormat::Json { for_journal: is_journal },
    }
}

/// Whether stderr is the file that `$JOURNAL_STREAM` names (systemd.exec(5)); it may have been redirected
/// since.
fn stderr_is_journal() -> bool {
    let stream = std::env::var_os("JOURNAL_STREAM").and_then(|stream| stream.into_string().ok());
    let stat = rustix::fs::fstat(std::io::stderr()).ok();
    stream.zip(stat).is_some_and(|(stream, stat)| is_journal_stream(&stream, stat.st_dev, stat.st_ino))
}

/// Compares with `device:inode` in decimal digits.
fn is_journal_stream(stream: &str, device: u64, inode: u64) -> bool {
    stream.split_once(':').is_some_and(|(dev, ino)| dev.parse() == Ok(device) && ino.parse() == Ok(inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_stream_is_recognized_by_device_and_inode() {
        assert!(is_journal_stream("8:1234", 8, 1234));
        for named in ["8:1235", "9:1234", "8", "", ":", "x:1234", "8:1234:5", "8: 1234"] {
            assert!(!is_journal_stream(named, 8, 1234), "{named}");
        }
    }
}
