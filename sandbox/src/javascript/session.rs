//! One program's life in its realm: prelude, evaluation, pending jobs, timers, last value.

use std::cell::RefCell;
use std::rc::Rc;

use rquickjs::promise::PromiseState;
use rquickjs::{Ctx, Persistent, Promise, Runtime, Value};

use super::End;
use super::check::Mode;
use super::engine::{Engine, Host};

/// Promises that were rejected while nobody listened, with their reasons.
type Rejections = Rc<RefCell<Vec<(Persistent<Value<'static>>, Persistent<Value<'static>>)>>>;

/// Runs a parsed program to its end.
pub(super) fn run(engine: &Engine, code: &str, mode: Mode) -> End {
    let rejections: Rejections = Rc::default();
    track_rejections(&engine.runtime, &rejections);
    engine.context.with(|ctx| {
        let Ok(host) = engine.host(&ctx) else {
            return End::NoMemory("out of memory before the first statement".to_owned());
        };
        let outcome = evaluate(&ctx, &host, code, mode, &rejections);
        outcome.unwrap_or_else(|thrown| host.uncaught(&ctx, thrown))
    })
}

/// Writes to one of the two output pipes. A parent that reads no more kills; there is nobody to tell.
pub(super) fn write(stream: i32, text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let written = if stream == 1 {
            rustix::io::write(rustix::stdio::stdout(), rest)
        } else {
            rustix::io::write(rustix::stdio::stderr(), rest)
        };
        match written {
            Ok(length) => rest = rest.get(length..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
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
    host: &Host<'js>,
    code: &str,
    mode: Mode,
    rejections: &Rejections,
) -> Result<End, Value<'js>> {
    let value: Value<'js> = ctx.eval_with_options(code, mode.options()).map_err(|_| ctx.catch())?;
    let awaited = value.as_object().and_then(|object| object.as_promise()).cloned();
    loop {
        while ctx.execute_pending_job() {}
        // The first one: what follows it is often its consequence.
        let unheard = rejections.borrow().first().map(|(_, reason)| reason.clone());
        if let Some(reason) = unheard {
            return Err(reason.restore(ctx).map_err(|_| ctx.catch())?);
        }
        let wait: f64 = host.next.call(()).map_err(|_| ctx.catch())?;
        if wait < 0.0 && !ctx.execute_pending_job() {
            break;
        }
        if wait > 0.0 {
            sleep(wait);
        }
    }
    let value = match awaited {
        Some(promise) => settled(ctx, &promise, mode)?,
        None => value,
    };
    let result: Option<String> = host.result.call((value,)).map_err(|_| ctx.catch())?;
    Ok(End::Fine(result))
}

/// The value of a promise, undefined while it is pending.
fn settled<'js>(ctx: &Ctx<'js>, promise: &Promise<'js>, mode: Mode) -> Result<Value<'js>, Value<'js>> {
    if promise.state() == PromiseState::Pending {
        return Ok(Value::new_undefined(ctx.clone()));
    }
    let Some(outcome) = promise.result::<Value<'js>>() else { return Ok(Value::new_undefined(ctx.clone())) };
    let value = outcome.map_err(|_| ctx.catch())?;
    // The engine wraps the completion value of an awaiting script.
    let value: Value<'js> = match (mode, value.as_object()) {
        (Mode::Awaiting, Some(wrapper)) => wrapper.get("value").map_err(|_| ctx.catch())?,
        _ => value,
    };
    // `main()` at the end of an awaiting script: its promise is the value, and what it holds is meant.
    match value.as_object().and_then(|object| object.as_promise()) {
        Some(inner) if mode == Mode::Awaiting => settled(ctx, inner, Mode::Script),
        _ => Ok(value),
    }
}

fn sleep(milliseconds: f64) {
    let Ok(duration) = std::time::Duration::try_from_secs_f64(milliseconds / 1000.0) else { return };
    if let Ok(duration) = rustix::thread::Timespec::try_from(duration) {
        // Interrupted or not, the timers are looked at again.
        drop(rustix::thread::nanosleep(&duration));
    }
}

/// Whether this is what the engine throws without memory: an error of that name, or `null` when it has not even the
/// memory for an error.
fn says_no_memory<'js>(ctx: &Ctx<'js>, thrown: &Value<'js>) -> bool {
    let Some(error) = thrown.as_object() else { return thrown.is_null() };
    let says = |field: &str, text: &str| {
        let said: rquickjs::Result<String> = error.get(field);
        said.map_or_else(
            |_| {
                ctx.catch();
                false
            },
            |said| said == text,
        )
    };
    says("name", "InternalError") && says("message", "out of memory")
}

/// What to say to a name that other hosts of JavaScript have.
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

impl<'js> Host<'js> {
    /// The end of a program that threw this.
    fn uncaught(&self, ctx: &Ctx<'js>, thrown: Value<'js>) -> End {
        let no_memory = says_no_memory(ctx, &thrown);
        let mut text = self.words(ctx, thrown);
        if let Some(hint) = hint(&text) {
            text = format!("{}\nHint: {hint}.", text.trim_end());
        }
        if no_memory { End::NoMemory(text) } else { End::Error(text) }
    }

    /// A thrown value in words. Its own conversions may throw again: then there is only a name for it.
    fn words(&self, ctx: &Ctx<'js>, thrown: Value<'js>) -> String {
        let is_null = thrown.is_null();
        self.crash.call((thrown,)).unwrap_or_else(|_| {
            ctx.catch();
            if is_null { "Uncaught null: out of memory".to_owned() } else { "Uncaught error".to_owned() }
        })
    }
}
