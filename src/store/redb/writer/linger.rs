//! How the writer thread waits for more writes before it commits a group without an urgent one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// The wait of a writer whose group has no urgent write. Only urgent writes, and as many others as are worth
/// a commit, wake it: waking it for each piece of each answer costs more than the pieces.
#[derive(Debug, Default)]
pub(crate) struct Linger {
    /// Weight of waiting writes that ends the wait, bytes. 0: the writer does not wait.
    wanted_weight: AtomicUsize,
    writer: Mutex<Option<Thread>>,
}

impl Linger {
    /// Waits on the writer's thread for `weight` bytes of writes or for [`Linger::end`], at most `timeout`,
    /// unless `finds_request` finds a request that came before. Returns whether it waited.
    pub(crate) fn wait(
        &self,
        timeout: Duration,
        weight: usize,
        finds_request: impl FnOnce() -> bool,
    ) -> bool {
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current());
        self.wanted_weight.store(weight, Ordering::SeqCst);
        // The sender of a later request sees that the writer waits.
        let waits = !finds_request();
        if waits {
            std::thread::park_timeout(timeout);
        }
        self.wanted_weight.store(0, Ordering::SeqCst);
        waits
    }

    /// Ends the wait, if there is one. Called after an urgent request has entered the channel.
    pub(crate) fn end(&self) {
        self.end_for(usize::MAX);
    }

    /// Ends the wait if writes of `weight` bytes are worth a commit. Called after one entered the channel.
    pub(crate) fn end_for(&self, weight: usize) {
        let wanted = self.wanted_weight.load(Ordering::SeqCst);
        if wanted != 0
            && weight >= wanted
            // Of many senders, one wakes the writer.
            && self.wanted_weight.swap(0, Ordering::SeqCst) != 0
            && let Some(writer) = &*self.writer.lock().unwrap_or_else(PoisonError::into_inner)
        {
            writer.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far longer than a test takes: a wait that ends was ended.
    const LONG: Duration = Duration::from_secs(600);

    fn waits_until(end: impl Fn(&Linger)) {
        let linger = Linger::default();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| linger.wait(LONG, 100, || false));
            while !writer.is_finished() {
                end(&linger);
                std::thread::yield_now();
            }
        });
    }

    #[test]
    fn an_urgent_write_ends_the_wait_and_so_do_enough_others() {
        waits_until(Linger::end);
        waits_until(|linger| linger.end_for(100));
    }

    #[test]
    fn a_wait_does_not_begin_if_a_request_has_come() {
        Linger::default().wait(LONG, 100, || true);
    }

    #[test]
    fn few_writes_do_not_end_the_wait() {
        let linger = Linger::default();
        linger.end_for(usize::MAX);
        linger.wait(Duration::from_millis(1), 100, || {
            linger.end_for(99);
            assert_eq!(linger.wanted_weight.load(Ordering::SeqCst), 100);
            false
        });
    }
}
