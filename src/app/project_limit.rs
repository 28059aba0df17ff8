//! Bounds the programs that run in the directory of a project: the limits of a project and the quota of its
//! owner.

use crate::ports::{DirectoryLimit, QuotaShare, StorageUsage};

/// Bounds the programs of one run. No program starts in a project that is too full, except one that only
/// removes files; that one ends when it makes the project larger.
pub(super) struct ProjectDirectoryLimit {
    /// What one project may hold.
    pub(super) project: StorageUsage,
    /// The owner's quota, with what the other projects held at the start.
    pub(super) share: Option<QuotaShare>,
    /// What the project held at the start.
    pub(super) start: StorageUsage,
}

/// Name of an exceeded limit, and what is too large.
type Excess = (&'static str, String);

impl ProjectDirectoryLimit {
    fn exceeded(&self, held: StorageUsage) -> Option<Excess> {
        self.excess_of_bytes(held.bytes).or_else(|| self.excess_of_entries(held.entries))
    }

    fn excess_of_bytes(&self, bytes: u64) -> Option<Excess> {
        let limit = self.project.bytes;
        if bytes > limit {
            return Some(("project_bytes", format!("this project holds more than {limit} bytes")));
        }
        let QuotaShare { quota, others } = self.share?;
        (bytes.saturating_add(others) > quota).then(|| {
            ("quota.project_bytes", format!("this account's projects hold more than {quota} bytes together"))
        })
    }

    fn excess_of_entries(&self, entries: u64) -> Option<Excess> {
        let limit = self.project.entries;
        let text = || format!("this project holds more than {limit} files and directories");
        (entries > limit).then(|| ("project_entries", text()))
    }
}

/// Ends with what helps, for a model that may have no other tool than the one that it called.
const ADVICE: &str = "delete what is not needed, with file_delete or with a command line of rm, rmdir, find, ls \
                      and du alone; other programs start again when there is room";

impl DirectoryLimit for ProjectDirectoryLimit {
    fn refusal(&self) -> Option<String> {
        let (name, excess) = self.exceeded(self.start)?;
        Some(format!("nothing was run: {excess} ({name}); {ADVICE}"))
    }

    fn max_bytes(&self) -> u64 {
        self.project.bytes.min(self.share.map_or(u64::MAX, QuotaShare::left))
    }

    fn max_entries(&self) -> u64 {
        self.project.entries.max(self.start.entries)
    }

    fn check(&self, bytes: u64, entries: u64) -> Result<(), Excess> {
        let excess = self.excess_of_bytes(bytes).filter(|_| bytes > self.start.bytes);
        let excess =
            excess.or_else(|| self.excess_of_entries(entries).filter(|_| entries > self.start.entries));
        excess.map_or(Ok(()), |(name, excess)| Err((name, format!("{excess} now; {ADVICE}"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(start: (u64, u64), others: Option<u64>) -> ProjectDirectoryLimit {
        ProjectDirectoryLimit {
            project: StorageUsage { bytes: 100, entries: 5 },
            share: others.map(|others| QuotaShare { quota: 150, others }),
            start: StorageUsage { bytes: start.0, entries: start.1 },
        }
    }

    fn name(check: Result<(), Excess>) -> Option<&'static str> {
        check.err().map(|(name, _)| name)
    }

    #[test]
    fn p8_a_program_in_a_project_ends_at_the_limit_that_it_exceeds() {
        let limit = limit((50, 2), Some(60));
        assert_eq!((limit.refusal(), limit.max_bytes(), limit.max_entries()), (None, 90, 5));
        assert_eq!(name(limit.check(90, 5)), None);
        assert_eq!(name(limit.check(91, 5)), Some("quota.project_bytes"));
        assert_eq!(name(limit.check(101, 5)), Some("project_bytes"));
        assert_eq!(name(limit.check(90, 6)), Some("project_entries"));
    }

    #[test]
    fn p8_no_program_starts_in_a_project_that_is_too_full() {
        for (start, others, name) in [
            ((101, 1), None, "(project_bytes)"),
            ((1, 6), None, "(project_entries)"),
            ((91, 1), Some(60), "(quota.project_bytes)"),
        ] {
            let refusal = limit(start, others).refusal().unwrap();
            assert!(refusal.contains("nothing was run") && refusal.contains(name), "{refusal}");
            assert!(refusal.contains("file_delete"), "{refusal}");
        }
        assert_eq!(limit((100, 5), Some(50)).refusal(), None, "full is not too full");
    }

    #[test]
    fn a_program_in_a_project_that_is_too_full_may_make_it_smaller() {
        let limit = limit((500, 50), Some(600));
        assert_eq!(limit.max_entries(), 50, "all of it is counted");
        assert_eq!(name(limit.check(500, 50)), None);
        assert_eq!(name(limit.check(400, 40)), None);
        assert_eq!(name(limit.check(501, 40)), Some("project_bytes"));
        assert_eq!(name(limit.check(400, 51)), Some("project_entries"));
    }
}
