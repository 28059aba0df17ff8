//! The sandbox alone, with the release binary as its broker: latency, throughput and memory, and its peers.

use crate::load::calls_per_second;
use crate::results::Results;
use crate::server::{ROOT, binary};
use crate::unit::Unit;
use crate::work::Work;
use crate::{Benchmark, SPAN, machine, median, peers, percentile, process, timed_ms};
use nanoclaw_sandbox::{Language, Level, Program, Sandbox, SandboxOptions};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// Runs of one figure.
const RUNS: usize = 400;
/// Runs before them.
const WARM_UP_RUNS: usize = 20;
/// Runs of the interpreter without a sandbox.
const PLAIN_RUNS: usize = 100;
/// Runs of a slower peer.
const PEER_RUNS: usize = 40;

/// Measures all figures of this group.
pub(crate) fn measure(run: &mut Benchmark) {
    let sandbox =
        Sandbox::new(SandboxOptions { child_exe: binary(), ..SandboxOptions::default() }).expect("a sandbox");
    assert!(sandbox.report().able(), "this kernel cannot sandbox: {:#?}", sandbox.report());
    let javascript = Program::new(Language::JavaScript, Level::Standard, "1 + 1");
    let python = Program::new(Language::Python, Level::Standard, "print(1)");
    let lenient = Program::new(Language::Python, Level::Lenient, "print(1)");
    let results = &mut run.results;
    python_latency(results, &sandbox, &python);
    latency(results, &sandbox, "sandbox.javascript", &javascript);
    if run.with_peers {
        measure_peers(results, &sandbox);
    }
    latency(results, &sandbox, "sandbox.lenient", &lenient);
    latency(results, &sandbox, "sandbox.shell", &Program::new(Language::Bash, Level::Shell, "echo 1"));
    throughput(results, &sandbox, "sandbox.javascript_rate", &javascript);
    throughput(results, &sandbox, "sandbox.python_rate", &python);
    let waiting = Program::new(Language::JavaScript, Level::Standard, "setTimeout(() => {}, 1500)");
    memory(results, &sandbox, "sandbox.javascript_memory", &waiting);
    let sleeping = Program::new(Language::Python, Level::Standard, "import time\ntime.sleep(1.5)");
    memory(results, &sandbox, "sandbox.python_memory", &sleeping);
}

fn latency(results: &mut Results, sandbox: &Sandbox, key: &str, program: &Program) {
    for _ in 0..WARM_UP_RUNS {
        assert_eq!(sandbox.run(program, &|| false).error, None);
    }
    measure_runs(results, key, RUNS, || drop(sandbox.run(program, &|| false)));
}

/// Times of runs, one after the other, and their work.
fn measure_runs(results: &mut Results, key: &str, runs: usize, run: impl Fn()) {
    let (mut times, work) = times_and_work(runs, run);
    record_with_p99(results, key, &mut times);
    results.record_work(key, work);
}

/// Times in milliseconds, and the processor time of this process and its descendants.
fn times_and_work(runs: usize, run: impl Fn()) -> (Vec<f64>, Work) {
    let mut times = Vec::new();
    process::reap_orphans();
    let work = Work::measure(std::process::id(), || {
        times.extend((0..runs).map(|_| timed_ms(&run)));
        process::reap_orphans();
        runs as f64 * 1e3 / times.iter().sum::<f64>()
    });
    (times, work)
}

/// The sandbox and the same interpreter without it, alternating, so that both see the same machine.
fn python_latency(results: &mut Results, sandbox: &Sandbox, program: &Program) {
    let (mut sandboxed, mut plain) = (Vec::new(), Vec::new());
    let run = || assert_eq!(sandbox.run(program, &|| false).error, None);
    let interpreter = interpreter(sandbox);
    let command = print_one(&interpreter);
    let run_plain = || assert!(run_command(&command).is_ok_and(|status| status.success()));
    for _ in 0..WARM_UP_RUNS {
        run();
    }
    for _ in 0..PLAIN_RUNS {
        plain.push(timed_ms(run_plain));
        sandboxed.extend((0..RUNS / PLAIN_RUNS).map(|_| timed_ms(run)));
    }
    record_with_p99(results, "sandbox.python", &mut sandboxed);
    record_with_p99(results, "sandbox.python.plain", &mut plain);
    // Alternating runs are too short for the ticks of processor time.
    results.record_work("sandbox.python", times_and_work(RUNS, run).1);
    results.record_work("sandbox.python.plain", times_and_work(PLAIN_RUNS, run_plain).1);
}

/// The interpreter of the sandbox.
fn interpreter(sandbox: &Sandbox) -> String {
    let path = sandbox.report().python.path.expect("an interpreter");
    path.to_str().expect("a path in UTF-8").to_owned()
}

