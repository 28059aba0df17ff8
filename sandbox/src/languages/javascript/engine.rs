//! The engine, created before any program: the broker creates one, and each child uses its own copy once.
//!
//! Each copy resets its clock and its random numbers.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rquickjs::context::EvalOptions;
use rquickjs::{Context, Ctx, Function, Object, Persistent, Runtime};

use crate::clock::now;
use crate::limits::RunLimits;
use crate::sys::{AllocationMeter, MeteredAllocator};

const PRELUDE: &str = include_str!("prelude.js");

/// The stack of the engine. The process's own is 8 MiB.
const STACK_BYTES: usize = 2 * 1024 * 1024;
/// The part of the address space that the engine may use. The process itself needs the rest.
const HEAP_SHARE: (u64, u64) = (3, 4);

/// Added to the guest's own time limit, so that the parent's kill comes first: the parent's clock starts
/// later.
const PARENT_FIRST: Duration = Duration::from_secs(2);

/// The functions that the prelude returns.
pub(super) struct PreludeFunctions<'js> {
    /// The text of a value.
    pub(super) result: Function<'js>,
    /// Runs a timer that is due, or returns how long to wait.
    pub(super) next: Function<'js>,
    /// The text of a thrown value.
    pub(super) crash: Function<'js>,
}

/// An engine with evaluated prelude, and a second realm for parsing.
pub(crate) struct JavaScriptEngine {
    pub(super) runtime: Runtime,
    pub(super) context: Context,
    /// The realm in which a program is parsed without running.
    pub(super) parser: Context,
    prelude: [Persistent<Function<'static>>; 3],
    meter: Rc<AllocationMeter>,
    start: Rc<Cell<Instant>>,
    random: Rc<Cell<u64>>,
    overdue: Rc<Cell<bool>>,
}

impl JavaScriptEngine {
    pub(crate) fn new() -> rquickjs::Result<Self> {
        let meter = Rc::new(AllocationMeter { limit: Cell::new(usize::MAX), refused: Cell::new(false) });
        let runtime = Runtime::new_with_alloc(MeteredAllocator::new(Rc::clone(&meter)))?;
        runtime.set_max_stack_size(STACK_BYTES);
        let (context, parser) = (Context::full(&runtime)?, Context::full(&runtime)?);
        let (start, random) = (Rc::new(Cell::new(now())), Rc::new(Cell::new(1)));
        let prelude = context.with(|ctx| prepare(&ctx, &start, &random))?;
        Ok(Self { runtime, context, parser, prelude, meter, start, random, overdue: Rc::default() })
    }

    /// Prepares this process's copy for a run with these limits.
    pub(super) fn prepare_run(&self, limits: &RunLimits) -> std::io::Result<()> {
        let (numerator, denominator) = HEAP_SHARE;
        self.meter
            .limit
            .set(usize::try_from(limits.address_space_bytes / denominator * numerator).unwrap_or(usize::MAX));
        let mut seed = [0; 8];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())?;
        // Zero would stay zero.
        self.random.set(u64::from_ne_bytes(seed) | 1);
        let (start, timeout) = (now(), Duration::from_millis(limits.timeout_ms) + PARENT_FIRST);
        self.start.set(start);
        // Ends a guest whose parent is stopped.
        let overdue = Rc::clone(&self.overdue);
        self.runtime.set_interrupt_handler(Some(Box::new(move || {
            overdue.set(overdue.get() || start.elapsed() > timeout);
            overdue.get()
        })));
        Ok(())
    }

    /// Whether the guest's own time limit was reached. An interrupted job ends the queue like an empty one.
    pub(super) fn is_overdue(&self) -> bool {
        self.overdue.get()
    }

    /// Whether the allocator has refused memory.
    pub(super) fn was_memory_refused(&self) -> bool {
        self.meter.refused.get()
    }

    /// The functions of the prelude.
    pub(super) fn prelude<'js>(&self, ctx: &Ctx<'js>) -> rquickjs::Result<PreludeFunctions<'js>> {
        let [result, next, crash] = self.prelude.clone();
        Ok(PreludeFunctions {
            result: result.restore(ctx)?,
            next: next.restore(ctx)?,
            crash: crash.restore(ctx)?,
        })
    }
}

fn prepare(
    ctx: &Ctx<'_>,
    start: &Rc<Cell<Instant>>,
    random: &Rc<Cell<u64>>,
) -> rquickjs::Result<[Persistent<Function<'static>>; 3]> {
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some("<prelude>".to_owned());
    let prelude: Function<'_> = ctx.eval_with_options(PRELUDE, options)?;
    let print = Function::new(ctx.clone(), |stream: i32, text: String| write_output(stream, &text))?;
    let start = Rc::clone(start);
    let clock = Function::new(ctx.clone(), move || start.get().elapsed().as_secs_f64() * 1000.0)?;
    let random = Rc::clone(random);
    let random = Function::new(ctx.clone(), move || next_random(&random))?.with_name("random")?;
    let host: Object<'_> = prelude.call((print, clock, random))?;
    let saved = |name| Ok::<_, rquickjs::Error>(Persistent::save(ctx, host.get::<_, Function<'_>>(name)?));
    Ok([saved("result")?, saved("next")?, saved("crash")?])
}

/// The next number in [0, 1): xorshift64*, like `Math.random` of most engines.
fn next_random(state: &Cell<u64>) -> f64 {
    /// 2^-53: a double has 53 bits after the point.
    const STEP: f64 = 1.0 / 9_007_199_254_740_992.0;
    let mut bits = state.get();
    bits ^= bits >> 12;
    bits ^= bits << 25;
    bits ^= bits >> 27;
    state.set(bits);
    let [high, low] = split(bits.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11);
    (f64::from(high) * 67_108_864.0 + f64::from(low)) * STEP
}

/// The upper 27 and the lower 26 of 53 bits.
fn split(bits: u64) -> [u32; 2] {
    let part = |bits: u64| u32::try_from(bits).unwrap_or(0);
    [part(bits >> 26), part(bits & 0x3ff_ffff)]
}

/// Writes to standard output (1) or standard error. Errors are ignored: a parent that stops reading kills the
/// guest.
pub(super) fn write_output(stream: i32, text: &str) {
    let mut unwritten = text.as_bytes();
    while !unwritten.is_empty() {
        let written = if stream == 1 {
            rustix::io::write(rustix::stdio::stdout(), unwritten)
        } else {
            rustix::io::write(rustix::stdio::stderr(), unwritten)
        };
        match written {
            Ok(length) => unwritten = unwritten.get(length..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_fill_the_unit_interval() {
        let state = Cell::new(0x9e37_79b9_7f4a_7c15);
        let numbers: Vec<f64> = (0..10_000).map(|_| next_random(&state)).collect();
        assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
        let mean = numbers.iter().sum::<f64>() / 10_000.0;
        assert!((0.48..0.52).contains(&mean), "{mean}");
        for tenth in 0..10 {
            let low = f64::from(tenth) / 10.0;
            let count = numbers.iter().filter(|number| (low..low + 0.1).contains(*number)).count();
            assert!((900..1_100).contains(&count), "{low}: {count}");
        }
    }
}
