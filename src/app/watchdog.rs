//! The watchdog of the service manager (`WATCHDOG_USEC`): a thread that commits through the store's writer
//! and reports life only after an answer. An error is an answer, because a restart would not free a full
//! disk. A full channel is not: it looks the same behind a hung writer, so it is tried again.

use super::service_manager;
use crate::ports::{NodeStore, StoreError, Ticket};
use sd_notify::NotifyState;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Signs of life within the timeout of the service manager.
const NOTIFICATIONS: u32 = 3;
/// Pause before a full channel is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

type NotifyFn = Box<dyn FnMut(&[NotifyState<'_>]) + Send>;

/// The handle of the thread.
pub(super) struct Watchdog {
    /// Taken at the end, so that no notification follows.
    notifier: Arc<Mutex<Option<NotifyFn>>>,
    /// Ends the pause when dropped.
    _ended: Sender<()>,
}

impl Watchdog {
    /// Starts the thread if the service manager watches this process.
    pub(super) fn start(store: &Arc<dyn NodeStore>, address: String) -> io::Result<Option<Self>> {
        let Some(timeout) = sd_notify::watchdog_enabled().filter(|timeout| !timeout.is_zero()) else {
            return Ok(None);
        };
        let (probed_store, status_store) = (Arc::clone(store), Arc::clone(store));
        let watch = WatchdogThread {
            probe: Box::new(move || probed_store.probe()),
            status: Box::new(move || status(&address, &*status_store)),
            every: timeout / NOTIFICATIONS,
        };
        watch.begin(Box::new(service_manager::notify)).map(Some)
    }

    /// Ends it: no notification follows. A thread that waits for the writer is not joined.
    pub(super) fn end(self) {
        self.notifier.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// The result of one commit.
enum WriterHealth {
    /// The writer responded, perhaps with an error.
    Responded { error: Option<StoreError> },
    /// The writer or the server has ended.
    Gone,
}

struct WatchdogThread {
    probe: Box<dyn Fn() -> Ticket<()> + Send>,
    status: Box<dyn Fn() -> String + Send>,
    every: Duration,
}

impl WatchdogThread {
    fn begin(self, notify: NotifyFn) -> io::Result<Watchdog> {
        let (stop_sender, stop_receiver) = channel();
        let notifier = Arc::new(Mutex::new(Some(notify)));
        let thread_notifier = Arc::clone(&notifier);
        std::thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || self.run(&thread_notifier, &stop_receiver))?;
        Ok(Watchdog { notifier, _ended: stop_sender })
    }

    fn run(&self, notifier: &Mutex<Option<NotifyFn>>, ended: &Receiver<()>) {
        while let WriterHealth::Responded { error } = self.probe_writer(ended) {
            let mut status = (self.status)();
            if let Some(error) = error {
                status = format!("{status}; {error}");
            }
            match &mut *notifier.lock().unwrap_or_else(PoisonError::into_inner) {
                Some(notify) => notify(&[NotifyState::Watchdog, NotifyState::Status(&status)]),
                None => return,
            }
            if pause(ended, self.every) {
                return;
            }
        }
    }

    /// Waits for the writer to respond, without a limit.
    fn probe_writer(&self, ended: &Receiver<()>) -> WriterHealth {
        loop {
            match (self.probe)().wait() {
                Ok(()) => return WriterHealth::Responded { error: None },
                Err(StoreError::Busy) if pause(ended, BUSY_PAUSE.min(self.every)) => {
                    return WriterHealth::Gone;
                }
                Err(StoreError::Busy) => {}
                Err(StoreError::Closed) => {
                    tracing::error!("the store's writer has ended; no more notifications to the watchdog");
                    return WriterHealth::Gone;
                }
                Err(error) => return WriterHealth::Responded { error: Some(error) },
            }
        }
    }
}

/// Pauses; true if the watchdog has ended.
fn pause(ended: &Receiver<()>, pause: Duration) -> bool {
    !matches!(ended.recv_timeout(pause), Err(RecvTimeoutError::Timeout))
}

/// The state of the server in one line.
fn status(address: &str, store: &dyn NodeStore) -> String {
    match store.load() {
        Ok(load) => format!("serving {address}; {} running, {} queued", load.running, load.queued),
        Err(_) => format!("serving {address}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::RedbStore;
    use tokio::sync::oneshot;

    const PATIENCE: Duration = Duration::from_secs(60);

    type Answer = oneshot::Sender<Result<(), StoreError>>;

    /// A watchdog over a scripted writer: the requested commits, and the notifications.
    fn watched() -> (Watchdog, Receiver<Answer>, Receiver<String>) {
        let ((commit_sender, commits), (notification_sender, notifications)) = (channel(), channel());
        let probe = move || {
            let (answer, ticket) = Ticket::new();
            drop(commit_sender.send(answer));
            ticket
        };
        let watch = WatchdogThread {
            probe: Box::new(probe),
            status: Box::new(|| "serving".to_owned()),
            every: Duration::from_millis(1),
        };
        let notify = move |states: &[NotifyState<'_>]| {
            let lines: Vec<String> = states.iter().map(ToString::to_string).collect();
            drop(notification_sender.send(lines.join("\n")));
        };
        (watch.begin(Box::new(notify)).expect("a thread"), commits, notifications)
    }

    #[test]
    fn the_watchdog_notifies_after_each_commit_and_not_for_a_hung_writer() {
        let (_watchdog, commits, notifications) = watched();
        for _ in 0..3 {
            let answer = commits.recv_timeout(PATIENCE).expect("a commit is asked for");
            assert!(notifications.try_recv().is_err(), "nothing is sent before the commit");
            answer.send(Ok(())).expect("waited for");
            assert_eq!(
                notifications.recv_timeout(PATIENCE).expect("a notification"),
                "WATCHDOG=1\nSTATUS=serving"
            );
        }
        let hung = commits.recv_timeout(PATIENCE).expect("a commit is asked for");
        // A hundred times the pause between two signs.
        assert!(
            notifications.recv_timeout(Duration::from_millis(100)).is_err(),
            "a writer that hangs is no life"
        );
        assert!(commits.try_recv().is_err(), "one commit at a time");
        hung.send(Ok(())).expect("waited for");
        assert!(notifications.recv_timeout(PATIENCE).is_ok(), "and back to life");
    }

    #[test]
    fn the_watchdog_retries_when_the_writer_channel_is_full() {
        let (_watchdog, commits, notifications) = watched();
        for _ in 0..5 {
            let answer = commits.recv_timeout(PATIENCE).expect("asked again");
            answer.send(Err(StoreError::Busy)).expect("waited for");
        }
        let answer = commits.recv_timeout(PATIENCE).expect("asked again");
        assert!(notifications.try_recv().is_err(), "a full channel is no life");
        answer.send(Ok(())).expect("waited for");
        assert!(notifications.recv_timeout(PATIENCE).is_ok(), "there was room at last");
    }

    #[test]
    fn the_watchdog_notifies_on_a_full_disk_and_stops_when_the_writer_ends() {
        let (_watchdog, commits, notifications) = watched();
        commits.recv_timeout(PATIENCE).expect("asked").send(Err(StoreError::Full)).expect("waited for");
        let status_line = notifications.recv_timeout(PATIENCE).expect("a notification");
        assert!(status_line.starts_with("WATCHDOG=1\nSTATUS=serving; the disk is full"), "{status_line}");
        drop(commits.recv_timeout(PATIENCE).expect("asked"));
        assert_eq!(
            commits.recv_timeout(PATIENCE).err(),
            Some(RecvTimeoutError::Disconnected),
            "the thread is gone"
        );
        assert!(notifications.try_recv().is_err(), "nothing more is sent");
    }

    #[test]
    fn the_watchdog_sends_nothing_after_its_end() {
        let (watchdog, commits, notifications) = watched();
        let answer = commits.recv_timeout(PATIENCE).expect("asked");
        watchdog.end();
        answer.send(Ok(())).expect("waited for");
        assert!(notifications.recv_timeout(PATIENCE).is_err(), "the channel is dropped with nothing in it");
    }

    #[test]
    fn the_status_shows_address_and_load() {
        let store = RedbStore::in_memory(Arc::new(super::super::system::SystemClock::new()));
        assert_eq!(status("http://127.0.0.1:1", &*store), "serving http://127.0.0.1:1; 0 running, 0 queued");
        store.close();
        assert_eq!(status("http://127.0.0.1:1", &*store), "serving http://127.0.0.1:1");
    }
}
