//! Facts about the run: processor, kernel, disk, date, commit and versions. A fact that cannot be read is
//! "unknown".

use crate::server::{binary, scratch_directory};
use std::fs::read_to_string;
use std::path::Path;
use std::process::Command;

/// Names and values in display order.
pub(crate) fn describe() -> Vec<(String, String)> {
    let binary = binary();
    let nanoclaw = binary.to_string_lossy().into_owned();
    let facts = [
        ("processor", field("/proc/cpuinfo", "model name")),
        ("cores", std::thread::available_parallelism().map_or_else(|_| unknown(), |n| n.to_string())),
        ("memory", memory()),
        ("kernel", read_trimmed("/proc/sys/kernel/osrelease")),
        ("system", first_line("sh", &["-c", ". /etc/os-release && echo \"$PRETTY_NAME\""])),
        ("filesystem of the stores", filesystem(&scratch_directory())),
        ("load before the run (1, 5, 15 min)", load()),
        ("date", first_line("date", &["-u", "+%Y-%m-%d"])),
        ("binary", first_line(&nanoclaw, &["--version"])),
        ("commit of the binary", binary_commit()),
        ("commit of the benchmarks", commit()),
        ("python3 of the sandbox", first_line("python3", &["--version"])),
        ("bare program", "hyper and redb of Cargo.lock, opt-level 3 (`profile.benchmarks`)".to_owned()),
    ];
    facts.map(|(name, text)| (name.to_owned(), text)).into()
}

/// The first line that a program prints, or "unknown".
pub(crate) fn first_line(program: &str, arguments: &[&str]) -> String {
    let run = Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let out = run.ok().filter(|out| out.status.success()).map(|out| out.stdout).unwrap_or_default();
    let line = String::from_utf8_lossy(&out).lines().next().unwrap_or_default().trim().to_owned();
    if line.is_empty() { unknown() } else { line }
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn read_trimmed(file: &str) -> String {
    read_to_string(file).map_or_else(|_| unknown(), |text| text.trim().to_owned())
}

fn field(file: &str, name: &str) -> String {
    let text = read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_once(':')).map_or_else(unknown, |(_, value)| value.trim().to_owned())
}

fn memory() -> String {
    let total = field("/proc/meminfo", "MemTotal");
    let kib: Option<f64> = total.split_whitespace().next().and_then(|n| n.parse().ok());
    kib.map_or(total, |kib| format!("{:.1} GiB", kib / f64::from(1 << 20)))
}

fn load() -> String {
    read_trimmed("/proc/loadavg").split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// The commit that the measured binary was built from. Only its builder knows it, if `BENCH_BINARY` names it.
fn binary_commit() -> String {
    match (std::env::var("BENCH_COMMIT"), std::env::var_os("BENCH_BINARY")) {
        (Ok(commit), _) => commit,
        (Err(_), Some(_)) => unknown(),
        (Err(_), None) => commit(),
    }
}

fn commit() -> String {
    let changed = Command::new("git")
        .args(["status", "--porcelain", "--untracked-files=no"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .is_ok_and(|out| !out.stdout.is_empty());
    let commit = first_line("git", &["rev-parse", "--short=10", "HEAD"]);
    if changed { format!("{commit} and changes that are not committed") } else { commit }
}

/// Type and options of the mount that holds a directory: the one with the longest mount point.
fn filesystem(directory: &Path) -> String {
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let mounts = read_to_string("/proc/self/mounts").unwrap_or_default();
    let candidates = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (point, kind, options) = (words.next()?, words.next()?, words.next()?);
        directory.starts_with(point).then(|| (point.len(), format!("{kind} ({options})")))
    });
    candidates.max_by_key(|(length, _)| *length).map_or_else(unknown, |(_, text)| text)
}
