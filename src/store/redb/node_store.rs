//! The port [`NodeStore`] on the store of one file.

use crate::domain::id::{JobId, UserId};
use crate::domain::log_chain::LogSigningKey;
use crate::ports::{Cluster, ClusterPorts, Meter, NodeStore, Store, StoreError, StoreLoad, UserJobCounts};
use crate::store::redb::store::RedbStore;
use std::sync::Arc;
use std::time::Duration;

/// One process has the file open.
impl Cluster for RedbStore {}

impl NodeStore for RedbStore {
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

    fn low_disk(&self) -> Option<StoreError> {
        Self::low_disk(self)
    }

    fn damage(&self) -> Option<String> {
        Self::damage(self)
    }

    fn load(&self) -> Result<StoreLoad, StoreError> {
        Self::load(self)
    }

    fn user_job_counts(&self, user: UserId) -> Result<UserJobCounts, StoreError> {
        Self::user_job_counts(self, user)
    }

    /// The writer's turns follow its commits.
    fn run_retention(&self) -> Result<(), StoreError> {
        self.probe().wait()
    }

    fn shared_setting(&self, _key: &str, _made: &str) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    fn cluster_ports(self: Arc<Self>) -> Option<ClusterPorts> {
        None
    }
}
