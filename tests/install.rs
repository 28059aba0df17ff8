//! `scripts/install` into a directory: installed files, a second run, an upgrade and an uninstall.
//! `scripts/verify-unit` tests the units themselves.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_nanoclaw");
const FILES: [&str; 6] = [
    "etc/nanoclaw/config.yml",
    "etc/systemd/system/nanoclaw-backup.service",
    "etc/systemd/system/nanoclaw-backup.timer",
    "etc/systemd/system/nanoclaw.service",
    "etc/systemd/system/nanoclaw.socket",
    "usr/local/bin/nanoclaw",
];

fn install(root: &Path, arguments: &[&str]) -> Output {
    script(root, arguments).stdin(Stdio::null()).output().expect("runs")
}

fn script(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(repository().join("scripts/install"));
    // The installed program would take it for a key of its configuration.
    command.env_remove("NANOCLAW_TEST_STORE").arg("--root").arg(root).args(arguments);
    command
}

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn output_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn assert_success(output: &Output) -> String {
    assert!(output.status.success(), "{}", output_of(output));
    output_of(output)
}

/// All files below except manual pages and completions, sorted.
fn files(root: &Path) -> Vec<String> {
    let (shared, rest): (Vec<_>, Vec<_>) =
        all_files(root).into_iter().partition(|file| file.starts_with("usr/local/share/"));
    let is_installed = rest.iter().any(|file| file == FILES[5]);
    assert_eq!(is_installed, shared.iter().any(|file| file.ends_with("man1/nanoclaw-serve.1")), "{shared:?}");
    assert_eq!(is_installed, shared.iter().any(|file| file.ends_with("completions/nanoclaw")), "{shared:?}");
    assert!(is_installed || shared.is_empty(), "an uninstall removes them: {shared:?}");
    rest
}

/// All files below, sorted.
fn all_files(root: &Path) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("readable").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(root).expect("below").display().to_string());
            }
        }
    }
    found.sort();
    found
}

/// Which file it is, and when it was written.
fn identity(path: &Path) -> (u64, i64, i64) {
    let meta = std::fs::metadata(path).expect("there");
    (meta.ino(), meta.mtime(), meta.mtime_nsec())
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[test]
fn a_second_install_changes_nothing_and_says_so() {
    let root = tempfile::tempdir().expect("a directory");
    let first = assert_success(&install(root.path(), &[BINARY]));
    assert!(first.contains("installed /usr/local/bin/nanoclaw"), "{first}");
    assert!(first.contains("nothing was started"), "without systemd, the output says so: {first}");
    assert_eq!(files(root.path()), FILES);
    let config = root.path().join(FILES[0]);
    assert_eq!(
        (mode(&config), mode(config.parent().expect("one"))),
        (0o640, 0o750),
        "the file may contain keys"
    );
    assert_eq!(mode(&root.path().join(FILES[5])), 0o755);

    let before: Vec<_> = FILES.iter().map(|file| identity(&root.path().join(file))).collect();
    let second = assert_success(&install(root.path(), &[BINARY]));
    assert!(second.contains("everything is in place: nothing to do"), "{second}");
    let after: Vec<_> = FILES.iter().map(|file| identity(&root.path().join(file))).collect();
    assert_eq!(before, after, "no file was touched");
}

#[test]
fn an_upgrade_replaces_the_binary_atomically_and_keeps_configuration() {
    let root = tempfile::tempdir().expect("a directory");
    let config = root.path().join(FILES[0]);
    std::fs::create_dir_all(config.parent().expect("one")).expect("made");
    std::fs::write(&config, "workers: 3\n").expect("written");
    let old = root.path().join("old");
    std::fs::write(&old, "#!/bin/sh\necho nanoclaw 0.0.1\n").expect("written");
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o755)).expect("executable");
    assert_success(&install(root.path(), &[old.to_str().expect("UTF-8")]));
    let bin = root.path().join(FILES[5]);
    // A running old binary is not affected: the name now belongs to another file.
    let running = std::fs::File::open(&bin).expect("there");
    let output_of = assert_success(&install(root.path(), &[BINARY]));
    assert!(output_of.contains("replaced  /usr/local/bin/nanoclaw"), "{output_of}");
    assert!(
        !output_of.contains("nanoclaw.service") && !output_of.contains("config.yml"),
        "nothing else changed: {output_of}"
    );
    assert_ne!(running.metadata().expect("there").ino(), identity(&bin).0);
    assert_eq!(std::fs::read(&bin).expect("there"), std::fs::read(BINARY).expect("there"));
    assert_eq!(std::fs::read_to_string(&config).expect("there"), "workers: 3\n");
}

