//! Calls that wait for somebody's approval: what is decided about them, and the words for people and for the model. Refuses
//! to know who keeps them.

use super::id::JobId;
use super::job::PendingApproval;
use super::tool::ToolCall;

/// What the model is told of a call that needs approval in a job that nobody is asked about.
pub const AUTO_DENIED: &str = "the job was submitted with approval: auto-deny, so nobody is asked; go on without this call, \
                               or say that it needs approval";

/// What the model is told of a call that somebody denied without a word.
pub const DENIED: &str =
    "the user did not approve this call; do not repeat it, go on without it or ask what to do instead";

/// Bytes of a call's arguments that the job shows while it waits.
const SHOWN_BYTES: usize = 16 * 1024;

/// What somebody decides about calls that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalDecision {
    /// They may be made.
    pub approve: bool,
    /// Which; `None`: all that wait.
    pub id_refs: Option<Vec<String>>,
    /// Why, for the model; read only where they are denied.
    pub reason: Option<String>,
}

/// What the model is told of calls about which nobody decided in time.
pub fn expired(timeout_ms: u64) -> String {
    format!(
        "nobody decided within {} s; go on without this call, or say that it needs approval",
        timeout_ms / 1_000
    )
}

/// The result of a call that was denied, as the model reads it.
pub fn denied_result(reason: &str) -> String {
    let error = serde_json::Value::String(format!("denied: {reason}"));
    format!(r#"{{"success":false,"data":null,"error":{error},"execution_time":0.0}}"#)
}

impl PendingApproval {
    /// These calls, until then. Long arguments are cut: they stand in the log, and this is read with every look at the job.
    pub fn new(calls: Vec<ToolCall>, expires_at_ms: u64) -> Self {
        Self { calls: calls.into_iter().map(cut).collect(), expires_at_ms }
    }

    /// What people are told while the job waits: for which tools, and what they can do.
    pub fn plea(&self, job: JobId) -> String {
        let named = |call: &ToolCall| format!("{} ({})", call.name, call.id_ref);
        let calls: Vec<String> = self.calls.iter().map(named).collect();
        let waits = if calls.len() == 1 { "waits" } else { "wait" };
        format!(
            "{} {waits} for approval: POST /v1/jobs/{job}/approve or /v1/jobs/{job}/deny",
            calls.join(", ")
        )
    }

    /// Which calls wait.
    pub fn id_refs(&self) -> Vec<String> {
        self.calls.iter().map(|call| call.id_ref.clone()).collect()
    }
}

fn cut(mut call: ToolCall) -> ToolCall {
    let whole = call.arguments.len();
    if whole > SHOWN_BYTES {
        let end = (0..=SHOWN_BYTES).rev().find(|end| call.arguments.is_char_boundary(*end));
        call.arguments.truncate(end.unwrap_or_default());
        let left = whole.saturating_sub(call.arguments.len());
        let told = format!("… [{left} more bytes: the job's tool_call event has them]");
        call.arguments.push_str(&told);
    }
    call
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plea_names_every_tool_and_both_routes() {
        let call = |id_ref: &str, name: &str| ToolCall {
            id_ref: id_ref.into(),
            name: name.into(),
            arguments: "{}".into(),
        };
        let (job, expires_at_ms) = (JobId::from_bits(7), 1);
        let two = PendingApproval { calls: vec![call("a", "bash"), call("b", "file_edit")], expires_at_ms };
        let plea = format!(
            "bash (a), file_edit (b) wait for approval: POST /v1/jobs/{job}/approve or /v1/jobs/{job}/deny"
        );
        assert_eq!((two.plea(job), two.id_refs()), (plea, vec!["a".to_owned(), "b".to_owned()]));
        let one = PendingApproval { calls: vec![call("a", "bash")], expires_at_ms };
        assert!(one.plea(job).starts_with("bash (a) waits for approval"));
    }

    #[test]
    fn p8_long_arguments_are_cut_between_characters_and_it_is_said() {
        let call = |arguments: String| ToolCall { id_ref: "a".into(), name: "bash".into(), arguments };
        let long = format!("x{}", "é".repeat(SHOWN_BYTES));
        let pending = PendingApproval::new(vec![call(long.clone()), call("{}".into())], 1);
        let shown = &pending.calls[0].arguments;
        let (head, told) = shown.split_once('…').unwrap();
        assert!(long.starts_with(head) && head.len() <= SHOWN_BYTES && shown.len() < SHOWN_BYTES + 100);
        assert!(told.contains(&format!("[{} more bytes", long.len() - head.len())), "{told}");
        assert_eq!(pending.calls[1].arguments, "{}");
    }

    #[test]
    fn a_denial_is_json_whatever_its_reason_says() {
        let told: serde_json::Value = serde_json::from_str(&denied_result("\"no\"\n\\")).unwrap();
        assert_eq!(told["error"], "denied: \"no\"\n\\");
        assert_eq!((&told["success"], &told["data"]), (&false.into(), &serde_json::Value::Null));
        assert!(denied_result("x").ends_with(r#""error":"denied: x","execution_time":0.0}"#));
    }
}
