//! What the kernel says of this process, under the names that all client libraries of Prometheus use. Owns the reading of
//! `/proc/self`; what cannot be read is left out.

use super::text::{Kind, Text};
use std::fs;

/// Of `/proc/self/stat`, counted behind the name in brackets: processor time in user and in system mode, ticks.
const UTIME: usize = 11;
const STIME: usize = 12;
/// Of `/proc/self/statm`: resident pages.
const RESIDENT: usize = 1;

/// All of it.
pub(super) fn tell(text: &mut Text, started_at_ms: u64) {
    let started_s = started_at_ms / 1_000;
    text.single("process_start_time_seconds", Kind::Gauge, "When it was started, unix seconds.", started_s);
    if let Some(seconds) = cpu_seconds() {
        let help = "Processor time, user and system.";
        text.single("process_cpu_seconds_total", Kind::Counter, help, seconds);
    }
    if let Some(bytes) = resident_bytes() {
        text.single("process_resident_memory_bytes", Kind::Gauge, "Resident memory.", bytes);
    }
    if let Some(open) = open_fds() {
        text.single("process_open_fds", Kind::Gauge, "Open file descriptors.", open);
    }
    if let Some(most) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        text.single("process_max_fds", Kind::Gauge, "The most file descriptors that it may have.", most);
    }
}

#[expect(clippy::cast_precision_loss, reason = "processor time of centuries would lose its last digits")]
fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let ticks = ticks_of(&stat)?;
    let per_second = rustix::param::clock_ticks_per_second();
    (per_second > 0).then(|| ticks as f64 / per_second as f64)
}

fn ticks_of(stat: &str) -> Option<u64> {
    // The name may hold spaces and brackets of its own.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(number(UTIME)?.saturating_add(number(STIME)?))
}

fn resident_bytes() -> Option<u64> {
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    let resident: u64 = pages.split_ascii_whitespace().nth(RESIDENT)?.parse().ok()?;
    Some(resident.saturating_mul(u64::try_from(rustix::param::page_size()).ok()?))
}

fn open_fds() -> Option<usize> {
    // The directory itself is open while it is read.
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strange_name_does_not_move_the_fields() {
        let stat = "7 (a) b) (c) S 1 7 7 0 -1 4194304 100 0 0 0 40 2 0 0 20 0 5 0 99 1 2 3";
        assert_eq!(ticks_of(stat), Some(42));
        assert_eq!(ticks_of("7 (a) S 1"), None);
    }

    #[test]
    fn this_process_has_memory_and_descriptors() {
        let mut text = Text::default();
        tell(&mut text, 1_700_000_000_123);
        let text = text.into_string();
        assert!(text.contains("\nprocess_start_time_seconds 1700000000\n"), "{text}");
        for name in ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"] {
            assert!(text.contains(&format!("\n{name} ")), "{name}");
        }
        assert!(
            open_fds().is_some_and(|open| open >= 3) && resident_bytes().is_some_and(|bytes| bytes > 1 << 20)
        );
    }
}
