//! The sandbox itself: options in, records out.
//!
//! Owns: the order of a run, and that nothing runs at a level whose self-test failed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::broker::{Link, Order, ShellTask, Task};
use crate::code;
use crate::error::SandboxError;
use crate::guest::Ends;
use crate::host::{Calls, HostCalls};
use crate::javascript;
use crate::level::{Language, Level};
use crate::limits::RunLimits;
use crate::options::SandboxOptions;
use crate::program::Program;
use crate::python::{Host, Python};
use crate::quota::Quota;
use crate::record::{RunRecord, RunStatus};
use crate::report::{LevelReport, PythonReport, SandboxReport};
use crate::scratch::{self, Remover, Scratch};
use crate::selftest;
use crate::session::{self, SandboxSession, SessionSpec, Sessions, Surroundings};
use crate::shell;
use crate::slots::Slots;
use crate::stream::Keep;
use crate::sys;
use crate::verdict::{self, Subject};
use crate::watch::{self, Bounds};

/// Runs programs. Share one between threads; what it learns about the machine it learns once.
#[derive(Debug)]
pub struct Sandbox {
    options: SandboxOptions,
    link: Link,
    slots: Slots,
    remover: Arc<Remover>,
    sessions: Sessions,
    python: Host,
    levels: [OnceLock<Result<(), String>>; Level::ALL.len()],
}

impl Sandbox {
    /// A sandbox with these options. Starts its broker: best before a program starts threads, and with few secrets in
    /// memory. The machine is looked at when first needed (see [`Sandbox::report`]).
    pub fn new(options: SandboxOptions) -> Result<Self, SandboxError> {
        let bad = |option, reason: &str| Err(SandboxError::BadOption { option, reason: reason.to_owned() });
        if options.max_parallel == 0 {
            return bad("max_parallel", "must be at least 1");
        }
        if options.max_sessions == 0 {
            return bad("max_sessions", "must be at least 1");
        }
        if !options.scratch_dir.is_absolute() {
            return bad("scratch_dir", "must be an absolute path");
        }
        if options.python.as_ref().is_some_and(|path| !path.is_absolute()) {
            return bad("python", "must be an absolute path");
        }
        if options.default_strictness == Level::Shell || options.max_strictness_allowed == Some(Level::Shell)
        {
            return bad("default_strictness", "must be strict, standard or lenient");
        }
        if let Some((_, _, name)) = options.extra_allowed_modules.bad_names().first() {
            let reason = format!("names '{}', which cannot be a module", name.escape_debug());
            return bad("extra_allowed_modules", &reason);
        }
        if options.lenient_network {
            return bad(
                "lenient_network",
                "cannot be enforced on this kernel: landlock knows ports, not addresses, so private addresses would be open, \
                 too; leave it off, or let commands use the network (`shell_network`)",
            );
        }
        if options.default_strictness > options.max_level() {
            return bad("default_strictness", "must not be more lenient than `max_strictness_allowed`");
        }
        let link = Link::new(&options.child_exe, options.shell_network);
        // A broker that cannot be started now is tried again by each run, which says why.
        link.connect().ok();
        let slots = Slots::new(options.max_parallel);
        Ok(Self {
            python: Host::new(&options),
            sessions: Sessions::new(&options),
            options,
            link,
            slots,
            remover: Arc::default(),
            levels: Default::default(),
        })
    }

    /// Its options.
    pub fn options(&self) -> &SandboxOptions {
        &self.options
    }

    /// Runs a program to its end and returns what it left. Never fails: what goes wrong is the record's status.
    ///
    /// `cancel` is asked at least every 50 ms. May be called from many threads at once; the calling thread must
    /// live until the call returns (the child dies with it).
    pub fn run(&self, program: &Program, cancel: &dyn Fn() -> bool) -> RunRecord {
        self.run_any(program, None, cancel)
    }

    /// The same for a JavaScript program that may ask its host: `__host(name, argumentsJson)` is there, answers with the
    /// host's text, and throws an `Error` with the host's refusal.
    ///
    /// The wall clock goes on while the host works. A run that is cancelled or timed out ends at once; the call that is
    /// under way ends when the host returns, on a thread of its own.
    pub fn run_with_host(
        &self,
        program: &Program,
        host: Arc<dyn HostCalls>,
        cancel: &dyn Fn() -> bool,
    ) -> RunRecord {
        if program.language == Language::JavaScript {
            return self.run_any(program, Some(host), cancel);
        }
        let reason = format!("{} makes no host calls: only JavaScript does", program.language);
        RunRecord::unrun(RunStatus::SandboxError, program.level, program.language, reason)
    }

