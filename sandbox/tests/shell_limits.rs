//! Each limit of a command works, the record names it, and the machine stays usable.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nanoclaw_sandbox::{Language, Level, Program, RunLimits, RunRecord, RunStatus, Sandbox, ScarceResource};

use crate::support;

const MIB: u64 = 1024 * 1024;

fn bash(code: &str) -> Program {
    Program::new(Language::Bash, Level::Shell, code)
}

/// Runs with limits that the test has changed.
fn run(code: &str, change: impl Fn(&mut RunLimits)) -> RunRecord {
    let scratch = tempfile::tempdir().unwrap();
    let mut options = support::options(scratch.path());
    change(&mut options.levels.shell);
    let sandbox = Sandbox::new(options).unwrap();
    let record = sandbox.run(&bash(code), &|| false);
    let next = sandbox.run(&bash("echo next"), &|| false);
    assert_eq!(next.stdout, "next\n", "after {code}: {next:#?}");
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
    record
}

fn assert_ended(record: &RunRecord, status: RunStatus, limit: &str) {
    assert_eq!((record.status, record.limit.as_deref()), (status, Some(limit)), "{record:#?}");
}

#[test]
fn the_wall_clock_ends_the_whole_tree() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    assert!(sandbox.report().able());
    for code in [
        "echo here; sleep 100",
        "echo here; while :; do :; done",
        "echo here; trap '' TERM INT HUP; sleep 100 & while :; do wait; done",
        "echo here; exec 1>&- 2>&- 0<&-; setsid sleep 100; sleep 100",
        "echo here; for i in $(seq 60); do sleep 100 & done; wait",
        "echo here; kill -STOP $$",
    ] {
        let mut program = bash(code);
        program.timeout_ms = Some(1_000);
        #[expect(clippy::disallowed_methods, reason = "the test measures real time")]
        let start = Instant::now();
        let record = sandbox.run(&program, &|| false);
        let took = start.elapsed();
        assert_ended(&record, RunStatus::Timeout, "timeout_ms");
        assert_eq!((record.stdout.as_str(), record.exit_code), ("here\n", Some(137)), "{code}");
        assert!(took < support::SOON, "{took:?} for {code}");
        assert_eq!(support::guests(), Vec::<String>::new(), "alive after {code}");
    }
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

/// The same in a thread of each that outlives the main one.
const IN_THREADS: &str = " threads";

/// Three processes with 60 epoll instances each, which watch 60 files each.
const WATCHES: &str = r#"
cat > watches.py <<'X'
import ctypes, os, select, sys, threading, time
for _ in range(2):
    if os.fork() == 0: break
def watch():
    global polls, files
    files = [os.eventfd(0) if hasattr(os, "eventfd") else os.pipe()[0] for _ in range(60)]
    polls = [select.epoll() for _ in range(60)]
    for poll in polls:
        for file in files: poll.register(file, 1)
    open("ready%d" % os.getpid(), "w").close()
    time.sleep(100)
if len(sys.argv) > 1:
    threading.Thread(target=watch).start()
    ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
watch()
X
python3 watches.py"#;

#[test]
fn p8_the_command_with_the_most_watches_is_ended_when_the_kernel_runs_out() {
    let _turn = support::exclusive();
    for arguments in ["", IN_THREADS] {
        end_the_one_with_the_most_watches(&format!("{WATCHES}{arguments}"));
    }
}

