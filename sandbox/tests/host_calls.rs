//! Host calls of JavaScript: answers, refusals as errors, limits. A guest cannot block the server with them.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use nanoclaw_sandbox::{
    HostCalls, Language, Level, MAX_HOST_ANSWER_BYTES, MAX_HOST_CALLS, MAX_HOST_REQUEST_BYTES, Program,
    RunRecord, RunStatus, Sandbox,
};

use crate::support;

/// A host that answers, refuses, or waits until the test releases it.
#[derive(Default)]
struct Host {
    calls: AtomicU32,
    is_asked: AtomicBool,
    may_answer: Mutex<bool>,
    changed: Condvar,
}

impl Host {
    fn release(&self) {
        *self.may_answer.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

impl HostCalls for Host {
    fn call(&self, name: &str, arguments: &str) -> Result<String, String> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match name {
            "echo" => Ok(arguments.to_owned()),
            "large" => Ok(format!("\"{}\"", "x".repeat(MAX_HOST_ANSWER_BYTES - 2))),
            "larger" => Ok("x".repeat(MAX_HOST_ANSWER_BYTES + 1)),
            "slow" => {
                self.is_asked.store(true, Ordering::Relaxed);
                let mut may_answer = self.may_answer.lock().unwrap();
                while !*may_answer {
                    may_answer = self.changed.wait(may_answer).unwrap();
                }
                Ok("\"at last\"".to_owned())
            }
            _ => Err(format!("'{name}' is not permitted")),
        }
    }
}

/// Runs with a sandbox of its own and checks that nothing is left.
fn with_sandbox(work: impl FnOnce(&Sandbox)) {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    work(&sandbox);
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

fn run(sandbox: &Sandbox, code: &str) -> RunRecord {
    run_on(sandbox, Level::Standard, &Arc::new(Host::default()), code)
}

fn run_on(sandbox: &Sandbox, level: Level, host: &Arc<Host>, code: &str) -> RunRecord {
    let host: Arc<dyn HostCalls> = Arc::<Host>::clone(host);
    sandbox.run_with_host(&support::javascript(level, code), host, &|| false)
}

#[track_caller]
fn assert_result(record: &RunRecord, result: &str) {
    assert_eq!((record.status, record.result.as_deref()), (RunStatus::Ok, Some(result)), "{record:#?}");
}

#[test]
fn a_host_call_is_answered_at_every_level() {
    with_sandbox(|sandbox| {
        let code = "JSON.parse(__host('echo', JSON.stringify({ä: [1, 'é\\n\\0']}))).ä[1].length";
        // More runs than spare children, so that forked children are tested, too.
        for level in Level::FOR_CODE.into_iter().cycle().take(9) {
            assert_result(&run_on(sandbox, level, &Arc::default(), code), "3");
        }
        let many = format!("let n = 0; for (; n < {MAX_HOST_CALLS}; n++) __host('echo', ''); n");
        assert_result(&run(sandbox, &many), "256");
        assert_result(&run(sandbox, "JSON.parse(__host('large', '')).length"), "4194302");
        let later = "await new Promise((done) => setTimeout(() => done(__host('echo', 'later')), 5))";
        assert_result(&run(sandbox, later), "'later'");
    });
}

#[test]
fn a_refused_host_call_throws_a_catchable_error() {
    with_sandbox(|sandbox| {
        let caught =
            "try { __host('read', '{}') } catch (e) { `${e instanceof Error} ${e.message.slice(1, 5)}` }";
        assert_result(&run(sandbox, caught), "'true read'");
        let record = run(sandbox, "__host('read', '{}')");
        assert_eq!(record.status, RunStatus::Error, "{record:#?}");
        assert!(record.error.unwrap().contains("'read' is not permitted"));
        for (call, text) in [
            ("__host('larger', '')", "the limit is 4194304"),
            ("__host('', '')", "needs a name"),
            ("__host('a\\nb', '')", "needs a name"),
            ("__host('echo', 'x'.repeat(1 << 18))", "too long"),
            ("__host('echo')", ""),
            ("__host(1, 2)", ""),
            ("__host('echo', '\\ud800')", ""),
        ] {
            let code = format!(
                "let error; try {{ {call} }} catch (e) {{ error = e.message }}; error + __host('echo', '!')"
            );
            let record = run(sandbox, &code);
            assert_eq!(record.status, RunStatus::Ok, "{call}: {record:#?}");
            assert!(
                record.result.as_deref().is_some_and(|result| result.contains(text)),
                "{call}: {record:#?}"
            );
        }
        let max_length = MAX_HOST_REQUEST_BYTES - "echo\n".len();
        assert_result(
            &run(sandbox, &format!("__host('echo', 'x'.repeat({max_length})).length")),
            &max_length.to_string(),
        );
    });
}

#[test]
fn the_host_function_is_frozen_and_not_enumerable() {
    with_sandbox(|sandbox| {
        let code = "__host = 1; delete globalThis.__host; __host.x = 1; \
                        try { Object.defineProperty(globalThis, '__host', {value: 2}) } catch { } \
                        [typeof __host, __host.x, Object.keys(globalThis).includes('__host'), __host('echo', '7')].join()";
        assert_result(&run(sandbox, code), "'function,,false,7'");
        let used_up = "Object.freeze = String = JSON = null; __host('echo', '8')";
        assert_result(&run(sandbox, used_up), "'8'");
    });
}

#[test]
fn a_run_without_a_host_has_no_host_function() {
    with_sandbox(|sandbox| {
        for level in Level::FOR_CODE.into_iter().cycle().take(6) {
            assert_result(&run_on(sandbox, level, &Arc::default(), "typeof __host"), "'function'");
            let record = sandbox.run(&support::javascript(level, "typeof __host"), &|| false);
            assert_result(&record, "'undefined'");
        }
    });
}

/// The descriptors of a spinning guest; `None` if they cannot be read.
fn descriptors_of_a_guest(sandbox: &Sandbox, host: Option<Arc<Host>>) -> Option<Vec<String>> {
    let found = Mutex::new(None);
    let program = support::javascript(Level::Standard, "print('spins'); for (;;);");
    let has_descriptors = || {
        let Some(guest) = support::guests().pop() else { return false };
        let (pid, _) = guest.split_once(' ').unwrap();
        let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return true };
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut numbers: Vec<String> = names.collect();
        numbers.sort();
        // The frames pipe is closed once the program runs.
        let runs = !numbers.is_empty() && !numbers.contains(&"3".to_owned());
        *found.lock().unwrap() = runs.then_some(numbers);
        runs
    };
    match host {
        Some(host) => sandbox.run_with_host(&program, host, &has_descriptors),
        None => sandbox.run(&program, &has_descriptors),
    };
    found.into_inner().unwrap()
}

#[test]
fn a_run_without_a_host_has_no_host_descriptor() {
    with_sandbox(|sandbox| {
        for _ in 0..4 {
            let with = descriptors_of_a_guest(sandbox, Some(Arc::default()));
            let without = descriptors_of_a_guest(sandbox, None);
            let (Some(with), Some(without)) = (with, without) else {
                println!("NOT TESTED: the descriptors of a guest can be read by root alone");
                return;
            };
            assert_eq!((with.join(" "), without.join(" ")), ("0 1 2 4 5".to_owned(), "0 1 2 4".to_owned()));
        }
    });
}

/// A guest that controls its process: a command whose standard input is the socket.
fn hostile(sandbox: &Sandbox, host: &Arc<Host>, timeout_ms: u64, command: &str) -> RunRecord {
    let mut program = Program::new(Language::Bash, Level::Shell, command);
    program.timeout_ms = Some(timeout_ms);
    sandbox.run_command_with_host(&program, Arc::<Host>::clone(host), &|| false)
}

#[test]
fn malformed_host_calls_end_the_run() {
    with_sandbox(|sandbox| {
        for (command, limit) in [
            ("head -c 100000 /dev/zero >&0; sleep 99", None),
            ("printf '\\xff\\xff\\xff\\xff' >&0; sleep 99", Some("host_request_bytes")),
            ("printf '\\0\\4\\0\\1' >&0; sleep 99", Some("host_request_bytes")),
            ("echo GET / HTTP/1.1 >&0; sleep 99", Some("host_request_bytes")),
            ("printf '\\0\\0\\0\\3abc' >&0; sleep 99", None),
            ("printf '\\0\\0\\0\\3\\xff\\n\\xff' >&0; sleep 99", None),
            ("while :; do printf '\\0\\0\\0\\2a\\n'; done >&0", Some("host_calls")),
        ] {
            let host = Arc::default();
            // A guest that writes much and reads nothing only blocks itself.
            let reads = if limit == Some("host_calls") { "exec 3<&0; cat <&3 >/dev/null & " } else { "" };
            let record = hostile(sandbox, &host, 60_000, &format!("{reads}{command}"));
            assert_eq!(
                (record.status, record.limit.as_deref()),
                (RunStatus::Error, limit),
                "{command}: {record:#?}"
            );
            assert!(host.calls.load(Ordering::Relaxed) <= MAX_HOST_CALLS);
        }
    });
}

#[test]
fn a_stalling_guest_blocks_only_itself() {
    with_sandbox(|sandbox| {
        let host = Arc::new(Host::default());
        let stall = |command: &str| {
            let record = hostile(sandbox, &host, 700, command);
            assert_eq!(
                (record.status, record.limit.as_deref()),
                (RunStatus::Timeout, Some("timeout_ms")),
                "{record:#?}"
            );
            record
        };
        stall("printf '\\0\\0' >&0; sleep 99");
        stall("printf '\\0\\1\\0\\0echo\\nhalf' >&0; sleep 99");
        stall("printf '\\0\\0\\0\\6large\\n' >&0; sleep 99");
        let talks = stall(
            "for i in 1 2 3; do printf '\\0\\0\\0\\6large\\n' >&0; done; yes | head -c 300000; sleep 99",
        );
        assert!(talks.stdout.len() >= 300_000, "{}: output is read meanwhile", talks.stdout.len());
        let waits = stall("printf '\\0\\0\\0\\5slow\\n' >&0; yes | head -c 300000; sleep 99");
        assert!(waits.stdout.len() >= 300_000, "{}: output is read meanwhile", waits.stdout.len());
        host.release();
        let closes = hostile(sandbox, &host, 60_000, "printf '\\0' >&0; exec 0<&-; echo on; exit 3");
        assert_eq!((closes.stdout.as_str(), closes.exit_code), ("on\n", Some(3)), "{closes:#?}");
    });
}

#[test]
fn host_calls_leak_no_descriptor() {
    with_sandbox(|sandbox| {
        assert_result(&run(sandbox, "__host('echo', '1')"), "'1'");
        let before = support::open_descriptors();
        for _ in 0..20 {
            assert_result(&run(sandbox, "__host('echo', '1')"), "'1'");
            assert_eq!(run(sandbox, "__host('echo', '1'); throw 1").status, RunStatus::Error);
        }
        support::eventually("all descriptors are closed", || support::open_descriptors() <= before);
    });
}

#[test]
fn only_javascript_has_host_calls() {
    with_sandbox(|sandbox| {
        for (language, level) in [(Language::Python, Level::Standard), (Language::Bash, Level::Shell)] {
            let program = Program::new(language, level, "1");
            let record = sandbox.run_with_host(&program, Arc::new(Host::default()), &|| false);
            assert_eq!(record.status, RunStatus::SandboxError);
            assert!(record.error.unwrap().contains("only JavaScript does"));
        }
    });
}

#[test]
fn too_many_host_calls_end_the_run() {
    with_sandbox(|sandbox| {
        let host = Arc::new(Host::default());
        let code = "for (let n = 0; n < 10000; n++) { try { __host('echo', '1') } catch { } } 'all'";
        let record = run_on(sandbox, Level::Standard, &host, code);
        assert_eq!(
            (record.status, record.limit.as_deref()),
            (RunStatus::Error, Some("host_calls")),
            "{record:#?}"
        );
        assert!(record.error.unwrap().contains("more than 256 host calls"));
        assert_eq!(host.calls.load(Ordering::Relaxed), MAX_HOST_CALLS);
    });
}

#[test]
fn timeout_and_cancel_end_a_run_with_a_slow_host() {
    with_sandbox(|sandbox| {
        let host = Arc::new(Host::default());
        let mut program =
            support::javascript(Level::Standard, "print('before'); __host('slow', ''); print('after')");
        program.timeout_ms = Some(300);
        let record = sandbox.run_with_host(&program, Arc::<Host>::clone(&host), &|| false);
        assert_eq!(
            (record.status, record.limit.as_deref()),
            (RunStatus::Timeout, Some("timeout_ms")),
            "{record:#?}"
        );
        assert_eq!(record.stdout, "before\n");
        host.is_asked.store(false, Ordering::Relaxed);
        program.timeout_ms = Some(600_000);
        let cancel = || host.is_asked.load(Ordering::Relaxed);
        let record = sandbox.run_with_host(&program, Arc::<Host>::clone(&host), &cancel);
        assert_eq!(record.limit.as_deref(), Some("cancelled"), "{record:#?}");
        assert!(record.duration_ms < 60_000, "{record:#?}");
        host.release();
        let record = run_on(sandbox, Level::Standard, &host, "__host('slow', '')");
        assert_result(&record, "'\"at last\"'");
    });
}
