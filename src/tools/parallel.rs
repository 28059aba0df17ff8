//! Runs work on a few scoped threads, one of them the caller's. All log in the caller's span.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Runs `work` on each of `threads` threads and waits for them. Fewer run if threads cannot start.
pub(super) fn on_threads(name: &str, threads: usize, work: impl Fn() + Sync) {
    let span = tracing::Span::current();
    let work = &work;
    thread::scope(|scope| {
        for _ in 1..threads {
            let span = &span;
            let helper = thread::Builder::new().name(name.to_owned());
            if helper.spawn_scoped(scope, || span.in_scope(work)).is_err() {
                break;
            }
        }
        work();
    });
}

/// The results of `work` for all items, in order, from at most `threads` threads.
pub(super) fn map<I: Sync, T: Send>(
    name: &str,
    threads: usize,
    items: &[I],
    work: impl Fn(usize, &I) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(items.iter().map(|_| None).collect::<Vec<Option<T>>>());
    on_threads(name, threads.min(items.len()), || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { break };
            let result = work(at, item);
            if let Some(slot) = results.lock().unwrap_or_else(PoisonError::into_inner).get_mut(at) {
                *slot = Some(result);
            }
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
}
