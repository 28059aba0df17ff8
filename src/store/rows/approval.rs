//! Decisions about tool calls that wait for an approval.

use crate::domain::approval::{ApprovalDecision, DENIED};
use crate::domain::event::EngineMark;
use crate::domain::handed_approvals::ApprovalRequestRef;
use crate::domain::job::{JobSpec, PendingApproval};
use crate::ports::JobChangeError;
use crate::store::rows::job::JobRow;
use std::collections::BTreeSet;

/// Text with the numbers of approved and denied calls.
pub(crate) fn count_decisions(row: &JobRow) -> (usize, usize) {
    let decided = row.approval.as_ref().map(|record| &record.decided);
    let approved = decided.map_or(0, |decided| decided.values().filter(|approved| **approved).count());
    (approved, decided.map_or(0, std::collections::BTreeMap::len).saturating_sub(approved))
}

pub(crate) fn decision_summary((approved, denied): (usize, usize)) -> &'static str {
    match (approved, denied) {
        (_, 0) => "the calls were approved",
        (0, _) => "the calls were denied",
        _ => "some of the calls were approved, the others denied",
    }
}

/// The calls that a decision is about.
pub(crate) struct DecidedCalls {
    /// All of them.
    pub(crate) all: Vec<String>,
    /// Those that wait; none if all were decided the same way before.
    pub(crate) undecided: Vec<String>,
}

/// The calls that the decision is about. Without names, it is about the calls that wait, if the user cannot
/// have seen others: the job has asked once. A second one, sent twice or late, would else decide about calls
/// that nobody has seen.
pub(crate) fn decided_calls(
    decision: &ApprovalDecision,
    row: &JobRow,
) -> Result<DecidedCalls, JobChangeError> {
    let (status, approve) = (row.job.status, decision.approve);
    let record = row.approval.as_ref().filter(|_| !status.is_terminal());
    let is_repeated = |id_ref: &String| {
        let decisions = record.iter().flat_map(|record| [&record.decided, &record.decided_before]);
        decisions.filter_map(|decided| decided.get(id_ref)).any(|decided| *decided == approve)
    };
    let waiting = row.job.approval.as_ref().map(PendingApproval::id_refs);
    match (&decision.id_refs, waiting) {
        (Some(named), None) if named.iter().all(is_repeated) => {
            Ok(DecidedCalls { all: named.clone(), undecided: Vec::new() })
        }
        (None, None) => {
            let decided = record.map(|record| &record.decided);
            let repeated = decided.filter(|decided| decided.values().all(|decided| *decided == approve));
            let all = repeated.ok_or(JobChangeError::WrongState { status })?.keys().cloned().collect();
            Ok(DecidedCalls { all, undecided: Vec::new() })
        }
        (Some(_), None) => Err(JobChangeError::WrongState { status }),
        (None, Some(waiting)) if row.approvals_asked == 1 => {
            Ok(DecidedCalls { all: waiting.clone(), undecided: waiting })
        }
        (None, Some(waiting)) => Err(JobChangeError::UnnamedCalls { waiting }),
        (Some(named), Some(waiting)) => {
            let unknown = named.iter().find(|id_ref| !waiting.contains(id_ref) && !is_repeated(id_ref));
            if let Some(id_ref) = unknown {
                return Err(JobChangeError::NotPending { id_ref: id_ref.clone() });
            }
            let undecided = waiting.into_iter().filter(|id_ref| named.contains(id_ref)).collect();
            Ok(DecidedCalls { all: named.clone(), undecided })
        }
    }
}

pub(crate) fn decision_mark(
    decision: &ApprovalDecision,
    id_refs: &[String],
    pending: Option<&PendingApproval>,
) -> EngineMark {
    if decision.approve {
        let calls = pending.iter().flat_map(|pending| &pending.calls).filter(|_| decision.is_lasting);
        let tools: BTreeSet<&str> =
            calls.filter(|call| id_refs.contains(&call.id_ref)).map(|call| call.name.as_str()).collect();
        let id_refs = id_refs.to_vec();
        return EngineMark::Approved { id_refs, always: tools.into_iter().map(str::to_owned).collect() };
    }
    let reason = decision.reason.clone().unwrap_or_else(|| DENIED.to_owned());
    EngineMark::Denied { id_refs: id_refs.to_vec(), reason }
}

/// The requests of earlier jobs that a job acts on.
pub(crate) fn answered_requests(spec: &JobSpec) -> impl Iterator<Item = ApprovalRequestRef> {
    let decided = spec.handed_approvals.iter().flat_map(|handed| &handed.decided);
    decided.filter_map(|call| call.request)
}
