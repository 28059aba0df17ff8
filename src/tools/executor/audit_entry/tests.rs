//! What the audit log records of calls.

use crate::domain::id::{JobId, UserId};
use crate::domain::tool::{ToolCall, ToolChoice, ToolOrigin, ToolSpec, ToolTraits};
use crate::ports::{
    Audit, AuditEntry, AuditPage, StoreError, Tool, ToolContext, ToolError, Toolbox, UnexecutedReason,
};
use crate::tools::testing::{RecordingJournal, bounds, context};
use crate::tools::{Executor, ExecutorOptions};
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex};

/// Keeps what it is told.
#[derive(Default)]
struct Kept(Mutex<Vec<AuditEntry>>);

impl Audit for Kept {
    fn record(&self, entry: &AuditEntry) {
        self.0.lock().expect("unpoisoned").push(entry.clone());
    }
    fn of_job(&self, _: UserId, _: JobId, _: u64, _: usize) -> Result<AuditPage, StoreError> {
        Ok(AuditPage { entries: Vec::new(), has_more: false })
    }
}

/// A tool from there that says how strictly it ran.
struct Boasting(&'static str, ToolOrigin);

impl Tool for Boasting {
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

fn audited() -> (Executor, Arc<Kept>) {
    let kept = Arc::<Kept>::default();
    let mcp = ToolOrigin::Mcp { server: "a".into() };
    let tools: Vec<Box<dyn Tool>> =
        vec![Box::new(Boasting("ours", ToolOrigin::BuiltIn)), Box::new(Boasting("theirs", mcp))];
    let terms = ExecutorOptions { audit: Some(Arc::<Kept>::clone(&kept)), ..ExecutorOptions::new(bounds()) };
    (Executor::new(tools, Vec::new(), terms).expect("valid tools"), kept)
}

fn call(name: &str) -> ToolCall {
    ToolCall { id_ref: "c".into(), name: name.into(), arguments: r#"{"n":1}"#.into() }
}

/// The entry of one call in this context.
fn entry_of(name: &str, context: &ToolContext) -> AuditEntry {
    let (executor, kept) = audited();
    executor.run(&[call(name)], context, &RecordingJournal::default());
    let entries = kept.0.lock().expect("unpoisoned").clone();
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    entry.clone()
}

#[test]
fn an_entry_names_the_job_and_the_call_that_it_is_part_of() {
    let own = context(ToolChoice::All(true));
    let entry = entry_of("ours", &own);
    assert_eq!((entry.job, entry.id_ref.as_str(), entry.success), (Some(own.job), "c", true));
    let sub_agents = entry_of("ours", &ToolContext { id_ref: "call_1".into(), ..own.clone() });
    assert_eq!(sub_agents.id_ref, "call_1/c");
    assert_eq!(entry_of("ours", &ToolContext { is_trial: true, ..own }).job, None);
}

#[test]
fn a_call_that_never_ran_has_an_entry_that_says_why() {
    let (executor, kept) = audited();
    let own = context(ToolChoice::All(true));
    executor.settled(&call("gone"), &own, UnexecutedReason::Denied, "denied: no");
    executor.settled(&call("ours"), &own, UnexecutedReason::Interrupted, "interrupted");
    let entries = kept.0.lock().expect("unpoisoned").clone();
    let told = |n: usize| (entries[n].tool.as_str(), entries[n].skipped.as_deref(), entries[n].success);
    assert_eq!((told(0), told(1)), (("gone", Some("denied"), false), ("ours", Some("interrupted"), false)));
    assert_eq!((&entries[0].result, &entries[0].arguments), (&"denied: no".to_owned(), &json!({"n": 1})));
}

#[test]
fn only_tools_of_the_server_are_believed_how_strictly_they_ran() {
    let own = context(ToolChoice::All(true));
    assert_eq!(entry_of("ours", &own).level.as_deref(), Some("strict"));
    assert_eq!(entry_of("theirs", &own).level, None);
}
