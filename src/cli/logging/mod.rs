//! Where log lines go: to stderr, as text or as JSON lines, and in the journal's own way where stderr is the journal. Owns
//! which events become lines; refuses to know how a line looks (`line` does).

mod journal;
mod line;
mod lines;

use crate::app::system::SystemClock;
use crate::config::{LogFormat, LogLevel, LogOptions};
use line::Form;
use lines::Lines;
use std::io::{IsTerminal, Write};
use std::panic::PanicHookInfo;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{LevelFilter, filter_fn};
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
    // A log that cannot be written is nobody's to tell.
    let write = |line: &str| drop(std::io::stderr().lock().write_all(line.as_bytes()));
    let lines = Lines::new(form(options.format), Box::new(SystemClock::new()), Box::new(write));
    let told = tracing_subscriber::registry().with(LevelFilter::from_level(level)).with(filter_fn(is_told));
    drop(told.with(lines).try_init());
    std::panic::set_hook(Box::new(tell_panic));
}

/// A panic is a line like others: whoever reads JSON gets JSON.
fn tell_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let at = panic.location().map(tracing::field::display);
    let payload = panic.payload();
    let said =
        payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    tracing::error!(thread = thread.name(), at, said, "a thread panicked");
}

fn form(wanted: LogFormat) -> Form {
    let is_journal = journal::is_stderr();
    match wanted {
        LogFormat::Auto if is_journal => Form::Journal,
        LogFormat::Auto | LogFormat::Text => Form::Text { in_colour: std::io::stderr().is_terminal() },
        // The journal takes the priority off: what it keeps is the JSON alone.
        LogFormat::Json => Form::Json { for_journal: is_journal },
    }
}
