//! Validates `store.shared_dir`, the directory that nodes share. Whether it is there, each node tells while
//! it runs: a mount may be late.

use super::keys::ConfigKeys;
use super::validate::ConfigProblems;

const KEY: &str = "store.shared_dir";

impl ConfigProblems {
    pub(super) fn shared_dir(&mut self, keys: &ConfigKeys) {
        let Some(dir) = &keys.store.shared_dir else { return };
        if keys.store.url.is_none() {
            self.add(
                KEY,
                dir.display(),
                "is for nodes that share a database: set store.url, or leave this out",
            );
        }
        if !dir.is_absolute() {
            self.add(KEY, dir.display(), "must be an absolute path, of the same directory on all nodes");
        }
        if let Some(root) = keys.workspace_root.as_deref().filter(|root| !root.starts_with(dir)) {
            let allowed = "must lie in store.shared_dir, because all nodes need the files of projects; leave it out for \
                           its directory workspaces";
            self.add("workspace_root", root.display(), allowed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::secret::Secret;
    use std::path::PathBuf;

    fn problems(url: Option<&str>, dir: &str, root: Option<&str>) -> Vec<String> {
        let mut keys = ConfigKeys { workspace_root: root.map(PathBuf::from), ..ConfigKeys::default() };
        keys.store.url = url.map(|url| Secret::from(url.to_owned()));
        keys.store.shared_dir = Some(PathBuf::from(dir));
        let mut problems = ConfigProblems(Vec::new());
        problems.shared_dir(&keys);
        problems.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_shared_directory_is_absolute_and_needs_a_database() {
        let url = Some("postgres://db/nanoclaw");
        assert_eq!(problems(url, "/srv/nanoclaw", None), Vec::<String>::new());
        assert_eq!(problems(url, "/srv/nanoclaw", Some("/srv/nanoclaw/projects")), Vec::<String>::new());
        for (url, dir, root, named) in [
            (None, "/srv/nanoclaw", None, "store.url"),
            (url, "srv/nanoclaw", None, "absolute"),
            (url, "/srv/nanoclaw", Some("/var/projects"), "workspace_root"),
        ] {
            let found = problems(url, dir, root);
            assert!(found.len() == 1 && found[0].contains(named), "{found:?}");
        }
    }
}
