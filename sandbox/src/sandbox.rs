//! The entry point: checks options and permissions, tests the levels, runs programs, opens sessions.
//!
//! Nothing runs at a level whose self-test has not passed.

use std::sync::Arc;

use crate::broker::BrokerClient;
use crate::error::SandboxError;
use crate::host_calls::HostCalls;
use crate::languages::javascript;
use crate::languages::python::PythonRegistry;
use crate::level::{Language, Level};
use crate::level_verdict::{LevelFault, LevelOutcome, LevelVerdicts};
use crate::options::SandboxOptions;
use crate::program::{self, Program};
use crate::record::{RunRecord, RunStatus};
use crate::report::{LevelReport, PythonReport, SandboxReport};
use crate::run::{self, KernelUse, RunDependencies, RunRegistry, RunSlots, ScarceResource};
use crate::scratch::{self, ScratchRemover};
use crate::self_test;
use crate::session::{self, SandboxSession, SessionDependencies, SessionRegistry, SessionSpec};
use crate::sys;

/// Names what fails.
const TRY_OWN_FILES: &str = ": >f; chmod 700 f 2>/dev/null; [ -x f ] || echo modes; cp /bin/true p && { ./p 2>/dev/null || echo programs; }";

/// Runs programs. Share one between threads: it examines the machine only once.
#[derive(Debug)]
pub struct Sandbox {
    options: SandboxOptions,
    broker: BrokerClient,
    slots: Arc<RunSlots>,
    running: RunRegistry,
    remover: Arc<ScratchRemover>,
    sessions: SessionRegistry,
    python: PythonRegistry,
    levels: LevelVerdicts,
}

impl Sandbox {
    /// Checks the options and starts the broker. Best called before a program starts threads, and with few
    /// secrets in memory. The machine is examined when first needed (see [`Sandbox::report`]).
    pub fn new(options: SandboxOptions) -> Result<Self, SandboxError> {
        check_options(&options)?;
        let broker = BrokerClient::new(&options.child_exe, options.shell_network);
        // If the broker cannot start now, each run tries again and reports the error.
        broker.connect().ok();
        let slots = RunSlots::new(options.max_parallel);
        Ok(Self {
            python: PythonRegistry::new(&options),
            sessions: SessionRegistry::new(&options),
            options,
            broker,
            slots,
            running: RunRegistry::default(),
            remover: Arc::default(),
            levels: LevelVerdicts::default(),
        })
    }

    /// Its options.
    pub fn options(&self) -> &SandboxOptions {
        &self.options
    }

    /// Runs a program to its end and returns the record. Never fails: an error is the record's status.
    ///
    /// `cancel` is called at least every 50 ms. May be called from many threads at once; the calling thread
    /// must live until the call returns.
    pub fn run(&self, program: &Program, cancel: &dyn Fn() -> bool) -> RunRecord {
        self.run_any(program, None, self.zygote_idle_s(), cancel)
    }

    /// Runs a JavaScript program that may call its host: `__host(name, argumentsJson)` returns the host's
    /// text, or throws an `Error` with the host's refusal.
    ///
    /// The wall clock includes the host's time. A cancelled or timed out run ends at once; a host call in
    /// progress finishes on its own thread.
    pub fn run_with_host(
        &self,
        program: &Program,
        host: Arc<dyn HostCalls>,
        cancel: &dyn Fn() -> bool,
    ) -> RunRecord {
        if program.language == Language::JavaScript {
            return self.run_any(program, Some(host), None, cancel);
        }
        let reason = format!("{} makes no host calls: only JavaScript does", program.language);
        RunRecord::not_run(RunStatus::SandboxError, program.level, program.language, reason)
    }

    fn run_any(
        &self,
        program: &Program,
        host: Option<Arc<dyn HostCalls>>,
        zygote_idle_s: Option<u64>,
        cancel: &dyn Fn() -> bool,
    ) -> RunRecord {
        if let Some(record) = program::refuse(program) {
            return record;
        }
        let failed =
            |reason| RunRecord::not_run(RunStatus::SandboxError, program.level, program.language, reason);
        if let Err(reason) = self.check_permission(program) {
            return failed(reason);
        }
        if let Err(fault) = self.check_level(program.level) {
            return failed(refusal(program.level, &fault));
        }
        let Some(slot) = self.slots.take(cancel) else {
            return cancelled(program, "cancelled by the caller while it waited for its turn");
        };
        let dependencies = RunDependencies {
            options: &self.options,
            broker: &self.broker,
            python: &self.python,
            remover: &self.remover,
            running: &self.running,
            zygote_idle_s,
        };
        match run::execute(&dependencies, slot, program, host, cancel) {
            Ok(record) => record,
            Err(SandboxError::Cancelled) => cancelled(program, "cancelled by the caller before it started"),
            Err(error) => {
                if matches!(error, SandboxError::BrokerStuck) {
                    self.broker.reset();
                }
                failed(error.to_string())
            }
        }
    }

