//! Evaluates a program: statements, pending jobs, timers, last value.

use std::cell::RefCell;
use std::rc::Rc;

use rquickjs::promise::PromiseState;
use rquickjs::{Ctx, Persistent, Promise, Runtime, Value};

use super::engine::{JavaScriptEngine, PreludeFunctions};
use super::parse::ScriptMode;

/// How a program ended.
pub(super) enum ScriptOutcome {
    /// Without error; the text of its last expression's value.
    Completed(Option<String>),
    /// With an uncaught error.
    Error(String),
    /// With the error that the engine throws without memory. A guest can throw a similar one.
    OutOfMemory(String),
}

/// Promises that were rejected without a handler, with their reasons.
type Rejections = Rc<RefCell<Vec<(Persistent<Value<'static>>, Persistent<Value<'static>>)>>>;

/// Runs a parsed program to its end.
pub(super) fn run(engine: &JavaScriptEngine, code: &str, mode: ScriptMode) -> ScriptOutcome {
    let rejections: Rejections = Rc::default();
    track_rejections(&engine.runtime, &rejections);
    engine.context.with(|ctx| {
        let Ok(prelude) = engine.prelude(&ctx) else {
            return ScriptOutcome::OutOfMemory("out of memory before the first statement".to_owned());
        };
        let outcome = evaluate(&ctx, &prelude, code, mode, &rejections);
        outcome.unwrap_or_else(|exception| prelude.uncaught(&ctx, exception))
    })
}

fn track_rejections(runtime: &Runtime, rejections: &Rejections) {
    let rejections = Rc::clone(rejections);
    runtime.set_host_promise_rejection_tracker(Some(Box::new(move |ctx, promise, reason, is_handled| {
        let mut open = rejections.borrow_mut();
        if is_handled {
            open.retain(|(other, _)| other.clone().restore(&ctx).is_ok_and(|other| other != promise));
        } else {
            open.push((Persistent::save(&ctx, promise), Persistent::save(&ctx, reason)));
        }
    })));
}

/// Evaluates, then runs jobs and timers until there are none. `Err` holds what was thrown.
fn evaluate<'js>(
    ctx: &Ctx<'js>,
    prelude: &PreludeFunctions<'js>,
    code: &str,
    mode: ScriptMode,
    rejections: &Rejections,
) -> Result<ScriptOutcome, Value<'js>> {
    let value: Value<'js> = ctx.eval_with_options(code, mode.options()).map_err(|_| ctx.catch())?;
    let awaited = value.as_object().and_then(|object| object.as_promise()).cloned();
    loop {
        while ctx.execute_pending_job() {}
        // The first one: later ones are often its consequence.
        let unhandled = rejections.borrow().first().map(|(_, reason)| reason.clone());
        if let Some(reason) = unhandled {
            return Err(reason.restore(ctx).map_err(|_| ctx.catch())?);
        }
        let wait: f64 = prelude.next.call(()).map_err(|_| ctx.catch())?;
        if wait < 0.0 && !ctx.execute_pending_job() {
            break;
        }
        if wait > 0.0 {
            sleep(wait);
        }
    }
    let value = match awaited {
        Some(promise) => promise_value(ctx, &promise, mode)?,
        None => value,
    };
    let result: Option<String> = prelude.result.call((value,)).map_err(|_| ctx.catch())?;
    Ok(ScriptOutcome::Completed(result))
}

/// The value of a promise, undefined while it is pending.
fn promise_value<'js>(
    ctx: &Ctx<'js>,
    promise: &Promise<'js>,
    mode: ScriptMode,
) -> Result<Value<'js>, Value<'js>> {
    if promise.state() == PromiseState::Pending {
        return Ok(Value::new_undefined(ctx.clone()));
    }
    let Some(outcome) = promise.result::<Value<'js>>() else { return Ok(Value::new_undefined(ctx.clone())) };
    let value = outcome.map_err(|_| ctx.catch())?;
    // The engine wraps the completion value of an awaiting script.
    let value: Value<'js> = match (mode, value.as_object()) {
        (ScriptMode::Awaiting, Some(wrapper)) => wrapper.get("value").map_err(|_| ctx.catch())?,
        _ => value,
    };
    // `main()` at the end of an awaiting script returns a promise: the result is the value of that promise.
    match value.as_object().and_then(|object| object.as_promise()) {
        Some(inner) if mode == ScriptMode::Awaiting => promise_value(ctx, inner, ScriptMode::Script),
        _ => Ok(value),
    }
}

fn sleep(milliseconds: f64) {
    let Ok(duration) = std::time::Duration::try_from_secs_f64(milliseconds / 1000.0) else { return };
    if let Ok(duration) = rustix::thread::Timespec::try_from(duration) {
        // The timers are checked again in any case.
        drop(rustix::thread::nanosleep(&duration));
    }
}

/// Whether the engine throws this without memory: an error with that name, or `null` if it has no memory for
/// an error.
fn is_out_of_memory<'js>(ctx: &Ctx<'js>, exception: &Value<'js>) -> bool {
    let Some(error) = exception.as_object() else { return exception.is_null() };
    let has = |field: &str, text: &str| {
        let value: rquickjs::Result<String> = error.get(field);
        value.map_or_else(
            |_| {
                ctx.catch();
                false
            },
            |value| value == text,
        )
    };
    has("name", "InternalError") && has("message", "out of memory")
}

/// A hint for names that exist in other JavaScript hosts.
fn hint(text: &str) -> Option<&'static str> {
    let name = text.lines().next()?.strip_prefix("ReferenceError: ")?.strip_suffix(" is not defined")?;
    match name.trim_matches('\'') {
        "require" | "module" | "exports" => Some(
            "there are no modules in the sandbox's JavaScript; write the function you need, or use Python",
        ),
        "process" | "Deno" | "Bun" | "Buffer" => Some(
            "this is the language alone, not Node.js: console, print, timers and the ECMAScript built-ins",
        ),
        "fetch" | "XMLHttpRequest" | "WebSocket" => Some("there is no network in the sandbox"),
        "document" | "window" | "localStorage" => Some("there is no browser in the sandbox"),
        _ => None,
    }
}

impl<'js> PreludeFunctions<'js> {
    /// The outcome of a program that threw this.
    fn uncaught(&self, ctx: &Ctx<'js>, exception: Value<'js>) -> ScriptOutcome {
        let out_of_memory = is_out_of_memory(ctx, &exception);
        let mut text = self.describe(ctx, exception);
        if let Some(hint) = hint(&text) {
            text = format!("{}\nHint: {hint}.", text.trim_end());
        }
        if out_of_memory { ScriptOutcome::OutOfMemory(text) } else { ScriptOutcome::Error(text) }
    }

    /// The text of a thrown value. Its conversions may throw again: then the text is generic.
    fn describe(&self, ctx: &Ctx<'js>, exception: Value<'js>) -> String {
        let is_null = exception.is_null();
        self.crash.call((exception,)).unwrap_or_else(|_| {
            ctx.catch();
            if is_null { "Uncaught null: out of memory".to_owned() } else { "Uncaught error".to_owned() }
        })
    }
}
