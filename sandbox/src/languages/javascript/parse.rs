//! Parses a program before any of it runs, so that the parent learns of syntax errors from our own code.
//!
//! The engine's safe interface cannot compile without running. With `throw 0;` in front, the engine parses
//! the whole program and then throws 0 before the first statement. This happens in a separate realm.

use std::borrow::Cow;

use rquickjs::context::EvalOptions;
use rquickjs::{Context, Ctx, Value};

use crate::child_report::ReportFrame;
use crate::record::RunStatus;

/// The file name of the guest's program in stack traces.
const FILE_NAME: &str = "<code>";

/// How a program is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptMode {
    /// As a sloppy script.
    Script,
    /// As a script with top-level `await`.
    Awaiting,
}

impl ScriptMode {
    /// The options for the engine.
    pub(super) fn options(self) -> EvalOptions {
        let mut options = EvalOptions::default();
        options.global = true;
        options.strict = false;
        options.promise = self == Self::Awaiting;
        options.filename = Some(FILE_NAME.to_owned());
        options
    }
}

/// Turns `#!` into a comment: it is one only at the very start, where parsing adds `throw 0;`.
pub(super) fn without_hashbang(code: &str) -> Cow<'_, str> {
    code.strip_prefix("#!").map_or(Cow::Borrowed(code), |rest| Cow::Owned(format!("//{rest}")))
}

/// The mode in which the program parses, or the frame that refuses it.
pub(super) fn parse(realm: &Context, code: &str, language_check: bool) -> Result<ScriptMode, ReportFrame> {
    realm.with(|ctx| {
        // Awaiting first: in a sloppy script `await (…)` parses as a call of a function named `await`.
        let modes: &[ScriptMode] = if code.contains("await") {
            &[ScriptMode::Awaiting, ScriptMode::Script]
        } else {
            &[ScriptMode::Script]
        };
        let mut first_error = None;
        for mode in modes {
            match syntax_error(&ctx, code, *mode) {
                None => return Ok(*mode),
                Some(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(refusal(code, first_error.unwrap_or_default(), language_check))
    })
}

fn syntax_error(ctx: &Ctx<'_>, code: &str, mode: ScriptMode) -> Option<String> {
    // A directive counts only in front of every statement.
    let trimmed = code.trim_start();
    let strict = trimmed.starts_with("'use strict'") || trimmed.starts_with("\"use strict\"");
    let prefix = if strict { "'use strict';throw 0;" } else { "throw 0;" };
    let outcome = ctx.eval_with_options::<Value<'_>, _>(format!("{prefix}{code}"), mode.options());
    if outcome.is_ok() {
        return None; // an awaiting program's throw is inside its promise
    }
    let exception = ctx.catch();
    if exception.as_int() == Some(0) {
        return None;
    }
    Some(describe(&exception))
}

fn describe(exception: &Value<'_>) -> String {
    let Some(error) = exception.as_object() else {
        return "the program does not compile: out of memory".to_owned();
    };
    let field = |name: &str| error.get::<_, Option<String>>(name).ok().flatten().unwrap_or_default();
    let (name, message, stack) = (field("name"), field("message"), field("stack"));
    let line =
        stack.split_once("<code>:").and_then(|(_, at)| at.split(':').next()).unwrap_or("1").trim().to_owned();
    format!("line {}: {name}: {message}", line.split(|c: char| !c.is_ascii_digit()).next().unwrap_or("1"))
}

fn refusal(code: &str, error: String, language_check: bool) -> ReportFrame {
    let module_line = code.lines().position(|line| {
        let line = line.trim_start();
        let starts = |word: &str| {
            line.strip_prefix(word).is_some_and(|rest| rest.starts_with([' ', '{', '"', '\'', '*']))
        };
        starts("import") || starts("export")
    });
    match module_line {
        Some(line) if language_check => ReportFrame::Refused {
            status: RunStatus::ModuleNotAllowed,
            message: format!(
                "line {}: `import` and `export` are not available in JavaScript at any level: there are no modules. \
                 Allowed: the language itself, console, timers. Way out: write the function you need, or use Python.",
                line + 1
            ),
        },
        _ => ReportFrame::Refused { status: RunStatus::SyntaxError, message: error },
    }
}