fn print_one(python: &str) -> [&str; 5] {
    [python, "-I", "-S", "-c", "print(1)"]
}

/// The same small program in bubblewrap, and in node.
fn measure_peers(results: &mut Results, sandbox: &Sandbox) {
    let interpreter = interpreter(sandbox);
    let print_one = print_one(&interpreter);
    let node = machine::first_line("sh", &["-c", "command -v node"]);
    let log_one = [node.as_str(), "-e", "console.log(1)"];
    measure_command(results, "sandbox.javascript.node", &log_one);
    match peers::find_program(results, "bubblewrap") {
        Ok(bwrap) => {
            measure_command(results, "sandbox.python.bwrap", &with_bubblewrap(&bwrap, &print_one));
            measure_command(results, "sandbox.javascript.bwrap", &with_bubblewrap(&bwrap, &log_one));
            let echo_one = with_bubblewrap(&bwrap, &["/usr/bin/sh", "-c", "echo 1"]);
            measure_command(results, "sandbox.shell.bwrap", &echo_one);
        }
        Err(reason) => {
            for key in ["sandbox.python.bwrap", "sandbox.javascript.bwrap", "sandbox.shell.bwrap"] {
                results.skip(key, &reason);
            }
        }
    }
    match peers::find_program(results, "codex") {
        Ok(codex) => {
            let sandboxed = [codex.as_str(), "sandbox", "--"];
            measure_command(results, "sandbox.python.codex", &[&sandboxed[..], &print_one].concat());
            measure_command(results, "sandbox.shell.codex", &[&sandboxed[..], &["echo", "1"]].concat());
        }
        Err(reason) => {
            results.skip("sandbox.python.codex", &reason);
            results.skip("sandbox.shell.codex", &reason);
        }
    }
    peers::measure_with_script(results, "node", "sandbox.javascript.vm");
}

/// The command in bubblewrap. A program outside the system's directories needs its own prefix mounted, too.
fn with_bubblewrap<'a>(bwrap: &'a str, command: &[&'a str]) -> Vec<&'a str> {
    let prefix =
        Path::new(command[0]).parent().and_then(Path::parent).and_then(Path::to_str).unwrap_or("/usr");
    let mut line =
        vec![bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"];
    line.extend(["--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc"]);
    line.extend(["--dev", "/dev", "--ro-bind", prefix, prefix]);
    line.extend(command);
    line
}

fn measure_command(results: &mut Results, key: &str, command: &[&str]) {
    match run_command(command) {
        Ok(status) if status.success() => {
            measure_runs(results, key, PEER_RUNS, || drop(run_command(command)));
        }
        Ok(status) => results.skip(key, &format!("it fails here: {status}")),
        Err(_) => results.skip(key, &format!("'{}' is not installed", command[0])),
    }
}

fn run_command(command: &[&str]) -> std::io::Result<ExitStatus> {
    // Only codex reads the variable. Without it, its user's configuration would count.
    let home = Path::new(ROOT).join("target/peers/codex-home");
    let mut program = Command::new(command[0]);
    program.args(&command[1..]).env("CODEX_HOME", home);
    program.stdout(Stdio::null()).stderr(Stdio::null()).status()
}

fn throughput(results: &mut Results, sandbox: &Sandbox, key: &str, program: &Program) {
    let run = |(): &mut (), _| {
        assert_eq!(sandbox.run(program, &|| false).error, None);
        Some(true)
    };
    let rate = || calls_per_second(4, SPAN, || (), run);
    results.record_rate(key, Work::measure(std::process::id(), rate));
}

/// Private memory of a waiting child, without pages of the broker or a zygote.
fn memory(results: &mut Results, sandbox: &Sandbox, key: &str, program: &Program) {
    let private_mib = std::thread::scope(|scope| {
        let run = scope.spawn(|| sandbox.run(program, &|| false));
        std::thread::sleep(Duration::from_millis(700));
        let private_kib = find_guest().and_then(|pid| process::rollup_kib(pid, "Private_"));
        assert_eq!(run.join().expect("a run").error, None);
        private_kib.map(|kib| kib / 1024.0)
    });
    results.record_or_skip(key, private_mib.ok_or("this kernel does not show the child's memory".to_owned()));
}

/// The process of the running program.
fn find_guest() -> Option<u32> {
    process::family(std::process::id()).into_iter().find(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "nanoclaw-guest")
    })
}

fn record_with_p99(results: &mut Results, key: &str, times: &mut [f64]) {
    let p99 = percentile(times, 99);
    results.record_with_note(key, median(times), &format!("p99 {}", Unit::Ms.format(p99)));
}
