//! The opening of a session: what is asked for becomes an order, or words that say why not.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::life::{self, Life, Watched};
use super::{SandboxSession, SessionSpec};
use crate::broker::{Link, Order, ShellTask, Task, wait_until_readable};
use crate::clock::now;
use crate::error::SandboxError;
use crate::frame::{self, Stage};
use crate::guest::Ends;
use crate::level::Level;
use crate::limits::RunLimits;
use crate::options::SandboxOptions;
use crate::policy::{Access, FileRule};
use crate::scratch::{self, Remover, Scratch};
use crate::shell;
use crate::sys;

/// How long a program may take to be started on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// How often a program that is being started is looked at.
const START_PAUSE: Duration = Duration::from_millis(50);

/// The open ones, and the broker of those with the network where commands have none.
#[derive(Debug)]
pub(crate) struct Sessions {
    count: Arc<AtomicUsize>,
    /// A broker of its own: the other one has left the network for good.
    pub(crate) online: Link,
    /// Whether the policy holds there, too.
    pub(crate) online_holds: OnceLock<Result<(), String>>,
}

/// One of the places for sessions, given back when dropped.
#[derive(Debug)]
pub(super) struct Place(Arc<AtomicUsize>);

/// What a session is opened with.
pub(crate) struct Surroundings<'a> {
    pub link: &'a Link,
    pub options: &'a SandboxOptions,
    pub remover: &'a Arc<Remover>,
    pub sessions: &'a Sessions,
}

impl Sessions {
    /// None yet.
    pub(crate) fn new(options: &SandboxOptions) -> Self {
        Self {
            count: Arc::default(),
            online: Link::new(&options.child_exe, true),
            online_holds: OnceLock::new(),
        }
    }

    fn take(&self, most: usize) -> Result<Place, SandboxError> {
        let one_more = |count| if count < most { Some(count + 1) } else { None };
        match self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more) {
            Ok(_) => Ok(Place(Arc::clone(&self.count))),
            Err(_) => Err(SandboxError::TooManySessions { most }),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Opens a session at a level that holds.
pub(crate) fn open(wanted: &SessionSpec, around: &Surroundings<'_>) -> Result<SandboxSession, SandboxError> {
    check_words(wanted).map_err(refused)?;
    let place = around.sessions.take(around.options.max_sessions)?;
    let (own, workdir) = directories(wanted, around.options)?;
    let order = order(wanted, around.options, own.as_ref().map(Scratch::path), workdir.as_deref())?;
    let (stdin_end, stdin) = pipe_with(PipeFlags::CLOEXEC)
        .map_err(|error| SandboxError::MakeDescriptor { what: "standard input", source: error.into() })?;
    let mut ends = Ends::make("")?;
    ends.extra = Some(stdin_end);
    let mut guest = around.link.run(&order, ends, &|| false)?;
    let [stdout, stderr, frames, _words] = guest.take_pipes()?;
    await_program(&frames.into(), &wanted.program)?;
    let unwatched = |error: Errno| SandboxError::Watch(error.into());
    for output in [&stdout, &stderr] {
        rustix::io::ioctl_fionbio(output, false).map_err(unwatched)?;
    }
    let pidfd = guest.pidfd().map_err(SandboxError::Watch)?;
    let life = Arc::new(Life::default());
    let subject = Watched { guest, limits: order.limits, own: own.as_ref().map(|own| own.path().to_owned()) };
    let told = Arc::clone(&life);
    let watcher = std::thread::Builder::new()
        .name("nanoclaw-session".to_owned())
        .spawn(move || life::watch(subject, &told))
        .map_err(SandboxError::Watch)?;
    Ok(SandboxSession {
        stdin: Some(stdin.into()),
        stdout: Some(stdout.into()),
        stderr: Some(stderr.into()),
        life,
        pidfd,
        watcher: Some(watcher),
        own,
        remover: Arc::clone(around.remover),
        _place: place,
    })
}

fn refused(reason: String) -> SandboxError {
    SandboxError::OpenSession { reason }
}

/// What no program could be started with.
fn check_words(wanted: &SessionSpec) -> Result<(), String> {
    let program = wanted.program.to_string_lossy();
    if program.trim().is_empty() {
        return Err("it names no program".to_owned());
    }
    let mut words = wanted.arguments.iter().map(String::as_str);
    let named = wanted.environment.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
    if program.contains('\0')
        || words.any(|word| word.contains('\0'))
        || named.clone().any(|word| word.contains('\0'))
    {
        return Err("its program, its arguments or its environment hold a NUL byte".to_owned());
    }
    if wanted.environment.iter().any(|(name, _)| name.is_empty() || name.contains('=')) {
        return Err("a variable of its environment has no proper name".to_owned());
    }
    Ok(())
}

/// The private directory, if it has one, and the caller's.
fn directories(
    wanted: &SessionSpec,
    options: &SandboxOptions,
) -> Result<(Option<Scratch>, Option<PathBuf>), SandboxError> {
    let workdir = wanted.workdir.as_deref().map(scratch::check_workdir).transpose()?;
    let has_own = workdir.is_none() || !wanted.writable;
    let own = has_own.then(|| Scratch::make(&options.scratch_dir)).transpose()?;
    Ok((own, workdir))
}

/// The numbers of the level for commands, with the session's own worked in.
fn limits(wanted: &SessionSpec, options: &SandboxOptions) -> RunLimits {
    let bounded = |number: u64| if number == 0 { u64::MAX } else { number };
    RunLimits {
        timeout_ms: u64::MAX,
        cpu_s: u64::MAX,
        address_space_bytes: bounded(wanted.limits.address_space_bytes),
        open_files: wanted.limits.open_files,
        processes: wanted.limits.processes,
        file_size_bytes: wanted.limits.file_size_bytes,
        ..options.levels.of(Level::Shell).clone()
    }
}

fn order(
    wanted: &SessionSpec,
    options: &SandboxOptions,
    own: Option<&Path>,
    workdir: Option<&Path>,
) -> Result<Order, SandboxError> {
    let landlock_abi = sys::landlock_abi().map_err(|error| refused(format!("landlock: {error}")))?;
    let shell = shell::find_shell().map_err(refused)?;
    let mut files = shell::system_files(wanted.network);
    files.extend(own.map(|own| FileRule { path: own.to_owned(), access: Access::OwnTree }));
    let scratch = options.scratch_dir.canonicalize().unwrap_or_else(|_| options.scratch_dir.clone());
    let mut written = Own { writes: own.into_iter().collect(), scratch };
    match workdir {
        Some(path) if wanted.writable => {
            if written.overlaps(path) {
                let reason = "the directories of other programs lie in it".to_owned();
                return Err(SandboxError::BadWorkdir { path: path.to_owned(), reason });
            }
            files.push(FileRule { path: path.to_owned(), access: Access::OwnTree });
            written.writes.push(path);
        }
        Some(path) => files.push(readable(path, &written).map_err(refused)?),
        None => {}
    }
    for path in &wanted.readable {
        files.push(readable(path, &written).map_err(refused)?);
    }
    let home = own.or(workdir).unwrap_or(Path::new("/")).to_owned();
    let task = ShellTask {
        environment: shell::environment(&home, &shell, &wanted.environment),
        shell: wanted.program.clone(),
        network: wanted.network,
        has_stdin: true,
        arguments: Some(wanted.arguments.clone()),
        memory_bytes: Some(wanted.limits.memory_bytes),
    };
    Ok(Order {
        level: Level::Shell,
        limits: limits(wanted, options),
        landlock_abi,
        directory: workdir.map_or(home, Path::to_owned),
        subdirectory: None,
        files,
        task: Task::Shell(task),
    })
}

/// The rule for a path outside.
fn readable(path: &Path, own: &Own<'_>) -> Result<FileRule, String> {
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
    if own.overlaps(&real) {
        return bad("it holds a directory that this session or another program may write to, or lies in one");
    }
    let access = if real.is_dir() { Access::ExecuteTree } else { Access::ExecuteFile };
    Ok(FileRule { path: real, access })
}

/// What is written to: it can hold no programs, and nobody else's directories are shown with it.
struct Own<'a> {
    /// The session's own.
    writes: Vec<&'a Path>,
    /// What everybody's private directories lie in.
    scratch: PathBuf,
}

impl Own<'_> {
    /// Whether a real path is, holds or lies in what is written to.
    fn overlaps(&self, real: &Path) -> bool {
        let own = self.writes.iter().any(|own| own.starts_with(real) || real.starts_with(own));
        own || self.scratch.starts_with(real)
    }
}

