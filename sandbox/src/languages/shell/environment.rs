//! What commands may read of the host: the shell, the system's directories, the environment.
//!
//! Not readable: home directories, `/etc` as a whole (password hashes and keys), `/proc` (command lines of
//! other processes), `/tmp` (shared with the host).

use std::path::{Path, PathBuf};

use crate::policy::{PathAccess, PathRule};

/// The shells that run commands, the first one preferred.
const SHELLS: &[&str] = &["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh", "/usr/bin/sh"];
/// Directories of programs and libraries. On merged systems most of these are links to the first.
const PROGRAM_TREES: &str = "\
    /usr /bin /sbin /lib /lib32 /lib64 /libx32 /opt /nix/store /gnu/store";
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
/// The search path of a fresh login.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The host's shell.
pub(crate) fn find_shell() -> Result<PathBuf, String> {
    let found = SHELLS.iter().map(Path::new).find(|path| path.is_file());
    found.map(Path::to_owned).ok_or_else(|| format!("there is no shell: none of {}", SHELLS.join(", ")))
}

/// The paths that landlock allows to a command with this directory.
pub(crate) fn files(own_dir: &Path, has_network: bool) -> Vec<PathRule> {
    let mut rules = system_files(has_network);
    rules.push(PathRule { path: own_dir.to_owned(), access: PathAccess::OwnTree });
    rules
}

/// The paths of the system that every command and every session may read and execute.
pub(crate) fn system_files(has_network: bool) -> Vec<PathRule> {
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
    rules.filter(|rule| rule.path.exists()).collect()
}

/// The complete environment of a command: the sandbox's variables, then those of the caller.
pub(crate) fn environment(own_dir: &Path, shell: &Path, extra: &[(String, String)]) -> Vec<(String, String)> {
    let own_dir = own_dir.to_string_lossy().into_owned();
    let pairs = [
        ("PATH", SEARCH_PATH.to_owned()),
        ("HOME", own_dir.clone()),
        ("TMPDIR", own_dir),
        ("LANG", "C.UTF-8".to_owned()),
        ("TERM", "dumb".to_owned()),
        ("SHELL", shell.to_string_lossy().into_owned()),
        // git fails if it cannot read the host-wide configuration, which may contain credentials.
        ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
    ];
    let mut environment: Vec<(String, String)> =
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
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
        let rules = files(Path::new("/own"), true);
        for path in [
            "/",
            "/etc",
            "/etc/shadow",
            "/etc/ssl/private",
            "/proc",
            "/root",
            "/home",
            "/tmp",
            "/var",
            "/dev",
        ] {
            let covers = |rule: &PathRule| Path::new(path).starts_with(&rule.path);
            assert!(!rules.iter().any(covers), "{path} is readable");
        }
        assert!(rules.iter().filter(|rule| rule.access == PathAccess::OwnTree).count() == 1);
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
