//! JavaScript: `QuickJS` inside the sandboxed child itself.
//!
//! Owns: the engine's own bounds (memory, stack, deadline), and the exit code, which no guest can choose.
//! Refuses: modules, and every host object but `console`, `print`, timers and `queueMicrotask`.

mod check;
mod session;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use rquickjs::{Context, Runtime};

use crate::child::Report;
use crate::clock::now;
use crate::frame::{Frame, Words, cut};
use crate::limits::Limits;
use crate::sys::MeteredAllocator;

/// The version of the engine that is built in.
pub(crate) const VERSION: &str = "quickjs-ng 0.16.2";

/// The exit code of a program whose allocator refused memory and that did not cope.
pub(crate) const OUT_OF_MEMORY_EXIT: i32 = 9;
/// The exit code of a program that ended with an uncaught error.
const ERROR_EXIT: i32 = 1;

/// The engine's stack; the process's own is 8 MiB.
const STACK_BYTES: usize = 2 * 1024 * 1024;
/// How much more time than the limit a guest has by its own clock.
const PARENT_FIRST: Duration = Duration::from_secs(2);
/// The engine may use so much of the address space; the rest is for this program itself.
const HEAP_SHARE: (u64, u64) = (3, 4);

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

/// Runs a program behind the policy that is already in force; the code is the one to leave with.
pub(crate) fn run(report: &mut Report, limits: &Limits, code: &str, language_check: bool) -> i32 {
    let (refused, overdue) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let end = match start_engine(limits, &refused, &overdue) {
        Ok((runtime, context)) => {
            let code = check::without_hashbang(code);
            match check::parse(&runtime, &code, language_check) {
                Ok(mode) => {
                    report.go();
                    session::run(&runtime, &context, &code, mode)
                }
                Err(refusal) => {
                    report.tell(&refusal);
                    return ERROR_EXIT;
                }
            }
        }
        Err(error) => {
            report.tell(&Frame::Failed { message: format!("QuickJS: {error}") });
            return ERROR_EXIT;
        }
    };
    let (exit, result, error) = match end {
        // An interrupted job ends the queue as if there were none left.
        _ if overdue.get() => (ERROR_EXIT, None, Some(format!("it ran past {} ms", limits.timeout_ms))),
        End::Fine(result) => (0, result, None),
        End::NoMemory(error) if refused.get() => (OUT_OF_MEMORY_EXIT, None, Some(error)),
        End::Error(error) | End::NoMemory(error) => (ERROR_EXIT, None, Some(error)),
    };
    if let Some(error) = &error {
        session::write(2, &format!("{error}\n"));
    }
    let out_of_memory = exit == OUT_OF_MEMORY_EXIT;
    report.end(&Words { result: result.map(cut), error: error.map(cut), out_of_memory });
    exit
}

fn start_engine(
    limits: &Limits,
    refused: &Rc<Cell<bool>>,
    overdue: &Rc<Cell<bool>>,
) -> rquickjs::Result<(Runtime, Context)> {
    let (share, whole) = HEAP_SHARE;
    let heap = usize::try_from(limits.address_space_bytes / whole * share).unwrap_or(usize::MAX);
    let runtime = Runtime::new_with_alloc(MeteredAllocator::new(heap, Rc::clone(refused)))?;
    runtime.set_max_stack_size(STACK_BYTES);
    // The parent's kill comes first: its clock starts later than this one. This one ends a guest whose parent is stopped.
    let (start, timeout) = (now(), Duration::from_millis(limits.timeout_ms) + PARENT_FIRST);
    let overdue = Rc::clone(overdue);
    runtime.set_interrupt_handler(Some(Box::new(move || {
        overdue.set(overdue.get() || start.elapsed() > timeout);
        overdue.get()
    })));
    let context = Context::full(&runtime)?;
    Ok((runtime, context))
}
