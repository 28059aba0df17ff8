//! The self-test of a level: real children try to escape. If one succeeds, the level is off. A fault that may
//! pass (a full disk, no descriptors, a dead broker) says nothing about the level.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::broker::{BrokerClient, RunRequest, RunTask};
use crate::child::{ALL_BLOCKED, FIRST_ESCAPE, QUIET_ATTEMPTS, SelfTestProbe, UNDECIDED};
use crate::child_report::{MAX_TEXT_BYTES, SetupStage, stage};
use crate::error::SandboxError;
use crate::languages::python::PythonRegistry;
use crate::languages::shell;
use crate::level::Level;
use crate::level_verdict::{LevelFault, LevelOutcome};
use crate::limits::RunLimits;
use crate::options::SandboxOptions;
use crate::policy::{PathAccess, PathRule};
use crate::process::ChildExit;
use crate::run::{ObservedRun, OutputRetention, RunPipes, WatchLimits, watch};
use crate::scratch::ScratchDir;

/// How long the child of a probe may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Tests a level. The fault names the attempt that succeeded, or why the test could not be made.
pub(crate) fn test_level(
    (broker, python): (&BrokerClient, &PythonRegistry),
    options: &SandboxOptions,
    landlock_abi: u32,
    level: Level,
) -> LevelOutcome {
    let untested = |error: &SandboxError| untested(error, &options.scratch_dir);
    let make_dir = || ScratchDir::make(&options.scratch_dir).map_err(|error| untested(&error));
    let (outside, own_dir) = (make_dir()?, make_dir()?);
    let canary = outside.path().join("canary");
    let written = std::fs::write(&canary, "canary");
    let written = written.map_err(|source| SandboxError::MakeScratch { path: canary.clone(), source });
    let test = SelfTest { broker, options, landlock_abi, level, own_dir: own_dir.path() };
    let outcome = written.map_err(|error| untested(&error)).and_then(|()| test.run_all(python, &canary));
    // Even without a free descriptor, which the removal of the directories needs.
    std::fs::remove_file(&canary).ok();
    outcome?;
    own_dir.remove().and_then(|()| outside.remove()).map_err(|error| untested(&error))
}

/// A test that could not be made: the cause, and what helps.
fn untested(error: &SandboxError, scratch_dir: &Path) -> LevelFault {
    let scratch_dir = scratch_dir.display();
    let code = error.io_error().and_then(std::io::Error::raw_os_error);
    let advice = match code {
        Some(libc::ENOSPC | libc::EDQUOT) => {
            format!(
                "no space left in the scratch directory '{scratch_dir}' (code_execution.scratch_dir); free some"
            )
        }
        Some(libc::EMFILE | libc::ENFILE) => {
            "no file descriptor is left; raise the limit of open files (LimitNOFILE, ulimit -n)".to_owned()
        }
        Some(libc::EAGAIN | libc::ENOMEM) => "the machine is short of processes or memory".to_owned(),
        Some(_) if matches!(error, SandboxError::MakeScratch { .. }) => format!(
            "the scratch directory '{scratch_dir}' (code_execution.scratch_dir) must be there and writable"
        ),
        _ => return LevelFault::Untested(error.to_string()),
    };
    LevelFault::Untested(format!("{advice}: {error}"))
}

struct SelfTest<'a> {
    broker: &'a BrokerClient,
    options: &'a SandboxOptions,
    landlock_abi: u32,
    level: Level,
    own_dir: &'a Path,
}

