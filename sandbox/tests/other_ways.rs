//! The hostile programs as sessions and as scripts with a host. None escapes, and nothing of a session stays
//! behind.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nanoclaw_sandbox::{HostCalls, Language, Level, Sandbox, SessionEnd, SessionSpec};

use crate::support::canary::{self, Canary, escaped};
use crate::support::{self, Sample};

/// How long a session may run before it is ended.
const SHORT: Duration = Duration::from_secs(2);
/// How much of its output is read.
const MAX_OUTPUT_BYTES: u64 = 4 * 1024 * 1024;

/// A session has no limit of processor time.
const BY_ORDER: &str = "ESCAPED: ulimit -t has no bound";

/// A host that returns the arguments.
struct Host;

impl HostCalls for Host {
    fn call(&self, _name: &str, arguments: &str) -> Result<String, String> {
        Ok(arguments.to_owned())
    }
}

fn all(language: Language) -> Vec<Sample> {
    ["hostile", "own"].iter().flat_map(|suite| support::samples(suite, language)).collect()
}

fn read_in_thread(pipe: std::fs::File) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Describes the escape of a program from its session, if it escaped.
fn attack(sandbox: &Sandbox, sample: &Sample) -> Option<String> {
    let mut spec = SessionSpec::new("/bin/bash", &["-c", &sample.code]);
    spec.limits.address_space_bytes = 1024 * 1024 * 1024;
    let mut session = sandbox.open_session(&spec).unwrap();
    drop(session.take_stdin());
    let readers = [session.take_stdout().unwrap(), session.take_stderr().unwrap()].map(read_in_thread);
    if session.wait_for(SHORT).is_none() {
        session.kill();
    }
    let end: SessionEnd = session.wait();
    drop(session);
    let output = readers.map(|thread| thread.join().unwrap());
    let is_out =
        output.iter().any(|text| text.lines().any(|line| line.starts_with("ESCAPED") && line != BY_ORDER));
    is_out.then(|| format!("{}: {end:?}\n{}\n{}", sample.name, output[0], output[1]))
}

fn with_canary(work: impl FnOnce(&Sandbox) -> Vec<String>) {
    let canary = Canary::set_up();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    assert!(sandbox.report().able(), "this kernel cannot sandbox: {:#?}", sandbox.report());
    let wrong = work(&sandbox);
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
    canary.assert_untouched();
    canary.remove();
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

#[test]
fn no_hostile_command_escapes_from_a_session() {
    let _turn = support::exclusive();
    if canary::runs_again_with_the_variable("other_ways::no_hostile_command_escapes_from_a_session") {
        return;
    }
    with_canary(|sandbox| {
        let samples = all(Language::Bash);
        assert!(samples.len() > 40, "{}", samples.len());
        let wrong = support::in_parallel(samples, 8, |sample| attack(sandbox, &sample));
        wrong.into_iter().flatten().collect()
    });
    assert!(!Path::new("/tmp/sbx_pwned").exists());
}

#[test]
fn no_hostile_script_escapes_through_its_host() {
    let _turn = support::exclusive();
    if canary::runs_again_with_the_variable("other_ways::no_hostile_script_escapes_through_its_host") {
        return;
    }
    with_canary(|sandbox| {
        let wrong = support::in_parallel(all(Language::JavaScript), 8, |sample| {
            let mut program = support::javascript(Level::Standard, &sample.code);
            program.timeout_ms = Some(900);
            let record = sandbox.run_with_host(&program, Arc::new(Host), &|| false);
            escaped(&record).then(|| format!("{}: {record:#?}", sample.name))
        });
        wrong.into_iter().flatten().collect()
    });
}
