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

/// The waiting calls that the decision names; none if all were decided the same way before.
pub(crate) fn undecided_calls(
    decision: &ApprovalDecision,
    row: &JobRow,
) -> Result<Vec<String>, JobChangeError> {
    let (status, approve) = (row.job.status, decision.approve);
    let record = row.approval.as_ref().filter(|_| !status.is_terminal());
    let is_repeated =
        |id_ref: &str| record.is_some_and(|record| record.decided.get(id_ref) == Some(&approve));
    let Some(pending) = &row.job.approval else {
        let repeats = match &decision.id_refs {
            Some(named) => named.iter().all(|id_ref| is_repeated(id_ref)),
            None => record.is_some_and(|record| record.decided.values().all(|decided| *decided == approve)),
        };
        return if repeats { Ok(Vec::new()) } else { Err(JobChangeError::WrongState { status }) };
    };
    let waiting = pending.id_refs();
    let Some(named) = &decision.id_refs else { return Ok(waiting) };
    let unknown = named.iter().find(|id_ref| !waiting.contains(id_ref) && !is_repeated(id_ref));
    if let Some(id_ref) = unknown {
        return Err(JobChangeError::NotPending { id_ref: id_ref.clone() });
    }
    Ok(waiting.into_iter().filter(|id_ref| named.contains(id_ref)).collect())
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
