//! The sandbox itself: options in, records out.
//!
//! Owns: the order of a run, and that nothing runs at a level whose self-test failed.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::code;
use crate::error::Error;
use crate::frame::MAX_REPORT_BYTES;
use crate::javascript;
use crate::level::{Language, Level};
use crate::limits::Limits;
use crate::options::Options;
use crate::program::Program;
use crate::python::Interpreter;
use crate::quota::Quota;
use crate::record::{Record, Status};
use crate::report::{LevelReport, PythonReport, Report};
use crate::request::{Request, Task};
use crate::scratch::{self, Remover, Scratch};
use crate::selftest;
use crate::slots::Slots;
use crate::spawn;
use crate::sys;
use crate::verdict::{self, Subject};
use crate::watch::{self, Bounds};

/// Runs programs. Share one between threads; what it learns about the machine it learns once.
#[derive(Debug)]
pub struct Sandbox {
    options: Options,
    slots: Slots,
    remover: Remover,
    python: OnceLock<Result<Interpreter, String>>,
    levels: [OnceLock<Result<(), String>>; Level::FOR_CODE.len()],
}

impl Sandbox {
    /// A sandbox with these options. Cheap: the machine is looked at when first needed (see [`Sandbox::report`]).
    pub fn new(options: Options) -> Result<Self, Error> {
        let bad = |option, reason: &str| Err(Error::BadOption { option, reason: reason.to_owned() });
        if options.max_parallel == 0 {
            return bad("max_parallel", "must be at least 1");
        }
        if !options.scratch_dir.is_absolute() {
            return bad("scratch_dir", "must be an absolute path");
        }
        if options.python.as_ref().is_some_and(|path| !path.is_absolute()) {
            return bad("python", "must be an absolute path");
        }
        let slots = Slots::new(options.max_parallel);
        Ok(Self {
            options,
            slots,
            remover: Remover::default(),
            python: OnceLock::new(),
            levels: Default::default(),
        })
    }

    /// Its options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Runs a program to its end and returns what it left. Never fails: what goes wrong is the record's status.
    ///
    /// `cancel` is asked at least every 50 ms. May be called from many threads at once; the calling thread must
    /// live until the call returns (the child dies with it).
    pub fn run(&self, program: &Program, cancel: &dyn Fn() -> bool) -> Record {
        if let Some(refused) = code::refuse(program) {
            return refused;
        }
        let sorry = |reason| Record::unrun(Status::SandboxError, program.level, program.language, reason);
        if let Err(reason) = self.level(program.level) {
            return sorry(format!("level {} is off: {reason}", program.level));
        }
        let Some(_slot) = self.slots.take(cancel) else {
            let mut record = sorry("cancelled by the caller while it waited for its turn".to_owned());
            record.status = Status::Timeout;
            record.limit = Some("cancelled".to_owned());
            return record;
        };
        self.run_now(program, cancel).unwrap_or_else(sorry)
    }

    fn run_now(&self, program: &Program, cancel: &dyn Fn() -> bool) -> Result<Record, String> {
        let (own, workdir) = self.directory(program).map_err(|error| error.to_string())?;
        let mut limits = self.options.levels.of(program.level).clone();
        self.apply_timeout(&mut limits, program);
        let (request, version) = self.request(program, limits.clone(), workdir)?;
        let child = spawn::spawn(&self.options.child_exe, &request).map_err(|error| error.to_string())?;
        let bounds = Bounds {
            timeout: Duration::from_millis(limits.timeout_ms),
            threads: if program.level == Level::Lenient && program.language == Language::Python {
                limits.processes
            } else {
                0
            },
            stdout_bytes: usize::try_from(limits.stdout_bytes).unwrap_or(usize::MAX),
            stderr_bytes: usize::try_from(limits.stderr_bytes).unwrap_or(usize::MAX),
            report_bytes: MAX_REPORT_BYTES,
            cancel,
        };
        let quota = own.as_ref().map(|own| Quota::new(own.path(), &limits, self.options.max_parallel));
        let quota =
            quota.transpose().map_err(|error| format!("cannot count the private directory: {error}"))?;
        let seen = watch::watch(child, &bounds, quota).map_err(|error| error.to_string())?;
        let subject = Subject { level: program.level, language: program.language, version, limits: &limits };
        let mut record = verdict::judge(subject, seen);
        if let Some(Err(error)) = own.map(|own| own.discard(&self.remover)) {
            // The run is what it was; that something stayed behind must not go unsaid.
            record.error.get_or_insert_with(|| error.to_string());
        }
        Ok(record)
    }

