//! The watcher over a sandbox that fails as a test says.

use super::*;
use crate::app::system::SystemClock;
use crate::ports::CancelReason;
use crate::tools::code::CodeRunner;
use crate::tools::testing::deps;
use nanoclaw_sandbox::{HostCalls, Level, Program, RunRecord, RunStatus};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

/// Describes the tool that a file's first line names, unless it has an end to tell of.
#[derive(Default)]
struct Describing {
    ends: Mutex<VecDeque<(RunStatus, Option<&'static str>)>>,
    runs: Mutex<usize>,
}

impl CodeRunner for Describing {
    fn run(&self, program: &Program, cancel: &CancelToken) -> RunRecord {
        deps().code.run(program, cancel)
    }

    fn run_with_host(&self, program: &Program, host: Arc<dyn HostCalls>, cancel: &CancelToken) -> RunRecord {
        *self.runs.lock().expect("unpoisoned") += 1;
        let end = self.ends.lock().expect("unpoisoned").pop_front();
        let (status, limit) = end.unwrap_or((RunStatus::Ok, None));
        let name = program.code.lines().next().expect("a line").trim_start_matches("// ").to_owned();
        let said = serde_json::json!({"name": name, "description": "A test."}).to_string();
        host.call("describe", &said).expect("heard");
        RunRecord { status, limit: limit.map(str::to_owned), ..self.run(program, cancel) }
    }

    fn default_level(&self) -> Level {
        Level::Standard
    }

    fn timeout(&self, _: Level) -> Duration {
        Duration::from_secs(1)
    }
}

struct Scene {
    dir: tempfile::TempDir,
    code: Arc<Describing>,
    registry: Arc<JavaScriptRegistry>,
    cancel: CancelToken,
    watcher: DirectoryWatcher,
}

impl Scene {
    fn new(ends: &[(RunStatus, Option<&'static str>)]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let code = Arc::new(Describing {
            ends: Mutex::new(ends.iter().copied().collect()),
            ..Describing::default()
        });
        let (registry, cancel, deps) =
            (Arc::new(JavaScriptRegistry::default()), CancelToken::new(Arc::new(SystemClock::new())), deps());
        let runner: Arc<dyn CodeRunner> = Arc::<Describing>::clone(&code);
        let deps = JavaScriptDeps { code: runner, web: deps.web, files: deps.files };
        let watcher =
            DirectoryWatcher::new(dir.path().to_owned(), deps, Arc::clone(&registry), cancel.clone());
        Self { dir, code, registry, cancel, watcher }
    }

    fn write(&self, file: &str, tool: &str) {
        let text = format!("// {tool}\nexport default {{ handler() {{}} }}");
        std::fs::write(self.dir.path().join(file), text).expect("written");
    }

    /// The tools after one more look.
    fn scan(&mut self) -> Vec<String> {
        self.watcher.scan();
        self.registry.tools().iter().map(|tool| tool.spec().name.into_owned()).collect()
    }

    fn runs(&self) -> usize {
        *self.code.runs.lock().expect("unpoisoned")
    }
}

#[test]
fn what_is_not_the_files_fault_is_tried_again() {
    let late = (RunStatus::Timeout, Some("timeout_ms"));
    for end in [(RunStatus::SandboxError, None), (RunStatus::Timeout, Some("cancelled")), late] {
        let mut scene = Scene::new(&[end]);
        scene.write("a.js", "own_a");
        assert_eq!(scene.scan(), Vec::<String>::new(), "{end:?}");
        assert_eq!(scene.scan(), ["own_a"], "{end:?}");
        let version = scene.registry.version();
        assert_eq!(scene.scan(), ["own_a"]);
        assert_eq!((scene.runs(), scene.registry.version()), (2, version), "and then no more");
    }
}

#[test]
fn what_is_the_files_fault_waits_for_another_file() {
    let mut scene = Scene::new(&[(RunStatus::SyntaxError, None)]);
    scene.write("a.js", "own_a");
    for _ in 0..3 {
        assert_eq!(scene.scan(), Vec::<String>::new());
    }
    assert_eq!(scene.runs(), 1);
    scene.write("a.js", "own_other");
    assert_eq!(scene.scan(), ["own_other"]);
    let mut endless = Scene::new(&[(RunStatus::Timeout, Some("timeout_ms")); 9]);
    endless.write("a.js", "own_a");
    for _ in 0..9 {
        assert_eq!(endless.scan(), Vec::<String>::new());
    }
    assert_eq!(endless.runs(), 3, "it is not asked for ever");
}

#[test]
fn a_changed_file_does_not_run_as_it_was_and_one_that_is_gone_does_not_run() {
    let mut scene =
        Scene::new(&[(RunStatus::Ok, None), (RunStatus::Ok, None), (RunStatus::SandboxError, None)]);
    scene.write("a.js", "own_a");
    scene.write("b.js", "own_b");
    assert_eq!(scene.scan(), ["own_a", "own_b"]);
    scene.write("a.js", "own_longer");
    assert_eq!(scene.scan(), ["own_b"], "it cannot be asked just now");
    assert_eq!(scene.scan(), ["own_longer", "own_b"]);
    std::fs::remove_file(scene.dir.path().join("b.js")).expect("removed");
    assert_eq!(scene.scan(), ["own_longer"]);
}

#[test]
fn whoever_is_stopped_asks_no_more_files() {
    let mut scene = Scene::new(&[]);
    scene.write("a.js", "own_a");
    scene.cancel.cancel(CancelReason::Shutdown);
    assert_eq!((scene.scan(), scene.runs()), (Vec::new(), 0));
}
