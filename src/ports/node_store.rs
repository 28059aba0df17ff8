//! The store as the process of one node has it: all ports, and what only the process itself asks.

use super::accounts::Accounts;
use super::audit::AuditRows;
use super::backup::Backup;
use super::batch::Batches;
use super::cluster::Cluster;
use super::conversation_items::ConversationItems;
use super::conversations::Conversations;
use super::job_services::BackgroundJobs;
use super::log_chains::LogChains;
use super::meter::{Meter, StatsSource};
use super::outbox::Outbox;
use super::projects::Projects;
use super::provider_cluster::ProviderCluster;
use super::rate_windows::RateWindows;
use super::results::Results;
use super::runs::Runs;
use super::schedule::Schedules;
use super::span_exports::SpanExports;
use super::status::UserJobCounts;
use super::store::Store;
use super::store_error::StoreError;
use super::stored_completions::StoredCompletions;
use super::stored_files::StoredFiles;
use super::users::Users;
use crate::domain::id::{JobId, UserId};
use crate::domain::log_chain::LogSigningKey;
use std::sync::Arc;
use std::time::Duration;

/// Number of running and queued jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreLoad {
    /// Leased by a worker.
    pub running: u64,
    /// Ready, or delayed.
    pub queued: u64,
}

/// What the nodes of a cluster share beside the rows of the other ports.
#[derive(Clone)]
pub struct ClusterPorts {
    /// Failed logins and requests of users.
    pub windows: Arc<dyn RateWindows>,
    /// The audit log.
    pub audit: Arc<dyn AuditRows>,
    /// Rates and pauses of providers.
    pub providers: Arc<dyn ProviderCluster>,
}

/// A store with all its ports.
pub trait NodeStore:
    Store
    + Accounts
    + BackgroundJobs
    + Backup
    + Batches
    + Cluster
    + ConversationItems
    + Conversations
    + LogChains
    + Outbox
    + Projects
    + Results
    + Runs
    + Schedules
    + SpanExports
    + StatsSource
    + StoredCompletions
    + StoredFiles
    + Users
{
    /// Sets the meter. Only the first one is used.
    fn set_meter(&self, meter: Arc<dyn Meter>);
    /// Sets the key that signs what retention does to logs. Only the first one is used.
    fn set_log_key(&self, key: LogSigningKey);
    /// Finishes the queued writes and ends the store's threads. Later writes and reads return
    /// [`StoreError::Closed`]. Blocks. A second call does nothing.
    fn close(&self);
    /// Blocks until jobs are deleted, by any node, until [`NodeStore::wake_removal_waiter`], or until the
    /// timeout has passed. Returns the deleted jobs, each once; a crash or a long queue may lose some.
    fn wait_for_removed_jobs(&self, timeout: Duration) -> Vec<(UserId, JobId)>;
    /// Ends the current or the next [`NodeStore::wait_for_removed_jobs`].
    fn wake_removal_waiter(&self);
    /// Whether the wall clock can be trusted. After a jump everything looks old.
    fn is_clock_trusted(&self) -> bool;
    /// The error for new work when the disk is nearly full. `None` as well if the store has no disk here.
    fn low_disk(&self) -> Option<StoreError>;
    /// What is damaged in the store, as far as it was read.
    fn damage(&self) -> Option<String>;
    /// The load as of the last commit.
    fn load(&self) -> Result<StoreLoad, StoreError>;
    /// Unfinished jobs of a user, counted up to 10,000 in each state.
    fn user_job_counts(&self, user: UserId) -> Result<UserJobCounts, StoreError>;
    /// Removes what is due by its age now, without waiting for the next turn of retention.
    fn run_retention(&self) -> Result<(), StoreError>;
    /// A value that all nodes of a cluster share: the first node's `made` is kept. `None`: the store has one
    /// node, which keeps such values in files of its own.
    fn shared_setting(&self, key: &str, made: &str) -> Result<Option<String>, StoreError>;
    /// What only nodes of a cluster share; `None`: the store has one node, which counts and logs by itself.
    fn cluster_ports(self: Arc<Self>) -> Option<ClusterPorts>;
}
