//! JavaScript: `QuickJS` inside the sandboxed child itself.
//!
//! Owns: the engine's own bounds (memory, stack, deadline), and the exit code, which no guest can choose.
//! Refuses: modules, and every host object but `console`, `print`, timers and `queueMicrotask` (and `__host`, in runs that have one).

mod check;
mod engine;
mod host;
mod session;

use crate::child::Report;
use crate::frame::{Frame, MAX_TEXT_BYTES, Words, cut, cut_at};
use crate::limits::RunLimits;
pub(crate) use engine::Engine;

/// The version of the engine that is built in.
pub(crate) const VERSION: &str = "quickjs-ng 0.16.2";

/// The exit code of a program whose allocator refused memory and that did not cope.
pub(crate) const OUT_OF_MEMORY_EXIT: i32 = 9;
/// The exit code of a program that ended with an uncaught error.
const ERROR_EXIT: i32 = 1;

/// Where the guest's text seems to come from, in stacks.
const FILE_NAME: &str = "<code>";

/// How a program ended.
enum End {
    /// With the text of its last expression's value.
    Fine(Option<String>),
    /// With an uncaught error.
    Error(String),
    /// With the error by which the engine says that there was no memory; a guest can throw the like.
    NoMemory(String),
}

/// On what terms a program runs.
pub(crate) struct Terms {
    /// Whether `import` is answered with a refusal.
    pub language_check: bool,
    /// The socket to the server's host, in runs that have one.
    pub host: Option<std::fs::File>,
}

/// Runs a program behind the policy that is already in force; the code is the one to leave with.
///
/// The engine is not taken down: the process ends.
pub(crate) fn run(report: &mut Report, engine: &Engine, limits: &RunLimits, code: &str, terms: Terms) -> i32 {
    let offer = |socket| engine.context.with(|ctx| host::offer(&ctx, socket));
    let settled = engine
        .settle(limits)
        .map_err(|error| error.to_string())
        .and_then(|()| terms.host.map_or(Ok(()), offer).map_err(|error| error.to_string()));
    if let Err(error) = settled {
        report.tell(&Frame::Failed { message: format!("QuickJS: {error}") });
        return ERROR_EXIT;
    }
    let code = check::without_hashbang(code);
    let end = match check::parse(&engine.parser, &code, terms.language_check) {
        Ok(mode) => {
            report.go();
            session::run(engine, &code, mode)
        }
        Err(refusal) => {
            report.tell(&refusal);
            return ERROR_EXIT;
        }
    };
    let (exit, result, error) = match end {
        _ if engine.is_overdue() => (ERROR_EXIT, None, Some(format!("it ran past {} ms", limits.timeout_ms))),
        End::Fine(result) => (0, result, None),
        End::NoMemory(error) if engine.was_refused() => (OUT_OF_MEMORY_EXIT, None, Some(error)),
        End::Error(error) | End::NoMemory(error) => (ERROR_EXIT, None, Some(error)),
    };
    if let Some(error) = &error {
        // The guest's own words on standard error have room beside ours.
        let most = usize::try_from(limits.stderr_bytes / 2).unwrap_or(MAX_TEXT_BYTES).min(MAX_TEXT_BYTES);
        session::write(2, &format!("{}\n", cut_at(error.clone(), most)));
    }
    let out_of_memory = exit == OUT_OF_MEMORY_EXIT;
    report.end(&Words { result: result.map(cut), error: error.map(cut), out_of_memory });
    exit
}

/// Once for practice, ahead of a run: the pages that this writes to are the process's own from here on.
pub(crate) fn practise(engine: &Engine) {
    // Nothing of it stays; that it fails is told by the run itself.
    check::parse(&engine.parser, "1", false).ok();
    engine.context.with(|ctx| ctx.eval::<(), _>("void 0").ok());
}
