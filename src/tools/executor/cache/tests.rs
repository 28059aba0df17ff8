//! Which results are served from the cache: through the executor, with a variable as the file.

use super::{CacheKey, ResultCache, ToolCacheOptions};
use crate::domain::id::{JobId, ProjectId, UserId};
use crate::domain::tool::{FileAccess, ToolCall, ToolChoice, ToolSpec, ToolTraits};
use crate::ports::{Tool, ToolContext, ToolError, Toolbox};
use crate::tools::testing::{RecordingJournal, bounds, context};
use crate::tools::{BatchLimits, Executor, ExecutorOptions};
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const READ: ToolTraits = ToolTraits { idempotent: true, cacheable: true, files: FileAccess::Reads };
const WRITE: ToolTraits = ToolTraits { idempotent: false, cacheable: false, files: FileAccess::Writes };
const RUN: ToolTraits = ToolTraits { idempotent: false, cacheable: false, files: FileAccess::Runs };

type Act = Box<dyn Fn(&Map<String, Value>) -> Result<Value, ToolError> + Send + Sync>;

struct ScriptedCacheTool {
    name: &'static str,
    traits: ToolTraits,
    act: Act,
}

impl Tool for ScriptedCacheTool {
    fn spec(&self) -> ToolSpec {
        let parameters =
            json!({"type": "object", "properties": {"v": {"type": "string"}, "n": {"type": "integer"}}});
        ToolSpec { name: self.name.into(), description: "".into(), parameters }
    }
    fn traits(&self) -> ToolTraits {
        self.traits
    }
    fn call(&self, arguments: &Map<String, Value>, _: &ToolContext) -> Result<Value, ToolError> {
        (self.act)(arguments)
    }
}

fn tool(
    name: &'static str,
    traits: ToolTraits,
    act: impl Fn(&Map<String, Value>) -> Result<Value, ToolError> + Send + Sync + 'static,
) -> Box<dyn Tool> {
    Box::new(ScriptedCacheTool { name, traits, act: Box::new(act) })
}

/// A file, and how often it was read.
#[derive(Default)]
struct Disk {
    text: Mutex<String>,
    reads: AtomicUsize,
}

/// `read`, `write` and `run` over one file, `act`, which may be run again, `pure`, which counts its runs as
/// reads, and `fail`, which does so too.
fn executor(disk: &Arc<Disk>, bounds: BatchLimits) -> Executor {
    let share = || Arc::clone(disk);
    let (read, write, run, pure, fail) = (share(), share(), share(), share(), share());
    let set = |disk: &Disk, arguments: &Map<String, Value>| {
        let text = arguments.get("v").and_then(Value::as_str).unwrap_or_default().to_owned();
        *disk.text.lock().expect("unpoisoned") = text;
        Ok(Value::Null)
    };
    let tools = vec![
        tool("read", READ, move |_| {
            read.reads.fetch_add(1, Ordering::SeqCst);
            Ok(json!(*read.text.lock().expect("unpoisoned")))
        }),
        tool("write", WRITE, move |arguments| set(&write, arguments)),
        tool("run", RUN, move |arguments| set(&run, arguments)),
        tool("act", ToolTraits::READ, |_| Ok(Value::Null)),
        tool("pure", ToolTraits::PURE, move |_| Ok(json!(pure.reads.fetch_add(1, Ordering::SeqCst)))),
        tool("fail", ToolTraits::PURE, move |_| {
            fail.reads.fetch_add(1, Ordering::SeqCst);
            Err(ToolError::Invalid("no".into()))
        }),
    ];
    Executor::new(tools, Vec::new(), ExecutorOptions::new(bounds)).expect("valid tools")
}

fn whose(user: u32, project: u128, job: u128) -> ToolContext {
    ToolContext {
        user: UserId(user),
        project_id: Some(ProjectId::from_bits(project)),
        job: JobId::from_bits(job),
        ..context(ToolChoice::All(true))
    }
}

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id_ref: id.into(), name: name.into(), arguments: arguments.into() }
}

/// The result of one call in a batch of its own.
fn run_one(executor: &Executor, context: &ToolContext, name: &str, arguments: &str) -> Value {
    let log = RecordingJournal::default();
    executor.run(&[call("a", name, arguments)], context, &log);
    log.result("a")
}

#[test]
fn a_cached_read_always_returns_the_last_write() {
    for writer in ["write", "run"] {
        let disk = Arc::<Disk>::default();
        let (executor, ann) = (executor(&disk, bounds()), whose(1, 1, 1));
        for text in ["one", "two", "three"] {
            run_one(&executor, &ann, writer, &json!({"v": text}).to_string());
            let read = run_one(&executor, &ann, "read", "{}");
            assert_eq!((&read["data"], read.get("cached")), (&json!(text), None), "{writer}");
            let again = run_one(&executor, &ann, "read", "{}");
            assert_eq!((&again["data"], &again["cached"]), (&json!(text), &json!(true)), "{writer}");
        }
        assert_eq!(disk.reads.load(Ordering::SeqCst), 3, "{writer}");
    }
}

