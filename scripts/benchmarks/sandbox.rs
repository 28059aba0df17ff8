//! The sandbox alone, with the release binary as its broker: latency, throughput and memory, and its peers.

use crate::list::Unit;
use crate::server::binary;
use crate::sheet::Sheet;
use crate::{Run, SPAN, median, processes};
use nanoclaw_sandbox::{Language, Level, Program, Sandbox, SandboxOptions};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Runs of one figure.
const RUNS: usize = 400;

/// Measures all figures of this group.
pub(crate) fn measure(run: &mut Run) {
    let sandbox =
        Sandbox::new(SandboxOptions { child_exe: binary(), ..SandboxOptions::default() }).expect("a sandbox");
    assert!(sandbox.report().able(), "this kernel cannot sandbox: {:#?}", sandbox.report());
    let javascript = Program::new(Language::JavaScript, Level::Standard, "1 + 1");
    let python = Program::new(Language::Python, Level::Standard, "print(1)");
    let lenient = Program::new(Language::Python, Level::Lenient, "print(1)");
    let sheet = &mut run.sheet;
    latency(sheet, &sandbox, "sandbox.python", &python);
    latency(sheet, &sandbox, "sandbox.javascript", &javascript);
    if run.with_peers {
        peers(sheet, &sandbox);
    }
    latency(sheet, &sandbox, "sandbox.lenient", &lenient);
    latency(sheet, &sandbox, "sandbox.shell", &Program::new(Language::Bash, Level::Shell, "echo 1"));
    throughput(sheet, &sandbox, "sandbox.javascript_rate", &javascript);
    throughput(sheet, &sandbox, "sandbox.python_rate", &python);
    let waits = Program::new(Language::JavaScript, Level::Standard, "setTimeout(() => {}, 1500)");
    memory(sheet, &sandbox, "sandbox.javascript_memory", &waits);
    let sleeps = Program::new(Language::Python, Level::Standard, "import time\ntime.sleep(1.5)");
    memory(sheet, &sandbox, "sandbox.python_memory", &sleeps);
}

fn latency(sheet: &mut Sheet, sandbox: &Sandbox, key: &str, program: &Program) {
    for _ in 0..20 {
        assert_eq!(sandbox.run(program, &|| false).error, None);
    }
    let mut times: Vec<f64> = (0..RUNS).map(|_| timed(|| drop(sandbox.run(program, &|| false)))).collect();
    put_spread(sheet, key, &mut times);
}

/// The same small program without a sandbox, in bubblewrap, and in node.
fn peers(sheet: &mut Sheet, sandbox: &Sandbox) {
    let found = sandbox.report().python.path.expect("an interpreter");
    let python = found.to_str().expect("a path in UTF-8");
    let small = [python, "-I", "-S", "-c", "print(1)"];
    beside(sheet, "sandbox.python.plain", &small);
    let node = crate::machine::said("sh", &["-c", "command -v node"]);
    let log = [node.as_str(), "-e", "console.log(1)"];
    beside(sheet, "sandbox.javascript.node", &log);
    match crate::peers::path(sheet, "bubblewrap") {
        Ok(bwrap) => {
            beside(sheet, "sandbox.python.bwrap", &wrapped(&bwrap, &small));
            beside(sheet, "sandbox.javascript.bwrap", &wrapped(&bwrap, &log));
        }
        Err(why) => {
            sheet.skip("sandbox.python.bwrap", &why);
            sheet.skip("sandbox.javascript.bwrap", &why);
        }
    }
    crate::peers::number(sheet, "node", "sandbox.javascript.vm");
}

/// The command in bubblewrap. A program outside the system's directories needs its own prefix mounted, too.
fn wrapped<'a>(bwrap: &'a str, command: &[&'a str]) -> Vec<&'a str> {
    let prefix =
        Path::new(command[0]).parent().and_then(Path::parent).and_then(Path::to_str).unwrap_or("/usr");
    let mut line =
        vec![bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"];
    line.extend(["--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc"]);
    line.extend(["--dev", "/dev", "--ro-bind", prefix, prefix]);
    line.extend(command);
    line
}

fn beside(sheet: &mut Sheet, key: &str, command: &[&str]) {
    let run =
        || Command::new(command[0]).args(&command[1..]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match run() {
        Ok(status) if status.success() => {
            let mut times: Vec<f64> = (0..40).map(|_| timed(|| drop(run()))).collect();
            put_spread(sheet, key, &mut times);
        }
        Ok(status) => sheet.skip(key, &format!("it fails here: {status}")),
        Err(_) => sheet.skip(key, &format!("'{}' is not installed", command[0])),
    }
}

fn throughput(sheet: &mut Sheet, sandbox: &Sandbox, key: &str, program: &Program) {
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
    sheet.put(key, done.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64());
}

/// Private memory of a waiting child, without pages of the broker or a zygote.
fn memory(sheet: &mut Sheet, sandbox: &Sandbox, key: &str, program: &Program) {
    let private_kb = std::thread::scope(|scope| {
        let run = scope.spawn(|| sandbox.run(program, &|| false));
        std::thread::sleep(Duration::from_millis(700));
        let private_kb = guest().and_then(|pid| processes::rollup_kb(pid, "Private_"));
        assert_eq!(run.join().expect("a run").error, None);
        private_kb
    });
    match private_kb {
        Some(kb) => sheet.put(key, kb / 1024.0),
        None => sheet.skip(key, "this kernel does not show the child's memory"),
    }
}

/// The process of the running program.
fn guest() -> Option<u32> {
    processes::family(std::process::id()).into_iter().find(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "nanoclaw-guest")
    })
}

fn timed(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64() * 1e3
}

fn put_spread(sheet: &mut Sheet, key: &str, times: &mut [f64]) {
    let p50 = median(times);
    let p99 = times.get(times.len() * 99 / 100).copied().unwrap_or(f64::NAN);
    sheet.put_noted(key, p50, &format!("p99 {}", Unit::Ms.show(p99)));
}
