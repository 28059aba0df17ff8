//! Child processes, and the memory, processor time and descendants of processes from /proc.

use rustix::process::{Pid, Signal, kill_process};
use std::fs::read_to_string;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A child process. It is killed when this value is dropped.
pub(crate) struct ChildProcess(pub(crate) Child);

impl ChildProcess {
    /// Starts a program and returns it with the first line that it prints.
    pub(crate) fn start(command: &mut Command) -> (Self, String) {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("start the program");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its stdout"))
            .read_line(&mut line)
            .expect("its first line");
        (Self(child), line.trim().to_owned())
    }

    /// Sends a signal and waits for the end.
    pub(crate) fn end(mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("a signal");
        self.0.wait().expect("reap");
    }

    /// Processor time, in seconds.
    pub(crate) fn cpu_s(&self) -> f64 {
        // utime and stime, in ticks of 10 ms.
        let ticks =
            stat(self.0.id()).into_iter().skip(11).take(2).filter_map(|field| field.parse::<u32>().ok());
        f64::from(ticks.sum::<u32>()) / 100.0
    }

    pub(crate) fn resident_kib(&self) -> f64 {
        self.status_kib("VmRSS:")
    }

    pub(crate) fn peak_mib(&self) -> f64 {
        self.status_kib("VmHWM:") / 1024.0
    }

    /// Memory of the process and its descendants, in MiB. Shared pages count once.
    pub(crate) fn family_mib(&self) -> f64 {
        family(self.0.id()).into_iter().filter_map(|pid| rollup_kib(pid, "Pss:")).sum::<f64>() / 1024.0
    }

    fn status_kib(&self, name: &str) -> f64 {
        let status = read_to_string(format!("/proc/{}/status", self.0.id())).expect("its status");
        let line = status.lines().find(|line| line.starts_with(name)).expect("the line");
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A process and its descendants.
pub(crate) fn family(root: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: Vec<(u32, u32)> =
        pids.filter_map(|pid| Some((pid, stat(pid).get(1)?.parse().ok()?))).collect();
    let mut family = vec![root];
    let mut at = 0;
    while let Some(&pid) = family.get(at) {
        family.extend(parents.iter().filter(|(_, parent)| *parent == pid).map(|(child, _)| *child));
        at += 1;
    }
    family
}

/// The sum of the lines of `smaps_rollup` with this prefix, in KiB.
pub(crate) fn rollup_kib(pid: u32, prefix: &str) -> Option<f64> {
    let map = read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let lines = map.lines().filter(|line| line.starts_with(prefix));
    lines.map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok()).sum()
}

/// The fields of `stat` after the name, which may contain anything.
fn stat(pid: u32) -> Vec<String> {
    let stat = read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    fields.split_whitespace().map(str::to_owned).collect()
}
