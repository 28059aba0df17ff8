//! Runs a script in the child and reports its result.

use super::engine::{JavaScriptEngine, write_output};
use super::evaluate::{self, ScriptOutcome};
use super::{host_call, parse};
use crate::child_report::{GuestResult, MAX_TEXT_BYTES, ReportFrame, ReportWriter, truncate, truncate_at};
use crate::limits::RunLimits;
use crate::record::RunStatus;

/// The version of the built-in engine.
pub(crate) const VERSION: &str = "quickjs-ng 0.16.2";

/// The exit code of a program that ended because the allocator refused memory.
pub(crate) const OUT_OF_MEMORY_EXIT: i32 = 9;
/// The exit code of a program that ended with an uncaught error.
const ERROR_EXIT: i32 = 1;

/// The options of one run.
pub(crate) struct ScriptOptions {
    /// Whether `import` gets a helpful refusal.
    pub language_check: bool,
    /// The socket for host calls, in runs that have a host.
    pub host: Option<std::fs::File>,
}

/// Runs a program with the policy already in force, and returns the exit code. The engine is not destroyed:
/// the process exits next.
pub(crate) fn run(
    report: &mut ReportWriter,
    engine: &JavaScriptEngine,
    limits: &RunLimits,
    code: &str,
    options: ScriptOptions,
) -> i32 {
    let define_host = |socket| engine.context.with(|ctx| host_call::define(&ctx, socket));
    let prepared = engine
        .prepare_run(limits)
        .map_err(|error| error.to_string())
        .and_then(|()| options.host.map_or(Ok(()), define_host).map_err(|error| error.to_string()));
    if let Err(error) = prepared {
        report.write_frame(&ReportFrame::Failed { message: format!("QuickJS: {error}") });
        return ERROR_EXIT;
    }
    let code = parse::without_hashbang(code);
    let outcome = match parse::parse(&engine.parser, &code, options.language_check) {
        Ok(mode) => {
            report.start_guest();
            evaluate::run(engine, &code, mode)
        }
        Err(refusal) => {
            report.write_frame(&match refusal {
                ReportFrame::Refused { message, .. } if engine.was_memory_refused() => {
                    ReportFrame::Refused { status: RunStatus::Oom, message }
                }
                other => other,
            });
            return ERROR_EXIT;
        }
    };
    let (exit, result, error) = match outcome {
        _ if engine.is_overdue() => (ERROR_EXIT, None, Some(format!("it ran past {} ms", limits.timeout_ms))),
        ScriptOutcome::Completed(result) => (0, result, None),
        ScriptOutcome::OutOfMemory(error) if engine.was_memory_refused() => {
            (OUT_OF_MEMORY_EXIT, None, Some(error))
        }
        ScriptOutcome::Error(error) | ScriptOutcome::OutOfMemory(error) => (ERROR_EXIT, None, Some(error)),
    };
    if let Some(error) = &error {
        // Leaves half of standard error to the guest's own output.
        let max_bytes =
            usize::try_from(limits.stderr_bytes / 2).unwrap_or(MAX_TEXT_BYTES).min(MAX_TEXT_BYTES);
        write_output(2, &format!("{}\n", truncate_at(error.clone(), max_bytes)));
    }
    let out_of_memory = exit == OUT_OF_MEMORY_EXIT;
    report.write_result(&GuestResult {
        result: result.map(truncate),
        error: error.map(truncate),
        out_of_memory,
    });
    exit
}

/// Parses and evaluates something before a run arrives, so that the process already has its own copies of the
/// pages.
pub(crate) fn warm_up(engine: &JavaScriptEngine) {
    // Leaves nothing behind. If it fails, the run itself reports the error.
    parse::parse(&engine.parser, "1", false).ok();
    engine.context.with(|ctx| ctx.eval::<(), _>("void 0").ok());
}