fn end_the_one_with_the_most_watches(watches: &str) {
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    assert!(sandbox.report().able());
    assert_eq!(sandbox.end_largest_run(ScarceResource::Tables), None, "nothing runs");
    let (large, small) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let is_small_done = AtomicBool::new(false);
    let run = |code: &str, workdir: &tempfile::TempDir, is_done: &AtomicBool| {
        let mut program = bash(code);
        program.workdir = Some(workdir.path().to_owned());
        sandbox.run(&program, &|| is_done.load(Ordering::Relaxed))
    };
    let never = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let large_run = scope.spawn(|| run(watches, &large, &never));
        let small_run = scope.spawn(|| run("touch ready; sleep 100", &small, &is_small_done));
        let ready = |dir: &tempfile::TempDir| {
            let names = std::fs::read_dir(dir.path()).unwrap().flatten().map(|entry| entry.file_name());
            names.filter(|name| name.to_string_lossy().starts_with("ready")).count()
        };
        while (ready(&large) < 3 || ready(&small) < 1) && !large_run.is_finished() {
            std::thread::yield_now();
        }
        let size = sandbox.end_largest_run(ScarceResource::Tables);
        let record = large_run.join().unwrap();
        assert_ended(&record, RunStatus::Error, "kernel_tables");
        let size = size.expect("a large program");
        assert!(size.watches >= 3 * 3_600 && size.files >= 3 * 120, "{size:?}");
        assert_eq!(sandbox.end_largest_run(ScarceResource::Tables), None, "the other one is small");
        is_small_done.store(true, Ordering::Relaxed);
        assert_ended(&small_run.join().unwrap(), RunStatus::Timeout, "cancelled");
    });
}

#[test]
fn a_command_can_be_cancelled() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    assert!(sandbox.report().able());
    let cancelled = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let program = bash("trap '' TERM; sleep 100 & sleep 100");
            sandbox.run(&program, &|| cancelled.load(Ordering::Relaxed))
        });
        #[expect(clippy::disallowed_methods, reason = "the command must be well under way")]
        std::thread::sleep(Duration::from_millis(500));
        cancelled.store(true, Ordering::Relaxed);
        #[expect(clippy::disallowed_methods, reason = "the test measures real time")]
        let start = Instant::now();
        let record = running.join().unwrap();
        assert!(start.elapsed() < support::SOON, "{:?}", start.elapsed());
        assert_ended(&record, RunStatus::Timeout, "cancelled");
        assert_eq!(support::guests(), Vec::<String>::new());
    });
}

#[test]
fn long_output_is_truncated_to_head_and_tail_without_ending_the_run() {
    let _turn = support::exclusive();
    let small = |limits: &mut RunLimits| (limits.stdout_bytes, limits.stderr_bytes) = (2_000, 1_000);
    let record = run("echo first; seq 1000000; echo last; seq 5000 >&2; exit 6", small);
    assert_eq!((record.status, record.exit_code), (RunStatus::Error, Some(6)));
    for (text, first, last, max_bytes) in [
        (&record.stdout, "first\n1\n", "1000000\nlast\n", 2_000),
        (&record.stderr, "1\n2\n", "4999\n5000\n", 1_000),
    ] {
        assert!(text.starts_with(first) && text.ends_with(last), "{text}");
        let gap = text.lines().find(|line| line.starts_with('…')).unwrap();
        assert!(gap.ends_with("bytes left out …"), "{gap}");
        assert!(text.len() <= max_bytes + 60, "{}", text.len());
    }
    assert!(record.stdout_truncated && record.stderr_truncated);
    let fits = run("head -c 2000 /dev/zero | tr '\\0' x", small);
    assert_eq!((fits.stdout.len(), fits.stdout_truncated), (2_000, false));
}

/// Two endless loops for each processor, which end with the test.
struct BusyMachine(Vec<std::process::Child>);

impl BusyMachine {
    #[expect(clippy::disallowed_methods, reason = "the loops are the load, not guests")]
    fn start() -> Self {
        let loops = 2 * std::thread::available_parallelism().unwrap().get();
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        Self((0..loops).map(|_| command.spawn().unwrap()).collect())
    }
}