    fn run_any(
        &self,
        program: &Program,
        host: Option<Arc<dyn HostCalls>>,
        cancel: &dyn Fn() -> bool,
    ) -> RunRecord {
        if let Some(refused) = code::refuse(program) {
            return refused;
        }
        let sorry =
            |reason| RunRecord::unrun(RunStatus::SandboxError, program.level, program.language, reason);
        if let Err(reason) = self.permit(program) {
            return sorry(reason);
        }
        if let Err(reason) = self.level(program.level) {
            return sorry(format!("level {} is off: {reason}", program.level));
        }
        let Some(_slot) = self.slots.take(cancel) else {
            return cancelled(program, "cancelled by the caller while it waited for its turn");
        };
        match self.run_now(program, host, cancel) {
            Ok(record) => record,
            Err(SandboxError::Cancelled) => cancelled(program, "cancelled by the caller before it started"),
            Err(error) => {
                if matches!(error, SandboxError::BrokerStuck) {
                    self.link.reset();
                }
                sorry(error.to_string())
            }
        }
    }

    /// Opens a session: a long-lived program behind the policy of commands, with blocking pipes of its own.
    ///
    /// Takes a place among `max_sessions`, none of `max_parallel`. It ends with its `SandboxSession`, with this sandbox, or with
    /// this process, whichever goes first.
    pub fn open_session(&self, order: &SessionSpec) -> Result<SandboxSession, SandboxError> {
        let refused = |reason| SandboxError::OpenSession { reason };
        self.permit_level(Level::Shell).map_err(refused)?;
        self.level(Level::Shell).map_err(|reason| refused(format!("level shell is off: {reason}")))?;
        let needs_own_broker = order.network && !self.options.shell_network;
        let link = if needs_own_broker { &self.sessions.online } else { &self.link };
        if needs_own_broker {
            let holds = self.sessions.online_holds.get_or_init(|| {
                let abi = sys::landlock_abi().map_err(|error| format!("landlock: {error}"))?;
                selftest::test(link, &self.options, abi, Level::Shell)
            });
            holds.clone().map_err(|reason| refused(format!("the network is off: {reason}")))?;
        }
        let (options, sessions, remover) = (&self.options, &self.sessions, &self.remover);
        let opened = session::open(order, &Surroundings { link, options, remover, sessions });
        if matches!(opened, Err(SandboxError::BrokerStuck)) {
            link.reset();
        }
        opened
    }

    /// Whether a program may run at its level at all.
    fn permit(&self, program: &Program) -> Result<(), String> {
        let level = program.level;
        if (program.language == Language::Bash) != (level == Level::Shell) {
            let may = if level == Level::Shell {
                "that level is for commands: choose strict, standard or lenient"
            } else {
                "commands run at level shell alone"
            };
            return Err(format!("{} does not run at level {level}; {may}", program.language));
        }
        permit_stdin(program)?;
        self.permit_level(level)
    }

    /// Whether the operator allows a level.
    fn permit_level(&self, level: Level) -> Result<(), String> {
        let most = self.options.max_level();
        if level > most {
            let may = if level == Level::Shell {
                "commands count as lenient"
            } else {
                "choose it or a stricter one"
            };
            return Err(format!(
                "level {level} is not allowed here: the operator allows {most} at the most \
                 (code_execution.max_strictness_allowed); {may}"
            ));
        }
        Ok(())
    }

