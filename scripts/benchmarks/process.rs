//! Child processes, and the memory, processor time and descendants of processes from /proc.

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};
use std::fs::read_to_string;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The unit of processor time in `/proc/PID/stat`.
const TICKS_PER_SECOND: f64 = 100.0;

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
        cpu_ticks(self.0.id(), 2) / TICKS_PER_SECOND
    }

    pub(crate) fn resident_kib(&self) -> f64 {
        self.status_kib("VmRSS:")
    }

    /// The same once a new server is at rest: 2 s after its start it has returned the memory of its start.
    pub(crate) fn resting_kib(&self) -> f64 {
        std::thread::sleep(Duration::from_secs(2));
        self.resident_kib()
    }

    pub(crate) fn resident_mib(&self) -> f64 {
        self.resident_kib() / 1024.0
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

/// Makes this process the parent of processes whose parent ends, so that it counts their processor time:
/// bubblewrap ends before the process that it started.
pub(crate) fn adopt_orphans() {
    set_child_subreaper(Some(getpid())).expect("a child subreaper");
}

/// Waits for adopted processes that have ended. Until then `/proc` shows the time of each one in whole ticks,
/// and a short run has none.
pub(crate) fn reap_orphans() {
    let is_ended = |pid: &u32| {
        stat(*pid).get(..2).is_some_and(|fields| fields == ["Z", &std::process::id().to_string()])
    };
    let ended = family(std::process::id()).into_iter().filter(is_ended);
    for pid in ended.filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
        waitpid(Some(pid), WaitOptions::NOHANG).expect("an ended child");
    }
}

/// Processor time of a process and its descendants, in seconds. A parent has the time of its ended children.
pub(crate) fn tree_cpu_s(root: u32) -> f64 {
    family(root).into_iter().map(|pid| cpu_ticks(pid, 4)).sum::<f64>() / TICKS_PER_SECOND
}

/// The sum of the first of utime, stime, cutime and cstime.
fn cpu_ticks(pid: u32, fields: usize) -> f64 {
    let times = stat(pid).into_iter().skip(11).take(fields);
    times.filter_map(|field| field.parse::<f64>().ok()).sum()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    const SPIN: &str = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done";

    /// A shell that has printed a line and waits.
    fn shell(script: &str) -> (ChildProcess, String) {
        ChildProcess::start(Command::new("sh").args(["-c", script]).stdin(Stdio::piped()))
    }

    #[test]
    fn the_processor_time_of_a_tree_has_its_running_and_its_ended_processes() {
        let (idle, _) = shell("echo done; read line");
        assert!(tree_cpu_s(idle.0.id()) < 0.05);
        for script in [
            format!("sh -c '{SPIN}'; echo done; read line"),
            format!("sh -c '{SPIN}; echo done; read line'; true"),
        ] {
            let (child, _) = shell(&script);
            assert!(child.cpu_s() < 0.05 && tree_cpu_s(child.0.id()) >= 0.05, "{script}");
        }
    }

    #[test]
    fn an_orphan_of_a_child_is_in_the_family_until_it_is_reaped() {
        adopt_orphans();
        let (mut parent, orphan) = shell("sleep 1 & echo $!");
        assert!(parent.0.wait().expect("its end").success());
        let orphan = orphan.parse().expect("a number");
        let is_in_family = || family(std::process::id()).contains(&orphan);
        assert!(is_in_family());
        let began = Instant::now();
        while is_in_family() {
            assert!(began.elapsed() < Duration::from_secs(30), "it was not reaped");
            std::thread::sleep(Duration::from_millis(20));
            reap_orphans();
        }
    }
}
