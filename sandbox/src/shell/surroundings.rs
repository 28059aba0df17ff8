//! What a command finds around it: the shell, the system's directories, the environment.
//!
//! Owns: the list of what the host shows to commands, with a reason beside what is not plain. Refuses: homes, `/etc` as a
//! whole (it holds password hashes and keys), `/proc` (other processes' command lines), `/tmp` (shared with the host).

use std::path::{Path, PathBuf};

use crate::policy::{Access, FileRule};

/// The shells that run commands, the best first.
const SHELLS: &[&str] = &["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh", "/usr/bin/sh"];
/// Where programs and their libraries are. On merged systems most of these are links to the first.
const PROGRAM_TREES: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store"];
/// What programs read to find libraries, names, zones and certificates; nothing here is secret.
const READ_TREES: &[&str] = &[
    "/etc/alternatives",
    "/etc/ld.so.conf.d",
    "/etc/ssl/certs",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/ca-certificates",
    "/etc/terminfo",
    "/etc/fonts",
    "/etc/perl",
    "/etc/python3",
    // Java does not start without its own settings.
    "/etc/java-8-openjdk",
    "/etc/java-11-openjdk",
    "/etc/java-17-openjdk",
    "/etc/java-21-openjdk",
    "/etc/java-25-openjdk",
    // Nor do those that make documents and pictures.
    "/etc/ImageMagick-6",
    "/etc/ImageMagick-7",
    "/etc/texmf",
    "/var/lib/texmf",
    "/etc/R",
    "/etc/xml",
    "/etc/sgml",
];
/// Likewise, single files; and what the machine is, which build tools ask for.
const READ_FILES: &[&str] = &[
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/mime.types",
    "/etc/magic",
    "/etc/inputrc",
    "/etc/bash.bashrc",
    "/etc/os-release",
    "/etc/lsb-release",
    "/etc/debian_version",
    "/etc/locale.alias",
    "/etc/ssl/openssl.cnf",
    "/etc/protocols",
    "/etc/services",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/version",
    "/proc/filesystems",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/possible",
    "/dev/urandom",
    "/dev/random",
];
/// Devices that keep nothing.
const WRITABLE_DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full"];
/// What names are resolved with, where the operator allows the network.
const NETWORK_FILES: &[&str] = &["/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf"];
/// The search path of a fresh login.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The host's shell, or words that say that there is none.
pub(crate) fn find_shell() -> Result<PathBuf, String> {
    let found = SHELLS.iter().map(Path::new).find(|path| path.is_file());
    found.map(Path::to_owned).ok_or_else(|| format!("there is no shell: none of {}", SHELLS.join(", ")))
}

/// The paths that stay open for a command that owns `own`.
pub(crate) fn files(own: &Path, has_network: bool) -> Vec<FileRule> {
    let mut rules = system_files(has_network);
    rules.push(FileRule { path: own.to_owned(), access: Access::OwnTree });
    rules
}

/// Those of the system: what every command and every session may read and start.
pub(crate) fn system_files(has_network: bool) -> Vec<FileRule> {
    let network: &[&str] = if has_network { NETWORK_FILES } else { &[] };
    let groups = [
        (PROGRAM_TREES, Access::ExecuteTree),
        (READ_TREES, Access::ReadTree),
        (READ_FILES, Access::ReadFile),
        (network, Access::ReadFile),
        (WRITABLE_DEVICES, Access::ReadWriteFile),
    ];
    let rules = groups.into_iter().flat_map(|(paths, access)| {
        paths.iter().map(move |path| FileRule { path: PathBuf::from(path), access })
    });
    rules.filter(|rule| rule.path.exists()).collect()
}

/// A command's whole environment: a few variables of ours, then what the operator lets through.
pub(crate) fn environment(own: &Path, shell: &Path, more: &[(String, String)]) -> Vec<(String, String)> {
    let own = own.to_string_lossy().into_owned();
    let pairs = [
        ("PATH", SEARCH_PATH.to_owned()),
        ("HOME", own.clone()),
        ("TMPDIR", own),
        ("LANG", "C.UTF-8".to_owned()),
        ("TERM", "dumb".to_owned()),
        ("SHELL", shell.to_string_lossy().into_owned()),
        // git gives up where there is a host-wide configuration that it may not read; that may hold credentials.
        ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
    ];
    let mut environment: Vec<(String, String)> =
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    for (name, value) in more {
        environment.retain(|(known, _)| known != name);
        environment.push((name.clone(), value.clone()));
    }
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_holds_secrets_is_shown() {
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
            let covers = |rule: &FileRule| Path::new(path).starts_with(&rule.path);
            assert!(!rules.iter().any(covers), "{path} is shown");
        }
        assert!(rules.iter().filter(|rule| rule.access == Access::OwnTree).count() == 1);
    }

    #[test]
    fn the_operator_s_variables_replace_ours() {
        let more = [("LANG".to_owned(), "de_DE.UTF-8".to_owned()), ("TOKEN".to_owned(), "x".to_owned())];
        let environment = environment(Path::new("/own"), Path::new("/bin/sh"), &more);
        assert_eq!(environment.iter().filter(|(name, _)| name == "LANG").count(), 1);
        assert!(environment.contains(&("LANG".to_owned(), "de_DE.UTF-8".to_owned())));
        assert!(environment.contains(&("TOKEN".to_owned(), "x".to_owned())));
    }
}
