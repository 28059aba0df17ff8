//! The port [`NodeStore`] on `PostgreSQL`, and what a database does otherwise.

use crate::domain::id::{JobId, UserId};
use crate::domain::log_chain::LogSigningKey;
use crate::ports::{ClusterPorts, Meter, NodeStore, ProviderCluster, StoreError, StoreLoad, UserJobCounts};
use crate::store::postgres::store::PostgresStore;
use std::sync::Arc;
use std::time::Duration;

impl NodeStore for PostgresStore {
    fn set_meter(&self, meter: Arc<dyn Meter>) {
        Self::set_meter(self, meter);
    }

    fn set_log_key(&self, key: LogSigningKey) {
        self.shared.log_key.get_or_init(|| key);
    }

    fn close(&self) {
        Self::close(self);
    }

    fn wait_for_removed_jobs(&self, timeout: Duration) -> Vec<(UserId, JobId)> {
        Self::wait_for_removed_jobs(self, timeout)
    }

    fn wake_removal_waiter(&self) {
        Self::wake_removal_waiter(self);
    }

    fn is_clock_trusted(&self) -> bool {
        Self::is_clock_trusted(self)
    }

    /// The disk of the shared directory. The database refuses the writes themselves when its own is full.
    fn low_disk(&self) -> Option<StoreError> {
        self.shared.low_disk(0)
    }

    fn damage(&self) -> Option<String> {
        None
    }

    fn load(&self) -> Result<StoreLoad, StoreError> {
        Self::load(self)
    }

    fn user_job_counts(&self, user: UserId) -> Result<UserJobCounts, StoreError> {
        Self::user_job_counts(self, user)
    }

    fn shared_setting(&self, key: &str, made: &str) -> Result<Option<String>, StoreError> {
        self.setting_or_insert(key, made).map(Some)
    }

    fn run_retention(&self) -> Result<(), StoreError> {
        Self::run_retention(self)
    }

    fn cluster_ports(self: Arc<Self>) -> Option<ClusterPorts> {
        Some(ClusterPorts {
            windows: Arc::<Self>::clone(&self),
            providers: Arc::clone(&self.shared.providers) as Arc<dyn ProviderCluster>,
            audit: self,
        })
    }
}