#[test]
fn uninstall_keeps_data_and_configuration_until_a_confirmed_purge() {
    let root = tempfile::tempdir().expect("a directory");
    assert_success(&install(root.path(), &[BINARY, "--static-user"]));
    let dropin = "etc/systemd/system/nanoclaw.service.d/static-user.conf";
    assert!(files(root.path()).iter().any(|file| file == dropin));
    let data = root.path().join("var/lib/nanoclaw");
    std::fs::create_dir_all(&data).expect("made");
    std::fs::write(data.join("nanoclaw.redb"), "jobs").expect("written");

    let stdout = assert_success(&install(root.path(), &["--uninstall"]));
    assert!(stdout.contains("data and configuration stay: /etc/nanoclaw /var/lib/nanoclaw"), "{stdout}");
    let remaining = ["etc/nanoclaw/config.yml", "var/lib/nanoclaw/nanoclaw.redb"];
    assert_eq!(files(root.path()), remaining);
    assert!(assert_success(&install(root.path(), &["--uninstall"])).contains("nothing to do"));

    let mut purge = script(root.path(), &["--uninstall", "--purge"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("runs");
    purge.stdin.take().expect("its stdin").write_all(b"no\n").expect("answered");
    let answered = purge.wait_with_output().expect("ends");
    assert!(
        !answered.status.success() && output_of(&answered).contains("nothing was removed"),
        "{}",
        output_of(&answered)
    );
    assert!(
        !install(root.path(), &["--uninstall", "--purge"]).status.success(),
        "a missing answer is not a confirmation"
    );
    assert_eq!(files(root.path()), remaining);
    assert_success(&install(root.path(), &["--uninstall", "--purge", "--yes"]));
    assert_eq!(files(root.path()), Vec::<String>::new());
}

#[test]
fn an_invalid_install_is_refused_before_anything_changes() {
    let root = tempfile::tempdir().expect("a directory");
    for (arguments, message) in [
        (vec!["/nonexistent"], "there is no binary at '/nonexistent'"),
        (vec!["/bin/false"], "does not run here"),
        (vec!["--strat"], "there is no option --strat"),
        (vec!["--purge"], "--purge goes with --uninstall"),
    ] {
        let refused = install(root.path(), &arguments);
        assert!(
            !refused.status.success() && output_of(&refused).contains(message),
            "{arguments:?}: {}",
            output_of(&refused)
        );
    }
    assert_eq!(files(root.path()), Vec::<String>::new());
}

#[test]
fn an_upgrade_that_cannot_read_the_configuration_changes_nothing() {
    let root = tempfile::tempdir().expect("a directory");
    let config = root.path().join(FILES[0]);
    std::fs::create_dir_all(config.parent().expect("one")).expect("made");
    std::fs::write(&config, "lisen: 127.0.0.1:1\n").expect("written");
    let refused = install(root.path(), &[BINARY]);
    assert!(!refused.status.success(), "{}", output_of(&refused));
    let message = output_of(&refused);
    assert!(message.contains("nothing was changed") && message.contains("unknown key 'lisen'"), "{message}");
    assert_eq!(files(root.path()), FILES[..1]);
    let keys = "models: [{id: m, api_url: \"https://x.test/v1\", api_key: \"${NOBODY_HAS_THIS_KEY}\"},\n\
                \x20        {id: n, api_url: \"https://x.test/v1\", api_key_file: nowhere}]\n";
    std::fs::write(&config, keys).expect("written");
    assert_success(&install(root.path(), &[BINARY]));
    assert_eq!(files(root.path()), FILES, "only the service needs to read the keys");
}

#[test]
fn the_installed_configuration_is_valid() {
    let file = repository().join("systemd/config.yml");
    let checked = Command::new(BINARY)
        .env_clear()
        .args(["config", "check", "--config"])
        .arg(file)
        .output()
        .expect("runs");
    assert_success(&checked);
}
