//! What a commit tells the other nodes: one notification, which readers and workers take as a hint.

use crate::domain::id::{BatchId, JobId, UserId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum payload of a notification: `PostgreSQL` takes less than 8,000 bytes.
const MAX_BYTES: usize = 7_900;

/// The changes of a commit.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Announcement {
    /// The newest `seq` of every job that got events.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", rename = "j")]
    pub(crate) jobs: BTreeMap<JobId, u64>,
    /// New change counters of batches.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", rename = "b")]
    pub(crate) batches: BTreeMap<BatchId, u64>,
    /// Running jobs to cancel.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "c")]
    pub(crate) cancelled: Vec<JobId>,
    /// Deleted jobs and their owners: their files go on all nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "r")]
    pub(crate) removed_jobs: Vec<(UserId, JobId)>,
    #[serde(flatten)]
    pub(crate) queue: QueueNews,
    /// A delivery became due.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", rename = "d")]
    pub(crate) has_due_delivery: bool,
    /// There were too many changes to name: look at everything that is watched.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", rename = "a")]
    pub(crate) is_everything: bool,
    /// The node that made them.
    #[serde(default, rename = "n")]
    pub(crate) node: i64,
    /// When it did, by the clock that all nodes share, unix milliseconds; 0: unknown.
    #[serde(default, rename = "m")]
    pub(crate) at_ms: u64,
}

/// What waiting workers learn.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QueueNews {
    /// A job became ready, or will be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", rename = "q")]
    pub(crate) has_ready_job: bool,
    /// A job has a new start time, or waits until one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", rename = "t")]
    pub(crate) has_delayed_job: bool,
    /// A job has a new time at which it has to end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", rename = "e")]
    pub(crate) has_job_end: bool,
}

impl Announcement {
    /// The payload of a node's notification; `None` if nothing changed.
    pub(crate) fn encode(&self, node: i64, at_ms: u64) -> Option<String> {
        if *self == Self::default() {
            return None;
        }
        let encode = |announcement: &Self| serde_json::to_string(announcement).ok();
        let fits = |payload: &String| payload.len() <= MAX_BYTES;
        let whole = encode(&Self { node, at_ms, ..self.clone() });
        // Nodes that do not hear of many removed jobs find their files a minute later.
        let rest = || encode(&Self { node, at_ms, removed_jobs: Vec::new(), ..self.clone() });
        let everything = Self { node, at_ms, ..Self::everything() };
        whole.filter(fits).or_else(|| rest().filter(fits)).or_else(|| encode(&everything))
    }

    /// Changes that nobody has named: whoever waits looks.
    pub(crate) fn everything() -> Self {
        Self {
            is_everything: true,
            queue: QueueNews { has_ready_job: true, has_delayed_job: true, has_job_end: true },
            has_due_delivery: true,
            ..Self::default()
        }
    }

    /// Reads a payload; `None` if it is of another kind.
    pub(crate) fn decode(payload: &str) -> Option<Self> {
        serde_json::from_str(payload).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_read_as_it_was_written_and_too_many_changes_become_everything() {
        assert_eq!(Announcement::default().encode(3, 5), None);
        let one = Announcement { jobs: [(JobId::from_bits(1), 7)].into(), ..Announcement::default() };
        let read = Announcement::decode(&one.encode(3, 5).unwrap()).unwrap();
        assert_eq!(read, Announcement { node: 3, at_ms: 5, ..one });
        let removed_jobs = (0..500).map(|n| (UserId(1), JobId::from_bits(n))).collect();
        let payload = Announcement { removed_jobs, ..read.clone() }.encode(3, 5).unwrap();
        assert_eq!(Announcement::decode(&payload).unwrap(), read, "the removals alone are left out");
        let many = Announcement { jobs: (0..500).map(|n| (JobId::from_bits(n), 1)).collect(), ..read };
        let payload = many.encode(3, 5).unwrap();
        assert!(payload.len() < 8_000);
        assert!(Announcement::decode(&payload).unwrap().is_everything);
    }
}
