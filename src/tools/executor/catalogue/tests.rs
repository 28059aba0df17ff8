//! Tools that come and go, and tools that are left out.

use crate::domain::tool::{Aliases, ToolCall, ToolChoice, ToolOrigin, ToolSpec, ToolTraits};
use crate::ports::{ApprovedCalls, Tool, ToolContext, ToolError, ToolScope, ToolSource, Toolbox};
use crate::tools::testing::{bounds, context, one_result};
use crate::tools::{ApprovalRules, Executor, ExecutorOptions};
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A tool of this name and schema.
struct SchemaTool(String, Value, Aliases);

impl Tool for SchemaTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec { name: self.0.clone().into(), description: "".into(), parameters: self.1.clone() }
    }
    fn traits(&self) -> ToolTraits {
        ToolTraits::READ
    }
    fn origin(&self) -> ToolOrigin {
        ToolOrigin::Command
    }
    fn aliases(&self) -> Aliases {
        self.2
    }
    fn approval_names(&self) -> Vec<String> {
        self.0.strip_suffix("_1234abcd").map(str::to_owned).into_iter().collect()
    }
    fn call(&self, arguments: &Map<String, Value>, _: &ToolContext) -> Result<Value, ToolError> {
        Ok(json!({"of": self.0, "with": arguments}))
    }
}

fn schema_tool(name: &str) -> SchemaTool {
    SchemaTool(name.to_owned(), json!({"type": "object", "properties": {}}), Aliases::default())
}

/// A source whose tools a test changes.
#[derive(Default)]
struct ChangingSource {
    version: AtomicU64,
    tools: Mutex<Vec<Arc<dyn Tool>>>,
}

impl ChangingSource {
    fn set(&self, tools: Vec<SchemaTool>) {
        *self.tools.lock().expect("unpoisoned") =
            tools.into_iter().map(|tool| -> Arc<dyn Tool> { Arc::new(tool) }).collect();
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    fn set_names(&self, names: &[&str]) {
        self.set(names.iter().map(|name| schema_tool(name)).collect());
    }
}

impl ToolSource for ChangingSource {
    fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.tools.lock().expect("unpoisoned").clone()
    }
}

fn executor_with(sources: Vec<Arc<dyn ToolSource>>) -> Executor {
    let builtin: Vec<Box<dyn Tool>> = vec![Box::new(schema_tool("own_b")), Box::new(schema_tool("own_a"))];
    Executor::new(builtin, sources, ExecutorOptions::new(bounds())).expect("valid tools")
}

fn names(executor: &Executor) -> Vec<String> {
    executor.tool_infos().into_iter().map(|info| info.spec.name.into_owned()).collect()
}

#[test]
fn source_tools_follow_the_built_in_ones_and_can_change() {
    let (first, second) = (Arc::new(ChangingSource::default()), Arc::new(ChangingSource::default()));
    second.set_names(&["mcp_z", "mcp_a"]);
    let executor =
        executor_with(vec![Arc::<ChangingSource>::clone(&first), Arc::<ChangingSource>::clone(&second)]);
    assert_eq!(names(&executor), ["own_a", "own_b", "mcp_z", "mcp_a"]);
    first.set_names(&["js"]);
    assert_eq!(names(&executor), ["own_a", "own_b", "js", "mcp_z", "mcp_a"]);
    assert!(executor.has_tool("js"));
    assert_eq!(one_result(&executor, "js", "{}")["data"]["of"], "js");
    second.set_names(&[]);
    first.set_names(&["other"]);
    assert_eq!(names(&executor), ["own_a", "own_b", "other"]);
    assert_eq!(
        one_result(&executor, "js", "{}")["error"],
        "Tool not found: js. Available: own_a, own_b, other"
    );
    let offered = executor.offered(&ToolScope { has_results: false, ..ToolScope::EVERY });
    assert_eq!(offered.len(), 3);
    assert_eq!(executor.tool_infos().last().map(|info| info.origin.clone()), Some(ToolOrigin::Command));
}

#[test]
fn an_invalid_tool_of_a_source_is_skipped_alone() {
    let source = Arc::new(ChangingSource::default());
    let schema = |schema: Value| SchemaTool("schema".to_owned(), schema, Aliases::default());
    let alias = SchemaTool(
        "fine_but_for_its_alias".to_owned(),
        json!({"type": "object"}),
        Aliases { names: &["own_b"], foreign: &[], parameters: &[] },
    );
    source.set(vec![
        schema_tool("good"),
        schema_tool("own_a"),
        schema_tool("good"),
        schema_tool("with space"),
        schema_tool(""),
        schema_tool(&"x".repeat(65)),
        alias,
        schema(json!({"type": "string"})),
        schema(json!({"type": "object", "properties": {"a": {"type": "nonsense"}}})),
        schema(json!({"type": "object", "properties": {"a": {"$ref": "https://example.com/other.json"}}})),
        schema(json!({"type": "object", "properties": {"a": {"pattern": "("}}})),
        schema_tool(&"y".repeat(64)),
    ]);
    let executor = executor_with(vec![source]);
    assert_eq!(names(&executor), ["own_a", "own_b", "good", &"y".repeat(64)]);
    assert_eq!(one_result(&executor, "own_a", "{}")["data"]["of"], "own_a");
}

