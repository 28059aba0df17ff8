//! Refuses directories and files of the server that commands of models could read.

use super::keys::ConfigKeys;
use super::validate::ConfigProblems;
use std::path::{Path, PathBuf};

impl ConfigProblems {
    /// The store has the session key and every user's data; a configuration may have keys of providers.
    pub(super) fn private_paths(&mut self, keys: &ConfigKeys, data_dir: Option<&Path>, file: Option<&Path>) {
        let readable = keys.code_execution.readable_dirs();
        let open: Vec<PathBuf> = readable.iter().chain(&keys.skills.dir).map(|dir| real(dir)).collect();
        for (at, dir) in keys.code_execution.program_dirs.iter().enumerate() {
            if !dir.is_absolute() || real(dir).parent().is_none() {
                let key = format!("code_execution.program_dirs[{at}]");
                self.add(key, dir.display(), "must be an absolute path below the root directory");
            }
        }
        if let Some(dir) = keys.skills.dir.as_ref().filter(|dir| real(dir).parent().is_none()) {
            self.add("skills.dir", dir.display(), "must be a directory below the root directory");
        }
        let mut private = vec![
            ("data_dir".to_owned(), data_dir),
            ("workspace_root".to_owned(), keys.workspace_root.as_deref()),
            ("store.shared_dir".to_owned(), keys.store.shared_dir.as_deref()),
            ("code_execution.scratch_dir".to_owned(), Some(keys.code_execution.scratch_dir.as_path())),
            ("--config".to_owned(), file),
        ];
        for (at, model) in keys.models.iter().enumerate() {
            private.push((format!("models[{at}].api_key_file"), model.api_key_file.as_deref()));
        }
        for (key, path) in private {
            let Some(path) = path else { continue };
            let lies_in = real(path);
            let Some(dir) = open.iter().find(|dir| lies_in.starts_with(dir)) else { continue };
            let allowed = format!(
                "commands of models may read everything in '{}', and this would lie in it; choose a place that they \
                 cannot read, for example in /var/lib, /srv or a home directory",
                dir.display()
            );
            self.add(key, path.display(), allowed);
        }
    }
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let known = absolute.ancestors().find_map(|known| Some((known, known.canonicalize().ok()?)));
    match known {
        Some((known, real)) => real.join(absolute.strip_prefix(known).unwrap_or(Path::new(""))),
        None => absolute,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(keys: &ConfigKeys, data_dir: &Path, file: &Path) -> Vec<String> {
        let mut problems = ConfigProblems(Vec::new());
        problems.private_paths(keys, Some(data_dir), Some(file));
        problems.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn p7_no_private_path_lies_where_commands_may_read() {
        let room = tempfile::tempdir().expect("a directory");
        let programs = room.path().join("programs");
        let link = room.path().join("link");
        std::fs::create_dir(&programs).expect("a directory");
        std::os::unix::fs::symlink(&programs, &link).expect("a link");
        let mut keys = ConfigKeys::default();
        let fine = (room.path().join("data"), room.path().join("config.yml"));
        assert_eq!(problems(&keys, &fine.0, &fine.1), Vec::<String>::new());
        for open in ["/usr/share/nanoclaw", "/usr/local/share/x/../data", "/lib/data"] {
            let found = problems(&keys, Path::new(open), &fine.1);
            assert!(found.len() == 1 && found[0].contains("data_dir"), "{open}: {found:?}");
        }
        keys.code_execution.program_dirs.push(programs.clone());
        for data_dir in [programs.join("data"), link.join("not/there/yet"), programs] {
            let found = problems(&keys, &data_dir, &fine.1);
            assert!(found.len() == 1 && found[0].contains("may read"), "{found:?}");
        }
        keys.code_execution.program_dirs = vec![room.path().join("not/there")];
        assert_eq!(problems(&keys, &room.path().join("not/there/data"), &fine.1).len(), 1);
        keys.code_execution.program_dirs = vec![link.clone()];
        keys.workspace_root = Some(link.join("files"));
        keys.code_execution.scratch_dir = link.clone();
        assert_eq!(problems(&keys, &fine.0, &link.join("config.yml")).len(), 3);
        keys = ConfigKeys::default();
        keys.skills.dir = Some(room.path().to_owned());
        assert_eq!(problems(&keys, &fine.0, &fine.1).len(), 2, "data and configuration lie in the skills");
        keys.skills.dir = Some(fine.0.join("skills"));
        assert_eq!(problems(&keys, &fine.0, &fine.1), Vec::<String>::new(), "skills may lie in the data");
        keys.skills.dir = Some(PathBuf::from("/"));
        assert!(problems(&keys, &fine.0, &fine.1)[0].contains("skills.dir"));
        keys.skills.dir = None;
        keys.code_execution.program_dirs = vec![PathBuf::from("/"), PathBuf::from("tools")];
        let found = problems(&keys, &fine.0, &fine.1).join("\n");
        assert!(found.contains("program_dirs[0]") && found.contains("program_dirs[1]"), "{found}");
    }
}
