//! Runs a test again as a user without privileges, who cannot read what a guest forbids.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

const ORDINARY_ID: u32 = 12_345;
/// Names the copy of the sandbox's child that the ordinary user can reach.
const CHILD_EXE: &str = "NANOCLAW_TEST_CHILD_EXE";

/// This crate's own child.
pub(crate) fn child_exe() -> PathBuf {
    std::env::var_os(CHILD_EXE)
        .map_or_else(|| env!("CARGO_BIN_EXE_nanoclaw-sandbox-child").into(), Into::into)
}

/// Runs the body of the test with this name here, and under root once more as an ordinary user.
#[expect(clippy::disallowed_methods, reason = "the test starts itself")]
pub(crate) fn also_as_ordinary_user(test_name: &str, body: impl FnOnce()) {
    body();
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    open_to_all(home.path());
    let copy = |name: &str, program: PathBuf| {
        let copied = home.path().join(name);
        std::fs::copy(program, &copied).unwrap();
        open_to_all(&copied);
        copied
    };
    let child = copy("child", child_exe());
    let output = std::process::Command::new(copy("test", std::env::current_exe().unwrap()))
        .args(["--exact", test_name, "--test-threads=1", "--nocapture"])
        .env(CHILD_EXE, child)
        .current_dir("/")
        .uid(ORDINARY_ID)
        .gid(ORDINARY_ID)
        .output()
        .unwrap();
    let printed =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success() && printed.contains("1 passed"), "as an ordinary user:\n{printed}");
}

fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
