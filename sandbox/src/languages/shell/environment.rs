//! What commands may read of the host: the shell, the system's directories, the environment.
//!
//! Not readable: home directories (except the tool chains in one), `/etc` as a whole (password hashes and
//! keys), `/proc` (command lines of other processes), `/tmp` (shared with the host).

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::toolchains::toolchains;
use crate::options::SandboxOptions;
use crate::policy::{PathAccess, PathRule};

/// The shells that run commands, the first one preferred.
const SHELLS: &[&str] = &["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh", "/usr/bin/sh"];
/// Directories of programs and libraries, beside those in `/usr`. On merged systems most of these are links
/// into it.
const PROGRAM_TREES: &str = "/bin /sbin /lib /lib32 /lib64 /libx32 /nix/store /gnu/store";
/// Directories whose parts are opened one by one, and the part whose files stay closed: it holds the local
/// configuration of programs, which may have passwords. Names can be listed in all of it.
const SPLIT_TREES: &[(&str, &str)] = &[("/usr", "local"), ("/usr/local", "etc")];
/// Directories with the configuration of programs; Java does not start without its own. Nothing in them is
/// secret.
const READ_TREES: &str = "\
    /etc/alternatives /etc/ld.so.conf.d /etc/ssl/certs /etc/pki/tls/certs /etc/pki/ca-trust/extracted \
    /etc/ca-certificates /etc/terminfo /etc/fonts /etc/perl /etc/python3 /etc/java-8-openjdk \
    /etc/java-11-openjdk /etc/java-17-openjdk /etc/java-21-openjdk /etc/java-25-openjdk \
    /etc/ImageMagick-6 /etc/ImageMagick-7 /etc/texmf /var/lib/texmf /etc/R /etc/xml /etc/sgml";
/// Single files likewise, and facts about the machine for build tools.
const READ_FILES: &str = "\
    /etc/ld.so.cache /etc/ld.so.conf /etc/passwd /etc/group /etc/nsswitch.conf /etc/localtime \
    /etc/timezone /etc/mime.types /etc/magic /etc/inputrc /etc/bash.bashrc /etc/os-release \
    /etc/lsb-release /etc/debian_version /etc/locale.alias /etc/ssl/openssl.cnf /etc/protocols \
    /etc/services /proc/cpuinfo /proc/meminfo /proc/stat /proc/loadavg /proc/uptime /proc/version \
    /proc/filesystems /sys/devices/system/cpu/online /sys/devices/system/cpu/possible /dev/urandom \
    /dev/random";
/// Devices that store nothing.
const WRITABLE_DEVICES: &str = "/dev/null /dev/zero /dev/full";
/// Files for name resolution, if the operator allows the network.
const NETWORK_FILES: &str = "/etc/resolv.conf /etc/hosts /etc/host.conf /etc/gai.conf";
/// The host-wide configuration of git.
const GIT_CONFIG: &str = "/etc/gitconfig";
/// The search path of a fresh login.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The host's shell.
pub(crate) fn find_shell() -> Result<PathBuf, String> {
    let found = SHELLS.iter().map(Path::new).find(|path| path.is_file());
    found.map(Path::to_owned).ok_or_else(|| format!("there is no shell: none of {}", SHELLS.join(", ")))
}

/// The paths that landlock allows to a command with this directory.
pub(crate) fn files(own_dir: &Path, options: &SandboxOptions) -> Vec<PathRule> {
    let access = if options.shell_run_own_files { PathAccess::OwnProgramTree } else { PathAccess::OwnTree };
    let mut rules = system_files(options, options.shell_network);
    rules.push(PathRule { path: own_dir.to_owned(), access });
    rules
}

/// The paths of the system that every command and every session may read and execute.
pub(crate) fn system_files(options: &SandboxOptions, has_network: bool) -> Vec<PathRule> {
    named_files(options, has_network).filter(|rule| rule.path.exists()).collect()
}

/// The same, also those that do not exist yet.
fn named_files(options: &SandboxOptions, has_network: bool) -> impl Iterator<Item = PathRule> {
    let network = if has_network { NETWORK_FILES } else { "" };
    let groups = [
        (PROGRAM_TREES, PathAccess::ExecuteTree),
        (READ_TREES, PathAccess::ReadTree),
        (READ_FILES, PathAccess::ReadFile),
        (network, PathAccess::ReadFile),
        (WRITABLE_DEVICES, PathAccess::ReadWriteFile),
    ];
    let rules = groups.into_iter().flat_map(|(paths, access)| {
        paths.split_ascii_whitespace().map(move |path| PathRule { path: PathBuf::from(path), access })
    });
    let own_tools = toolchains().trees.iter();
    let trees = own_tools.chain(&options.program_dirs).chain(&options.read_dirs).chain(split_trees());
    let trees = trees.map(|path| PathRule { path: path.clone(), access: PathAccess::ExecuteTree });
    let listed =
        SPLIT_TREES.iter().map(|(tree, _)| PathRule { path: tree.into(), access: PathAccess::ListTree });
    rules.chain(trees).chain(listed)
}

