//! Facts about the run: processor, kernel, disk, date, commit and versions. A fact that cannot be read is
//! "unknown".

use crate::server::{binary, scratch};
use serde_json::{Value, json};
use std::fs::read_to_string;
use std::path::Path;
use std::process::Command;

/// Names and values in display order.
pub(crate) fn describe() -> Vec<(&'static str, String)> {
    let binary = binary();
    let ours = binary.to_string_lossy().into_owned();
    vec![
        ("processor", field("/proc/cpuinfo", "model name")),
        ("cores", std::thread::available_parallelism().map_or_else(|_| unknown(), |n| n.to_string())),
        ("memory", memory()),
        ("kernel", word("/proc/sys/kernel/osrelease")),
        ("system", said("sh", &["-c", ". /etc/os-release && echo \"$PRETTY_NAME\""])),
        ("filesystem of the stores", filesystem(&scratch())),
        ("load before the run (1, 5, 15 min)", load()),
        ("date", said("date", &["-u", "+%Y-%m-%d"])),
        ("commit", commit()),
        ("binary", said(&ours, &["--version"])),
        ("python3 of the sandbox", said("python3", &["--version"])),
        ("bare program", "hyper and redb of Cargo.lock, opt-level 3 (`profile.benchmarks`)".to_owned()),
    ]
}

/// The same as a JSON object.
pub(crate) fn json(machine: &[(&'static str, String)]) -> Value {
    machine
        .iter()
        .map(|(name, text)| ((*name).to_owned(), json!(text)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// The first line that a program prints, or "unknown".
pub(crate) fn said(program: &str, arguments: &[&str]) -> String {
    let run = Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let out = run.ok().filter(|out| out.status.success()).map(|out| out.stdout).unwrap_or_default();
    let line = String::from_utf8_lossy(&out).lines().next().unwrap_or_default().trim().to_owned();
    if line.is_empty() { unknown() } else { line }
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn word(file: &str) -> String {
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
    word("/proc/loadavg").split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

fn commit() -> String {
    let changed = Command::new("git")
        .args(["status", "--porcelain", "--untracked-files=no"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .is_ok_and(|out| !out.stdout.is_empty());
    let commit = said("git", &["rev-parse", "--short=10", "HEAD"]);
    if changed { format!("{commit} and changes that are not committed") } else { commit }
}

/// Type and options of the mount that holds a folder: the longest mount point that is above it.
fn filesystem(folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mounts = read_to_string("/proc/self/mounts").unwrap_or_default();
    let above = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (point, kind, options) = (words.next()?, words.next()?, words.next()?);
        folder.starts_with(point).then(|| (point.len(), format!("{kind} ({options})")))
    });
    above.max_by_key(|(length, _)| *length).map_or_else(unknown, |(_, text)| text)
}