#[test]
fn duplicates_in_a_batch_have_no_write_between_them() {
    let disk = Arc::<Disk>::default();
    let (executor, ann) = (executor(&disk, bounds()), whose(1, 1, 1));
    let duplicates = |between: &[&str]| {
        let mut calls = vec![call("a", "read", "{}")];
        calls.extend(between.iter().map(|name| call(name, name, r#"{"v": "x"}"#)));
        calls.push(call("z", "read", "{}"));
        let log = RecordingJournal::default();
        executor.run(&calls, &ann, &log);
        log.result("z")["duplicate"] == true
    };
    for between in [&["write"][..], &["run"], &["act"], &["pure", "run"]] {
        assert!(!duplicates(between), "{between:?}");
    }
    for between in [&[][..], &["pure"], &["pure", "fail"]] {
        assert!(duplicates(between), "{between:?}");
    }
    let log = RecordingJournal::default();
    let calls =
        [call("a", "act", "{}"), call("b", "act", "{}"), call("c", "pure", "{}"), call("d", "act", "{}")];
    executor.run(&calls, &ann, &log);
    let duplicate = |id: &str| log.result(id)["duplicate"] == true;
    assert!(duplicate("b") && duplicate("d"), "the same act at once is one");
    let log = RecordingJournal::default();
    executor.run(&[call("a", "pure", "{}"), call("b", "run", "{}"), call("c", "pure", "{}")], &ann, &log);
    assert_eq!(log.result("c")["duplicate"], true, "nothing moves what is pure");
}

#[test]
fn a_read_in_a_batch_returns_the_write_before_it() {
    let disk = Arc::<Disk>::default();
    let (executor, ann) = (executor(&disk, bounds()), whose(1, 1, 1));
    let mut calls = vec![call("r", "read", "{}")];
    for n in 0..8 {
        calls.push(call(&format!("w{n}"), "write", &json!({"v": n.to_string()}).to_string()));
        calls.push(call(&format!("r{n}"), "read", "{}"));
        calls.push(call(&format!("s{n}"), "read", "{}"));
    }
    let log = RecordingJournal::default();
    executor.run(&calls, &ann, &log);
    assert_eq!(log.result("r")["data"], "");
    for n in 0..8 {
        assert_eq!(log.result(&format!("r{n}"))["data"], n.to_string());
        let duplicate = log.result(&format!("s{n}"));
        assert_eq!((&duplicate["data"], &duplicate["duplicate"]), (&json!(n.to_string()), &json!(true)));
    }
}

#[test]
fn p7_cached_results_are_separated_by_user_and_project() {
    let disk = Arc::<Disk>::default();
    let executor = executor(&disk, bounds());
    let cached = |context: &ToolContext, name: &str, arguments: &str| {
        run_one(&executor, context, name, arguments).get("cached").is_some()
    };
    for name in ["read", "pure"] {
        assert!(!cached(&whose(1, 1, 1), name, "{}"));
        assert!(cached(&whose(1, 1, 1), name, r#"{"arguments": {}}"#));
        assert!(cached(&whose(1, 1, 2), name, "{}"), "the same user's other job in the same project");
        assert!(!cached(&whose(2, 1, 3), name, "{}"), "another user");
        assert!(!cached(&whose(1, 2, 4), name, "{}"), "another project");
        let without_project = ToolContext { project_id: None, ..whose(1, 1, 5) };
        assert!(!cached(&without_project, name, "{}"), "no project");
        assert!(!cached(&whose(1, 1, 6), name, r#"{"n": 1}"#), "other arguments");
        assert!(cached(&whose(1, 1, 6), name, r#"{"n": "1"}"#), "which are the same when they are read");
    }
    run_one(&executor, &whose(2, 1, 1), "write", "{}");
    assert!(cached(&whose(1, 1, 1), "read", "{}"), "another user's write costs this one nothing");
    run_one(&executor, &whose(1, 1, 1), "write", "{}");
    assert!(cached(&whose(1, 1, 1), "pure", "{}"), "no write changes what follows from arguments alone");
    assert!(cached(&whose(1, 2, 1), "read", "{}"), "nor another project's files");
    assert!(!cached(&whose(1, 1, 1), "read", "{}"));
}

#[test]
fn failures_are_never_cached_and_a_ttl_of_zero_disables_the_cache() {
    let disk = Arc::<Disk>::default();
    let (cached_executor, ann) = (executor(&disk, bounds()), whose(1, 1, 1));
    run_one(&cached_executor, &ann, "fail", "{}");
    assert!(run_one(&cached_executor, &ann, "fail", "{}").get("cached").is_none());
    assert_eq!(disk.reads.load(Ordering::SeqCst), 2);
    let off = BatchLimits { cache: ToolCacheOptions { ttl_s: 0, ..bounds().cache }, ..bounds() };
    let off = executor(&disk, off);
    run_one(&off, &ann, "pure", "{}");
    assert!(run_one(&off, &ann, "pure", "{}").get("cached").is_none());
}

#[test]
fn results_that_read_files_which_other_nodes_may_write_are_not_cached() {
    let cache = ResultCache::new(ToolCacheOptions { shares_files: true, ..bounds().cache });
    let (key, now_ms) = (key(&whose(1, 1, 1), "x"), 0);
    for (files, cached) in [(FileAccess::Reads, None), (FileAccess::None, Some(json!("x")))] {
        let stamp = cache.stamp(&key, files);
        cache.put(key.clone(), (files, stamp), &json!("x"), now_ms);
        assert_eq!(cache.get(&key, files, now_ms), cached);
    }
}

#[test]
fn a_read_during_a_write_does_not_cache_a_stale_value() {
    let cache = ResultCache::new(bounds().cache);
    let (ann, now_ms) = (whose(1, 1, 1), 0);
    let key = key(&ann, "x");
    let files = FileAccess::Reads;
    // The write begins and ends while the read is under way.
    let stamp = cache.stamp(&key, files);
    drop(cache.writing(&ann));
    cache.put(key.clone(), (files, stamp), &json!("old"), now_ms);
    assert_eq!(cache.get(&key, files, now_ms), None);
    // The read begins and ends while the write is under way.
    let writing = cache.writing(&ann);
    let stamp = cache.stamp(&key, files);
    cache.put(key.clone(), (files, stamp), &json!("old"), now_ms);
    assert_eq!(cache.get(&key, files, now_ms), None);
    drop(writing);
    assert_eq!(cache.get(&key, files, now_ms), None);
    // Results from before a write are served neither during the write nor after it.
    let stamp = cache.stamp(&key, files);
    cache.put(key.clone(), (files, stamp), &json!("old"), now_ms);
    assert_eq!(cache.get(&key, files, now_ms), Some(json!("old")));
    let writing = cache.writing(&ann);
    assert_eq!(cache.get(&key, files, now_ms), None);
    drop(writing);
    assert_eq!(cache.get(&key, files, now_ms), None);
}

fn key(context: &ToolContext, arguments: &str) -> CacheKey {
    CacheKey {
        user: context.user,
        project: context.project_id,
        job: None,
        tool: "read".into(),
        version: 0,
        arguments: arguments.into(),
    }
}

#[test]
fn p8_cache_entries_expire_and_the_oldest_are_evicted() {
    let ann = whose(1, 1, 1);
    let files = FileAccess::None;
    let put = |cache: &ResultCache, name: &str, data: &str, now_ms| {
        let key = key(&ann, name);
        let stamp = cache.stamp(&key, files);
        cache.put(key, (files, stamp), &json!(data), now_ms);
    };
    let has = |cache: &ResultCache, name: &str, now_ms| cache.get(&key(&ann, name), files, now_ms).is_some();
    let cache = ResultCache::new(ToolCacheOptions {
        ttl_s: 10,
        entries: 2,
        bytes: 100_000,
        ..ToolCacheOptions::default()
    });
    put(&cache, "a", "1", 0);
    assert!(
        has(&cache, "a", 9_999) && !has(&cache, "a", 10_000) && !has(&cache, "a", 9_999),
        "it has ended for good"
    );
    for name in ["a", "b", "a", "c"] {
        put(&cache, name, "1", 0);
    }
    assert_eq!(["a", "b", "c"].map(|name| has(&cache, name, 0)), [true, false, true], "b was the oldest");
    put(&cache, "large", &"x".repeat(20_000), 0);
    assert!(!has(&cache, "large", 0), "one may not take too much of all");
    let cache = ResultCache::new(ToolCacheOptions {
        ttl_s: 10,
        entries: 100,
        bytes: 10_000,
        ..ToolCacheOptions::default()
    });
    for n in 0..100 {
        put(&cache, &n.to_string(), &"x".repeat(1_000 - n), 0);
    }
    let state = cache.state();
    assert!(state.bytes <= 10_000 && state.entries.len() < 10 && !state.entries.is_empty());
    assert_eq!(state.bytes, state.entries.values().map(|entry| entry.bytes).sum::<usize>());
    assert_eq!(state.order.len(), state.entries.len());
}
