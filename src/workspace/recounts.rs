//! Counts directories in the background, on a thread that lives as long as something waits. At most one count
//! of a user waits, so users take turns.

use crate::domain::id::UserId;
use crate::ports::{CancelToken, Clock};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Counts that wait. One that finds no place is asked for again at the next use of its directory.
const MOST_WAITING: usize = 256;
/// The thread rests this many times as long as it counts.
const REST: u64 = 4;

type Recount = Box<dyn FnOnce() + Send>;

/// The counts that wait.
pub(super) struct Recounts {
    clock: Arc<dyn Clock>,
    queue: Mutex<RecountQueue>,
}

#[derive(Default)]
struct RecountQueue {
    waiting: VecDeque<(UserId, Recount)>,
    /// Whether the thread runs.
    is_running: bool,
}

impl Recounts {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, queue: Mutex::default() }
    }

    /// Counts later, unless a count of this user waits.
    pub(super) fn add(self: &Arc<Self>, user: UserId, recount: impl FnOnce() + Send + 'static) {
        let mut queue = self.lock();
        let is_known = queue.waiting.iter().any(|(other, _)| *other == user);
        if is_known || queue.waiting.len() >= MOST_WAITING {
            return;
        }
        queue.waiting.push_back((user, Box::new(recount)));
        if std::mem::replace(&mut queue.is_running, true) {
            return;
        }
        let recounts = Arc::clone(self);
        let begun = std::thread::Builder::new().name("recounts".to_owned()).spawn(move || recounts.run());
        if let Err(error) = begun {
            tracing::warn!(%error, "cannot start a thread");
            *queue = RecountQueue::default();
        }
    }

    fn run(&self) {
        loop {
            let mut queue = self.lock();
            let Some((_, recount)) = queue.waiting.pop_front() else {
                queue.is_running = false;
                return;
            };
            drop(queue);
            let begin_us = self.clock.monotonic_us();
            recount();
            let took_us = self.clock.monotonic_us().saturating_sub(begin_us);
            let rest = Duration::from_micros(took_us.saturating_mul(REST));
            self.clock.sleep(&CancelToken::new(Arc::clone(&self.clock)), rest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, RecountQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn at_most_one_count_of_a_user_waits_and_all_are_done() {
        let recounts = Arc::new(Recounts::new(Arc::new(crate::workspace::tests::StepClock::default())));
        let ((begun, begins), (gate, opens)) = (channel(), channel());
        let add = |user, name: &'static str| {
            let begun = begun.clone();
            recounts.add(UserId(user), move || begun.send(name).unwrap());
        };
        recounts.add(UserId(1), move || opens.recv().unwrap());
        while !recounts.lock().waiting.is_empty() {
            std::thread::yield_now();
        }
        add(1, "the first of eve");
        add(1, "the second of eve");
        add(2, "bob");
        gate.send(()).unwrap();
        assert_eq!([begins.recv().unwrap(), begins.recv().unwrap()], ["the first of eve", "bob"]);
        while recounts.lock().is_running {
            std::thread::yield_now();
        }
        assert!(begins.try_recv().is_err(), "eve has one");
        add(1, "eve again");
        assert_eq!(begins.recv().unwrap(), "eve again");
    }
}