    /// A call's own timeout replaces the level's, and the processor's follows.
    fn apply_timeout(&self, limits: &mut Limits, program: &Program) {
        if let Some(timeout_ms) = program.timeout_ms {
            limits.timeout_ms = timeout_ms.clamp(1, self.options.max_timeout_ms.max(1));
            limits.cpu_s = limits.timeout_ms.div_ceil(1000) + 1;
        }
    }

    /// The directory of a run: the caller's or a private one for lenient Python, none for all else.
    fn directory(&self, program: &Program) -> Result<(Option<Scratch>, Option<PathBuf>), Error> {
        if (program.language, program.level) != (Language::Python, Level::Lenient) {
            return Ok((None, None));
        }
        if let Some(path) = &program.workdir {
            return scratch::check_workdir(path).map(|path| (None, Some(path)));
        }
        let own = Scratch::make(&self.options.scratch_dir)?;
        let path = own.path().to_owned();
        Ok((Some(own), Some(path)))
    }

    fn request(
        &self,
        program: &Program,
        limits: Limits,
        own: Option<PathBuf>,
    ) -> Result<(Request, String), String> {
        let extra = self.options.extra_allowed_modules.of(program.level);
        let (files, task, version) = match program.language {
            Language::JavaScript => {
                let task =
                    Task::JavaScript { code: program.code.clone(), language_check: program.language_check };
                (Vec::new(), task, javascript::VERSION.to_owned())
            }
            Language::Bash => return Err("shell commands are not built yet".to_owned()),
            Language::Python => {
                let python = self.python().as_ref().map_err(String::clone)?;
                let files = python.files(program.level, own.as_deref(), !extra.is_empty());
                (files, Task::Python(python.task(program, extra)), python.version())
            }
        };
        let request = Request {
            parent_pid: i32::try_from(std::process::id()).unwrap_or(0),
            level: program.level,
            limits,
            landlock_abi: sys::landlock_abi().map_err(|error| format!("landlock: {error}"))?,
            directory: own.unwrap_or_else(|| Path::new("/").to_owned()),
            files,
            task,
        };
        Ok((request, version))
    }

    fn python(&self) -> &Result<Interpreter, String> {
        self.python.get_or_init(|| Interpreter::find(&self.options))
    }

    /// Private directories of ended runs that could not be removed, in words: for the log and the operator.
    pub fn leftovers(&self) -> Vec<String> {
        self.remover.failures()
    }

    /// Whether a level holds: asked of the kernel, then of real children, once.
    fn level(&self, level: Level) -> Result<(), String> {
        let index = Level::FOR_CODE.iter().position(|other| *other == level).unwrap_or(0);
        let Some(cell) = self.levels.get(index) else { return Err("unknown level".to_owned()) };
        cell.get_or_init(|| self.look_at(level)).clone()
    }

    fn look_at(&self, level: Level) -> Result<(), String> {
        let abi = sys::landlock_abi().map_err(|error| {
            format!("the kernel has no landlock ({error}); it needs Linux 5.13 or newer with landlock among its LSMs")
        })?;
        let needed = level.minimum_landlock_abi();
        if abi < needed {
            return Err(format!("landlock ABI {abi} is too old, {needed} is needed (Linux 6.2 brings 3)"));
        }
        if !sys::has_seccomp_filters() {
            return Err("the kernel has no seccomp filters".to_owned());
        }
        if level == Level::Lenient {
            scratch::sweep(&self.options.scratch_dir, &self.remover);
        }
        selftest::test(&self.options, abi, level)
    }

    /// Why Python does not run although there is one, if so.
    fn try_python(&self) -> Option<String> {
        let record = self.run(&Program::new(Language::Python, Level::Standard, "6 * 7"), &|| false);
        let fine = record.status == Status::Ok && record.result.as_deref() == Some("42");
        (!fine).then(|| record.error.unwrap_or_else(|| format!("a trial run ended as {}", record.status)))
    }

    /// What works on this machine. The first call starts real children (tens of milliseconds); later ones are free.
    pub fn report(&self) -> Report {
        let python = match self.python() {
            Ok(found) => PythonReport {
                path: Some(found.path().to_owned()),
                version: Some(found.version()),
                reason: self.try_python(),
            },
            Err(reason) => PythonReport { path: None, version: None, reason: Some(reason.clone()) },
        };
        let levels = Level::FOR_CODE.map(|level| {
            let outcome = self.level(level);
            LevelReport { level, able: outcome.is_ok(), reason: outcome.err() }
        });
        Report {
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            landlock_abi: sys::landlock_abi().ok(),
            seccomp: sys::has_seccomp_filters(),
            python,
            javascript: javascript::VERSION.to_owned(),
            levels: levels.to_vec(),
        }
    }
}