impl Drop for BusyMachine {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

#[test]
#[ignore = "takes most processes of the machine for seconds; scripts/test --long runs it alone"]
fn p8_a_fork_bomb_on_a_busy_machine_ends_only_itself() {
    let _turn = support::exclusive();
    let _busy = BusyMachine::start();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    for _ in 0..3 {
        let (bomb, other) = std::thread::scope(|scope| {
            let other = scope.spawn(|| sandbox.run(&bash("sleep 1; echo whole"), &|| false));
            let bomb = sandbox.run(&bash("b() { b & b & }; b 2>/dev/null; sleep 60"), &|| false);
            (bomb, other.join().unwrap())
        });
        assert_ended(&bomb, RunStatus::Error, "processes");
        assert_eq!(other.stdout, "whole\n", "its broker lives on: {other:#?}");
    }
}

#[test]
fn too_many_processes_end_the_run() {
    let _turn = support::exclusive();
    for code in [
        ":(){ :|:& };:; sleep 5",
        "b() { b & b & }; b 2>/dev/null; sleep 5",
        "for i in $(seq 300); do sleep 5 & done; wait",
        "python3 -c 'import threading, time\nthreading.stack_size(65536)\nfor _ in range(300): \
             threading.Thread(target=time.sleep, args=(5,)).start()'",
    ] {
        assert_ended(&run(code, |_| {}), RunStatus::Error, "processes");
    }
    let within_limit = run("for i in $(seq 40); do sleep 0.3 & done; wait; echo done", |_| {});
    assert_eq!(
        (within_limit.status, within_limit.stdout.as_str()),
        (RunStatus::Ok, "done\n"),
        "{within_limit:#?}"
    );
    let low_limit = run("for i in $(seq 20); do sleep 5 & done; wait", |limits| limits.processes = 10);
    assert_ended(&low_limit, RunStatus::Error, "processes");
}

#[test]
fn memory_files_and_descriptors_are_limited() {
    let _turn = support::exclusive();
    let memory_hungry =
        run("python3 -c 'x = bytearray(2 << 30)' 2>&1 | tail -1; exit ${PIPESTATUS[0]}", |_| {});
    assert_eq!(
        (memory_hungry.status, memory_hungry.stdout.as_str()),
        (RunStatus::Error, "MemoryError\n"),
        "{memory_hungry:#?}"
    );
    let file = run("dd if=/dev/zero of=f bs=1M count=20; echo $?; stat -c %s f", |limits| {
        limits.file_size_bytes = 8 * MIB;
    });
    assert_eq!(file.stdout, "153\n8388608\n", "SIGXFSZ ends dd alone: {file:#?}");
    let many = "import os\nn = 0\ntry:\n  while True: os.dup(0); n += 1\nexcept OSError: print(n < 256)";
    assert_eq!(run(&format!("python3 -c '{many}'"), |_| {}).stdout, "True\n");
    let cpu = run("while :; do :; done", |limits| limits.cpu_s = 1);
    assert!(cpu.exit_code.is_some_and(|code| code == 152 || code == 137), "{cpu:#?}");
}

#[test]
fn the_private_directory_is_limited() {
    let _turn = support::exclusive();
    let bounds = |limits: &mut RunLimits| {
        (limits.own_directory_bytes, limits.own_directory_entries) = (40 * MIB, 2_000);
    };
    for (code, limit) in [
        (
            "n=0; while dd if=/dev/zero of=f$n bs=1M count=8 2>/dev/null; do n=$((n + 1)); done",
            "own_directory_bytes",
        ),
        ("n=0; while :; do >f$n; n=$((n + 1)); done", "own_directory_entries"),
        ("python3 -c 'import os\nwhile True: os.mkdir(\"d\"); os.chdir(\"d\")'", "own_directory_entries"),
    ] {
        assert_ended(&run(code, bounds), RunStatus::OutputLimit, limit);
    }
    let deep = "python3 -c \"import os\nfor _ in range(5000): os.mkdir('d'); os.chdir('d')\"; chmod 0 d; ln -s / root; echo x >d2";
    let record = run(deep, |_| {});
    assert_eq!((record.status, record.error), (RunStatus::Ok, None));
}

#[test]
fn commands_start_while_other_programs_of_the_user_pass_many_descriptors() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    // The kernel compares the descriptors on their way, of all processes of the user, with the limit of open
    // files of the one that sends.
    let code = "
import array, socket, sys
pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(40)]
for sender, _ in pairs:
    try:
        sender.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0] * 200))])
    except OSError:
        break
print('sent', flush=True)
sys.stdin.read()
";
    #[expect(clippy::disallowed_methods, reason = "a program that is not confined")]
    let mut python = Command::new("python3");
    let mut others = python.args(["-c", code]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(others.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "sent\n");
    let record = sandbox.run(&bash("echo next"), &|| false);
    drop(others.stdin.take());
    others.wait().unwrap();
    assert_eq!(record.stdout, "next\n", "{record:#?}");
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}
