//! What the doctor finds of the machine: its kernel, and what it lets this process have. Owns the oldest kernel that is
//! supported and what each part that is missing costs; refuses to look into the sandbox (`code` does).

use super::finding::Finding;
use crate::config::Config;
use crate::domain::limits::Limits;
use rustix::process::Resource;
use serde_json::json;

/// The oldest kernel on which everything has been built to run.
const OLDEST: (u32, u32) = (5, 15);
/// Descriptors beside those of clients' connections.
const OWN_FILES: u64 = 256;
/// A server at rest, with its clients and a sandbox, wants no less, bytes.
const LEAST_MEMORY: u64 = 128 * 1024 * 1024;
const MIB: u64 = 1024 * 1024;
/// What each ABI of landlock has brought: the ABI, its kernel, and what is had without it.
const LANDLOCK: [(u32, &str, &str); 4] = [
    (2, "5.19", "code cannot move files between directories"),
    (3, "6.2", "code cannot cut files short by name"),
    (4, "6.7", "no network rules: seccomp alone keeps code off the network"),
    (6, "6.12", "no scoping of signals and abstract sockets: code may not signal other processes at all"),
];

/// The kernel's release.
pub(super) fn check_kernel(release: &str) -> Finding {
    let required = format!("{}.{}", OLDEST.0, OLDEST.1);
    let facts = json!({"release": release, "required": required});
    let found = match parse(release) {
        Some(version) if version < OLDEST => Finding::bad(
            "kernel",
            format!("{release} is older than {required}"),
            format!("use a kernel of {required} or later; what this one lacks is named below"),
        ),
        Some(_) => Finding::good("kernel", release),
        None => Finding::good("kernel", format!("{release}: its version cannot be read")),
    };
    found.with(facts)
}

/// `5.15.0-91-generic` is (5, 15).
fn parse(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Landlock, and what its ABI lacks.
pub(super) fn check_landlock(abi: Option<u32>) -> Finding {
    let Some(abi) = abi else {
        let advice = "use a kernel of 5.15 or later with 'landlock' in lsm=";
        return Finding::bad("landlock", "not there: no code runs", advice).with(json!({"abi": null}));
    };
    let lacks: Vec<_> = LANDLOCK.iter().filter(|(since, ..)| abi < *since).collect();
    let words: Vec<String> =
        lacks.iter().map(|(since, _, cost)| format!("without ABI {since}, {cost}")).collect();
    let missing: Vec<_> = lacks
        .iter()
        .map(|(since, kernel, cost)| json!({"abi": since, "kernel": kernel, "cost": cost}))
        .collect();
    let found = [format!("ABI {abi}")].into_iter().chain(words).collect::<Vec<_>>().join("; ");
    let advice = lacks.last().map(|(_, kernel, _)| format!("a kernel of {kernel} or later has all of it"));
    Finding::good("landlock", found).advised(advice).with(json!({"abi": abi, "missing": missing}))
}

/// Seccomp's filters.
pub(super) fn check_seccomp(is_there: bool) -> Finding {
    if is_there {
        return Finding::good("seccomp", "filters");
    }
    Finding::bad("seccomp", "not there: no code runs", "use a kernel with CONFIG_SECCOMP_FILTER")
}

/// The descriptors and the memory that a server gets here.
pub(super) fn check_limits(config: Option<&Config>) -> [Finding; 2] {
    let connections =
        config.map_or_else(|| Limits::default().connections, |config| config.limits.connections);
    [check_files(connections as u64), check_memory()]
}

fn check_files(connections: u64) -> Finding {
    // The server raises its own limit as far as it may.
    let most = rustix::process::getrlimit(Resource::Nofile).maximum;
    let needed = connections.saturating_add(OWN_FILES);
    let shown = most.map_or_else(|| "no limit".to_owned(), |most| format!("{most} at most"));
    let advice = most.filter(|most| *most < needed).map(|_| {
        format!("limits.connections = {connections} wants {needed}: set LimitNOFILE={needed} (ulimit -Hn), or lower it")
    });
    Finding::good("open_files", shown).advised(advice).with(json!({"most": most, "needed": needed}))
}

fn check_memory() -> Finding {
    let system = rustix::system::sysinfo();
    let bytes = system.totalram.saturating_mul(u64::from(system.mem_unit));
    let shown = format!("{} MiB", bytes / MIB);
    let advice = (bytes < LEAST_MEMORY).then(|| "lower workers and code_execution.max_parallel".to_owned());
    Finding::good("memory", shown).advised(advice).with(json!({"bytes": bytes}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_as_distributions_write_them() {
        assert_eq!(parse("5.15.0-91-generic"), Some((5, 15)));
        assert_eq!(parse("6.18.44"), Some((6, 18)));
        assert_eq!(parse("6.1-rc3"), Some((6, 1)));
        assert_eq!((parse("next"), parse("")), (None, None));
    }
}
