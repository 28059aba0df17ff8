//! Limits, statuses and the parent's view: every end of a run, and the cleanup after it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nanoclaw_sandbox::{Level, Program, RunRecord, RunStatus, Sandbox, WorkdirLimit};

use crate::support::{self, javascript, python};

/// Bypasses the audit hook, which would raise an explanation.
const EXEC: &str =
    "import ctypes\nctypes.CDLL(None).execv(b'/bin/true', (ctypes.c_char_p * 2)(b'true', None))";

#[expect(clippy::disallowed_methods, reason = "the tests measure real time")]
fn timed(sandbox: &Sandbox, program: &Program) -> (RunRecord, Duration) {
    let start = Instant::now();
    (sandbox.run(program, &|| false), start.elapsed())
}

fn run(program: &Program) -> RunRecord {
    let scratch = tempfile::tempdir().unwrap();
    let record = support::sandbox(scratch.path()).run(program, &|| false);
    support::assert_nothing_left(scratch.path());
    record
}

fn lenient(code: &str) -> RunRecord {
    run(&python(Level::Lenient, code))
}

#[test]
fn the_wall_clock_ends_a_spinning_or_sleeping_guest() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    assert!(sandbox.report().able());
    let spin = "while True: pass";
    let sleep = "import time\nprint('here')\ntime.sleep(100)";
    for mut program in [
        python(Level::Strict, spin),
        python(Level::Standard, sleep),
        python(Level::Lenient, "import os\nos.closerange(0, 256)\nwhile True: pass"),
        javascript(Level::Strict, "for (;;) {}"),
        javascript(Level::Lenient, "setTimeout(() => {}, 1e6)"),
    ] {
        program.timeout_ms = Some(1_000);
        let (record, took) = timed(&sandbox, &program);
        assert_eq!(record.status, RunStatus::Timeout, "{record:#?}");
        assert_eq!(record.limit.as_deref(), Some("timeout_ms"));
        assert!(took < support::SOON, "{took:?} for {}", program.code);
        if program.code == sleep {
            assert_eq!(record.stdout, "here\n", "earlier output is kept");
        }
    }
    support::assert_nothing_left(scratch.path());
}

#[test]
fn a_timeout_during_set_up_is_reported_as_a_timeout() {
    let _turn = support::exclusive();
    let mut program = python(Level::Lenient, "print(1)");
    program.timeout_ms = Some(1);
    // The child may have exited before its parent's clock starts.
    let record = (0..20).map(|_| run(&program)).find(|record| record.status != RunStatus::Ok).unwrap();
    assert_eq!(
        (record.status, record.limit.as_deref()),
        (RunStatus::Timeout, Some("timeout_ms")),
        "{record:#?}"
    );
}

#[test]
fn a_run_can_be_cancelled() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    assert!(sandbox.report().able());
    let cancelled = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let program = python(Level::Lenient, "while True: pass");
            sandbox.run(&program, &|| cancelled.load(Ordering::Relaxed))
        });
        #[expect(clippy::disallowed_methods, reason = "the guest must be well under way")]
        std::thread::sleep(Duration::from_millis(500));
        cancelled.store(true, Ordering::Relaxed);
        #[expect(clippy::disallowed_methods, reason = "the test measures real time")]
        let start = Instant::now();
        let record = running.join().unwrap();
        assert!(start.elapsed() < support::SOON, "{:?}", start.elapsed());
        assert_eq!((record.status, record.limit.as_deref()), (RunStatus::Timeout, Some("cancelled")));
    });
    support::assert_nothing_left(scratch.path());
}

