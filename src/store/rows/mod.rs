//! What stores keep, and the rules of these rows that need no storage.

pub(crate) mod account;
pub(crate) mod answer_fold;
pub(crate) mod approval;
pub(crate) mod batch;
pub(crate) mod checkpoint;
pub(crate) mod clock_trust;
pub(crate) mod conditions;
pub(crate) mod conversation;
pub(crate) mod delivery;
pub(crate) mod file_totals;
pub(crate) mod fold;
pub(crate) mod history;
pub(crate) mod idempotency;
pub(crate) mod job;
pub(crate) mod lease;
pub(crate) mod log_fold;
pub(crate) mod page;
pub(crate) mod project_directory;
pub(crate) mod schedule;
pub(crate) mod sweeper;
pub(crate) mod transfer;
pub(crate) mod transitions;
pub(crate) mod usage;
pub(crate) mod weight;
