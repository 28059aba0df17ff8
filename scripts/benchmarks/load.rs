//! A closed loop of clients: each one sends its next request when the last one is answered.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Small, because there may be hundreds of clients.
const STACK_BYTES: usize = 512 * 1024;

/// Successful calls a second of these clients within a time. Each client calls with its own connection and
/// the number of the call. `None` ends the client.
pub(crate) fn calls_per_second<C>(
    clients: usize,
    span: Duration,
    connect: impl Fn() -> C + Sync,
    call: impl Fn(&mut C, usize) -> Option<bool> + Sync,
) -> f64 {
    let (calls, successes) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let began = Instant::now();
    let client = || {
        let mut connection = connect();
        while began.elapsed() < span
            && let Some(succeeded) = call(&mut connection, calls.fetch_add(1, Ordering::Relaxed))
        {
            successes.fetch_add(usize::from(succeeded), Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..clients {
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            thread.spawn_scoped(scope, client).expect("a client");
        }
    });
    successes.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}

/// Makes so many calls of these clients, each with its own connection. A call gets its number.
pub(crate) fn make_calls<C>(
    clients: usize,
    calls: usize,
    connect: impl Fn() -> C + Sync,
    call: impl Fn(&mut C, usize) + Sync,
) {
    calls_per_second(clients, Duration::MAX, connect, |connection, number| {
        (number < calls).then(|| {
            call(connection, number);
            true
        })
    });
}
