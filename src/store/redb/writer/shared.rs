//! State that the writer thread shares with readers and callers.

use crate::domain::id::{BatchId, JobId};
use crate::domain::log_chain::LogSigningKey;
use crate::ports::{Clock, Meter, NoopMeter, StoreError};
use crate::store::change_watches::ChangeWatches;
use crate::store::commit_metrics::CommitMetrics;
use crate::store::delivery_notify::DeliveryNotify;
use crate::store::disk_limits::DiskLimits;
use crate::store::job_removals::JobRemovals;
use crate::store::limits::StoreLimits;
use crate::store::options::StoreOptions;
use crate::store::redb::codec::damage::DamageReport;
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::values;
use crate::store::redb::file::handle::DatabaseHandle;
use crate::store::redb::file::medium::Medium;
use crate::store::redb::volatile::table::VolatileJobs;
use crate::store::redb::writer::linger::Linger;
use crate::store::rows::clock_trust::ClockTrust;
use crate::store::waiting_claims::WaitingClaims;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// State that the writer shares with readers and waiters.
pub(crate) struct StoreShared {
    pub(crate) medium: Box<dyn Medium>,
    pub(crate) handle: DatabaseHandle,
    pub(crate) options: StoreOptions,
    pub(crate) bounds: StoreLimits,
    pub(crate) mark: DiskLimits,
    pub(crate) damage: Arc<DamageReport>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) clock_trust: ClockTrust,
    pub(crate) backlog: WriteBacklog,
    pub(crate) watches: ChangeWatches<JobId>,
    pub(crate) batch_watches: ChangeWatches<BatchId>,
    pub(crate) claims: WaitingClaims,
    pub(crate) volatile: VolatileJobs,
    pub(crate) linger: Linger,
    pub(crate) deliveries: DeliveryNotify,
    pub(crate) job_removals: JobRemovals,
    pub(crate) meter: OnceLock<Arc<dyn Meter>>,
    /// Signs what retention does to logs.
    pub(crate) log_key: OnceLock<LogSigningKey>,
    /// Counts of recovery, from before the meter was set.
    pub(crate) unreported: Mutex<Option<CommitMetrics>>,
    pub(crate) writer_loss: WriterLoss,
}

impl StoreShared {
    /// Runs `reader` on the committed state. redb trusts its pages, so a damaged one may cause a panic, which
    /// counts as damage.
    pub(crate) fn read<T>(
        &self,
        reader: impl FnOnce(&ReadTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let read = || self.handle.read(|reading| reader(&ReadTransaction::new(reading, &self.damage)));
        let found = catch_unwind(AssertUnwindSafe(read))
            .unwrap_or_else(|_panic| Err(StoreError::Corrupt("a page of the file is damaged".to_owned())));
        if let Err(StoreError::Corrupt(reason)) = &found
            && reason != values::DAMAGED
            && self.damage.add(reason.clone())
        {
            tracing::error!(reason, "the store holds something that cannot be read");
        }
        found
    }

    /// Sets the meter and reports the counts of recovery to it. Only the first meter is used.
    pub(crate) fn set_meter(&self, meter: Arc<dyn Meter>) {
        let meter = self.meter.get_or_init(|| meter);
        if let Some(metrics) = self.unreported().take() {
            metrics.report(&**meter);
        }
    }

    pub(crate) fn unreported(&self) -> MutexGuard<'_, Option<CommitMetrics>> {
        self.unreported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn meter(&self) -> &dyn Meter {
        self.meter.get().map_or(&NoopMeter, |meter| &**meter)
    }
}

/// What happens when the writer ends although nobody closed the store.
#[derive(Default)]
pub(crate) struct WriterLoss(Mutex<WriterLossState>);

/// Whether a new process may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriterLossCause {
    /// Perhaps: the disk or this process failed.
    Failure,
    /// No: the file is damaged so that not one commit succeeded.
    Damage,
}

#[derive(Default)]
struct WriterLossState {
    lost: Option<WriterLossCause>,
    act: Option<Box<dyn FnOnce(WriterLossCause) + Send>>,
}

impl WriterLoss {
    /// Sets what to do; does it at once if the writer is lost already.
    pub(crate) fn on_loss(&self, act: Box<dyn FnOnce(WriterLossCause) + Send>) {
        self.update(|state| state.act = Some(act));
    }

    /// The writer is lost.
    pub(crate) fn report(&self, cause: WriterLossCause) {
        self.update(|state| state.lost = Some(cause));
    }

    fn update(&self, change: impl FnOnce(&mut WriterLossState)) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        let due = state.lost.and_then(|cause| Some((state.act.take()?, cause)));
        drop(state);
        if let Some((act, cause)) = due {
            act(cause);
        }
    }
}

/// Maximum weight of the clients' writes that wait for the writer, bytes.
const BACKLOG_BYTES: usize = 64 * 1024 * 1024;

/// Weight of the writes that wait for the writer; the channel bounds only their number.
#[derive(Debug, Default)]
pub(crate) struct WriteBacklog(AtomicUsize);

impl WriteBacklog {
    /// Whether a client's write fits. A single one always does.
    pub(crate) fn has_room(&self, weight: usize) -> bool {
        let waiting = self.weight();
        waiting == 0 || waiting.saturating_add(weight) <= BACKLOG_BYTES
    }

    /// Weight of the writes that wait, bytes.
    pub(crate) fn weight(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds a write that enters the channel.
    pub(crate) fn enter(&self, weight: usize) {
        self.0.fetch_add(weight, Ordering::Relaxed);
    }

    /// Subtracts a write that left the channel or did not fit.
    pub(crate) fn leave(&self, weight: usize) {
        self.0.fetch_sub(weight, Ordering::Relaxed);
    }
}
