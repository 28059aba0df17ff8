//! A program without the sandbox, for MCP servers with `sandbox: off`. It runs in a process group of its own,
//! which ends with it.

use crate::ports::{GuestPipes, GuestProcess, ProcessSpec};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between a request to end and the end by force.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);
/// Interval at which the end is looked for.
const POLL: Duration = Duration::from_millis(10);

pub(super) struct PlainProcess {
    child: Mutex<Child>,
    pipes: Option<GuestPipes>,
}

impl PlainProcess {
    #[expect(
        clippy::disallowed_methods,
        reason = "the operator chose to run this program without the sandbox"
    )]
    pub(super) fn start(spec: &ProcessSpec) -> Result<Self, String> {
        let mut command = Command::new(&spec.program);
        command
            .args(&spec.arguments)
            .env_clear()
            .envs(spec.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        if let Some(dir) = &spec.workdir {
            command.current_dir(dir);
        }
        let shown = spec.program.display();
        let mut child = command.spawn().map_err(|error| format!("'{shown}': cannot start: {error}"))?;
        let pipes = child.stdin.take().zip(child.stdout.take()).zip(child.stderr.take());
        let pipes = pipes.map(|((stdin, stdout), stderr)| GuestPipes {
            stdin: File::from(OwnedFd::from(stdin)),
            stdout: File::from(OwnedFd::from(stdout)),
            stderr: File::from(OwnedFd::from(stderr)),
        });
        Ok(Self { child: Mutex::new(child), pipes })
    }

    #[expect(clippy::disallowed_methods, reason = "waits for a process of the operating system")]
    fn wait(&self, timeout: Duration) -> Option<ExitStatus> {
        let started = Instant::now();
        loop {
            let status = self.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait();
            match status {
                Ok(Some(status)) => return Some(status),
                Ok(None) if started.elapsed() < timeout => std::thread::sleep(POLL),
                Ok(None) | Err(_) => return None,
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let id = self.child.lock().unwrap_or_else(PoisonError::into_inner).id();
        if let Some(group) = i32::try_from(id).ok().and_then(Pid::from_raw) {
            // Nothing of the group may be left.
            kill_process_group(group, signal).ok();
        }
    }
}

impl GuestProcess for PlainProcess {
    fn take_pipes(&mut self) -> Option<GuestPipes> {
        self.pipes.take()
    }

    fn ended(&self, timeout: Duration) -> Option<String> {
        let status = self.wait(timeout)?;
        Some(match (status.code(), status.signal()) {
            (Some(code), _) => format!("it ended with exit code {code}"),
            (None, Some(signal)) => format!("it was ended by signal {signal}"),
            (None, None) => "it ended".to_owned(),
        })
    }
}

impl Drop for PlainProcess {
    fn drop(&mut self) {
        if self.wait(Duration::ZERO).is_none() {
            self.signal(Signal::TERM);
            self.wait(EXIT_TIMEOUT);
        }
        // Its descendants may live on; their group does not exist any more if none does.
        self.signal(Signal::KILL);
        self.wait(EXIT_TIMEOUT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn shell(line: &str) -> PlainProcess {
        let arguments = vec!["-c".to_owned(), line.to_owned()];
        let environment =
            vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned()), ("A".to_owned(), "b".to_owned())];
        let spec = ProcessSpec { program: "sh".into(), arguments, environment, ..ProcessSpec::default() };
        PlainProcess::start(&spec).expect("starts")
    }

    #[test]
    fn a_plain_process_speaks_through_its_pipes_and_reports_its_end() {
        let mut process = shell("read line; echo \"$A $line\"; exit 3");
        let mut pipes = process.take_pipes().expect("pipes");
        pipes.stdin.write_all(b"hello\n").expect("writes");
        let mut output = String::new();
        pipes.stdout.read_to_string(&mut output).expect("reads");
        assert_eq!(output, "b hello\n");
        assert_eq!(process.ended(Duration::from_secs(10)).as_deref(), Some("it ended with exit code 3"));
    }

    #[test]
    fn a_dropped_plain_process_ends_with_its_descendants() {
        let mut process = shell("trap '' TERM; sleep 600 & echo up; wait; sleep 600");
        let mut pipes = process.take_pipes().expect("pipes");
        let mut byte = [0; 3];
        pipes.stdout.read_exact(&mut byte).expect("it is up");
        drop(process);
        let mut rest = Vec::new();
        pipes.stdout.read_to_end(&mut rest).expect("the last writer of the pipe is gone");
    }
}