/// The directories in [`SPLIT_TREES`], listed once.
fn split_trees() -> &'static [PathBuf] {
    static LISTED: OnceLock<Vec<PathBuf>> = OnceLock::new();
    LISTED.get_or_init(|| {
        let parts = |(tree, closed): &(&str, &'static str)| {
            let closed = *closed;
            let entries = std::fs::read_dir(tree).into_iter().flatten().flatten();
            entries.filter(move |entry| entry.file_name() != closed).map(|entry| entry.path())
        };
        SPLIT_TREES.iter().flat_map(parts).filter(|path| path.is_dir()).collect()
    })
}

/// The directories that every command may read, with all that lies below them, now or once they exist.
pub(crate) fn readable_dirs(options: &SandboxOptions) -> Vec<PathBuf> {
    let is_tree = |rule: &PathRule| matches!(rule.access, PathAccess::ExecuteTree | PathAccess::ReadTree);
    named_files(options, false).filter(is_tree).map(|rule| rule.path).collect()
}

/// The usual search path, then the tool chains of the server's user.
fn search_path() -> String {
    let own_tools = toolchains().search_path.iter().map(|path| format!(":{}", path.display()));
    std::iter::once(SEARCH_PATH.to_owned()).chain(own_tools).collect()
}

/// The complete environment of a command: the sandbox's variables, then those of the caller.
pub(crate) fn environment(own_dir: &Path, shell: &Path, extra: &[(String, String)]) -> Vec<(String, String)> {
    let own_dir = own_dir.to_string_lossy().into_owned();
    let pairs = [
        ("PATH", search_path()),
        ("HOME", own_dir.clone()),
        ("TMPDIR", own_dir),
        ("LANG", "C.UTF-8".to_owned()),
        ("TERM", "dumb".to_owned()),
        ("SHELL", shell.to_string_lossy().into_owned()),
        // git fails if it cannot read the host-wide configuration, which may contain credentials.
        ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
        // Every arena of a thread takes 64 MiB of the address space: without this, npm runs out of it.
        ("MALLOC_ARENA_MAX", "2".to_owned()),
    ];
    // cargo creates a package's repository with a library that fails likewise and knows no such variable.
    let repository = ("CARGO_CARGO_NEW_VCS", "none".to_owned());
    let repository = Some(repository).filter(|_| Path::new(GIT_CONFIG).exists());
    // Under root, tar restores owners unless told otherwise, and only the present owner can be set.
    let owners = ("TAR_OPTIONS", "--no-same-owner".to_owned());
    let pairs = pairs
        .into_iter()
        .chain(repository)
        .chain(Some(owners).filter(|_| rustix::process::geteuid().is_root()));
    let mut environment: Vec<(String, String)> =
        pairs.map(|(name, value)| (name.to_owned(), value)).collect();
    for (name, value) in extra {
        environment.retain(|(known, _)| known != name);
        environment.push((name.clone(), value.clone()));
    }
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_secrets_are_not_readable_in_the_shell_sandbox() {
        let options = SandboxOptions { shell_network: true, ..SandboxOptions::default() };
        let rules = files(Path::new("/own"), &options);
        for path in [
            "/",
            "/etc",
            "/etc/shadow",
            "/etc/ssl/private",
            "/usr/local/etc",
            "/opt",
            "/proc",
            "/root",
            "/home",
            "/tmp",
            "/var",
            "/dev",
        ] {
            // A tree whose names can be listed is not readable.
            let is_read = |rule: &PathRule| rule.access != PathAccess::ListTree;
            let covers = |rule: &PathRule| is_read(rule) && Path::new(path).starts_with(&rule.path);
            assert!(!rules.iter().any(covers), "{path} is readable");
        }
        assert!(rules.iter().filter(|rule| rule.access.is_own()).count() == 1);
    }

    #[test]
    fn own_programs_run_unless_the_operator_forbids_them() {
        for (shell_run_own_files, access) in
            [(true, PathAccess::OwnProgramTree), (false, PathAccess::OwnTree)]
        {
            let options = SandboxOptions { shell_run_own_files, ..SandboxOptions::default() };
            let own = PathRule { path: PathBuf::from("/own"), access };
            assert!(files(Path::new("/own"), &options).contains(&own));
        }
    }

    #[test]
    fn caller_variables_override_sandbox_variables() {
        let extra = [("LANG".to_owned(), "de_DE.UTF-8".to_owned()), ("TOKEN".to_owned(), "x".to_owned())];
        let environment = environment(Path::new("/own"), Path::new("/bin/sh"), &extra);
        assert_eq!(environment.iter().filter(|(name, _)| name == "LANG").count(), 1);
        assert!(environment.contains(&("LANG".to_owned(), "de_DE.UTF-8".to_owned())));
        assert!(environment.contains(&("TOKEN".to_owned(), "x".to_owned())));
    }
}
