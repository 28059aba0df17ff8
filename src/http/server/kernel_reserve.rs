//! Descriptors and epoll watches that the server keeps for the moment when the kernel has none left: a
//! program of the same user may have taken them all. Then the reserve is given back, so that the next clients
//! are accepted, and the largest command is ended. At the limit of this process, connections that wait for
//! their clients are closed. While commands run, the sandbox ends the largest one before memory runs out; an
//! `accept` that finds none left asks for the same.

use super::connection_table::ConnectionTable;
use crate::http::blocking::on_own_thread;
use crate::ports::{KernelShortage, KernelTables};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Open files in reserve, each with a watch.
const FILES: usize = 32;
/// Pause before a released reserve is filled again.
const REFILL_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct KernelReserve {
    tables: Arc<dyn KernelTables>,
    connections: Arc<ConnectionTable>,
    /// Whether a command is being ended.
    is_relieving: Arc<AtomicBool>,
    /// Files, and the epoll instance that watches them; empty after a release.
    held: Vec<OwnedFd>,
    refill_at: Option<Instant>,
}

impl KernelReserve {
    pub(super) fn new(tables: Arc<dyn KernelTables>, connections: Arc<ConnectionTable>) -> Self {
        let held = reserve().unwrap_or_default();
        Self { tables, connections, is_relieving: Arc::default(), held, refill_at: None }
    }

    /// Gives the reserve back. Ends the largest command, or closes connections if the server alone is at its
    /// limit.
    pub(super) fn relieve(&mut self, error: &io::Error) {
        let Some(short) = shortage(error) else { return };
        self.held.clear();
        self.refill_at = Instant::now().checked_add(REFILL_PAUSE);
        // Commands do not count against the limit of this process.
        let is_own_limit = Errno::from_io_error(error) == Some(Errno::MFILE);
        if is_own_limit {
            return self.connections.close_waiting();
        }
        if self.is_relieving.swap(true, Ordering::AcqRel) {
            return;
        }
        let (tables, is_relieving) = (Arc::clone(&self.tables), Arc::clone(&self.is_relieving));
        drop(tokio::spawn(async move {
            let ended = on_own_thread("kernel tables", move || tables.end_largest_command(short)).await;
            is_relieving.store(false, Ordering::Release);
            if let Err(error) = ended {
                tracing::error!(%error, "cannot end a command that uses up what the kernel has");
            }
        }));
    }

    /// Fills the reserve again after a release.
    pub(super) fn refill(&mut self) {
        if self.refill_at.is_some_and(|at| at <= Instant::now()) {
            self.held = reserve().unwrap_or_default();
            self.refill_at =
                if self.held.is_empty() { Instant::now().checked_add(REFILL_PAUSE) } else { None };
        }
    }
}

/// What the error says that the kernel has run out of.
fn shortage(error: &io::Error) -> Option<KernelShortage> {
    match Errno::from_io_error(error)? {
        Errno::NOSPC | Errno::NFILE | Errno::MFILE => Some(KernelShortage::Tables),
        Errno::NOMEM | Errno::NOBUFS => Some(KernelShortage::Memory),
        _ => None,
    }
}

fn reserve() -> rustix::io::Result<Vec<OwnedFd>> {
    let watcher = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut held = Vec::with_capacity(FILES.saturating_add(1));
    for _ in 0..FILES {
        let file = eventfd(0, EventfdFlags::CLOEXEC)?;
        epoll::add(&watcher, &file, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        held.push(file);
    }
    held.push(watcher);
    Ok(held)
}

#[cfg(test)]
pub(super) mod testing {
    use crate::ports::{KernelShortage, KernelTables};
    use tokio::sync::watch;

    /// The requests to end a command: their number, and what was short at last.
    pub(crate) struct CountedRelief(watch::Sender<(u64, Option<KernelShortage>)>);

    impl Default for CountedRelief {
        fn default() -> Self {
            Self(watch::Sender::new((0, None)))
        }
    }

    impl KernelTables for CountedRelief {
        fn end_largest_command(&self, short: KernelShortage) {
            self.0.send_modify(|requests| *requests = (requests.0 + 1, Some(short)));
        }
    }

    impl CountedRelief {
        pub(crate) async fn wait_for(&self, count: u64) {
            let mut counts = self.0.subscribe();
            counts.wait_for(|seen| seen.0 >= count).await.expect("the sender lives");
        }

        pub(crate) fn count(&self) -> u64 {
            self.0.borrow().0
        }

        pub(crate) fn last(&self) -> Option<KernelShortage> {
            self.0.borrow().1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::CountedRelief;
    use super::*;

    #[tokio::test]
    async fn p8_a_full_table_releases_the_reserve_and_only_the_kernels_own_ends_a_command() {
        let relief = Arc::new(CountedRelief::default());
        let mut reserve = KernelReserve::new(Arc::<CountedRelief>::clone(&relief), ConnectionTable::new(1));
        assert_eq!(reserve.held.len(), FILES + 1);
        reserve.relieve(&Errno::CONNABORTED.into());
        assert_eq!(reserve.held.len(), FILES + 1, "an error of one connection");
        reserve.relieve(&Errno::MFILE.into());
        assert_eq!((reserve.held.len(), relief.count()), (0, 0), "this process is at its own limit");
        reserve.relieve(&Errno::NOSPC.into());
        relief.wait_for(1).await;
        reserve.refill();
        assert!(reserve.held.is_empty(), "not at once");
        reserve.refill_at = Some(Instant::now());
        reserve.refill();
        assert_eq!((reserve.held.len(), reserve.refill_at), (FILES + 1, None));
    }

    #[tokio::test]
    async fn p8_what_is_short_decides_which_command_is_the_largest() {
        for (error, short) in [
            (Errno::NFILE, KernelShortage::Tables),
            (Errno::NOMEM, KernelShortage::Memory),
            (Errno::NOBUFS, KernelShortage::Memory),
        ] {
            let relief = Arc::new(CountedRelief::default());
            let tables = Arc::<CountedRelief>::clone(&relief);
            KernelReserve::new(tables, ConnectionTable::new(1)).relieve(&error.into());
            relief.wait_for(1).await;
            assert_eq!(relief.last(), Some(short), "{error}");
        }
    }
}