    fn run_now(
        &self,
        program: &Program,
        host: Option<Arc<dyn HostCalls>>,
        cancel: &dyn Fn() -> bool,
    ) -> Result<RunRecord, SandboxError> {
        let (own, workdir) = self.directory(program)?;
        let mut limits = self.options.levels.of(program.level).clone();
        self.apply_timeout(&mut limits, program);
        let (mut order, version) =
            self.order(program, limits.clone(), workdir.as_deref()).map_err(SandboxError::Broker)?;
        let mut ends = Ends::make(code::without_mark(&program.code))?;
        if let Some(stdin) = &program.stdin {
            ends = ends.with_stdin(stdin)?;
        }
        let mut calls = None;
        if let Some(host) = host {
            let (ours, theirs) = Calls::new(host)?;
            (calls, ends) = (Some(ours), ends.with_host(theirs));
            order.task.expect_host();
        }
        let guest = self.link.run(&order, ends, cancel)?;
        let bounds = Bounds {
            timeout: Duration::from_millis(limits.timeout_ms),
            tasks: if is_owner(program) { limits.processes } else { 0 },
            stdout_bytes: usize::try_from(limits.stdout_bytes).unwrap_or(usize::MAX),
            stderr_bytes: usize::try_from(limits.stderr_bytes).unwrap_or(usize::MAX),
            keep: if program.language == Language::Bash { Keep::HeadAndTail } else { Keep::Head },
            cancel,
        };
        let quota = workdir
            .map(|path| Quota::new(&path, own.is_some(), &limits, self.options.max_parallel))
            .transpose()
            .map_err(|error| SandboxError::Watch(error.into()))?;
        let seen = watch::watch(guest, &bounds, quota, calls)?;
        let subject = Subject { level: program.level, language: program.language, version, limits: &limits };
        let mut record = verdict::judge(subject, seen);
        if let Some(Err(error)) = own.map(|own| own.discard(&self.remover)) {
            // The run is what it was; that something stayed behind must not go unsaid.
            record.error.get_or_insert_with(|| error.to_string());
        }
        Ok(record)
    }

    /// A call's own timeout replaces the level's, and the processor's follows.
    fn apply_timeout(&self, limits: &mut RunLimits, program: &Program) {
        if let Some(timeout_ms) = program.timeout_ms {
            limits.timeout_ms = timeout_ms.clamp(1, self.options.max_timeout_ms.max(1));
            limits.cpu_s = limits.timeout_ms.div_ceil(1000) + 1;
        }
    }

    /// The directory of a run: the caller's or a private one for lenient Python and commands, none for all else.
    fn directory(&self, program: &Program) -> Result<(Option<Scratch>, Option<PathBuf>), SandboxError> {
        if !is_owner(program) {
            return Ok((None, None));
        }
        if let Some(path) = &program.workdir {
            return scratch::check_workdir(path).map(|path| (None, Some(path)));
        }
        let own = Scratch::make(&self.options.scratch_dir)?;
        let path = own.path().to_owned();
        Ok((Some(own), Some(path)))
    }

    fn order(
        &self,
        program: &Program,
        mut limits: RunLimits,
        own: Option<&Path>,
    ) -> Result<(Order, String), String> {
        let landlock_abi = sys::landlock_abi().map_err(|error| format!("landlock: {error}"))?;
        let directory = own.unwrap_or(Path::new("/")).to_owned();
        let (files, task, version) = match program.language {
            Language::Bash => {
                let shell = shell::find_shell()?;
                let network = self.options.shell_network;
                let files = shell::files(&directory, network);
                let environment = shell::environment(&directory, &shell, &program.environment);
                let version = shell.display().to_string();
                let has_stdin = program.stdin.is_some();
                let task =
                    ShellTask { shell, environment, network, has_stdin, arguments: None, memory_bytes: None };
                (files, Task::Shell(task), version)
            }
            Language::JavaScript => {
                let task = Task::JavaScript { language_check: program.language_check, has_host: false };
                (Vec::new(), task, javascript::VERSION.to_owned())
            }
            Language::Python => {
                let python = self.python()?;
                let (extra, python) = (python.extra.of(program.level), &python.interpreter);
                if !extra.is_empty() {
                    limits.address_space_bytes += python.extra_bytes();
                }
                let files = python.files(program.level, own, !extra.is_empty());
                let zygote = Box::new(python.zygote(program.level, &extra, landlock_abi));
                let task = Task::Python { zygote, language_check: program.language_check };
                (files, task, python.version())
            }
        };
        let level = program.level;
        let subdirectory = program.subdirectory.clone();
        Ok((Order { level, limits, landlock_abi, directory, subdirectory, files, task }, version))
    }

    fn python(&self) -> Result<Arc<Python>, String> {
        self.python.current().map_err(|reason| format!("Python is off: {reason}"))
    }

    /// Allows Python modules at a level beyond its list and the options' `extra_allowed_modules`, from the next run on;
    /// runs under way are left alone. Lenient may import what is allowed at any level. A name that is allowed already
    /// costs nothing; a new one costs an import of all of them in the host's interpreter, outside of the sandbox.
    ///
    /// An error names what cannot be imported; then nothing has changed.
    pub fn allow_modules(&self, level: Level, names: &[&str]) -> Result<(), SandboxError> {
        self.python.allow(level, names)
    }

