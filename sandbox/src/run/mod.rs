//! One run, from the program to its record: directory, limits, request, watch, verdict.

mod child;
mod count_schedule;
mod descendants;
mod held_files;
mod kernel_use;
mod left;
mod lock_table;
mod memory_reserve;
mod output;
mod quota;
mod readers;
mod registry;
mod reserve;
mod slots;
mod unseen;
mod watch;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::broker::{BrokerClient, CommandLine, RunRequest, RunTask, ShellTask};
use crate::error::SandboxError;
use crate::host_calls::{HostCallServer, HostCalls};
use crate::languages::python::PythonRegistry;
use crate::languages::{javascript, shell};
use crate::level::{Language, Level};
use crate::limits::RunLimits;
use crate::options::SandboxOptions;
use crate::program::{Program, without_byte_order_mark};
use crate::record::RunRecord;
use crate::scratch::{ScratchDir, ScratchRemover, check_workdir};
use crate::sys;
use crate::verdict::{self, JudgedRun};

pub(crate) use child::{RunChild, RunPipes};
pub use kernel_use::KernelUse;
pub(crate) use left::keep_until_gone;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use output::CapturedOutput;
pub(crate) use output::OutputRetention;
pub(crate) use quota::{DirectoryQuota, QuotaExcess, TreeLimit};
#[cfg(feature = "fuzzing")]
pub(crate) use readers::read_in_pieces;
pub(crate) use registry::RunRegistry;
pub use registry::ScarceResource;
pub(crate) use slots::{RunSlot, RunSlots};
pub(crate) use watch::{ObservedRun, StopReason, WatchLimits, escalate_kill, watch};

/// The parts of a sandbox that a run needs.
pub(crate) struct RunDependencies<'a> {
    pub options: &'a SandboxOptions,
    pub broker: &'a BrokerClient,
    pub python: &'a PythonRegistry,
    pub remover: &'a Arc<ScratchRemover>,
    pub running: &'a RunRegistry,
    /// How long, in seconds, a zygote stays after this run; `None`: until it is replaced.
    pub zygote_idle_s: Option<u64>,
}

/// Runs a program that may run at its level, in this slot. An error means that nothing ran.
pub(crate) fn execute(
    dependencies: &RunDependencies<'_>,
    slot: RunSlot,
    program: &Program,
    host: Option<Arc<dyn HostCalls>>,
    cancel: &dyn Fn() -> bool,
) -> Result<RunRecord, SandboxError> {
    let options = dependencies.options;
    let (own_dir, workdir) = directories(program, options)?;
    let mut limits = options.levels.of(program.level).clone();
    apply_timeout(&mut limits, program, options);
    let (mut request, version, text) = new_request(dependencies, program, limits.clone(), workdir.as_deref())
        .map_err(SandboxError::Broker)?;
    let mut pipes = RunPipes::new(&text)?;
    if let Some(stdin) = &program.stdin {
        pipes = pipes.with_stdin(stdin)?;
    }
    let mut calls = None;
    if let Some(host) = host {
        let (server, guest_end) = HostCallServer::new(host)?;
        calls = Some(server);
        pipes.extra = Some(guest_end);
        request.task.expect_host();
    }
    let guest = dependencies.broker.start_run(&request, pipes, cancel)?;
    let registration = dependencies.running.register(guest.pid());
    let watch_limits = WatchLimits {
        timeout: Duration::from_millis(limits.timeout_ms),
        tasks: if has_directory(program) { limits.processes } else { 0 },
        stdout_bytes: usize::try_from(limits.stdout_bytes).unwrap_or(usize::MAX),
        stderr_bytes: usize::try_from(limits.stderr_bytes).unwrap_or(usize::MAX),
        retention: if program.language == Language::Bash {
            OutputRetention::HeadAndTail
        } else {
            OutputRetention::Head
        },
        cancel,
        registration: Some(&registration),
    };
    let quota = workdir
        .map(|path| {
            let tree = TreeLimit::of(own_dir.is_some(), &limits, program.workdir_limit.as_ref());
            let quota = DirectoryQuota::new(&path, &limits, tree, options.kept_free)?;
            Ok(quota.ending_after(watch_limits.timeout))
        })
        .transpose()
        .map_err(|error: rustix::io::Errno| SandboxError::Watch(error.into()))?;
    let mut observed = watch(guest, &watch_limits, quota, calls)?;
    let subject = JudgedRun { level: program.level, language: program.language, version, limits: &limits };
    match (observed.left.take(), own_dir) {
        (Some(child), own_dir) => keep_until_gone(child, slot, own_dir, dependencies.remover),
        (None, Some(own_dir)) => own_dir.discard(dependencies.remover),
        (None, None) => {}
    }
    Ok(verdict::judge(subject, observed))
}

