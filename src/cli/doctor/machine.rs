//! Checks of the machine: kernel, landlock, seccomp, file descriptors and memory.

use super::check::DoctorCheck;
use crate::config::Config;
use crate::domain::limits::{Limits, SERVER_FILES};
use rustix::process::Resource;
use serde_json::json;

/// The oldest supported kernel.
const OLDEST: (u32, u32) = (5, 15);
/// Least memory for a server with clients and a sandbox, bytes.
const LEAST_MEMORY: u64 = 128 * 1024 * 1024;
const MIB: u64 = 1024 * 1024;
/// For each ABI of landlock: its kernel, and the feature that is missing without it.
const LANDLOCK: [(u32, &str, &str); 4] = [
    (2, "5.19", "code cannot move files between directories"),
    (3, "6.2", "code cannot cut files short by name"),
    (4, "6.7", "no network rules: seccomp alone keeps code off the network"),
    (6, "6.12", "no scoping of signals and abstract sockets: code may not signal other processes at all"),
];

pub(super) fn check_kernel(release: &str) -> DoctorCheck {
    let required = format!("{}.{}", OLDEST.0, OLDEST.1);
    let facts = json!({"release": release, "required": required});
    let check = match parse(release) {
        Some(version) if version < OLDEST => DoctorCheck::bad(
            "kernel",
            format!("{release} is older than {required}"),
            format!("use a kernel of {required} or later; the checks below name what is missing"),
        ),
        Some(_) => DoctorCheck::good("kernel", release),
        None => DoctorCheck::good("kernel", format!("{release}: unknown version")),
    };
    check.with(facts)
}

/// `5.15.0-91-generic` is (5, 15).
fn parse(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

pub(super) fn check_landlock(abi: Option<u32>) -> DoctorCheck {
    let Some(abi) = abi else {
        let advice = "use a kernel of 5.15 or later with 'landlock' in lsm=";
        return DoctorCheck::bad("landlock", "missing: no code runs", advice).with(json!({"abi": null}));
    };
    let missing_abis: Vec<_> = LANDLOCK.iter().filter(|(since, ..)| abi < *since).collect();
    let descriptions: Vec<String> =
        missing_abis.iter().map(|(since, _, cost)| format!("without ABI {since}, {cost}")).collect();
    let missing: Vec<_> = missing_abis
        .iter()
        .map(|(since, kernel, cost)| json!({"abi": since, "kernel": kernel, "cost": cost}))
        .collect();
    let result = [format!("ABI {abi}")].into_iter().chain(descriptions).collect::<Vec<_>>().join("; ");
    let advice = missing_abis.last().map(|(_, kernel, _)| format!("kernel {kernel} or later has all of it"));
    DoctorCheck::good("landlock", result).advised(advice).with(json!({"abi": abi, "missing": missing}))
}

pub(super) fn check_seccomp(is_there: bool) -> DoctorCheck {
    if is_there {
        return DoctorCheck::good("seccomp", "filters");
    }
    DoctorCheck::bad("seccomp", "missing: no code runs", "use a kernel with CONFIG_SECCOMP_FILTER")
}

/// File descriptors and memory.
pub(super) fn check_limits(config: Option<&Config>) -> [DoctorCheck; 2] {
    let connections =
        config.map_or_else(|| Limits::default().connections, |config| config.limits.connections);
    [check_files(connections as u64), check_memory()]
}

fn check_files(connections: u64) -> DoctorCheck {
    // The server raises its own limit to the maximum.
    let max_files = rustix::process::getrlimit(Resource::Nofile).maximum;
    let needed = connections.saturating_add(SERVER_FILES);
    let result = max_files.map_or_else(|| "no limit".to_owned(), |max_files| format!("{max_files} at most"));
    let advice = max_files.filter(|max_files| *max_files < needed).map(|_| {
        format!("limits.connections = {connections} needs {needed}: set LimitNOFILE={needed} (ulimit -Hn), or lower it")
    });
    DoctorCheck::good("open_files", result).advised(advice).with(json!({"most": max_files, "needed": needed}))
}

fn check_memory() -> DoctorCheck {
    let system = rustix::system::sysinfo();
    let bytes = system.totalram.saturating_mul(u64::from(system.mem_unit));
    let result = format!("{} MiB", bytes / MIB);
    let advice = (bytes < LEAST_MEMORY).then(|| "lower workers and code_execution.max_parallel".to_owned());
    DoctorCheck::good("memory", result).advised(advice).with(json!({"bytes": bytes}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_release_texts_of_distributions_are_parsed() {
        assert_eq!(parse("5.15.0-91-generic"), Some((5, 15)));
        assert_eq!(parse("6.18.44"), Some((6, 18)));
        assert_eq!(parse("6.1-rc3"), Some((6, 1)));
        assert_eq!((parse("next"), parse("")), (None, None));
    }
}
