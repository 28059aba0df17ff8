//! Opens a session: checks the specification, builds the request, starts the program.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::handle::SandboxSession;
use super::monitor::{SessionState, WatchedSession, monitor};
use super::registry::SessionRegistry;
use super::spec::SessionSpec;
use crate::broker::{BrokerClient, CommandLine, RunRequest, RunTask, ShellTask};
use crate::child_report::{MAX_REPORT_BYTES, SetupStage, failure, stage};
use crate::clock::now;
use crate::error::SandboxError;
use crate::languages::shell;
use crate::level::Level;
use crate::limits::RunLimits;
use crate::options::SandboxOptions;
use crate::policy::{PathAccess, PathRule, TCP_ABI};
use crate::process::wait_until_readable;
use crate::run::RunPipes;
use crate::scratch::{ScratchDir, ScratchRemover, check_workdir};
use crate::sys;

/// How long a program may take to start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// The poll interval while a program starts.
const START_POLL: Duration = Duration::from_millis(50);

/// The parts of a sandbox that a session needs.
pub(crate) struct SessionDependencies<'a> {
    pub broker: &'a BrokerClient,
    pub options: &'a SandboxOptions,
    pub remover: &'a Arc<ScratchRemover>,
    pub sessions: &'a SessionRegistry,
}

/// Whether this kernel can close TCP ports to sessions that use the network.
pub fn can_close_ports() -> bool {
    sys::landlock_abi().is_ok_and(|abi| abi >= TCP_ABI)
}

/// Opens a session. The caller has tested the level for commands.
pub(crate) fn open(
    spec: &SessionSpec,
    dependencies: &SessionDependencies<'_>,
) -> Result<SandboxSession, SandboxError> {
    check_spec(spec).map_err(refused)?;
    let options = dependencies.options;
    let slot = dependencies.sessions.take_slot(options.max_sessions)?;
    let (own_dir, workdir) = directories(spec, options)?;
    let (request, command) =
        new_request(spec, options, own_dir.as_ref().map(ScratchDir::path), workdir.as_deref())?;
    let (stdin_end, stdin) = pipe_with(PipeFlags::CLOEXEC)
        .map_err(|error| SandboxError::MakeDescriptor { what: "standard input", source: error.into() })?;
    let mut pipes = RunPipes::new(&command)?;
    pipes.extra = Some(stdin_end);
    let mut guest = dependencies.broker.start_run(&request, pipes, &|| false)?;
    let [stdout, stderr, frames, _result] = guest.take_pipes()?;
    await_program(&frames.into(), &spec.program)?;
    let unwatched = |error: Errno| SandboxError::Watch(error.into());
    for output in [&stdout, &stderr] {
        rustix::io::ioctl_fionbio(output, false).map_err(unwatched)?;
    }
    let pidfd = guest.pidfd().map_err(SandboxError::Watch)?;
    let state = Arc::new(SessionState::default());
    let own_path = own_dir.as_ref().map(|own_dir| own_dir.path().to_owned());
    let watched = WatchedSession { guest, limits: request.limits, own_dir: own_path };
    let monitor_state = Arc::clone(&state);
    let monitor = std::thread::Builder::new()
        .name("nanoclaw-session".to_owned())
        .spawn(move || monitor(watched, &monitor_state))
        .map_err(SandboxError::Watch)?;
    Ok(SandboxSession {
        stdin: Some(stdin.into()),
        stdout: Some(stdout.into()),
        stderr: Some(stderr.into()),
        state,
        pidfd,
        monitor: Some(monitor),
        own_dir,
        remover: Arc::clone(dependencies.remover),
        slot: Some(slot),
    })
}

fn refused(reason: String) -> SandboxError {
    SandboxError::OpenSession { reason }
}

/// Whether the specification can start a program.
fn check_spec(spec: &SessionSpec) -> Result<(), String> {
    let program = spec.program.to_string_lossy();
    if program.trim().is_empty() {
        return Err("it names no program".to_owned());
    }
    let mut arguments = spec.arguments.iter().map(String::as_str);
    let variables = spec.environment.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
    if program.contains('\0')
        || arguments.any(|word| word.contains('\0'))
        || variables.clone().any(|word| word.contains('\0'))
    {
        return Err("its program, its arguments or its environment hold a NUL byte".to_owned());
    }
    if spec.environment.iter().any(|(name, _)| name.is_empty() || name.contains('=')) {
        return Err("a variable of its environment has no proper name".to_owned());
    }
    Ok(())
}

