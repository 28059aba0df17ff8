//! Shared by the tests: a sandbox with this crate's own child, the programs, a thread pool, checks for
//! leftovers.

pub(crate) mod attacks;
pub(crate) mod broker;
pub(crate) mod canary;
pub(crate) mod ordinary_user;
pub(crate) mod session;
pub(crate) mod stuck;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use nanoclaw_sandbox::{Language, LevelLimits, Program, Sandbox, SandboxOptions};

static TURN: RwLock<()> = RwLock::new(());

/// For tests that count this process's children and descriptors: no other test runs meanwhile.
pub(crate) fn exclusive() -> RwLockWriteGuard<'static, ()> {
    TURN.write().unwrap_or_else(PoisonError::into_inner)
}

/// For all other tests: they may run at the same time.
pub(crate) fn shared() -> RwLockReadGuard<'static, ()> {
    TURN.read().unwrap_or_else(PoisonError::into_inner)
}

/// A wall clock limit that a run reaches only if it hangs, on a loaded machine, too.
const PATIENT_MS: u64 = 60_000;

/// Within this time happens what must happen soon. It only tells "soon" from "never": a loaded machine takes
/// seconds for what else takes milliseconds, and the programs of such tests run for 100 seconds.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Options with this crate's own child, with private directories in `scratch` and with patient time limits.
pub(crate) fn options(scratch: &Path) -> SandboxOptions {
    SandboxOptions {
        levels: levels_with_timeout(PATIENT_MS),
        child_exe: ordinary_user::child_exe(),
        scratch_dir: scratch.to_owned(),
        ..SandboxOptions::default()
    }
}

/// A sandbox with [`options`].
pub(crate) fn sandbox(scratch: &Path) -> Sandbox {
    Sandbox::new(options(scratch)).unwrap()
}

/// Limits with another wall clock at every level, and with the processor time that belongs to it.
pub(crate) fn levels_with_timeout(timeout_ms: u64) -> LevelLimits {
    let mut levels = LevelLimits::default();
    for limits in [&mut levels.strict, &mut levels.standard, &mut levels.lenient, &mut levels.shell] {
        limits.timeout_ms = timeout_ms;
        limits.cpu_s = timeout_ms.div_ceil(1_000) + 1;
    }
    levels
}

/// One program of a suite.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) language: Language,
    pub(crate) code: String,
    pub(crate) path: PathBuf,
}

impl Sample {
    /// The value of a header line, `None` without it.
    pub(crate) fn header(&self, key: &str) -> Option<&str> {
        let mut lines = self.code.lines().take_while(|line| line.starts_with('#') || line.starts_with("//"));
        let value = lines.find_map(|line| line.trim_start_matches(['#', '/', ' ']).strip_prefix(key));
        value.map(str::trim)
    }
}

/// The programs of a suite (`hostile`, `benign`) in one language, by name.
pub(crate) fn samples(suite: &str, language: Language) -> Vec<Sample> {
    let extension = match language {
        Language::Python => "py",
        Language::JavaScript => "js",
        Language::Bash => "sh",
    };
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(suite).join(extension);
    let mut samples: Vec<Sample> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| Sample {
            name: path.file_name().unwrap().to_string_lossy().into_owned(),
            language,
            code: std::fs::read_to_string(&path).unwrap(),
            path,
        })
        .collect();
    samples.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(samples.len() > 10, "the {suite} programs are missing");
    samples
}

/// Runs `work` on every item, on several threads, and collects the results.
pub(crate) fn in_parallel<T: Send, R: Send>(
    items: Vec<T>,
    threads: usize,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let queue = Mutex::new(items);
    let results = Mutex::new(Vec::new());
    let next = || queue.lock().unwrap().pop();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = next() {
                    let result = work(item);
                    results.lock().unwrap().push(result);
                }
            });
        }
    });
    results.into_inner().unwrap()
}

/// A Python program at a level.
pub(crate) fn python(level: nanoclaw_sandbox::Level, code: &str) -> Program {
    Program::new(Language::Python, level, code)
}

/// A JavaScript program at a level.
pub(crate) fn javascript(level: nanoclaw_sandbox::Level, code: &str) -> Program {
    Program::new(Language::JavaScript, level, code)
}

/// Fails if a guest is alive or a private directory is left. Waits up to ten seconds for the remover, and for
/// an interpreter that is on its way to become a zygote.
pub(crate) fn assert_nothing_left(scratch: &Path) {
    let (mut left, mut alive): (Vec<PathBuf>, Vec<String>) = Default::default();
    for _ in 0..200 {
        left = std::fs::read_dir(scratch).unwrap().map(|entry| entry.unwrap().path()).collect();
        alive = guests();
        if left.is_empty() && alive.is_empty() {
            break;
        }
        #[expect(clippy::disallowed_methods, reason = "the remover works in real time")]
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(left.is_empty(), "left behind: {left:?}");
    assert_eq!(alive, Vec::<String>::new(), "processes left behind");
}

/// The descendants of this process by id and name, including zombies, without brokers, zygotes and spare
/// children.
pub(crate) fn guests() -> Vec<String> {
    let infrastructure = ["nanoclaw-broker", "nanoclaw-zygote", "nanoclaw-spare", "nanoclaw-ready"];
    let named = descendants(std::process::id()).into_iter().map(|pid| (pid, name_of(pid)));
    named
        .filter(|(_, name)| !infrastructure.contains(&name.as_str()))
        .map(|(pid, name)| format!("{pid} {name}"))
        .collect()
}

/// The descendants of this process with this name.
pub(crate) fn processes_named(name: &str) -> Vec<u32> {
    descendants(std::process::id()).into_iter().filter(|pid| name_of(*pid) == name).collect()
}

/// A process's name, empty if there is no such process.
pub(crate) fn name_of(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

/// All processes that descend from one.
pub(crate) fn descendants(ancestor: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut pending = vec![ancestor];
    while let Some(pid) = pending.pop() {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let list = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children: Vec<u32> = list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
            found.extend(&children);
            pending.extend(children);
        }
    }
    found
}

/// How many descriptors this process has open.
pub(crate) fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Waits up to a minute for a condition.
#[expect(clippy::disallowed_methods, reason = "the tests wait for other processes")]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("timed out: {what}");
}

/// One process, identified by id and start time: the id alone may be reused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) name: String,
    start: String,
}

impl Process {
    /// The process with this id, unless it is dead.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let is_dead = ["Z", "X"].contains(&fields[0]);
        (!is_dead).then(|| Self { pid, name: name_of(pid), start: fields[19].to_owned() })
    }

    /// All that descend from one.
    pub(crate) fn below(ancestor: u32) -> Vec<Self> {
        descendants(ancestor).into_iter().filter_map(Self::of).collect()
    }

    pub(crate) fn is_alive(&self) -> bool {
        Self::of(self.pid).is_some_and(|now| now.start == self.start)
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }
}