#[test]
fn p8_the_tools_of_a_source_are_limited() {
    let source = Arc::new(ChangingSource::default());
    source.set((0..super::SOURCE_TOOLS + 44).map(|n| schema_tool(&format!("t{n}"))).collect());
    assert_eq!(names(&executor_with(vec![source])).len(), 2 + super::SOURCE_TOOLS);
}

#[test]
fn an_open_schema_accepts_any_parameters() {
    let source = Arc::new(ChangingSource::default());
    let tool = |name: &str, schema: Value| SchemaTool(name.to_owned(), schema, Aliases::default());
    let parts =
        json!({"type": "object", "properties": {}, "allOf": [{"properties": {"a": {"type": "integer"}}}]});
    source.set(vec![tool("open", json!({"type": "object"})), tool("parts", parts)]);
    let executor = executor_with(vec![source]);
    for (name, arguments, success) in
        [("open", r#"{"a":1}"#, true), ("parts", r#"{"a":1}"#, true), ("parts", r#"{"a":"x"}"#, false)]
    {
        assert_eq!(one_result(&executor, name, arguments)["success"], success, "{name} {arguments}");
    }
    let refused = one_result(&executor, "own_a", r#"{"a":1}"#)["error"].clone();
    assert_eq!(refused, "Invalid parameters for tool 'own_a': unexpected parameter a");
}

#[test]
fn an_approval_pattern_matches_a_tool_name_with_a_unique_suffix() {
    let source = Arc::new(ChangingSource::default());
    source.set_names(&["mcp_a_pay_1234abcd", "mcp_a_look_1234abcd"]);
    let approval = ApprovalRules::new(&["mcp_a_pay".to_owned()]).expect("a good pattern");
    let executor = Executor::new(
        Vec::new(),
        vec![source],
        ExecutorOptions { approval, ..ExecutorOptions::new(bounds()) },
    );
    let executor = executor.expect("valid tools");
    assert!(
        executor.needs_approval("mcp_a_pay_1234abcd", &[])
            && !executor.needs_approval("mcp_a_look_1234abcd", &[])
    );
}

#[test]
fn a_tool_that_needs_approval_is_refused_without_one() {
    let source = Arc::new(ChangingSource::default());
    source.set(vec![
        schema_tool("js_write"),
        SchemaTool(
            "act".into(),
            json!({"type": "object"}),
            Aliases { names: &["exec"], foreign: &[], parameters: &[] },
        ),
    ]);
    let approval = ApprovalRules::new(&["js_*".to_owned(), "exec".to_owned()]).expect("good patterns");
    let builtin: Vec<Box<dyn Tool>> = vec![Box::new(schema_tool("own"))];
    let executor =
        Executor::new(builtin, vec![source], ExecutorOptions { approval, ..ExecutorOptions::new(bounds()) })
            .expect("valid tools");
    for (name, waits) in [("js_write", true), ("act", true), ("exec", true), ("own", false), ("nope", false)]
    {
        assert_eq!(executor.needs_approval(name, &[]), waits, "{name}");
    }
    let waiting: Vec<_> = executor.tool_infos().iter().map(|info| info.needs_approval).collect();
    assert_eq!(waiting, [false, true, true]);
    assert!(executor.needs_approval("js_not_there_yet", &[]), "the name as called counts: the tool may come");
    let reported = |name: &str, approved: ApprovedCalls| {
        let log = crate::tools::testing::RecordingJournal::default();
        let context = ToolContext { approved, ..context(ToolChoice::All(true)) };
        let call = ToolCall { id_ref: "a".into(), name: name.into(), arguments: "{}".into() };
        executor.run(&[call], &context, &log);
        log.result("a")
    };
    let calls = |id_ref: &str| ApprovedCalls::Calls(Arc::from([id_ref.to_owned()]));
    for approved in [ApprovedCalls::All, calls("a")] {
        assert_eq!(reported("act", approved)["success"], true);
    }
    assert_eq!(reported("own", ApprovedCalls::None)["success"], true);
    let other = reported("act", calls("b"))["error"].clone();
    assert_eq!(other, "The tool 'act' needs approval, and nobody was asked: make the call again");
    for name in ["act", "exec", "js_write"] {
        let refused = reported(name, ApprovedCalls::None)["error"].as_str().expect("refused").to_owned();
        assert!(refused.contains("needs approval, and nobody can be asked here"), "{refused}");
    }
}
