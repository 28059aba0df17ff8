//! The thread that applies retention. Each node tries once a minute; the database decides which one does it.

use crate::ports::{CancelReason, CancelToken, StoreError};
use crate::store::postgres::retention::sweep::SweepTurn;
use crate::store::postgres::shared::PostgresShared;
use crate::store::postgres::writer::act::Act;
use crate::store::postgres::writer::thread::WriterRequest;
use crate::store::postgres::writer::write::{WriteOptions, queued_write};
use crate::store::rows::sweeper::Sweeper;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the thread looks at the clock.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Pause between two transactions of a turn, for other writes.
const PAUSE: Duration = Duration::from_millis(10);

/// Applies retention, a turn at a time.
pub(crate) struct RetentionRunner {
    shared: Arc<PostgresShared>,
    /// Leads to the threads of writes that are not of leased jobs.
    writes: SyncSender<WriterRequest>,
    /// Locked during a turn.
    schedule: Mutex<Sweeper>,
    stop: CancelToken,
}

impl RetentionRunner {
    /// Retention of a store that opens now.
    pub(crate) fn new(shared: Arc<PostgresShared>, writes: SyncSender<WriterRequest>) -> Self {
        let schedule = Sweeper::new(shared.options.retention.clone(), shared.clock.monotonic_ms());
        let stop = CancelToken::new(Arc::clone(&shared.clock));
        Self { shared, writes, schedule: Mutex::new(schedule), stop }
    }

    /// Starts the thread.
    pub(crate) fn start(self: &Arc<Self>) -> std::io::Result<JoinHandle<()>> {
        let runner = Arc::clone(self);
        std::thread::Builder::new().name("store-sweep".to_owned()).spawn(move || {
            while runner.stop.wait(LOOK_EVERY).is_none() {
                match runner.run(false) {
                    Ok(()) | Err(StoreError::Closed) => {}
                    Err(error) => tracing::warn!(%error, "retention failed; trying again later"),
                }
            }
        })
    }

    /// Ends the thread after its transaction.
    pub(crate) fn stop(&self) {
        self.stop.cancel(CancelReason::Shutdown);
    }

    /// Takes the turn, if this node is due (or `is_urgent`) and no other node has had it a moment ago.
    pub(crate) fn run(&self, is_urgent: bool) -> Result<(), StoreError> {
        let mut schedule = self.schedule.lock().unwrap_or_else(PoisonError::into_inner);
        let monotonic_ms = self.shared.clock.monotonic_ms();
        if !is_urgent && !schedule.is_due(monotonic_ms) {
            return Ok(());
        }
        schedule.postpone(monotonic_ms);
        let mut is_continued = false;
        while self.sweep(is_continued)? == (SweepTurn::Done { has_more: true }) {
            is_continued = true;
            if self.stop.wait(PAUSE).is_some() {
                break;
            }
        }
        Ok(())
    }

    /// One transaction.
    fn sweep(&self, is_continued: bool) -> Result<SweepTurn, StoreError> {
        let (write, ticket) = queued_write(WriteOptions::default(), async move |act: &mut Act<'_>| {
            act.take_sweep_turn(is_continued).await
        });
        match self.writes.try_send(WriterRequest::Write(write)) {
            Ok(()) => ticket.wait(),
            Err(TrySendError::Full(_)) => Err(StoreError::Busy),
            Err(TrySendError::Disconnected(_)) => Err(StoreError::Closed),
        }
    }
}
