//! The targets of hostile programs outside the sandbox, prepared so that each attack could succeed, and the
//! check for success.

use std::collections::BTreeMap;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nanoclaw_sandbox::RunRecord;

/// The directory that the programs try to read.
const CANARY: &str = "/tmp/sbx_canary";
/// The variable that the programs try to read.
const VARIABLE: &str = "SBX_CANARY";
/// Other paths that programs try to write.
const ELSEWHERE: &[&str] = &[
    "/etc/sbx_pwned",
    "/var/tmp/sbx_pwned",
    "/dev/shm/sbx_pwned",
    "/tmp/sbx_pwned",
    "/tmp/sbx_pwned_late",
    "/etc/cron.d/sbx",
    "/root/.bashrc_sbx",
];

/// The canary's directory and ports.
pub(crate) struct Canary {
    _tcp: TcpListener,
    _udp: UdpSocket,
    before: BTreeMap<String, (u32, u32, u64)>,
}

impl Canary {
    /// Prepares everything so that each attack could succeed outside.
    pub(crate) fn set_up() -> Self {
        drop(std::fs::remove_dir_all(CANARY));
        for path in ELSEWHERE {
            // May be left from a run without the sandbox.
            drop(std::fs::remove_file(path));
        }
        std::fs::create_dir_all(CANARY).unwrap();
        for (name, text) in
            [("secret.txt", "SBX_CANARY secret\n"), ("server.redb", "redb"), ("x.xml", "<root/>")]
        {
            std::fs::write(Path::new(CANARY).join(name), text).unwrap();
        }
        Self {
            _tcp: TcpListener::bind("127.0.0.1:47811").unwrap(),
            _udp: UdpSocket::bind("127.0.0.1:47812").unwrap(),
            before: state(),
        }
    }

    /// Fails if a file was changed, created or removed.
    pub(crate) fn assert_untouched(&self) {
        assert_eq!(state(), self.before, "the canary was touched");
        for path in ELSEWHERE {
            assert!(!Path::new(path).exists(), "{path} was written");
        }
    }

    /// Removes it.
    pub(crate) fn remove(self) {
        drop(self);
        std::fs::remove_dir_all(CANARY).unwrap();
    }
}

fn state() -> BTreeMap<String, (u32, u32, u64)> {
    let entries = std::fs::read_dir(CANARY).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let data = entry.metadata().unwrap();
            (entry.file_name().to_string_lossy().into_owned(), (data.mode(), data.uid(), data.size()))
        })
        .collect()
}

/// Whether a program reports an escape.
pub(crate) fn escaped(record: &RunRecord) -> bool {
    let escapes = |text: &str| text.lines().any(|line| line.starts_with("ESCAPED"));
    escapes(&record.stdout) || escapes(&record.stderr) || record.result.as_deref().is_some_and(escapes)
}

/// Runs the named test of this binary again with the canary in the environment, which only a new process can
/// have. Returns `false` in that process, which continues with the test.
pub(crate) fn runs_again_with_the_variable(test: &str) -> bool {
    if std::env::var_os(VARIABLE).is_some() {
        return false;
    }
    #[expect(clippy::disallowed_methods, reason = "the test starts itself")]
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(VARIABLE, "SBX_CANARY in the environment")
        .status()
        .unwrap();
    assert!(status.success());
    true
}
