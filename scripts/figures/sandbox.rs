//! The sandbox alone, on the release binary's broker: latency, throughput, memory; and what people run instead.

use crate::server::BINARY;
use crate::{SPAN, median, show};
use nanoclaw_sandbox::{Language, Level, Options, Program, Sandbox};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Runs of one figure, one after the other.
const RUNS: usize = 400;

/// Every figure of the sandbox.
pub(crate) fn measure() {
    let sandbox =
        Sandbox::new(Options { child_exe: BINARY.into(), ..Options::default() }).expect("a sandbox");
    assert!(sandbox.report().able(), "this kernel cannot sandbox: {:#?}", sandbox.report());
    let javascript = Program::new(Language::JavaScript, Level::Standard, "1 + 1");
    let python = Program::new(Language::Python, Level::Standard, "print(1)");
    latency(&sandbox, "sandboxed JavaScript", &javascript, "≤ 1 ms");
    latency(&sandbox, "sandboxed Python", &python, "≤ 3.5 ms");
    let lenient = Program::new(Language::Python, Level::Lenient, "print(1)");
    latency(&sandbox, "sandboxed Python, lenient", &lenient, "–");
    latency(&sandbox, "sandboxed shell command", &Program::new(Language::Bash, Level::Shell, "echo 1"), "–");
    peers(&sandbox);
    throughput(&sandbox, "sandboxed JavaScript, 4 at once", &javascript, "≥ 600/s");
    throughput(&sandbox, "sandboxed Python, 4 at once", &python, "≥ 250/s");
    let waits = "setTimeout(() => {}, 1500)";
    memory(&sandbox, "JavaScript", &Program::new(Language::JavaScript, Level::Standard, waits));
    let sleeps = "import time\ntime.sleep(1.5)";
    memory(&sandbox, "Python", &Program::new(Language::Python, Level::Standard, sleeps));
}

fn latency(sandbox: &Sandbox, name: &str, program: &Program, goal: &str) {
    for _ in 0..20 {
        assert_eq!(sandbox.run(program, &|| false).error, None);
    }
    let mut times: Vec<f64> = (0..RUNS).map(|_| timed(|| drop(sandbox.run(program, &|| false)))).collect();
    show(&format!("{name}, p50 / p99"), &spread(&mut times), goal);
}

/// The same small program without a sandbox, in the one that people know, and in the other engine that they know.
fn peers(sandbox: &Sandbox) {
    let found = sandbox.report().python.path.expect("an interpreter");
    let python = found.to_str().expect("a path in UTF-8");
    let small = ["-I", "-S", "-c", "print(1)"];
    beside("python3 -I -S -c", python, &small);
    // An interpreter outside the system's directories needs its own prefix shown, too.
    let prefix = found.parent().and_then(Path::parent).and_then(Path::to_str).expect("a prefix");
    let mut wrapped =
        vec!["--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"];
    wrapped.extend(["--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc"]);
    wrapped.extend(["--dev", "/dev", "--ro-bind", prefix, prefix, python]);
    wrapped.extend(small);
    beside("bubblewrap + python3 -I -S -c", "bwrap", &wrapped);
    beside("node -e", "node", &["-e", "console.log(1)"]);
}

fn beside(name: &str, program: &str, arguments: &[&str]) {
    let run = || Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match run() {
        Ok(status) if status.success() => {
            let mut times: Vec<f64> = (0..40).map(|_| timed(|| drop(run()))).collect();
            show(&format!("  beside it: {name}, p50 / p99"), &spread(&mut times), "–");
        }
        Ok(_) => show(&format!("  beside it: {name}"), "fails here", "–"),
        Err(_) => show(&format!("  beside it: {name}"), "not installed", "–"),
    }
}

fn throughput(sandbox: &Sandbox, name: &str, program: &Program, goal: &str) {
    let done = AtomicUsize::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while began.elapsed() < SPAN {
                    let record = sandbox.run(program, &|| false);
                    assert_eq!(record.error, None);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let rate = done.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
    show(name, &format!("{rate:.0}/s"), goal);
}

/// What a waiting child has for itself alone: neither the broker's nor a zygote's pages.
fn memory(sandbox: &Sandbox, name: &str, program: &Program) {
    std::thread::scope(|scope| {
        let run = scope.spawn(|| sandbox.run(program, &|| false));
        std::thread::sleep(Duration::from_millis(700));
        let private_kb: Option<u64> = guest().and_then(|pid| {
            let map = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
            let lines = map.lines().filter(|line| line.starts_with("Private_"));
            lines.map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
        });
        let shown =
            private_kb.map_or("cannot be read".to_owned(), |kb| format!("{:.1} MiB", kb as f64 / 1024.0));
        show(&format!("private memory of a {name} child"), &shown, "≤ 2 MB");
        assert_eq!(run.join().expect("a run").error, None);
    });
}

/// The process of the one running program.
fn guest() -> Option<u32> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "nanoclaw-guest")
    })
}

fn timed(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64() * 1e3
}

fn spread(times: &mut [f64]) -> String {
    let p50 = median(times);
    let p99 = times.get(times.len() * 99 / 100).copied().unwrap_or(f64::NAN);
    format!("{p50:.2} / {p99:.2} ms")
}
