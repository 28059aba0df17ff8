//! The watcher with a sandbox that fails on demand.

use super::*;
use crate::app::system::SystemClock;
use crate::ports::{CancelReason, Clock, ToolSource};
use crate::tools::code::{CodeRunner, RunCaller};
use crate::tools::custom::javascript::JavaScriptTools;
use crate::tools::testing::deps;
use nanoclaw_sandbox::{HostCalls, Level, Program, RunRecord, RunStatus};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

/// Describes the tool that the first line of a file names, or fails with the next queued failure.
#[derive(Default)]
struct DescribingRunner {
    failures: Mutex<VecDeque<(RunStatus, Option<&'static str>)>>,
    runs: Mutex<usize>,
    /// No file is described while a test holds this.
    gate: Mutex<()>,
}

impl CodeRunner for DescribingRunner {
    fn run(&self, program: &Program, caller: RunCaller<'_>) -> RunRecord {
        deps().code.run(program, caller)
    }

    fn run_with_host(&self, program: &Program, host: Arc<dyn HostCalls>, caller: RunCaller<'_>) -> RunRecord {
        *self.runs.lock().expect("unpoisoned") += 1;
        drop(self.gate.lock().expect("unpoisoned"));
        let failure = self.failures.lock().expect("unpoisoned").pop_front();
        let (status, limit) = failure.unwrap_or((RunStatus::Ok, None));
        let name = program.code.lines().next().expect("a line").trim_start_matches("// ").to_owned();
        let description = serde_json::json!({"name": name, "description": "A test."}).to_string();
        host.call("describe", &description).expect("received");
        RunRecord { status, limit: limit.map(str::to_owned), ..self.run(program, caller) }
    }

    fn default_level(&self) -> Level {
        Level::Standard
    }

    fn timeout(&self, _: Level) -> Duration {
        Duration::from_secs(1)
    }
}

struct WatcherFixture {
    dir: tempfile::TempDir,
    code: Arc<DescribingRunner>,
    registry: Arc<JavaScriptRegistry>,
    cancel: CancelToken,
    watcher: DirectoryWatcher,
}

impl WatcherFixture {
    fn new(failures: &[(RunStatus, Option<&'static str>)]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let code = Arc::new(DescribingRunner {
            failures: Mutex::new(failures.iter().copied().collect()),
            ..DescribingRunner::default()
        });
        let (registry, cancel, deps) =
            (Arc::new(JavaScriptRegistry::default()), CancelToken::new(Arc::new(SystemClock::new())), deps());
        let runner: Arc<dyn CodeRunner> = Arc::<DescribingRunner>::clone(&code);
        let deps = JavaScriptDeps { code: runner, web: deps.web, files: deps.files };
        let watcher =
            DirectoryWatcher::new(dir.path().to_owned(), deps, Arc::clone(&registry), cancel.clone());
        Self { dir, code, registry, cancel, watcher }
    }

    fn write(&self, file: &str, tool: &str) {
        let text = format!("// {tool}\nexport default {{ handler() {{}} }}");
        std::fs::write(self.dir.path().join(file), text).expect("written");
    }

    /// The tools after one more scan.
    fn scan(&mut self) -> Vec<String> {
        self.watcher.scan();
        self.registry.tools().iter().map(|tool| tool.spec().name.into_owned()).collect()
    }

    fn runs(&self) -> usize {
        *self.code.runs.lock().expect("unpoisoned")
    }
}

#[test]
fn transient_errors_of_a_tool_file_are_retried() {
    let late = (RunStatus::Timeout, Some("timeout_ms"));
    for failure in [(RunStatus::SandboxError, None), (RunStatus::Timeout, Some("cancelled")), late] {
        let mut fixture = WatcherFixture::new(&[failure]);
        fixture.write("a.js", "own_a");
        assert_eq!(fixture.scan(), Vec::<String>::new(), "{failure:?}");
        assert_eq!(fixture.scan(), ["own_a"], "{failure:?}");
        let version = fixture.registry.version();
        assert_eq!(fixture.scan(), ["own_a"]);
        assert_eq!((fixture.runs(), fixture.registry.version()), (2, version), "and then no more");
    }
}

#[test]
fn a_broken_tool_file_is_retried_only_after_a_change() {
    let mut fixture = WatcherFixture::new(&[(RunStatus::SyntaxError, None)]);
    fixture.write("a.js", "own_a");
    for _ in 0..3 {
        assert_eq!(fixture.scan(), Vec::<String>::new());
    }
    assert_eq!(fixture.runs(), 1);
    fixture.write("a.js", "own_other");
    assert_eq!(fixture.scan(), ["own_other"]);
    let mut endless = WatcherFixture::new(&[(RunStatus::Timeout, Some("timeout_ms")); 9]);
    endless.write("a.js", "own_a");
    for _ in 0..9 {
        assert_eq!(endless.scan(), Vec::<String>::new());
    }
    assert_eq!(endless.runs(), 3, "tries are limited");
}

#[test]
fn changed_and_removed_tool_files_are_unloaded() {
    let mut fixture =
        WatcherFixture::new(&[(RunStatus::Ok, None), (RunStatus::Ok, None), (RunStatus::SandboxError, None)]);
    fixture.write("a.js", "own_a");
    fixture.write("b.js", "own_b");
    assert_eq!(fixture.scan(), ["own_a", "own_b"]);
    fixture.write("a.js", "own_longer");
    assert_eq!(fixture.scan(), ["own_b"], "it cannot run now");
    assert_eq!(fixture.scan(), ["own_longer", "own_b"]);
    std::fs::remove_file(fixture.dir.path().join("b.js")).expect("removed");
    assert_eq!(fixture.scan(), ["own_longer"]);
}

#[test]
fn a_cancelled_watcher_reads_no_more_files() {
    let mut fixture = WatcherFixture::new(&[]);
    fixture.write("a.js", "own_a");
    fixture.cancel.cancel(CancelReason::Shutdown);
    assert_eq!((fixture.scan(), fixture.runs()), (Vec::new(), 0));
}

#[test]
fn every_caller_waits_for_the_first_scan() {
    let fixture = WatcherFixture::new(&[]);
    fixture.write("a.js", "one");
    let (clock, deps) = (Arc::new(SystemClock::new()), deps());
    let runner: Arc<dyn CodeRunner> = Arc::<DescribingRunner>::clone(&fixture.code);
    let gate = fixture.code.gate.lock().expect("unpoisoned");
    let dir = fixture.dir.path().to_owned();
    let clock_for_tools: Arc<dyn Clock> = Arc::<SystemClock>::clone(&clock);
    let tools =
        JavaScriptTools::start(dir, runner, (deps.web, deps.files), clock_for_tools).expect("a thread");
    let seen: Vec<usize> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..3).map(|_| scope.spawn(|| tools.tools().len())).collect();
        clock.sleep(&fixture.cancel, Duration::from_millis(100));
        drop(gate);
        callers.into_iter().map(|caller| caller.join().expect("a caller")).collect()
    });
    assert_eq!(seen, [1, 1, 1]);
}