/// A call's own timeout replaces the level's, and the limit of processor time follows it.
fn apply_timeout(limits: &mut RunLimits, program: &Program, options: &SandboxOptions) {
    if let Some(timeout_ms) = program.timeout_ms {
        limits.timeout_ms = timeout_ms.clamp(1, options.max_timeout_ms.max(1));
        limits.cpu_s = limits.timeout_ms.div_ceil(1000) + 1;
    }
}

/// The private directory, if the run has one, and the directory to work in: the caller's or the private one
/// for lenient Python and commands, none for everything else.
fn directories(
    program: &Program,
    options: &SandboxOptions,
) -> Result<(Option<ScratchDir>, Option<PathBuf>), SandboxError> {
    if !has_directory(program) {
        return Ok((None, None));
    }
    if let Some(path) = &program.workdir {
        return check_workdir(path).map(|path| (None, Some(path)));
    }
    let own_dir = ScratchDir::make(&options.scratch_dir)?;
    let path = own_dir.path().to_owned();
    Ok((Some(own_dir), Some(path)))
}

/// The request to the broker, the version of the engine, and the text of the memory file.
fn new_request<'p>(
    dependencies: &RunDependencies<'_>,
    program: &'p Program,
    mut limits: RunLimits,
    workdir: Option<&Path>,
) -> Result<(RunRequest, String, Cow<'p, str>), String> {
    let landlock_abi = sys::landlock_abi().map_err(|error| format!("landlock: {error}"))?;
    let directory = workdir.unwrap_or(Path::new("/")).to_owned();
    let mut text = Cow::Borrowed(without_byte_order_mark(&program.code));
    let (files, task, version) = match program.language {
        Language::Bash => {
            let shell = shell::find_shell()?;
            let network = dependencies.options.shell_network;
            let files = shell::files(&directory, dependencies.options);
            let arguments = vec!["-c".to_owned(), text.into_owned()];
            let environment = shell::environment(&directory, &shell, &program.environment);
            text = CommandLine { arguments, environment }.to_text()?.into();
            let version = shell.display().to_string();
            let has_stdin = program.stdin.is_some();
            let task = ShellTask { shell, network, closed_ports: Vec::new(), has_stdin, memory_bytes: None };
            (files, RunTask::Shell(task), version)
        }
        Language::JavaScript => {
            let task = RunTask::JavaScript { language_check: program.language_check, has_host: false };
            (Vec::new(), task, javascript::VERSION.to_owned())
        }
        Language::Python => {
            let python = dependencies.python.current()?;
            let (all_extra, python) = (&python.extra, &python.interpreter);
            let extra = all_extra.of(program.level);
            if !extra.is_empty() {
                limits.address_space_bytes += python.extra_bytes();
            }
            let mut files = python.files(program.level, workdir, !extra.is_empty());
            files.extend(dependencies.options.read_rules(program.level));
            let zygote = Box::new(python.zygote_spec(program.level, all_extra, landlock_abi));
            let allowed = dependencies.options.levels_allowed();
            let most = allowed.last().copied().unwrap_or(Level::Strict);
            let max_level = program.max_level.map_or(most, |level| level.min(most));
            let (zygote_idle_s, language_check) = (dependencies.zygote_idle_s, program.language_check);
            let task = RunTask::Python { zygote, zygote_idle_s, max_level, language_check };
            (files, task, python.version())
        }
    };
    let level = program.level;
    let subdirectory = program.subdirectory.clone();
    let request = RunRequest { level, limits, landlock_abi, directory, subdirectory, files, task };
    Ok((request, version, text))
}

/// Whether a program has a directory, threads and processes of its own.
fn has_directory(program: &Program) -> bool {
    matches!(
        (program.language, program.level),
        (Language::Python, Level::Lenient) | (Language::Bash, Level::Shell)
    )
}