/// The private directory, if the session has one, and the caller's.
fn directories(
    spec: &SessionSpec,
    options: &SandboxOptions,
) -> Result<(Option<ScratchDir>, Option<PathBuf>), SandboxError> {
    let workdir = spec.workdir.as_deref().map(check_workdir).transpose()?;
    let needs_own = workdir.is_none() || !spec.writable;
    let own_dir = needs_own.then(|| ScratchDir::make(&options.scratch_dir)).transpose()?;
    Ok((own_dir, workdir))
}

/// The limits of the level for commands, with the session's own limits applied.
fn limits(spec: &SessionSpec, options: &SandboxOptions) -> RunLimits {
    let unlimited_if_zero = |limit: u64| if limit == 0 { u64::MAX } else { limit };
    RunLimits {
        timeout_ms: u64::MAX,
        cpu_s: u64::MAX,
        address_space_bytes: unlimited_if_zero(spec.limits.address_space_bytes),
        open_files: spec.limits.open_files,
        processes: spec.limits.processes,
        file_size_bytes: spec.limits.file_size_bytes,
        ..options.levels.of(Level::Shell).clone()
    }
}

/// The request to the broker, and the text of the memory file.
fn new_request(
    spec: &SessionSpec,
    options: &SandboxOptions,
    own_dir: Option<&Path>,
    workdir: Option<&Path>,
) -> Result<(RunRequest, String), SandboxError> {
    let landlock_abi = sys::landlock_abi().map_err(|error| refused(format!("landlock: {error}")))?;
    if !spec.closed_ports.is_empty() && landlock_abi < TCP_ABI {
        return Err(refused("this kernel cannot close TCP ports; Linux 6.7 can".to_owned()));
    }
    let shell = shell::find_shell().map_err(refused)?;
    let mut files = shell::system_files(options, spec.network);
    files.extend(own_dir.map(|path| PathRule { path: path.to_owned(), access: PathAccess::OwnTree }));
    let scratch = options.scratch_dir.canonicalize().unwrap_or_else(|_| options.scratch_dir.clone());
    let mut writable = WritableDirs { own: own_dir.into_iter().collect(), scratch };
    match workdir {
        Some(path) if spec.writable => {
            if writable.overlaps(path) {
                let reason = "the directories of other programs lie in it".to_owned();
                return Err(SandboxError::BadWorkdir { path: path.to_owned(), reason });
            }
            files.push(PathRule { path: path.to_owned(), access: PathAccess::OwnTree });
            writable.own.push(path);
        }
        Some(path) if spec.is_granted(path) => {}
        Some(path) => files.push(readable_rule(path, &writable).map_err(refused)?),
        None => {}
    }
    for path in &spec.writable_paths {
        files.push(writable_rule(path, &writable.scratch, false).map_err(refused)?);
    }
    for path in &spec.program_dirs {
        files.push(writable_rule(path, &writable.scratch, true).map_err(refused)?);
    }
    for path in &spec.readable {
        files.push(readable_rule(path, &writable).map_err(refused)?);
    }
    let home = own_dir.or(workdir).unwrap_or(Path::new("/")).to_owned();
    let environment = shell::environment(&home, &shell, &spec.environment);
    let command = CommandLine { arguments: spec.arguments.clone(), environment };
    let task = ShellTask {
        shell: spec.program.clone(),
        network: spec.network,
        closed_ports: spec.closed_ports.clone(),
        has_stdin: true,
        memory_bytes: Some(spec.limits.memory_bytes),
    };
    let request = RunRequest {
        level: Level::Shell,
        limits: limits(spec, options),
        landlock_abi,
        directory: workdir.map_or(home, Path::to_owned),
        subdirectory: None,
        files,
        task: RunTask::Shell(task),
    };
    Ok((request, command.to_text().map_err(refused)?))
}

/// The rule for a path outside of the session's own directories.
fn readable_rule(path: &Path, writable: &WritableDirs<'_>) -> Result<PathRule, String> {
    let bad = |reason: &str| Err(format!("cannot let it read '{}': {reason}", path.display()));
    if !path.is_absolute() {
        return bad("the path is not absolute");
    }
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(error) => return bad(&error.to_string()),
    };
    if real.parent().is_none() {
        return bad("it is the root directory");
    }
    if writable.overlaps(&real) {
        return bad("it holds a directory that this session or another program may write to, or lies in one");
    }
    let access = if real.is_dir() { PathAccess::ExecuteTree } else { PathAccess::ExecuteFile };
    Ok(PathRule { path: real, access })
}