    /// Ends the program that holds most of what is scarce, for a caller whom the kernel has refused it.
    /// Returns its size; `None` if no program is large, or if one is being ended. Sessions stay.
    ///
    /// While programs run, the sandbox itself looks how much memory is left.
    pub fn end_largest_run(&self, scarce: ScarceResource) -> Option<KernelUse> {
        self.running.end_largest(scarce)
    }

    /// Opens a session: a long-lived program with the policy of commands and blocking pipes.
    ///
    /// It counts against `max_sessions`, not against `max_parallel`. It ends with its `SandboxSession`, with
    /// this sandbox, or with this process, whichever ends first.
    pub fn open_session(&self, spec: &SessionSpec) -> Result<SandboxSession, SandboxError> {
        let refused = |reason| SandboxError::OpenSession { reason };
        self.check_level_allowed(Level::Shell).map_err(refused)?;
        self.check_level(Level::Shell).map_err(|fault| refused(refusal(Level::Shell, &fault)))?;
        let needs_online_broker = spec.network && !self.options.shell_network;
        let broker = if needs_online_broker { &self.sessions.online_broker } else { &self.broker };
        if needs_online_broker {
            let tested = self.sessions.online_verdict.check(|| self.test_level(broker, Level::Shell));
            tested.map_err(|fault| refused(fault.refusal("the network of sessions")))?;
        }
        let (options, sessions, remover) = (&self.options, &self.sessions, &self.remover);
        let opened = session::open(spec, &SessionDependencies { broker, options, remover, sessions });
        if matches!(opened, Err(SandboxError::BrokerStuck)) {
            broker.reset();
        }
        opened
    }

    /// Whether a program may run at its level with its input.
    fn check_permission(&self, program: &Program) -> Result<(), String> {
        let level = program.level;
        if (program.language == Language::Bash) != (level == Level::Shell) {
            let advice = if level == Level::Shell {
                "that level is for commands: choose strict, standard or lenient"
            } else {
                "commands run at level shell alone"
            };
            return Err(format!("{} does not run at level {level}; {advice}", program.language));
        }
        program::check_stdin(program)?;
        self.check_level_allowed(level)
    }

    /// Whether the operator allows a level.
    fn check_level_allowed(&self, level: Level) -> Result<(), String> {
        let max = self.options.max_level();
        if level > max {
            let advice = if level == Level::Shell {
                "commands count as lenient"
            } else {
                "choose it or a stricter one"
            };
            return Err(format!(
                "level {level} is not allowed here: the operator allows {max} at the most \
                 (code_execution.max_strictness_allowed); {advice}"
            ));
        }
        Ok(())
    }

    /// Allows more Python modules at a level, from the next run on. Lenient may import what any level allows.
    /// A new name costs one import of all of them in the host's interpreter, outside the sandbox; a known one
    /// costs nothing.
    ///
    /// An error names the modules that cannot be imported; then nothing has changed.
    pub fn allow_modules(&self, level: Level, names: &[&str]) -> Result<(), SandboxError> {
        self.python.allow(level, names)
    }

    /// The errors of private directories that could not be removed, for the log and the operator.
    pub fn removal_failures(&self) -> Vec<String> {
        self.remover.failures()
    }

    /// Runs a command whose standard input is the socket for host calls: a guest that owns its process, for
    /// tests.
    #[cfg(feature = "ablation")]
    #[doc(hidden)]
    pub fn run_command_with_host(
        &self,
        program: &Program,
        host: Arc<dyn HostCalls>,
        cancel: &dyn Fn() -> bool,
    ) -> RunRecord {
        self.run_any(program, Some(host), None, cancel)
    }

    /// Skips the self-tests, for tests that run programs at a level that does not hold.
    #[cfg(feature = "ablation")]
    #[doc(hidden)]
    pub fn skip_self_test(&mut self) {
        self.levels = LevelVerdicts::default();
        for level in Level::ALL {
            self.levels.of(level).check(|| Ok(())).ok();
        }
    }

    /// Whether a level holds, tested with real children. A test that could not be made is made again.
    fn check_level(&self, level: Level) -> LevelOutcome {
        self.levels.of(level).check(|| self.test_level(&self.broker, level))
    }

