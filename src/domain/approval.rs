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

/// What somebody decides about calls that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
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
    fn a_denial_is_json_whatever_its_reason_says() {
        let told: serde_json::Value = serde_json::from_str(&denied_result("\"no\"\n\\")).unwrap();
        assert_eq!(told["error"], "denied: \"no\"\n\\");
        assert_eq!((&told["success"], &told["data"]), (&false.into(), &serde_json::Value::Null));
        assert!(denied_result("x").ends_with(r#""error":"denied: x","execution_time":0.0}"#));
    }
}
