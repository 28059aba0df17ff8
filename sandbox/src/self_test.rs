//! The self-test at start: real children of each level try to escape. If one succeeds, the level is off.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::broker::{BrokerClient, RunRequest, RunTask};
use crate::child::{ALL_BLOCKED, FIRST_ESCAPE, QUIET_ATTEMPTS, SelfTestProbe};
use crate::child_report::{MAX_TEXT_BYTES, SetupStage, stage};
use crate::languages::python::PythonRegistry;
use crate::languages::shell;
use crate::level::Level;
use crate::limits::RunLimits;
use crate::options::SandboxOptions;
use crate::policy::{PathAccess, PathRule};
use crate::run::{ObservedRun, OutputRetention, RunPipes, WatchLimits, watch};
use crate::scratch::ScratchDir;

/// How long the child of a probe may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Tests a level. The error names the attempt that succeeded.
pub(crate) fn test_level(
    (broker, python): (&BrokerClient, &PythonRegistry),
    options: &SandboxOptions,
    landlock_abi: u32,
    level: Level,
) -> Result<(), String> {
    let outside = ScratchDir::make(&options.scratch_dir).map_err(|error| error.to_string())?;
    let own_dir = ScratchDir::make(&options.scratch_dir).map_err(|error| error.to_string())?;
    let canary = outside.path().join("canary");
    std::fs::write(&canary, "canary").map_err(|error| format!("cannot write the canary: {error}"))?;
    let test = SelfTest { broker, options, landlock_abi, level, own_dir: own_dir.path() };
    test.must_hold(SelfTestProbe::Quiet { canary, may_fork: level == Level::Shell })?;
    for (name, probe) in [
        ("ptrace", SelfTestProbe::Ptrace),
        ("execve", SelfTestProbe::Execve),
        ("io_uring", SelfTestProbe::IoUring),
        ("an x32 call", SelfTestProbe::X32),
    ] {
        // Commands may execute programs, and get ENOSYS for io_uring.
        if level != Level::Shell || !matches!(probe, SelfTestProbe::Execve | SelfTestProbe::IoUring) {
            test.must_kill(name, probe)?;
        }
    }
    test.must_not_open(python)?;
    own_dir.remove().and_then(|()| outside.remove()).map_err(|error| error.to_string())
}

struct SelfTest<'a> {
    broker: &'a BrokerClient,
    options: &'a SandboxOptions,
    landlock_abi: u32,
    level: Level,
    own_dir: &'a Path,
}

impl SelfTest<'_> {
    fn must_hold(&self, probe: SelfTestProbe) -> Result<(), String> {
        let escape = self.first_escape(probe, self.own_files())?;
        escape.map_or(Ok(()), |index| {
            let attempt = QUIET_ATTEMPTS.get(index).unwrap_or(&"escape");
            Err(format!("self-test: a child could {attempt}"))
        })
    }

    /// Tries to open the caller's private files with the rules of real programs.
    fn must_not_open(&self, python: &PythonRegistry) -> Result<(), String> {
        let private = &self.options.private_files;
        if private.is_empty() {
            return Ok(());
        }
        let probe = SelfTestProbe::OpenFiles { files: private.clone() };
        let escape = self.first_escape(probe, self.program_files(python))?;
        escape.and_then(|index| private.get(index)).map_or(Ok(()), |file| {
            Err(format!(
                "self-test: programs at level {} can read '{}', which must stay private: move it away from the \
                 directories of programs and libraries",
                self.level,
                file.display()
            ))
        })
    }

    /// The index of the first attempt that succeeded.
    fn first_escape(&self, probe: SelfTestProbe, files: Vec<PathRule>) -> Result<Option<usize>, String> {
        let observed = self.run(probe, files)?;
        match observed.exit.exit_code {
            Some(ALL_BLOCKED) => Ok(None),
            Some(code) if code >= FIRST_ESCAPE => Ok(usize::try_from(code - FIRST_ESCAPE).ok()),
            other => {
                Err(format!("self-test: the child ended with {other:?}, signal {:?}", observed.exit.signal))
            }
        }
    }

    fn must_kill(&self, name: &str, probe: SelfTestProbe) -> Result<(), String> {
        let observed = self.run(probe, self.own_files())?;
        if observed.exit.signal == Some(libc::SIGSYS) {
            return Ok(());
        }
        Err(format!("self-test: {name} did not kill the child"))
    }

    /// The private directory alone, where a level has one.
    fn own_files(&self) -> Vec<PathRule> {
        match self.level {
            Level::Lenient | Level::Shell => {
                vec![PathRule { path: self.own_dir.to_owned(), access: PathAccess::OwnTree }]
            }
            Level::Strict | Level::Standard => Vec::new(),
        }
    }

    /// The files of the programs at this level. JavaScript has none.
    fn program_files(&self, python: &PythonRegistry) -> Vec<PathRule> {
        if self.level == Level::Shell {
            return shell::files(self.own_dir, self.options);
        }
        let Ok(python) = python.current() else { return Vec::new() };
        let has_extra = !python.extra.of(self.level).is_empty();
        python.interpreter.files(self.level, Some(self.own_dir), has_extra)
    }

    /// Runs a probe; an error unless the child got to its attempts.
    fn run(&self, probe: SelfTestProbe, files: Vec<PathRule>) -> Result<ObservedRun, String> {
        let request = RunRequest {
            level: self.level,
            limits: RunLimits::of(self.level),
            landlock_abi: self.landlock_abi,
            directory: PathBuf::from("/"),
            subdirectory: None,
            files,
            task: RunTask::Probe(probe),
        };
        let pipes = RunPipes::new("").map_err(|error| error.to_string())?;
        let guest = self.broker.start_run(&request, pipes, &|| false).map_err(|error| error.to_string())?;
        let limits = WatchLimits {
            timeout: TIMEOUT,
            tasks: 0,
            stdout_bytes: MAX_TEXT_BYTES,
            stderr_bytes: MAX_TEXT_BYTES,
            retention: OutputRetention::Head,
            cancel: &|| false,
        };
        let observed = watch(guest, &limits, None, None).map_err(|error| error.to_string())?;
        match stage(observed.frames.head()) {
            SetupStage::Ran => Ok(observed),
            SetupStage::Failed(message) => Err(message),
            other => Err(format!(
                "the child of '{}' did not get to its test ({other:?}): does its main call child_hook first?",
                self.options.child_exe.display()
            )),
        }
    }
}