    fn test_level(&self, broker: &BrokerClient, level: Level) -> LevelOutcome {
        let off = |reason: String| Err(LevelFault::NotEnforced(reason));
        let abi = match sys::landlock_abi() {
            Ok(abi) => abi,
            Err(error) => {
                return off(format!(
                    "the kernel has no landlock ({error}); it needs Linux 5.13 or newer with landlock among its LSMs"
                ));
            }
        };
        // ABI 1 is enough for every level: on older kernels the filters refuse what later ABIs mediate
        // (truncation, TCP, devices, signals), and the self-test checks it.
        if abi == 0 {
            return off("landlock ABI 0 is too old, 1 is needed".to_owned());
        }
        if !sys::has_seccomp_filters() {
            return off("the kernel has no seccomp filters".to_owned());
        }
        if matches!(level, Level::Lenient | Level::Shell) {
            scratch::sweep(&self.options.scratch_dir, &self.remover);
        }
        self_test::test_level((broker, &self.python), &self.options, abi, level)
    }

    /// What earlier tests found at a level; `None` before the first. Starts nothing and does not wait.
    pub fn known_level(&self, level: Level) -> Option<LevelReport> {
        self.levels.of(level).known().map(|outcome| LevelReport::new(level, outcome))
    }

    /// Why programs of a language cannot run at a level until the next start, as far as earlier runs and
    /// reports have shown. Starts nothing and does not wait.
    pub fn known_fault(&self, language: Language, level: Level) -> Option<String> {
        if let Some(Err(fault @ LevelFault::NotEnforced(_))) = self.levels.of(level).known() {
            return Some(refusal(level, &fault));
        }
        self.python.known_fault().filter(|_| language == Language::Python)
    }

    /// How long, in seconds, a zygote stays after a run; `None`: until it is replaced.
    fn zygote_idle_s(&self) -> Option<u64> {
        Some(self.options.python_zygote_idle_s).filter(|idle_s| *idle_s > 0)
    }

    /// The reason why Python does not run although there is an interpreter. A zygote that this run alone
    /// needs ends with it.
    fn try_python(&self) -> Option<String> {
        let program = Program::new(Language::Python, Level::Standard, "6 * 7");
        let record = self.run_any(&program, None, Some(0), &|| false);
        let is_fine = record.status == RunStatus::Ok && record.result.as_deref() == Some("42");
        (!is_fine).then(|| record.error.unwrap_or_else(|| format!("a trial run ended as {}", record.status)))
    }

    /// What commands cannot do with their own files on this machine, with the reasons. Runs one command.
    pub fn missing_for_own_files(&self) -> Vec<String> {
        let record = self.run(&Program::new(Language::Bash, Level::Shell, TRY_OWN_FILES), &|| false);
        let fails = |what: &str| record.stdout.lines().any(|line| line == what);
        let mut missing = Vec::new();
        if record.status == RunStatus::SandboxError {
            missing.push(record.error.clone().unwrap_or_default());
        }
        if sys::landlock_abi().is_ok_and(|abi| abi < 2) {
            missing.push("files do not move between directories: this needs Linux 5.19".to_owned());
        }
        if fails("modes") {
            missing.push(
                "chmod and touch fail with EPERM: a container's agent already receives system calls, or \
                 kernel.yama.ptrace_scope is above 1"
                    .to_owned(),
            );
        }
        if fails("programs") && self.options.shell_run_own_files {
            let scratch_dir = self.options.scratch_dir.display();
            missing.push(format!("programs do not run in {scratch_dir}: it may be mounted with noexec"));
        }
        missing
    }

    /// What works on this machine. The first call starts real children (tens of milliseconds); later ones
    /// repeat only the tests that could not be made, and the search for Python if it failed.
    pub fn report(&self) -> SandboxReport {
        let python = match self.python.current() {
            Ok(found) => PythonReport {
                path: Some(found.interpreter.path().to_owned()),
                version: Some(found.interpreter.version()),
                reason: self.try_python(),
                missing_modules: found.interpreter.missing_modules().to_vec(),
            },
            Err(reason) => {
                PythonReport { path: None, version: None, reason: Some(reason), missing_modules: Vec::new() }
            }
        };
        let levels = Level::ALL.map(|level| LevelReport::new(level, self.check_level(level)));
        SandboxReport {
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            landlock_abi: sys::landlock_abi().ok(),
            seccomp: sys::has_seccomp_filters(),
            python,
            javascript: javascript::VERSION.to_owned(),
            levels: levels.to_vec(),
            layers: self.broker.layers(),
        }
    }
}

/// Why a program does not run.
fn refusal(level: Level, fault: &LevelFault) -> String {
    fault.refusal(&format!("level {level}"))
}

fn check_options(options: &SandboxOptions) -> Result<(), SandboxError> {
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
    if options.default_strictness == Level::Shell || options.max_strictness_allowed == Some(Level::Shell) {
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
    Ok(())
}

fn cancelled(program: &Program, reason: &str) -> RunRecord {
    let mut record =
        RunRecord::not_run(RunStatus::Timeout, program.level, program.language, reason.to_owned());
    record.limit = Some("cancelled".to_owned());
    record
}