impl SelfTest<'_> {
    fn run_all(&self, python: &PythonRegistry, canary: &Path) -> LevelOutcome {
        let is_shell = self.level == Level::Shell;
        self.must_hold(SelfTestProbe::Quiet { canary: canary.to_owned(), may_fork: is_shell })?;
        for (name, probe) in [
            ("ptrace", SelfTestProbe::Ptrace),
            ("execve", SelfTestProbe::Execve),
            ("io_uring", SelfTestProbe::IoUring),
            ("an x32 call", SelfTestProbe::X32),
        ] {
            // Commands may execute programs, and get ENOSYS for io_uring.
            if !is_shell || !matches!(probe, SelfTestProbe::Execve | SelfTestProbe::IoUring) {
                self.must_kill(name, probe)?;
            }
        }
        self.must_not_open(python)
    }

    fn must_hold(&self, probe: SelfTestProbe) -> LevelOutcome {
        let escape = self.first_escape(probe, self.own_files())?;
        escape.map_or(Ok(()), |index| {
            let attempt = QUIET_ATTEMPTS.get(index).unwrap_or(&"escape");
            Err(LevelFault::NotEnforced(format!("self-test: a child could {attempt}")))
        })
    }

    /// Tries to open the caller's private files with the rules of real programs.
    fn must_not_open(&self, python: &PythonRegistry) -> LevelOutcome {
        let private = &self.options.private_files;
        if private.is_empty() {
            return Ok(());
        }
        let probe = SelfTestProbe::OpenFiles { files: private.clone() };
        let escape = self.first_escape(probe, self.program_files(python))?;
        escape.and_then(|index| private.get(index)).map_or(Ok(()), |file| {
            Err(LevelFault::NotEnforced(format!(
                "self-test: programs at level {} can read '{}', which must stay private: move it away from the \
                 directories of programs and libraries",
                self.level,
                file.display()
            )))
        })
    }

    /// The index of the first attempt that succeeded.
    fn first_escape(&self, probe: SelfTestProbe, files: Vec<PathRule>) -> Result<Option<usize>, LevelFault> {
        let exit = self.run(probe, files)?.exit;
        match exit.exit_code {
            Some(ALL_BLOCKED) => Ok(None),
            Some(UNDECIDED) => {
                let reason = "self-test: an attempt failed because the machine is short of something";
                Err(LevelFault::Untested(reason.to_owned()))
            }
            Some(code) if code >= FIRST_ESCAPE => Ok(usize::try_from(code - FIRST_ESCAPE).ok()),
            _ => Err(ended_early(&exit)),
        }
    }

    fn must_kill(&self, name: &str, probe: SelfTestProbe) -> LevelOutcome {
        let exit = self.run(probe, self.own_files())?.exit;
        match exit.exit_code {
            _ if exit.signal == Some(libc::SIGSYS) => Ok(()),
            Some(code) if code >= FIRST_ESCAPE => {
                Err(LevelFault::NotEnforced(format!("self-test: {name} did not kill the child")))
            }
            _ => Err(ended_early(&exit)),
        }
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
        let mut files = python.interpreter.files(self.level, Some(self.own_dir), has_extra);
        files.extend(self.options.read_rules(self.level));
        files
    }

    /// Runs a probe; an error unless the child got to its attempts.
    fn run(&self, probe: SelfTestProbe, files: Vec<PathRule>) -> Result<ObservedRun, LevelFault> {
        let request = RunRequest {
            level: self.level,
            limits: RunLimits::of(self.level),
            landlock_abi: self.landlock_abi,
            directory: PathBuf::from("/"),
            subdirectory: None,
            files,
            task: RunTask::Probe(probe),
        };
        let observed = self.watch(&request).map_err(|error| {
            if matches!(error, SandboxError::BrokerStuck) {
                self.broker.reset();
            }
            untested(&error, &self.options.scratch_dir)
        })?;
        match stage(observed.frames.head()) {
            SetupStage::Ran => Ok(observed),
            SetupStage::Failed(message) => Err(LevelFault::Untested(message)),
            SetupStage::SetUp | SetupStage::Ready | SetupStage::Refused(..) => {
                Err(ended_early(&observed.exit))
            }
        }
    }

    fn watch(&self, request: &RunRequest) -> Result<ObservedRun, SandboxError> {
        let guest = self.broker.start_run(request, RunPipes::new("")?, &|| false)?;
        let limits = WatchLimits {
            timeout: TIMEOUT,
            tasks: 0,
            stdout_bytes: MAX_TEXT_BYTES,
            stderr_bytes: MAX_TEXT_BYTES,
            retention: OutputRetention::Head,
            cancel: &|| false,
            registration: None,
        };
        watch(guest, &limits, None, None)
    }
}

/// The fault of a test whose child ended before it had made its attempts.
fn ended_early(exit: &ChildExit) -> LevelFault {
    let end = match (exit.signal, exit.exit_code) {
        (Some(signal), _) => format!("signal {signal} ended it"),
        (_, code) => format!("it exited with code {}", code.unwrap_or(-1)),
    };
    LevelFault::Untested(format!("self-test: the child did not make its attempts: {end}"))
}
