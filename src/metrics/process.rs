//! Metrics of this process from `/proc/self`, named as in all Prometheus client libraries. A value that
//! cannot be read is left out.

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Error, Gauge};
use rustix::process::{Resource, getrlimit};
use std::fs;

/// Fields of `/proc/self/stat` after the process name: processor time in user and in system mode, ticks.
const UTIME: usize = 11;
const STIME: usize = 12;
/// Field of `/proc/self/statm`: resident pages.
const RESIDENT: usize = 1;

/// A family with one value.
pub(super) fn gauge(name: &str, help: &str, value: f64) -> Result<Vec<MetricFamily>, Error> {
    let gauge = Gauge::new(name, help)?;
    gauge.set(value);
    Ok(gauge.collect())
}

#[expect(clippy::cast_precision_loss, reason = "the text format has doubles only")]
pub(super) fn families(started_at_ms: u64) -> Result<Vec<MetricFamily>, Error> {
    let mut families = Vec::new();
    if let Some(seconds) = cpu_seconds() {
        let counter = Counter::new("process_cpu_seconds_total", "Processor time, user and system.")?;
        counter.inc_by(seconds);
        families.extend(counter.collect());
    }
    for (name, help, value) in [
        (
            "process_start_time_seconds",
            "When it was started, unix seconds.",
            Some((started_at_ms / 1_000) as f64),
        ),
        ("process_resident_memory_bytes", "Resident memory.", resident_bytes().map(|bytes| bytes as f64)),
        ("process_open_fds", "Open file descriptors.", open_fds().map(|open| open as f64)),
        (
            "process_max_fds",
            "The most file descriptors that it may have.",
            getrlimit(Resource::Nofile).current.map(|limit| limit as f64),
        ),
    ] {
        if let Some(value) = value {
            families.extend(gauge(name, help, value)?);
        }
    }
    Ok(families)
}

#[expect(clippy::cast_precision_loss, reason = "only processor time of centuries loses its last digits")]
fn cpu_seconds() -> Option<f64> {
    let ticks = ticks_of(&fs::read_to_string("/proc/self/stat").ok()?)?;
    let per_second = rustix::param::clock_ticks_per_second();
    (per_second > 0).then(|| ticks as f64 / per_second as f64)
}

fn ticks_of(stat: &str) -> Option<u64> {
    // The process name may contain spaces and brackets.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(number(UTIME)?.saturating_add(number(STIME)?))
}

pub(super) fn resident_bytes() -> Option<u64> {
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
    use prometheus::TextEncoder;

    #[test]
    fn a_process_name_with_brackets_does_not_move_the_fields() {
        let stat = "7 (a) b) (c) S 1 7 7 0 -1 4194304 100 0 0 0 40 2 0 0 20 0 5 0 99 1 2 3";
        assert_eq!(ticks_of(stat), Some(42));
        assert_eq!(ticks_of("7 (a) S 1"), None);
    }

    #[test]
    fn process_metrics_report_memory_and_open_files() {
        let families = families(1_700_000_000_123).expect("families");
        let text = TextEncoder::new().encode_to_string(&families).expect("text");
        assert!(text.contains("\nprocess_start_time_seconds 1700000000\n"), "{text}");
        for name in ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"] {
            assert!(text.contains(&format!("\n{name} ")), "{name}");
        }
        assert!(
            open_fds().is_some_and(|open| open >= 3) && resident_bytes().is_some_and(|bytes| bytes > 1 << 20)
        );
    }
}
