//! No process of a command survives it: daemons of every kind, also with the rules of older kernels, where
//! landlock does not scope signals and the supervisor ends its tree child by child.

use std::path::Path;
use std::time::Instant;

use nanoclaw_sandbox::{Language, Level, Program, RunLimits, RunStatus};
use serde_json::{Value, json};

use crate::support;
use crate::support::broker::{TestBroker, request};

/// The argument of the programs that are left behind: no other process sleeps that long.
const MARK: &[u8] = b"86399";

const DAEMON: &str = "python3 -c \"
import os, signal, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
for number in range(1, 32):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
os.closerange(0, 256)
os.execvp('sleep', ['sleep', '86399'])
\"";

/// Commands that leave processes in different ways.
const LEAVE: &[&str] = &[
    "sleep 86399 &",
    "setsid sleep 86399 &",
    "setsid -f sleep 86399",
    "nohup sleep 86399 >/dev/null 2>&1 &",
    "sleep 86399 & disown",
    "sleep 86399 & disown -a; exec true",
    "( ( sleep 86399 & ) & )",
    "(trap '' TERM INT HUP QUIT; exec setsid sleep 86399) &",
    "setsid sh -c 'sleep 86399; true' >/dev/null 2>&1 <&- &",
    "sh -c 'trap \"\" TERM; while :; do sleep 86399; done' &",
    "(sh -c 'kill -STOP $$; exec sleep 86399') & sleep 86399 & sleep 0.1",
    "sleep 86399 | sleep 86399 &",
    "exec 3< <(sleep 86399); coproc sleep 86399",
    "f() { (setsid sh -c 'sleep 86399 & sleep 86399' &) ; }; f; f; f",
    DAEMON,
];

fn remaining_processes() -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if command.windows(MARK.len()).any(|part| part == MARK) {
            found.push(format!("{}: {}", entry.path().display(), String::from_utf8_lossy(&command)));
        }
    }
    found
}

#[test]
fn every_process_left_behind_is_ended() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    assert!(sandbox.report().able());
    for leave in LEAVE {
        let code = format!("{leave}\nsleep 0.05; echo end; exit 5");
        #[expect(clippy::disallowed_methods, reason = "the test measures real time")]
        let start = Instant::now();
        let record = sandbox.run(&Program::new(Language::Bash, Level::Shell, code), &|| false);
        assert!(start.elapsed() < support::SOON, "{leave}: {:?}", start.elapsed());
        let execs = leave.contains("exec true");
        let (code, status) = if execs { (0, RunStatus::Ok) } else { (5, RunStatus::Error) };
        assert_eq!((record.exit_code, record.status), (Some(code), status), "{leave}: {record:#?}");
        assert!(execs || record.stdout == "end\n", "{leave}: {record:#?}");
        assert_eq!(remaining_processes(), Vec::<String>::new(), "{leave}");
        assert_eq!(support::guests(), Vec::<String>::new(), "{leave}");
    }
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

/// The request for a command, for a kernel with this landlock ABI.
pub(crate) fn shell_request(own_dir: &Path, abi: u32) -> Value {
    let mut changed = request();
    let system = ["/usr", "/bin", "/lib", "/lib64"].into_iter().filter(|path| Path::new(path).exists());
    let mut files: Vec<Value> = system.map(|path| json!({"path": path, "access": "execute_tree"})).collect();
    files.push(json!({"path": "/etc/ld.so.cache", "access": "read_file"}));
    files.push(json!({"path": "/dev/null", "access": "read_write_file"}));
    files.push(json!({"path": own_dir, "access": "own_tree"}));
    changed["level"] = json!("shell");
    changed["limits"] = json!(RunLimits::of(Level::Shell));
    changed["landlock_abi"] = json!(abi);
    changed["directory"] = json!(own_dir);
    changed["files"] = json!(files);
    changed["task"] = json!({"kind": "shell", "shell": "/bin/bash", "network": false});
    changed
}

/// The text that comes with such a request.
pub(crate) fn command_text(code: &str) -> String {
    let environment = [["PATH", "/usr/local/bin:/usr/bin:/bin"]];
    json!({"arguments": ["-c", code], "environment": environment}).to_string()
}

#[test]
fn the_supervisor_ends_leftover_processes_on_older_kernels() {
    let _turn = support::exclusive();
    let own_dir = tempfile::tempdir().unwrap();
    let broker = TestBroker::start();
    for abi in [6, 5, 1] {
        let request = shell_request(own_dir.path(), abi).to_string();
        for leave in LEAVE {
            let outcome = broker.run(&request, &command_text(&format!("{leave}\nsleep 0.05; exit 5")));
            let code = if leave.contains("exec true") { 0 } else { 5 };
            assert_eq!(outcome.exit_code(), Some(code), "{leave} under ABI {abi}: {outcome:?}");
            assert_eq!(remaining_processes(), Vec::<String>::new(), "{leave} under ABI {abi}");
        }
        // Bounded to about a thousand processes: otherwise a failing test would use up the machine's process
        // ids.
        let forker = "f() { [ $1 = 0 ] || { (f $(($1 - 1)) &); sleep 0.01; (f $(($1 - 1)) &); }; }\n\
                          f 8 2>/dev/null & sleep 0.2; exit 4";
        let outcome = broker.run(&request, &command_text(forker));
        assert_eq!(outcome.exit_code(), Some(4), "under ABI {abi}: {outcome:?}");
        let tree: Vec<u32> = support::descendants(broker.pid());
        assert_eq!(tree, Vec::<u32>::new(), "runaway forkers under ABI {abi}");
    }
    for abi in [6, 5] {
        let many = "for i in $(seq 1000); do sleep 86399 & done; echo $EPOCHREALTIME";
        let outcome = broker.run(&shell_request(own_dir.path(), abi).to_string(), &command_text(many));
        let ended: f64 = outcome.stdout.trim().parse().unwrap_or_else(|_| panic!("{outcome:?}"));
        #[expect(clippy::disallowed_methods, reason = "the test measures real time")]
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let took = now.as_secs_f64() - ended;
        println!("a thousand processes ended in {took:.3} s under ABI {abi}");
        assert!(took < 3.0, "a thousand processes took {took} s under ABI {abi}");
        assert_eq!(remaining_processes(), Vec::<String>::new());
    }
    for abi in [5, 1] {
        let code = "sleep 9 & kill $! 2>/dev/null || echo denied; kill -0 $PPID 2>/dev/null || echo denied";
        let outcome = broker.run(&shell_request(own_dir.path(), abi).to_string(), &command_text(code));
        assert_eq!(
            outcome.stdout, "denied\ndenied\n",
            "signals are refused without a landlock scope: {outcome:?}"
        );
    }
}