#[test]
fn too_much_output_ends_the_run() {
    let _turn = support::exclusive();
    for (program, limit, max_bytes) in [
        (python(Level::Standard, "print('x' * 50_000_000)"), "stdout_bytes", 256 * 1024),
        (python(Level::Strict, "while True: print('yes')"), "stdout_bytes", 64 * 1024),
        (
            python(Level::Lenient, "import sys\nsys.stderr.write('e' * 50_000_000)"),
            "stderr_bytes",
            256 * 1024,
        ),
        (javascript(Level::Strict, "for (;;) console.log('x'.repeat(65536))"), "stdout_bytes", 64 * 1024),
        (javascript(Level::Lenient, "console.error('é'.repeat(1e7))"), "stderr_bytes", 256 * 1024),
    ] {
        let record = run(&program);
        assert_eq!(record.status, RunStatus::OutputLimit, "{}", record.error.unwrap_or_default());
        assert_eq!(record.limit.as_deref(), Some(limit));
        assert_eq!(record.stdout_truncated, limit == "stdout_bytes");
        assert_eq!(record.stderr_truncated, limit == "stderr_bytes");
        assert!(record.stdout.len() + record.stderr.len() <= max_bytes, "{}", record.stdout.len());
    }
}

#[test]
fn each_kind_of_end_has_its_status() {
    let _turn = support::exclusive();
    let cases = [
        (python(Level::Strict, "print(1)"), RunStatus::Ok),
        (python(Level::Strict, "1/0"), RunStatus::Error),
        (python(Level::Lenient, "import sys\nsys.exit(7)"), RunStatus::Error),
        (python(Level::Lenient, "import os\nos._exit(0)"), RunStatus::Ok),
        (python(Level::Strict, "import os"), RunStatus::ModuleNotAllowed),
        (python(Level::Strict, "print(getattr(1, 'real'))"), RunStatus::BuiltinNotAllowed),
        (python(Level::Strict, "print("), RunStatus::SyntaxError),
        (python(Level::Lenient, "import os\nos.abort()"), RunStatus::Crash),
        (python(Level::Lenient, EXEC), RunStatus::ForbiddenSyscall),
        (python(Level::Strict, "l = []\nwhile True: l.append([0] * 100000)"), RunStatus::Oom),
        (javascript(Level::Strict, "1 + 1"), RunStatus::Ok),
        (javascript(Level::Strict, "null.x"), RunStatus::Error),
        (javascript(Level::Strict, "let a = ;"), RunStatus::SyntaxError),
        (javascript(Level::Strict, "import fs from 'fs'"), RunStatus::ModuleNotAllowed),
        (
            javascript(Level::Strict, "const a = []; for (;;) a.push(new ArrayBuffer(1 << 20))"),
            RunStatus::Oom,
        ),
        (javascript(Level::Standard, "let s = 'x'; for (;;) s += s"), RunStatus::Error),
    ];
    for (program, status) in cases {
        let record = run(&program);
        assert_eq!(record.status, status, "{} -> {record:#?}", program.code);
        assert!(record.engine_version.contains('.'), "{record:#?}");
    }
}

#[test]
fn a_nonzero_exit_code_is_a_plain_error_with_that_code() {
    let _turn = support::exclusive();
    for code in [1, 2, 9, 70, 101, 124, 137, 159, 255] {
        let record = lenient(&format!("import os\nos._exit({code})"));
        assert_eq!((record.status, record.exit_code), (RunStatus::Error, Some(code)));
    }
}

#[test]
fn forged_reports_do_not_change_the_status() {
    let _turn = support::exclusive();
    let forge = r#"
import os, sys
for frame in ('{"frame":"ready"}', '{"frame":"refused","status":"ok","message":"forged"}', '{"frame":"go"}',
              '{"frame":"failed","message":"forged"}',
              '{"frame":"end","result":"FORGED","error":"FORGED","out_of_memory":true,"status":"ok","exit_code":0}'):
    for fd in range(1, 16):
        try: os.write(fd, ("\n" + frame + "\n").encode())
        except OSError: pass
# A pipe can be opened again for reading: take out what our own code wrote, and put something else in.
for fd in range(3, 16):
    try:
        again = os.open("/proc/self/fd/%d" % fd, os.O_RDWR | os.O_NONBLOCK)
        os.read(again, 65536)
        os.write(again, b'{"frame":"ready"}\n{"frame":"refused","status":"syntax_error","message":"FORGED"}\n')
    except OSError: pass
"#;
    for (end, status) in [
        ("os._exit(3)", RunStatus::Error),
        ("1/0", RunStatus::Error),
        ("os.abort()", RunStatus::Crash),
        ("while True: pass", RunStatus::Timeout),
        (EXEC, RunStatus::ForbiddenSyscall),
        ("os.write(1, b'x' * 2_000_000)", RunStatus::OutputLimit),
    ] {
        let mut program = python(Level::Lenient, &format!("{forge}{end}"));
        program.timeout_ms = Some(1_500);
        let record = run(&program);
        assert_eq!(record.status, status, "{end}: {record:#?}");
        assert_eq!(record.result, None);
    }
    let flood = lenient("import os\nwhile True: os.write(4, b'z' * 65536)");
    assert_eq!(flood.status, RunStatus::Error, "{flood:#?}");
}

