//! Reads memory, processor time and descendants of processes from /proc, and sends SIGTERM.

use rustix::process::{Pid, Signal, kill_process};
use std::fs::read_to_string;

/// A process and its descendants.
pub(crate) fn family(root: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: Vec<(u32, u32)> = pids.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut family = vec![root];
    let mut at = 0;
    while let Some(&one) = family.get(at) {
        family.extend(parents.iter().filter(|(_, parent)| *parent == one).map(|(pid, _)| *pid));
        at += 1;
    }
    family
}

/// Memory of a process and its descendants, in MiB. Shared pages count once.
pub(crate) fn family_mib(root: u32) -> f64 {
    family(root).into_iter().filter_map(|pid| rollup_kb(pid, "Pss:")).sum::<f64>() / 1024.0
}

/// The sum of the lines of `smaps_rollup` with this prefix, in KiB.
pub(crate) fn rollup_kb(pid: u32, name: &str) -> Option<f64> {
    let map = read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let lines = map.lines().filter(|line| line.starts_with(name));
    lines.map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok()).sum()
}

/// A line of `status`, in KiB.
pub(crate) fn status_kb(pid: u32, name: &str) -> f64 {
    let status = read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find(|line| line.starts_with(name)).expect("the line");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
}

/// Processor time of one process, in seconds.
pub(crate) fn cpu_s(pid: u32) -> f64 {
    // utime and stime, in ticks of 10 ms.
    let ticks = stat(pid).into_iter().skip(11).take(2).filter_map(|field| field.parse::<u32>().ok());
    f64::from(ticks.sum::<u32>()) / 100.0
}

/// SIGTERM.
pub(crate) fn terminate(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, Signal::TERM).expect("SIGTERM");
}

fn parent(pid: u32) -> Option<u32> {
    stat(pid).get(1)?.parse().ok()
}

/// The fields of `stat` after the name, which may contain anything.
fn stat(pid: u32) -> Vec<String> {
    let stat = read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    fields.split_whitespace().map(str::to_owned).collect()
}
