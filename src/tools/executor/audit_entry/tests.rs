//! The audit log entries of calls.

use crate::domain::id::{JobId, UserId};
use crate::domain::tool::{ToolCall, ToolChoice, ToolOrigin, ToolSpec, ToolTraits};
use crate::ports::{
    Audit, AuditEntry, AuditPage, StoreError, Tool, ToolContext, ToolError, Toolbox, UnexecutedReason,
};
use crate::tools::testing::{RecordingJournal, bounds, context};
use crate::tools::{Executor, ExecutorOptions};
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex};

/// Records the entries.
#[derive(Default)]
struct RecordingAudit(Mutex<Vec<AuditEntry>>);

impl Audit for RecordingAudit {
    fn record(&self, entry: &AuditEntry) {
        self.0.lock().expect("unpoisoned").push(entry.clone());
    }
    fn of_job(&self, _: UserId, _: JobId, _: u64, _: usize) -> Result<AuditPage, StoreError> {
        Ok(AuditPage { entries: Vec::new(), has_more: false })
    }
}

/// A tool of this origin that reports a strictness.
struct StrictTool(&'static str, ToolOrigin);

impl Tool for StrictTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec { name: self.0.into(), description: "".into(), parameters: json!({"type": "object"}) }
    }
    fn traits(&self) -> ToolTraits {
        ToolTraits::READ
    }
    fn origin(&self) -> ToolOrigin {
        self.1.clone()
    }
    fn call(&self, _: &Map<String, Value>, _: &ToolContext) -> Result<Value, ToolError> {
        Ok(json!({"strictness": "strict"}))
    }
}

fn audited() -> (Executor, Arc<RecordingAudit>) {
    let audit = Arc::<RecordingAudit>::default();
    let mcp = ToolOrigin::Mcp { server: "a".into() };
    let tools: Vec<Box<dyn Tool>> =
        vec![Box::new(StrictTool("ours", ToolOrigin::BuiltIn)), Box::new(StrictTool("theirs", mcp))];
    let options = ExecutorOptions {
        audit: Some(Arc::<RecordingAudit>::clone(&audit)),
        ..ExecutorOptions::new(bounds())
    };
    (Executor::new(tools, Vec::new(), options).expect("valid tools"), audit)
}

fn call(name: &str) -> ToolCall {
    ToolCall { id_ref: "c".into(), name: name.into(), arguments: r#"{"n":1}"#.into() }
}

/// The entry of one call in this context.
fn entry_of(name: &str, context: &ToolContext) -> AuditEntry {
    let (executor, audit) = audited();
    executor.run(&[call(name)], context, &RecordingJournal::default());
    let entries = audit.0.lock().expect("unpoisoned").clone();
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    entry.clone()
}

#[test]
fn an_audit_entry_names_its_job_and_its_parent_call() {
    let job_context = context(ToolChoice::All(true));
    let entry = entry_of("ours", &job_context);
    assert_eq!((entry.job, entry.id_ref.as_str(), entry.success), (Some(job_context.job), "c", true));
    let sub_agents = entry_of("ours", &ToolContext { id_ref: "call_1".into(), ..job_context.clone() });
    assert_eq!(sub_agents.id_ref, "call_1/c");
    assert_eq!(entry_of("ours", &ToolContext { is_trial: true, ..job_context }).job, None);
}

#[test]
fn a_call_that_never_ran_has_an_audit_entry_with_the_reason() {
    let (executor, audit) = audited();
    let job_context = context(ToolChoice::All(true));
    executor.settled(&call("gone"), &job_context, UnexecutedReason::Denied, "denied: no");
    executor.settled(&call("ours"), &job_context, UnexecutedReason::Interrupted, "interrupted");
    let entries = audit.0.lock().expect("unpoisoned").clone();
    let reported = |n: usize| (entries[n].tool.as_str(), entries[n].skipped.as_deref(), entries[n].success);
    assert_eq!(
        (reported(0), reported(1)),
        (("gone", Some("denied"), false), ("ours", Some("interrupted"), false))
    );
    assert_eq!((&entries[0].result, &entries[0].arguments), (&"denied: no".to_owned(), &json!({"n": 1})));
}

#[test]
fn only_built_in_tools_can_report_their_sandbox_level() {
    let job_context = context(ToolChoice::All(true));
    assert_eq!(entry_of("ours", &job_context).level.as_deref(), Some("strict"));
    assert_eq!(entry_of("theirs", &job_context).level, None);
}
