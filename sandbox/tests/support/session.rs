//! Sessions for tests.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use nanoclaw_sandbox::{Sandbox, SandboxOptions, SandboxSession, SessionEnd, SessionSpec};

/// How long an expected event may take on a busy machine.
pub(crate) const EVENT_TIMEOUT: Duration = Duration::from_secs(60);

/// Calls `work` with a sandbox and its scratch directory. Nothing may be left behind.
pub(crate) fn with_sandbox(change: impl FnOnce(&mut SandboxOptions), work: impl FnOnce(&Sandbox, &Path)) {
    let _turn = super::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let mut options = super::options(scratch.path());
    change(&mut options);
    let sandbox = Sandbox::new(options).unwrap();
    work(&sandbox, scratch.path());
    drop(sandbox);
    super::assert_nothing_left(scratch.path());
}

/// A session with a command line.
pub(crate) fn shell_session(command: &str) -> SessionSpec {
    SessionSpec::new("/bin/sh", &["-c", command])
}

/// Standard output and standard error until their ends.
fn read_all(session: &mut SandboxSession) -> (String, String) {
    let (mut stdout, mut stderr) = (String::new(), String::new());
    session.take_stdout().unwrap().read_to_string(&mut stdout).unwrap();
    session.take_stderr().unwrap().read_to_string(&mut stderr).unwrap();
    (stdout, stderr)
}

/// The output of a session until its end, and its end.
pub(crate) fn output_and_end(sandbox: &Sandbox, spec: &SessionSpec) -> (String, String, SessionEnd) {
    let mut session = sandbox.open_session(spec).unwrap();
    drop(session.take_stdin());
    let (stdout, stderr) = read_all(&mut session);
    (stdout, stderr, session.wait_for(EVENT_TIMEOUT).expect("the session ends"))
}
