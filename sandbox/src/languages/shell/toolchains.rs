//! Compilers and runtimes in the home directory of the server's user: rustup's Rust and nvm's node.
//!
//! Only the directories with their programs are opened for commands, never the home directory itself or the
//! managers' settings and credentials.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where Go installs itself; not part of the usual search path.
const GO: &str = "/usr/local/go/bin";

/// The tool chains of the server's user.
#[derive(Debug, Default)]
pub(super) struct Toolchains {
    /// Directories that commands may read and execute.
    pub(super) trees: Vec<PathBuf>,
    /// Directories of programs, appended to the search path.
    pub(super) search_path: Vec<PathBuf>,
}

/// The tool chains, looked for once.
pub(super) fn toolchains() -> &'static Toolchains {
    static FOUND: OnceLock<Toolchains> = OnceLock::new();
    FOUND.get_or_init(|| {
        let homes: Vec<PathBuf> = directory_of("HOME").into_iter().chain(registered_home()).collect();
        let below_homes = |name: &'static str| homes.iter().map(move |home| home.join(name));
        let rustup: Vec<PathBuf> =
            directory_of("RUSTUP_HOME").into_iter().chain(below_homes(".rustup")).collect();
        let nvm: Vec<PathBuf> = directory_of("NVM_DIR").into_iter().chain(below_homes(".nvm")).collect();
        find(&rustup, &nvm)
    })
}

fn directory_of(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The home directory of this user in the list of users: services often have no `HOME`.
fn registered_home() -> Option<PathBuf> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let own_id = rustix::process::geteuid().as_raw().to_string();
    let own_line = users.lines().find(|line| line.split(':').nth(2) == Some(own_id.as_str()))?;
    own_line.split(':').nth(5).map(PathBuf::from).filter(|path| path.parent().is_some())
}

fn find(rustup: &[PathBuf], nvm: &[PathBuf]) -> Toolchains {
    let mut found = Toolchains::default();
    let rust = rustup.iter().find_map(|rustup| rust_tree(rustup));
    let node = nvm.iter().find_map(|nvm| node_tree(nvm));
    for tree in [rust, node].into_iter().flatten().filter_map(|tree| tree.canonicalize().ok()) {
        found.search_path.push(tree.join("bin"));
        found.trees.push(tree);
    }
    found.search_path.extend(Some(PathBuf::from(GO)).filter(|path| path.is_dir()));
    found
}

/// The default tool chain of rustup. Its own programs are used, because those in `~/.cargo` are proxies that
/// need rustup's settings.
fn rust_tree(rustup: &Path) -> Option<PathBuf> {
    let settings = std::fs::read_to_string(rustup.join("settings.toml")).unwrap_or_default();
    let default = settings.lines().find_map(|line| line.strip_prefix("default_toolchain"));
    let default = default.map_or("stable", |value| value.trim_matches([' ', '=', '"', '\'']));
    let installed = installed(&rustup.join("toolchains"), "bin/cargo");
    let exact = installed.iter().find(|name| *name == default);
    let chosen = exact.or_else(|| installed.iter().find(|name| name.starts_with(&format!("{default}-"))));
    chosen.or_else(|| installed.last()).map(|name| rustup.join("toolchains").join(name))
}

/// The newest node of nvm.
fn node_tree(nvm: &Path) -> Option<PathBuf> {
    let versions = nvm.join("versions/node");
    let number = |part: &str| part.parse().unwrap_or(0_u64);
    let newest = installed(&versions, "bin/node")
        .into_iter()
        .max_by_key(|name| name.trim_start_matches('v').split('.').map(number).collect::<Vec<_>>())?;
    Some(versions.join(newest))
}

/// The names in a directory that have this file, in order.
fn installed(directory: &Path, file: &str) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let with_file = entries.filter(|entry| entry.path().join(file).is_file());
    let mut names: Vec<String> = with_file.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home_with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = home.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        home
    }

    fn trees_of(home: &Path) -> Vec<PathBuf> {
        let home = home.canonicalize().unwrap();
        let found = find(&[home.join("none"), home.join(".rustup")], &[home.join(".nvm")]);
        assert!(found.trees.iter().all(|tree| found.search_path.contains(&tree.join("bin"))));
        found.trees.iter().map(|tree| tree.strip_prefix(&home).unwrap().to_owned()).collect()
    }

    #[test]
    fn the_default_rust_and_the_newest_node_are_found() {
        let home = home_with(&[
            (".rustup/settings.toml", "version = \"12\"\ndefault_toolchain = \"1.90-x86_64\"\n"),
            (".rustup/toolchains/1.90-x86_64/bin/cargo", ""),
            (".rustup/toolchains/stable-x86_64/bin/cargo", ""),
            (".nvm/versions/node/v9.11.2/bin/node", ""),
            (".nvm/versions/node/v22.3.0/bin/node", ""),
            (".nvm/versions/node/v24.0.0/README", ""),
        ]);
        let expected = [".rustup/toolchains/1.90-x86_64", ".nvm/versions/node/v22.3.0"];
        assert_eq!(trees_of(home.path()), expected.map(PathBuf::from));
    }

    #[test]
    fn a_default_without_a_host_name_and_missing_settings_are_accepted() {
        let cargo = ".rustup/toolchains/stable-x86_64/bin/cargo";
        for settings in ["default_toolchain = \"stable\"", "", "default_toolchain = \"gone\""] {
            let home = home_with(&[(".rustup/settings.toml", settings), (cargo, "")]);
            assert_eq!(trees_of(home.path()), [PathBuf::from(".rustup/toolchains/stable-x86_64")]);
        }
        assert!(trees_of(home_with(&[]).path()).is_empty());
    }
}
