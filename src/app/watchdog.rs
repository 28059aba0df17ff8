//! The service manager's watchdog: a thread that has the store's writer commit, and only then says that the server lives.
//! Owns what counts as life and how the state is told with it; refuses to be there when nobody watches (`WATCHDOG_USEC`).
//!
//! An answer is life, also one that says no: a full disk is the writer's own to heal from, reads go on meanwhile, and a
//! restart would free nothing. No answer is none, and neither is a full channel: behind a writer that hangs it is as full
//! as under load, so it is asked again until there is room, which a writer that works makes in a moment.

use super::process;
use crate::ports::{Store, StoreError, Ticket};
use crate::store::RedbStore;
use sd_notify::NotifyState;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Signs of life in the time after which the manager counts the server as hung.
const SIGNS: u32 = 3;
/// Pause before a full channel is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

type Tell = Box<dyn FnMut(&[NotifyState<'_>]) + Send>;

/// The thread's other end.
pub(super) struct Watchdog {
    /// Taken away at the end, so that nothing is told after it.
    voice: Arc<Mutex<Option<Tell>>>,
    /// Dropped, it ends the pause.
    _ended: Sender<()>,
}

impl Watchdog {
    /// Starts the thread if the service manager watches this process; `place` is where clients come in.
    pub(super) fn start(store: &Arc<RedbStore>, place: String) -> io::Result<Option<Self>> {
        let Some(timeout) = sd_notify::watchdog_enabled().filter(|timeout| !timeout.is_zero()) else {
            return Ok(None);
        };
        let (asked, told) = (Arc::clone(store), Arc::clone(store));
        let watch = Watch {
            probe: Box::new(move || asked.probe()),
            status: Box::new(move || status(&place, &told)),
            every: timeout / SIGNS,
        };
        watch.begin(Box::new(process::notify)).map(Some)
    }

    /// Ends it: once this returns, nothing more is told. A thread that waits for the writer is left to it.
    pub(super) fn end(self) {
        self.voice.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// What came of one look at the writer.
enum Life {
    /// It answered, and may have complained.
    Sign { trouble: Option<StoreError> },
    /// It never will, or nobody wants to know any more.
    Over,
}

/// What the thread works with.
struct Watch {
    probe: Box<dyn Fn() -> Ticket<()> + Send>,
    status: Box<dyn Fn() -> String + Send>,
    every: Duration,
}

impl Watch {
    fn begin(self, tell: Tell) -> io::Result<Watchdog> {
        let (ending, ended) = channel();
        let voice = Arc::new(Mutex::new(Some(tell)));
        let theirs = Arc::clone(&voice);
        std::thread::Builder::new().name("watchdog".to_owned()).spawn(move || self.keep(&theirs, &ended))?;
        Ok(Watchdog { voice, _ended: ending })
    }

    fn keep(&self, voice: &Mutex<Option<Tell>>, ended: &Receiver<()>) {
        while let Life::Sign { trouble } = self.look(ended) {
            let mut status = (self.status)();
            if let Some(error) = trouble {
                status = format!("{status}; {error}");
            }
            match &mut *voice.lock().unwrap_or_else(PoisonError::into_inner) {
                Some(tell) => tell(&[NotifyState::Watchdog, NotifyState::Status(&status)]),
                None => return,
            }
            if is_over(ended, self.every) {
                return;
            }
        }
    }

    /// Waits for the writer to answer, however long that takes.
    fn look(&self, ended: &Receiver<()>) -> Life {
        loop {
            match (self.probe)().wait() {
                Ok(()) => return Life::Sign { trouble: None },
                Err(StoreError::Busy) if is_over(ended, BUSY_PAUSE.min(self.every)) => return Life::Over,
                Err(StoreError::Busy) => {}
                Err(StoreError::Closed) => {
                    tracing::error!("the store's writer has ended: no sign of life for the service manager");
                    return Life::Over;
                }
                Err(error) => return Life::Sign { trouble: Some(error) },
            }
        }
    }
}

/// Pauses; whether the end came in it.
fn is_over(ended: &Receiver<()>, pause: Duration) -> bool {
    !matches!(ended.recv_timeout(pause), Err(RecvTimeoutError::Timeout))
}

/// How the server stands, in one line.
fn status(place: &str, store: &RedbStore) -> String {
    match store.load() {
        Ok(load) => format!("serving {place}; {} running, {} queued", load.running, load.queued),
        Err(_) => format!("serving {place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    const PATIENCE: Duration = Duration::from_secs(60);

    type Answer = oneshot::Sender<Result<(), StoreError>>;

    /// A watch over a writer that is played by hand: who asks for a commit, and what is told.
    fn watched() -> (Watchdog, Receiver<Answer>, Receiver<String>) {
        let ((asks, asked), (tells, told)) = (channel(), channel());
        let probe = move || {
            let (answer, ticket) = Ticket::new();
            drop(asks.send(answer));
            ticket
        };
        let watch = Watch {
            probe: Box::new(probe),
            status: Box::new(|| "serving".to_owned()),
            every: Duration::from_millis(1),
        };
        let tell = move |states: &[NotifyState<'_>]| {
            let lines: Vec<String> = states.iter().map(ToString::to_string).collect();
            drop(tells.send(lines.join("\n")));
        };
        (watch.begin(Box::new(tell)).expect("a thread"), asked, told)
    }

    #[test]
    fn each_sign_of_life_stands_for_a_commit_and_a_writer_that_hangs_gives_none() {
        let (_watchdog, asked, told) = watched();
        for _ in 0..3 {
            let answer = asked.recv_timeout(PATIENCE).expect("a commit is asked for");
            assert!(told.try_recv().is_err(), "nothing is told before the commit");
            answer.send(Ok(())).expect("waited for");
            assert_eq!(told.recv_timeout(PATIENCE).expect("told"), "WATCHDOG=1\nSTATUS=serving");
        }
        let hung = asked.recv_timeout(PATIENCE).expect("a commit is asked for");
        // A hundred times the pause between two signs.
        assert!(told.recv_timeout(Duration::from_millis(100)).is_err(), "a writer that hangs is no life");
        assert!(asked.try_recv().is_err(), "one commit at a time");
        hung.send(Ok(())).expect("waited for");
        assert!(told.recv_timeout(PATIENCE).is_ok(), "and back to life");
    }

    #[test]
    fn a_full_channel_is_neither_life_nor_the_end() {
        let (_watchdog, asked, told) = watched();
        for _ in 0..5 {
            let answer = asked.recv_timeout(PATIENCE).expect("asked again");
            answer.send(Err(StoreError::Busy)).expect("waited for");
        }
        let answer = asked.recv_timeout(PATIENCE).expect("asked again");
        assert!(told.try_recv().is_err(), "a full channel is no life");
        answer.send(Ok(())).expect("waited for");
        assert!(told.recv_timeout(PATIENCE).is_ok(), "there was room at last");
    }

    #[test]
    fn a_disk_that_refuses_is_life_and_a_writer_that_has_ended_is_none() {
        let (_watchdog, asked, told) = watched();
        asked.recv_timeout(PATIENCE).expect("asked").send(Err(StoreError::Full)).expect("waited for");
        let said = told.recv_timeout(PATIENCE).expect("told");
        assert!(said.starts_with("WATCHDOG=1\nSTATUS=serving; the disk is full"), "{said}");
        drop(asked.recv_timeout(PATIENCE).expect("asked"));
        assert_eq!(
            asked.recv_timeout(PATIENCE).err(),
            Some(RecvTimeoutError::Disconnected),
            "the thread is gone"
        );
        assert!(told.try_recv().is_err(), "nothing more is told");
    }

    #[test]
    fn nothing_is_told_after_the_end() {
        let (watchdog, asked, told) = watched();
        let answer = asked.recv_timeout(PATIENCE).expect("asked");
        watchdog.end();
        answer.send(Ok(())).expect("waited for");
        assert!(told.recv_timeout(PATIENCE).is_err(), "the channel is dropped with nothing in it");
    }

    #[test]
    fn the_state_is_told_as_it_is() {
        let store = RedbStore::in_memory(Arc::new(super::super::system::SystemClock::new()));
        assert_eq!(status("http://127.0.0.1:1", &store), "serving http://127.0.0.1:1; 0 running, 0 queued");
        store.close();
        assert_eq!(status("http://127.0.0.1:1", &store), "serving http://127.0.0.1:1");
    }
}
