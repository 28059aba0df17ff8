//! Approvals of tool calls: decisions, and the texts for users and models.

use super::characters::beginning;
use super::id::JobId;
use super::job::PendingApproval;
use super::tool::ToolCall;

/// Message to the model for a call that needs an approval in a job without approvals.
pub const AUTO_DENIED: &str = "the job was submitted with approval: auto-deny, so nobody is asked; go on without this call, \
                               or say that it needs approval";

/// Message to the model for a call that was denied without a reason.
pub const DENIED: &str =
    "the user did not approve this call; do not repeat it, go on without it or ask what to do instead";

/// Bytes of a call's arguments that a waiting job shows.
const SHOWN_BYTES: usize = 16 * 1024;

/// A decision about waiting calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalDecision {
    /// Whether the calls may run.
    pub approve: bool,
    /// The calls; `None` for all waiting ones.
    pub id_refs: Option<Vec<String>>,
    /// Reason for the model; used for denials only.
    pub reason: Option<String>,
    /// Whether later calls of the approved calls' tools need no approval in this job; used for approvals
    /// only.
    pub is_lasting: bool,
}

/// Message to the model when no decision was made in time.
pub fn expired(timeout_ms: u64) -> String {
    format!(
        "nobody decided within {} s; go on without this call, or say that it needs approval",
        timeout_ms / 1_000
    )
}

/// Message to the model for a call beyond the `max_tool_calls` of its job.
pub fn beyond_limit(most: u32) -> String {
    format!(
        "this job may call tools {most} times (max_tool_calls), and this call was not made; answer with what you have"
    )
}

/// Result of a denied call, for the model.
pub fn denied_result(reason: &str) -> String {
    let error = serde_json::Value::String(format!("denied: {reason}"));
    format!(r#"{{"success":false,"data":null,"error":{error},"execution_time":0.0}}"#)
}

impl PendingApproval {
    /// Waiting calls and their expiry. Long arguments are cut, because every read of the job loads them; the
    /// log has the complete ones.
    pub fn new(calls: Vec<ToolCall>, expires_at_ms: u64) -> Self {
        Self { calls: calls.into_iter().map(cut).collect(), expires_at_ms }
    }

    /// Text for users while the job waits: names the tools and how to decide.
    pub fn approval_text(&self, job: JobId) -> String {
        let named = |call: &ToolCall| format!("{} ({})", call.name, call.id_ref);
        let calls: Vec<String> = self.calls.iter().map(named).collect();
        let waits = if calls.len() == 1 { "waits" } else { "wait" };
        format!(
            "{} {waits} for approval: POST /v1/jobs/{job}/approve or /v1/jobs/{job}/deny",
            calls.join(", ")
        )
    }

    /// Ids of the waiting calls.
    pub fn id_refs(&self) -> Vec<String> {
        self.calls.iter().map(|call| call.id_ref.clone()).collect()
    }
}

fn cut(mut call: ToolCall) -> ToolCall {
    let total_bytes = call.arguments.len();
    if total_bytes > SHOWN_BYTES {
        call.arguments.truncate(beginning(&call.arguments, SHOWN_BYTES).len());
        let left = total_bytes.saturating_sub(call.arguments.len());
        let marker = format!("… [{left} more bytes: the job's tool_call event has them]");
        call.arguments.push_str(&marker);
    }
    call
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_approval_text_names_every_tool_and_both_routes() {
        let call = |id_ref: &str, name: &str| ToolCall {
            id_ref: id_ref.into(),
            name: name.into(),
            arguments: "{}".into(),
        };
        let (job, expires_at_ms) = (JobId::from_bits(7), 1);
        let two = PendingApproval { calls: vec![call("a", "bash"), call("b", "file_edit")], expires_at_ms };
        let approval_text = format!(
            "bash (a), file_edit (b) wait for approval: POST /v1/jobs/{job}/approve or /v1/jobs/{job}/deny"
        );
        assert_eq!(
            (two.approval_text(job), two.id_refs()),
            (approval_text, vec!["a".to_owned(), "b".to_owned()])
        );
        let one = PendingApproval { calls: vec![call("a", "bash")], expires_at_ms };
        assert!(one.approval_text(job).starts_with("bash (a) waits for approval"));
    }

    #[test]
    fn p8_long_arguments_are_truncated_between_characters_with_a_note() {
        let call = |arguments: String| ToolCall { id_ref: "a".into(), name: "bash".into(), arguments };
        let long = format!("x{}", "é".repeat(SHOWN_BYTES));
        let pending = PendingApproval::new(vec![call(long.clone()), call("{}".into())], 1);
        let shown = &pending.calls[0].arguments;
        let (head, marker) = shown.split_once('…').unwrap();
        assert!(long.starts_with(head) && head.len() <= SHOWN_BYTES && shown.len() < SHOWN_BYTES + 100);
        assert!(marker.contains(&format!("[{} more bytes", long.len() - head.len())), "{marker}");
        assert_eq!(pending.calls[1].arguments, "{}");
    }

    #[test]
    fn a_denied_result_is_valid_json_for_any_reason() {
        let result: serde_json::Value = serde_json::from_str(&denied_result("\"no\"\n\\")).unwrap();
        assert_eq!(result["error"], "denied: \"no\"\n\\");
        assert_eq!((&result["success"], &result["data"]), (&false.into(), &serde_json::Value::Null));
        assert!(denied_result("x").ends_with(r#""error":"denied: x","execution_time":0.0}"#));
    }
}
