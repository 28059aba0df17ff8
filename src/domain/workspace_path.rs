//! Paths of a workspace as models and shells write them: relative, absolute, and with `..`. Only names are
//! compared here. That no link leads out is checked where the file is opened.

use std::path::Path;

/// The names of a path below the directory `root`, joined by `/`: empty for `root` itself, `None` when the
/// path leads out of it. A relative path starts at `root`, which is absolute.
pub fn path_below(root: &Path, path: &str) -> Option<String> {
    let root: Vec<&str> = names(root.to_str()?).collect();
    let mut found: Vec<&str> = if path.starts_with('/') { Vec::new() } else { root.clone() };
    for name in names(path) {
        match name {
            // The parent of the root directory is the root directory.
            ".." => drop(found.pop()),
            name => found.push(name),
        }
    }
    found.strip_prefix(root.as_slice()).map(|below| below.join("/"))
}

fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !matches!(*name, "" | "."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(path: &str) -> Option<String> {
        path_below(Path::new("/ws/jobs/user_1/job_1"), path)
    }

    #[test]
    fn paths_that_stay_below_the_directory_are_reduced_to_their_names() {
        for (path, expected) in [
            ("", ""),
            (".", ""),
            ("a//b/./c/", "a/b/c"),
            ("a/../b", "b"),
            ("a/b/../../c", "c"),
            ("/ws/jobs/user_1/job_1", ""),
            ("/ws/jobs/user_1/job_1/a/b", "a/b"),
            ("//ws/./jobs/user_1/job_2/../job_1/a", "a"),
            ("../job_1/a", "a"),
            ("/../ws/jobs/user_1/job_1/a", "a"),
            ("100%.txt", "100%.txt"),
            ("...", "..."),
        ] {
            assert_eq!(below(path).as_deref(), Some(expected), "{path}");
        }
    }

    #[test]
    fn paths_that_leave_the_directory_are_refused() {
        for path in [
            "..",
            "a/../..",
            "/",
            "/etc/passwd",
            "/ws/jobs/user_1/job_10/a",
            "/ws/jobs/user_1/job_1/../job_2/a",
            "../job_2/a",
            "../../../../etc/passwd",
            "/ws/jobs/user_1",
        ] {
            assert_eq!(below(path), None, "{path}");
        }
    }
}
