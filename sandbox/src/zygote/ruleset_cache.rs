//! The landlock ruleset of a zygote's children, built once for all runs with the same files.
//!
//! A ruleset identifies files, not paths. A directory that a run may write to can be replaced by another one
//! with the same path, so such a run gets a ruleset of its own.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use crate::policy::{LandlockDomain, LandlockError, PathRule, RulesetKind, TcpAccess, build_ruleset};

#[derive(Default)]
pub(super) struct RulesetCache {
    last: Option<CachedRuleset>,
}

struct CachedRuleset {
    landlock_abi: u32,
    files: Vec<PathRule>,
    ruleset: Rc<OwnedFd>,
}

impl RulesetCache {
    /// A ruleset that allows these files.
    pub(super) fn get(
        &mut self,
        landlock_abi: u32,
        files: &[PathRule],
    ) -> Result<Rc<OwnedFd>, LandlockError> {
        if let Some(last) = &self.last
            && last.landlock_abi == landlock_abi
            && last.files == files
        {
            return Ok(Rc::clone(&last.ruleset));
        }
        let domain = LandlockDomain { abi: landlock_abi, kind: RulesetKind::Full, tcp: TcpAccess::Closed };
        let ruleset = Rc::new(build_ruleset(domain, files)?);
        if !files.iter().any(|file| file.access.is_own()) {
            let (files, ruleset) = (files.to_vec(), Rc::clone(&ruleset));
            self.last = Some(CachedRuleset { landlock_abi, files, ruleset });
        }
        Ok(ruleset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::PathAccess;
    use crate::sys::landlock_abi;

    fn files(access: PathAccess) -> Vec<PathRule> {
        vec![PathRule { path: std::env::temp_dir(), access }]
    }

    #[test]
    fn runs_with_the_same_files_share_a_ruleset() {
        let (mut cache, abi) = (RulesetCache::default(), landlock_abi().unwrap());
        let first = cache.get(abi, &files(PathAccess::ReadTree)).unwrap();
        let again = cache.get(abi, &files(PathAccess::ReadTree)).unwrap();
        assert!(Rc::ptr_eq(&first, &again));
        let other = cache.get(abi, &files(PathAccess::ListTree)).unwrap();
        assert!(!Rc::ptr_eq(&first, &other), "other files");
    }

    #[test]
    fn a_run_with_a_directory_of_its_own_has_a_ruleset_of_its_own() {
        let (mut cache, abi) = (RulesetCache::default(), landlock_abi().unwrap());
        let first = cache.get(abi, &files(PathAccess::OwnTree)).unwrap();
        let again = cache.get(abi, &files(PathAccess::OwnTree)).unwrap();
        assert!(!Rc::ptr_eq(&first, &again));
    }
}