    /// Private directories of ended runs that could not be removed, in words: for the log and the operator.
    pub fn removal_failures(&self) -> Vec<String> {
        self.remover.failures()
    }

    /// Runs a command whose standard input is the socket of host calls: a guest that owns its process, for tests.
    #[cfg(feature = "ablation")]
    #[doc(hidden)]
    pub fn run_command_with_host(
        &self,
        program: &Program,
        host: Arc<dyn HostCalls>,
        cancel: &dyn Fn() -> bool,
    ) -> RunRecord {
        self.run_any(program, Some(host), cancel)
    }

    /// Runs programs although a level does not hold, for tests that want to see it not hold.
    #[cfg(feature = "ablation")]
    #[doc(hidden)]
    pub fn skip_self_test(&mut self) {
        self.levels = [const { OnceLock::new() }; Level::ALL.len()];
        for level in &self.levels {
            level.get_or_init(|| Ok(()));
        }
    }

    /// Whether a level holds: asked of the kernel, then of real children, once.
    fn level(&self, level: Level) -> Result<(), String> {
        let index = Level::ALL.iter().position(|other| *other == level).unwrap_or(0);
        let Some(cell) = self.levels.get(index) else { return Err("unknown level".to_owned()) };
        cell.get_or_init(|| self.look_at(level)).clone()
    }

    fn look_at(&self, level: Level) -> Result<(), String> {
        let abi = sys::landlock_abi().map_err(|error| {
            format!("the kernel has no landlock ({error}); it needs Linux 5.13 or newer with landlock among its LSMs")
        })?;
        let needed = level.minimum_landlock_abi();
        if abi < needed {
            return Err(format!("landlock ABI {abi} is too old, {needed} is needed"));
        }
        if !sys::has_seccomp_filters() {
            return Err("the kernel has no seccomp filters".to_owned());
        }
        if matches!(level, Level::Lenient | Level::Shell) {
            scratch::sweep(&self.options.scratch_dir, &self.remover);
        }
        selftest::test(&self.link, &self.options, abi, level)
    }

    /// Why Python does not run although there is one, if so.
    fn try_python(&self) -> Option<String> {
        let record = self.run(&Program::new(Language::Python, Level::Standard, "6 * 7"), &|| false);
        let fine = record.status == RunStatus::Ok && record.result.as_deref() == Some("42");
        (!fine).then(|| record.error.unwrap_or_else(|| format!("a trial run ended as {}", record.status)))
    }

    /// What works on this machine. The first call starts real children (tens of milliseconds); later ones are free.
    pub fn report(&self) -> SandboxReport {
        let python = match self.python() {
            Ok(found) => PythonReport {
                path: Some(found.interpreter.path().to_owned()),
                version: Some(found.interpreter.version()),
                reason: self.try_python(),
            },
            Err(reason) => PythonReport { path: None, version: None, reason: Some(reason) },
        };
        let levels = Level::ALL.map(|level| {
            let outcome = self.level(level);
            LevelReport { level, able: outcome.is_ok(), reason: outcome.err() }
        });
        SandboxReport {
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            landlock_abi: sys::landlock_abi().ok(),
            seccomp: sys::has_seccomp_filters(),
            python,
            javascript: javascript::VERSION.to_owned(),
            levels: levels.to_vec(),
            layers: self.link.layers(),
        }
    }
}

/// Whether a program has a directory, threads and processes of its own.
fn is_owner(program: &Program) -> bool {
    matches!(
        (program.language, program.level),
        (Language::Python, Level::Lenient) | (Language::Bash, Level::Shell)
    )
}

/// Whether a program may have the standard input that it is given.
fn permit_stdin(program: &Program) -> Result<(), String> {
    let Some(stdin) = &program.stdin else { return Ok(()) };
    if program.language != Language::Bash {
        return Err(format!(
            "{} has no standard input: only commands (bash at level shell) do; put the data into the program's text",
            program.language
        ));
    }
    let (length, most) = (stdin.len(), code::MAX_STDIN_BYTES);
    if length > most {
        return Err(format!(
            "the standard input has {length} bytes; the limit is {most}: write long input to a file first, and let the \
             command read that"
        ));
    }
    Ok(())
}

fn cancelled(program: &Program, words: &str) -> RunRecord {
    let mut record = RunRecord::unrun(RunStatus::Timeout, program.level, program.language, words.to_owned());
    record.limit = Some("cancelled".to_owned());
    record
}