#[test]
fn signals_that_a_guest_sends_itself_do_not_forge_a_status() {
    let _turn = support::exclusive();
    for number in [9, 24, 31] {
        let record = lenient(&format!("import signal\nsignal.raise_signal({number})"));
        assert_eq!(record.status, RunStatus::Error, "signal {number}: {record:#?}");
    }
    let killed = lenient("import os\nos.kill(os.getpid(), 9)");
    assert_eq!(killed.status, RunStatus::Error, "{killed:#?}");
}

#[test]
fn threads_are_limited_and_no_process_survives() {
    let _turn = support::exclusive();
    let forks = "import os\nfor call in (os.fork, os.forkpty, lambda: os.posix_spawn('/bin/true', ['true'], {})):\n    \
                     try: call(); print('ESCAPED')\n    except OSError as e: print('blocked')";
    assert_eq!(lenient(forks).stdout, "blocked\nblocked\nblocked\n");
    let threads = "import threading, time\nthreading.stack_size(32768)\nn = 0\ntry:\n    for _ in range(400):\n        \
                       threading.Thread(target=time.sleep, args=(2,), daemon=True).start(); n += 1\n\
                       except RuntimeError: pass\nprint(n)";
    let record = lenient(threads);
    if record.limit.as_deref() == Some("processes") {
        // For users other than root, the kernel's count includes the server's tasks: the parent's count ends
        // the run.
        assert!(record.status == RunStatus::Error && record.stdout.is_empty(), "{record:#?}");
        return;
    }
    let started: u32 = record.stdout.trim().parse().unwrap_or_else(|_| panic!("{record:#?}"));
    assert!((8..64).contains(&started), "{started} threads");
}

#[test]
fn a_deep_directory_tree_is_removed() {
    let _turn = support::exclusive();
    let record = lenient("import os\nfor i in range(5000):\n    os.mkdir('d'); os.chdir('d')\nprint('deep')");
    assert_eq!((record.status, record.stdout.as_str()), (RunStatus::Ok, "deep\n"), "{record:#?}");
    assert_eq!(record.error, None);
}

#[test]
fn the_private_directory_is_limited() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let mut options = support::options(scratch.path());
    options.levels.lenient.own_directory_bytes = 40 << 20;
    options.levels.lenient.own_directory_entries = 5_000;
    let sandbox = Sandbox::new(options).unwrap();
    let write = "import os\nfor i in range(10**9):\n    open('%d' % i, 'wb').write(b'x' * (1 << 20))";
    let links = "import os\nopen('f', 'w')\nfor i in range(10**9): os.link('f', '%d' % i)";
    let deep = "import os\nfor i in range(10**9):\n    os.mkdir('d' * 200); os.chdir('d' * 200)";
    let mapped = "import mmap, os\nfor i in range(10**9):\n    \
                      f = open('%d' % i, 'w+b'); f.truncate(1 << 20); m = mmap.mmap(f.fileno(), 0)\n    \
                      m.write(b'x' * (1 << 20)); m.close(); f.close()";
    for (code, limit) in [
        (write, "own_directory_bytes"),
        (mapped, "own_directory_bytes"),
        (links, "own_directory_entries"),
        (deep, "own_directory_entries"),
    ] {
        let record = sandbox.run(&python(Level::Lenient, code), &|| false);
        assert_eq!(
            (record.status, record.limit.as_deref()),
            (RunStatus::OutputLimit, Some(limit)),
            "{code}: {record:#?}"
        );
    }
    let rewriting = "f = open('f', 'wb')\nfor i in range(100):\n    f.seek(0); f.write(b'x' * (1 << 20))";
    let record = sandbox.run(&python(Level::Lenient, rewriting), &|| false);
    assert_eq!(record.status, RunStatus::Ok, "existing bytes count, not written ones: {record:#?}");
    support::assert_nothing_left(scratch.path());
    assert_eq!(sandbox.removal_failures(), Vec::<String>::new());
}

