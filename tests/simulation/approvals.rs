//! Approves calls, denies them, or lets the timeout pass. Invariant: no guarded call runs without an
//! approval that may have reached the store, and no call runs after an acknowledged denial.

use super::world::World;
use crate::support::store::{ANN, BOB};
use nanoclaw::domain::approval::ApprovalDecision;
use nanoclaw::domain::id::JobId;
use nanoclaw::domain::job::{Job, JobStatus, PendingApproval};
use nanoclaw::domain::job_filter::JobFilter;
use nanoclaw::domain::tool::ToolCall;
use nanoclaw::ports::{JobQuery, Store};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Longer than any approval timeout, milliseconds.
const TOO_LONG_MS: i64 = 100_000;

/// The decisions about calls.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    /// Calls whose approval was sent to the store, with any outcome.
    approved: BTreeSet<(JobId, String)>,
    /// Calls whose denial was acknowledged.
    denied: BTreeSet<(JobId, String)>,
}

impl Verdicts {
    /// The violation if this call runs now.
    pub(crate) fn blame(&self, job: JobId, call: &ToolCall) -> Option<String> {
        let key = (job, call.id_ref.clone());
        if call.name == "guarded" && !self.approved.contains(&key) {
            return Some(format!("{job}: {} runs without approval", call.id_ref));
        }
        self.denied.contains(&key).then(|| format!("{job}: {} runs although it was denied", call.id_ref))
    }
}

impl World {
    /// Decides about waiting calls or lets the timeout pass; returns whether any call waited.
    pub(crate) fn decide_one(self: &Arc<Self>) -> bool {
        let waiting = self.waiting();
        if waiting.is_empty() {
            return false;
        }
        let at = usize::try_from(self.roll(waiting.len() as u64)).unwrap();
        if self.is_free() && self.chance(5) {
            self.clock.jump(TOO_LONG_MS);
        } else {
            self.decide(&waiting[at]);
        }
        true
    }

    fn waiting(&self) -> Vec<Job> {
        let process = self.process();
        let of = |user| JobQuery {
            user,
            status: Some(JobStatus::Waiting),
            filter: JobFilter::NONE,
            before: None,
            limit: 1_000,
        };
        [ANN, BOB]
            .into_iter()
            .filter_map(|user| process.store.jobs(&of(user)).ok())
            .flat_map(|page| page.jobs)
            .collect()
    }

    fn decide(&self, job: &Job) {
        let pending = job.approval.as_ref().map(PendingApproval::id_refs).unwrap_or_default();
        if pending.is_empty() {
            return self.oracle(|oracle| oracle.blame(format!("{} waits for nothing: {job:?}", job.id)));
        }
        let approve = !self.is_free() || self.chance(2);
        let some = if self.is_free() && self.chance(3) { 1 } else { pending.len() };
        let named: Vec<String> = pending.into_iter().take(some).collect();
        let decision =
            ApprovalDecision { approve, id_refs: Some(named.clone()), reason: None, is_lasting: false };
        let (process, stranger) = (self.process(), if job.user == ANN { BOB } else { ANN });
        if let Ok(Some(row)) = process.sim_store.decide(stranger, job.id, decision.clone()).wait() {
            self.oracle(|oracle| oracle.blame(format!("another user has decided about {:?}", row.job)));
        }
        let keys: Vec<_> = named.into_iter().map(|id_ref| (job.id, id_ref)).collect();
        self.oracle(|oracle| {
            // With any outcome, the job need not wait any longer.
            oracle.doubt(job.id);
            if let Some(known) = oracle.jobs.get_mut(&job.id) {
                known.not_before_ms = None;
            }
            if approve {
                oracle.verdicts.approved.extend(keys.iter().cloned());
            }
        });
        let decided = process.sim_store.decide(job.user, job.id, decision).wait();
        self.tell(|| format!("decided about {}: {:?}", job.id, decided.as_ref().map(|_| ())));
        if matches!(decided, Ok(Some(_))) {
            self.oracle(|oracle| {
                oracle.counts.decided += 1;
                if !approve {
                    oracle.verdicts.denied.extend(keys);
                }
            });
        }
    }
}