/// Waits until the program itself runs: the pipe of frames closes with its start.
fn await_program(frames: &File, program: &Path) -> Result<(), SandboxError> {
    let start = now();
    let mut said = Vec::new();
    let mut chunk = [0; 1024];
    loop {
        wait_until_readable(frames, START_PAUSE).map_err(|error| SandboxError::Watch(error.into()))?;
        match rustix::io::read(frames, &mut chunk) {
            Ok(0) => break,
            Ok(length) if said.len() < frame::MAX_REPORT_BYTES => {
                said.extend_from_slice(chunk.get(..length).unwrap_or_default());
            }
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(SandboxError::Watch(error.into())),
        }
        if start.elapsed() > START_TIMEOUT {
            return Err(refused("its start takes too long".to_owned()));
        }
    }
    let reason = match (frame::stage(&said), frame::failure(&said)) {
        (Stage::Ran, None) => return Ok(()),
        (_, Some(message)) => message,
        (_, None) => "it ended before its policy was in force".to_owned(),
    };
    Err(refused(format!("'{}': {reason}", program.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_to_holds_no_programs() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().canonicalize().unwrap().join("own");
        std::fs::create_dir_all(own.join("below")).unwrap();
        let written = Own { writes: vec![&own], scratch: PathBuf::from("/var/tmp") };
        for bad in [
            home.path(),
            &own,
            &own.join("below"),
            Path::new("/"),
            Path::new("usr"),
            Path::new("/none"),
            Path::new("/var"),
        ] {
            assert!(readable(bad, &written).is_err(), "{}", bad.display());
        }
        assert_eq!(readable(Path::new("/usr"), &written).unwrap().access, Access::ExecuteTree);
    }

    #[test]
    fn words_that_start_nothing_are_refused() {
        let with = |change: fn(&mut SessionSpec)| {
            let mut order = SessionSpec::new("cat", &[]);
            change(&mut order);
            check_words(&order)
        };
        assert!(with(|_| {}).is_ok());
        assert!(with(|order| order.program = PathBuf::new()).is_err());
        assert!(with(|order| order.arguments.push("a\0b".to_owned())).is_err());
        assert!(with(|order| order.environment.push(("A=B".to_owned(), String::new()))).is_err());
        assert!(with(|order| order.environment.push((String::new(), String::new()))).is_err());
    }
}