/// The rule for a path outside of the session's own directories that it may write to.
fn writable_rule(path: &Path, scratch: &Path, runs_programs: bool) -> Result<PathRule, String> {
    let bad = |reason: &str| Err(format!("cannot let it write to '{}': {reason}", path.display()));
    let real = match path.canonicalize() {
        Ok(real) if path.is_absolute() => real,
        Ok(_) => return bad("the path is not absolute"),
        Err(error) => return bad(&error.to_string()),
    };
    if real.parent().is_none() {
        return bad("it is the root directory");
    }
    if scratch.starts_with(&real) {
        return bad("the directories of other programs lie in it");
    }
    let access = match (real.is_dir(), runs_programs) {
        (true, true) => PathAccess::OwnProgramTree,
        (true, false) => PathAccess::OwnTree,
        (false, _) => PathAccess::WriteFile,
    };
    Ok(PathRule { path: real, access })
}

/// The directories that sessions may write to. Programs in them cannot be executed, and other sessions cannot
/// read them.
struct WritableDirs<'a> {
    /// This session's directories.
    own: Vec<&'a Path>,
    /// The parent of all private directories.
    scratch: PathBuf,
}

impl WritableDirs<'_> {
    /// Whether a canonical path is, contains or lies in one of them.
    fn overlaps(&self, real: &Path) -> bool {
        let is_writable = self.own.iter().any(|dir| dir.starts_with(real) || real.starts_with(dir));
        is_writable || self.scratch.starts_with(real)
    }
}

/// Waits until the program runs: the frames pipe is closed when it starts.
fn await_program(frames: &File, program: &Path) -> Result<(), SandboxError> {
    let start = now();
    let mut report = Vec::new();
    let mut chunk = [0; 1024];
    loop {
        wait_until_readable(frames, START_POLL).map_err(|error| SandboxError::Watch(error.into()))?;
        match rustix::io::read(frames, &mut chunk) {
            Ok(0) => break,
            Ok(length) if report.len() < MAX_REPORT_BYTES => {
                report.extend_from_slice(chunk.get(..length).unwrap_or_default());
            }
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(SandboxError::Watch(error.into())),
        }
        if start.elapsed() > START_TIMEOUT {
            return Err(refused("its start takes too long".to_owned()));
        }
    }
    let reason = match (stage(&report), failure(&report)) {
        (SetupStage::Ran, None) => return Ok(()),
        (_, Some(message)) => message,
        (_, None) => "it ended before its policy was in force".to_owned(),
    };
    Err(refused(format!("'{}': {reason}", program.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writable_directory_is_not_readable_for_programs() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().canonicalize().unwrap().join("own");
        std::fs::create_dir_all(own.join("below")).unwrap();
        let writable = WritableDirs { own: vec![&own], scratch: PathBuf::from("/var/tmp") };
        for bad in [
            home.path(),
            &own,
            &own.join("below"),
            Path::new("/"),
            Path::new("usr"),
            Path::new("/none"),
            Path::new("/var"),
        ] {
            assert!(readable_rule(bad, &writable).is_err(), "{}", bad.display());
        }
        assert_eq!(readable_rule(Path::new("/usr"), &writable).unwrap().access, PathAccess::ExecuteTree);
    }

    #[test]
    fn a_written_path_is_no_root_and_holds_no_directories_of_others() {
        let home = tempfile::tempdir().unwrap();
        let real = home.path().canonicalize().unwrap();
        let (scratch, file) = (real.join("scratch"), real.join("file"));
        std::fs::create_dir(&scratch).unwrap();
        std::fs::write(&file, "").unwrap();
        let access = |path: &Path, runs| writable_rule(path, &scratch, runs).map(|rule| rule.access);
        assert_eq!(access(&file, true), Ok(PathAccess::WriteFile));
        assert_eq!(access(&scratch.join("none"), true).ok(), None);
        for bad in [Path::new("/"), &real, &scratch, Path::new("usr")] {
            assert!(access(bad, false).is_err(), "{}", bad.display());
        }
        let beside = real.join("beside");
        std::fs::create_dir(&beside).unwrap();
        assert_eq!(access(&beside, false), Ok(PathAccess::OwnTree));
        assert_eq!(access(&beside, true), Ok(PathAccess::OwnProgramTree));
    }

    #[test]
    fn an_invalid_session_spec_is_refused() {
        let with = |change: fn(&mut SessionSpec)| {
            let mut spec = SessionSpec::new("cat", &[]);
            change(&mut spec);
            check_spec(&spec)
        };
        assert!(with(|_| {}).is_ok());
        assert!(with(|spec| spec.program = PathBuf::new()).is_err());
        assert!(with(|spec| spec.arguments.push("a\0b".to_owned())).is_err());
        assert!(with(|spec| spec.environment.push(("A=B".to_owned(), String::new()))).is_err());
        assert!(with(|spec| spec.environment.push((String::new(), String::new()))).is_err());
    }
}