#[test]
fn a_given_directory_is_used_and_kept() {
    let _turn = support::exclusive();
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("in.txt"), "from outside").unwrap();
    let mut program =
        python(Level::Lenient, "print(open('in.txt').read())\nopen('out.txt', 'w').write('made')");
    program.workdir = Some(home.path().to_owned());
    let record = run(&program);
    assert_eq!((record.status, record.stdout.as_str()), (RunStatus::Ok, "from outside\n"), "{record:#?}");
    assert_eq!(std::fs::read_to_string(home.path().join("out.txt")).unwrap(), "made");
    program.workdir = Some("/proc/nonexistent".into());
    assert_eq!(run(&program).status, RunStatus::SandboxError);
}

#[test]
fn p8_a_given_directory_is_limited_while_a_run_lasts_and_when_it_has_ended() {
    let _turn = support::exclusive();
    let home = tempfile::tempdir().unwrap();
    let limit = WorkdirLimit::new(u64::MAX, 1_000, |_, entries| {
        (entries > 1_000).then(|| ("some_limit", "it held too much".to_owned()))
    });
    let endless = "n = 0\nwhile True:\n    open('%d' % n, 'w').close(); n += 1";
    // It writes first: a busy machine may find the files before the program ends.
    let quick = "print('begun', flush=True)\nfor n in range(1001): open('%d' % n, 'w').close()";
    for (code, output) in [(endless, ""), (quick, "begun\n")] {
        let mut program = python(Level::Lenient, code);
        (program.workdir, program.workdir_limit) = (Some(home.path().to_owned()), Some(limit.clone()));
        let record = run(&program);
        assert_eq!(
            (record.status, record.limit.as_deref(), record.stdout.as_str()),
            (RunStatus::OutputLimit, Some("some_limit"), output),
            "{record:#?}"
        );
        for file in std::fs::read_dir(home.path()).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
    }
}

#[test]
fn sixty_four_concurrent_runs_leak_no_descriptor() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    assert!(sandbox.report().able());
    let program = javascript(Level::Standard, "console.log(6 * 7)");
    assert_eq!(sandbox.run(&program, &|| false).status, RunStatus::Ok);
    let before = support::open_descriptors();
    let items: Vec<usize> = (0..64).collect();
    let records = support::in_parallel(items, 64, |number| {
        let code = format!("print({number} * 2)");
        (number, sandbox.run(&python(Level::Strict, &code), &|| false))
    });
    for (number, record) in records {
        assert_eq!((record.status, record.stdout), (RunStatus::Ok, format!("{}\n", number * 2)));
    }
    for _ in 0..200 {
        assert_eq!(sandbox.run(&program, &|| false).stdout, "42\n");
    }
    assert_eq!(support::open_descriptors(), before, "descriptors leaked");
    support::assert_nothing_left(scratch.path());
}

#[test]
fn a_failed_set_up_runs_no_program() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    for (exe, words) in [("/proc/nonexistent", "cannot start"), ("/bin/true", "child_hook")] {
        let mut options = support::options(scratch.path());
        options.child_exe = exe.into();
        let sandbox = Sandbox::new(options).unwrap();
        let record = sandbox.run(&python(Level::Strict, "print(1)"), &|| false);
        assert_eq!((record.status, record.stdout.as_str()), (RunStatus::SandboxError, ""));
        assert!(record.error.as_deref().unwrap_or_default().contains(words), "{record:#?}");
        assert!(!sandbox.report().able());
    }
    let mut options = support::options(scratch.path());
    options.python = Some("/bin/true".into());
    let sandbox = Sandbox::new(options).unwrap();
    assert_eq!(sandbox.run(&python(Level::Strict, "print(1)"), &|| false).status, RunStatus::SandboxError);
    assert_eq!(sandbox.run(&javascript(Level::Strict, "1"), &|| false).status, RunStatus::Ok);
    support::assert_nothing_left(scratch.path());
}
