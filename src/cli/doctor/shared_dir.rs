//! Checks `store.shared_dir`: is it the directory of the other nodes, may this user write there, do locks
//! work, and is there room.

use super::check::DoctorCheck;
use crate::config::Config;
use crate::ports::{BEACON_FILE, DiskSpace};
use crate::store::disk_space;
use crate::store::postgres::DatabaseReport;
use rustix::fs::{Access, FlockOperation};
use rustix::io::Errno;
use serde_json::json;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

const NAME: &str = "shared_directory";
const MIB: u64 = 1024 * 1024;

/// `report`: what the database says; `None` if it cannot be reached.
pub(super) fn check_shared_dir(config: &Config, report: Option<&DatabaseReport>) -> DoctorCheck {
    let Some(dir) = &config.store.shared_dir else {
        let advice = "set store.shared_dir to a directory that all nodes mount, or do without files";
        let found = "store.shared_dir is not set: all nodes refuse projects, uploads and files of jobs";
        return DoctorCheck::warned(NAME, found, advice).with(json!({"path": null}));
    };
    let known = report.and_then(|report| report.shared_dir_beacon.as_deref());
    let (path, space) = (dir.display().to_string(), disk_space(dir));
    let check = match fault(dir, known) {
        Some((found, advice)) => DoctorCheck::bad(NAME, format!("{path}: {found}"), advice),
        None => check_space(&path, space, config.limits.disk_free_bytes),
    };
    let (free, total) = (space.map(|space| space.free_bytes), space.map(|space| space.total_bytes));
    check.with(json!({"path": path, "free_bytes": free, "total_bytes": total}))
}

fn check_space(path: &str, space: Option<DiskSpace>, least_bytes: u64) -> DoctorCheck {
    let Some(DiskSpace { free_bytes, total_bytes }) = space else {
        return DoctorCheck::good(NAME, path);
    };
    let found = format!("{path}: {} MiB of {} MiB are free", free_bytes / MIB, total_bytes / MIB);
    let advice = (free_bytes < least_bytes).then(|| {
        format!("below limits.disk_free_bytes = {least_bytes} new jobs and uploads are refused (507): free some space")
    });
    DoctorCheck::good(NAME, found).advised(advice)
}

/// What is wrong, and what to do. `known`: the number of the beacon, as the database has it.
fn fault(dir: &Path, known: Option<&str>) -> Option<(String, &'static str)> {
    if let Err(error) = rustix::fs::access(dir, Access::WRITE_OK) {
        return Some((error.to_string(), "mount it, and let the user of the server write there"));
    }
    let file = match open_beacon(dir, known) {
        Ok(file) => file?,
        Err(fault) => return Some(fault),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) | Err(Errno::WOULDBLOCK) => None,
        Err(error) => {
            Some((format!("locks do not work: {error}"), "mount it with locks (NFS 4, never nolock)"))
        }
    }
}

/// The file that says which directory it is; `None`: no node has made it yet. Fails if it is not the one of
/// the other nodes, with the advice.
pub(crate) fn open_beacon(dir: &Path, known: Option<&str>) -> Result<Option<File>, (String, &'static str)> {
    let mount = "a node that does not see the directory takes no jobs: mount it, or name the same one on all nodes; if \
                 it is the right one, copy nanoclaw.beacon from a node that has the files";
    let file = match (File::open(dir.join(BEACON_FILE)), known) {
        (Ok(file), _) => file,
        // The first node makes it.
        (Err(error), None) if error.kind() == ErrorKind::NotFound => return Ok(None),
        (Err(error), _) if error.kind() == ErrorKind::NotFound => {
            let reason = format!("it has no {BEACON_FILE}, so it is not the directory of the other nodes");
            return Err((reason, mount));
        }
        (Err(error), _) => {
            return Err((format!("{BEACON_FILE}: {error}"), "run this as the user of the server"));
        }
    };
    let found = std::io::read_to_string(&file).unwrap_or_default();
    if known.is_some_and(|known| known != found.trim()) {
        return Err((format!("its {BEACON_FILE} is not the one of the other nodes"), mount));
    }
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_found_at_fault_unless_it_is_that_of_the_other_nodes() {
        let dir = tempfile::tempdir().unwrap();
        let found = |known| fault(dir.path(), known).map(|(found, _)| found);
        assert_eq!(found(None), None, "the first node makes the beacon");
        assert!(found(Some("17")).is_some_and(|found| found.contains("no nanoclaw.beacon")));
        std::fs::write(dir.path().join(BEACON_FILE), "17\n").unwrap();
        assert_eq!((found(Some("17")), found(None)), (None, None));
        assert!(found(Some("18")).is_some_and(|found| found.contains("not the one of the other nodes")));
        let missing = fault(&dir.path().join("missing"), None);
        assert!(missing.is_some_and(|(found, _)| found.contains("No such file")));
    }

    #[test]
    fn a_nearly_full_directory_is_advised() {
        let space = Some(DiskSpace { free_bytes: 5 * MIB, total_bytes: 9 * MIB });
        let text = |least| serde_json::to_value(check_space("/srv", space, least)).unwrap();
        assert_eq!(text(0)["found"], "/srv: 5 MiB of 9 MiB are free");
        assert!(text(0)["advice"].is_null());
        assert!(text(6 * MIB)["advice"].as_str().is_some_and(|advice| advice.contains("507")));
    }
}
