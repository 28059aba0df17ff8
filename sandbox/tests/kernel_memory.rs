//! Memory that the kernel holds for a program and that no rlimit counts: buffers of sockets and pipes, locks,
//! watches, descriptors in flight. The program that takes it ends, and no other.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nanoclaw_sandbox::{Language, Level, Program, RunRecord, RunStatus, Sandbox};

use crate::support;

const MIB: u64 = 1 << 20;
/// The memory of the machine that the tests imitate, and what must be left of it.
const MACHINE: u64 = 512 * MIB;
const LEAST_AVAILABLE: u64 = 64 * MIB;
/// Names the cgroup of the process that runs in it.
const CGROUP: &str = "NANOCLAW_TEST_MEMORY_CGROUP";

/// The start of each program: `fork` makes 20 processes, `fill` writes until the kernel takes no more.
const TOOLS: &str = r"
import fcntl, os, select, socket, struct, sys, time
def fork(count=20):
    for number in range(count):
        if os.fork() == 0: return number
    time.sleep(50); sys.exit()
def fill(descriptor):
    os.set_blocking(descriptor, False)
    try:
        while True: os.write(descriptor, b'x' * 65536)
    except OSError: pass
def pair():
    ends = socket.socketpair()
    for end in ends:
        try: end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        except OSError: pass
        fill(end.fileno())
    return ends
def at_most(count, make):
    kept = []
    try:
        for _ in range(count): kept.append(make())
    except OSError: pass
    return kept
";

const SOCKETS: &str = "fork(); kept = at_most(120, pair); time.sleep(50)";
const LOCKS: &str = "
number = fork()
def lock():
    file = os.open('lock%d' % number, os.O_CREAT | os.O_RDWR, 0o600)
    for place in range(200_000, 0, -1): fcntl.lockf(file, fcntl.LOCK_EX, 1, place * 2)
lock(); time.sleep(50)";
const PIPES: &str = "
def pipe():
    ends = os.pipe()
    try: fcntl.fcntl(ends[1], 1031, 1 << 20)
    except OSError: pass
    fill(ends[1])
    return ends
number = fork(); kept = at_most(120, pipe); time.sleep(50)";
const WATCHES: &str = "
fork(100)
files = at_most(120, lambda: os.eventfd(0) if hasattr(os, 'eventfd') else os.pipe()[0])
polls = at_most(120, select.epoll)
for poll in polls:
    for file in files: poll.register(file, 1)
time.sleep(50)";
/// Full sockets whose only descriptors wait in another socket.
const IN_FLIGHT: &str = "
carriers = [socket.socketpair() for _ in range(60)]
for carrier, _ in carriers:
    def send():
        ends = pair()
        socket.send_fds(carrier, [b'x'], [end.fileno() for end in ends])
        for end in ends: end.close()
    at_most(100, send)
fork(); kept = at_most(30, pair); time.sleep(50)";
const RESIDENT: &str = "fork(); kept = b'x' * (100 << 20); time.sleep(50)";

fn command(tools_and_code: &str, workdir: &Path) -> Program {
    std::fs::write(workdir.join("program.py"), format!("{TOOLS}{tools_and_code}")).unwrap();
    let mut program = Program::new(Language::Bash, Level::Shell, "exec python3 program.py");
    program.workdir = Some(workdir.to_owned());
    program
}

fn assert_out_of_memory(record: &RunRecord, limits: &[&str]) {
    assert_eq!(record.status, RunStatus::Oom, "{record:#?}");
    assert!(limits.contains(&record.limit.as_deref().unwrap_or_default()), "{record:#?}");
}

#[test]
fn p8_a_program_ends_when_the_kernel_holds_much_memory_for_it() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    assert!(sandbox.report().able());
    for code in [SOCKETS, LOCKS] {
        let workdir = tempfile::tempdir().unwrap();
        let record = sandbox.run(&command(code, workdir.path()), &|| false);
        assert_out_of_memory(&record, &["kernel_memory", "machine_memory"]);
    }
    let locks = "import fcntl, os\nfile = os.open('lock', os.O_CREAT | os.O_RDWR, 0o600)\n\
                 for place in range(2_000_000, 0, -1): fcntl.lockf(file, fcntl.LOCK_EX, 1, place * 2)";
    let record = sandbox.run(&support::python(Level::Lenient, locks), &|| false);
    assert_out_of_memory(&record, &["kernel_memory", "machine_memory"]);
}

#[test]
fn p8_the_kernel_keeps_no_large_buffers_and_no_hidden_locks_for_a_program() {
    let _turn = support::shared();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    let code = "
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, act):
    try: print(name, 'done' if act() != -1 else 'refused')
    except OSError as error: print(name, 'refused' if error.errno in (1, 38) else error)
ends, (reader, writer) = socket.socketpair(), os.pipe()
for option in ('SO_SNDBUF', 'SO_RCVBUF'):
    attempt(option, lambda: ends[0].setsockopt(socket.SOL_SOCKET, getattr(socket, option), 1 << 20))
attempt('a large pipe', lambda: fcntl.fcntl(writer, 1031, 1 << 20))
attempt('a larger pipe', lambda: fcntl.fcntl(writer, 1031, 65537))
attempt('a usual pipe', lambda: fcntl.fcntl(writer, 1031, 65536))
attempt('a small pipe', lambda: fcntl.fcntl(writer, 1031, 4096))
file = os.open('lock', os.O_CREAT | os.O_RDWR, 0o600)
attempt('OFD lock', lambda: fcntl.fcntl(file, 37, struct.pack('hhqqi', 1, 0, 0, 1, 0)))
attempt('POSIX lock', lambda: fcntl.lockf(file, fcntl.LOCK_EX, 1, 10))
attempt('flock', lambda: fcntl.flock(file, fcntl.LOCK_EX))
attempt('inotify', lambda: libc.inotify_init1(0))
def clone(flags):
    pid = libc.syscall(56, flags | 17, 0, 0, 0, 0)
    if pid == 0: os._exit(0)
    return pid
if os.uname().machine == 'x86_64':
    attempt('a process with the same descriptors', lambda: clone(0x400))
    attempt('a process', lambda: clone(0))
attempt('descriptors of one thread', lambda: libc.syscall(436, 900, 901, 2))
attempt('descriptors to close', lambda: libc.syscall(436, 900, 901, 0))
";
    let workdir = tempfile::tempdir().unwrap();
    let record = sandbox.run(&command(code, workdir.path()), &|| false);
    assert_eq!(record.status, RunStatus::Ok, "{record:#?}");
    let done = |line: &str| line.ends_with(" done");
    for (line, name) in record.stdout.lines().map(|line| (line, line.rsplit_once(' ').unwrap().0)) {
        let ordinary =
            ["a usual pipe", "a small pipe", "POSIX lock", "flock", "a process", "descriptors to close"];
        assert_eq!(done(line), ordinary.contains(&name), "{line}");
        assert!(done(line) || line.ends_with(" refused"), "{line}");
    }
    assert!(record.stdout.lines().count() >= 12, "{record:#?}");
}

#[test]
fn databases_lock_their_files() {
    let _turn = support::shared();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    let code = "
import sqlite3
for mode in ('delete', 'wal'):
    store = sqlite3.connect(mode + '.db')
    store.execute('pragma journal_mode=' + mode)
    store.execute('create table t (n)')
    for n in range(20):
        with store: store.execute('insert into t values (?)', (n,))
    other = sqlite3.connect(mode + '.db')
    print(other.execute('select sum(n) from t').fetchone()[0])
";
    let workdir = tempfile::tempdir().unwrap();
    let records = [
        sandbox.run(&support::python(Level::Lenient, code), &|| false),
        sandbox.run(&command(code, workdir.path()), &|| false),
    ];
    for record in records {
        assert_eq!((record.status, record.stdout.as_str()), (RunStatus::Ok, "190\n190\n"), "{record:#?}");
    }
}

/// A cgroup with the memory of a small machine. Version 1 counts no locks in it.
struct MemoryCgroup {
    path: PathBuf,
    is_v2: bool,
}

impl MemoryCgroup {
    /// Below one of the trees of this machine; `None` without the right to make one.
    fn make() -> Option<Self> {
        let name = format!("nanoclaw-memory-test-{}", std::process::id());
        let roots =
            [("/sys/fs/cgroup", true), ("/sys/fs/cgroup/unified", true), ("/sys/fs/cgroup/memory", false)];
        roots.into_iter().find_map(|(root, is_v2)| {
            let cgroup = Self { path: Path::new(root).join(&name), is_v2 };
            std::fs::create_dir(&cgroup.path).ok()?;
            let limit = if is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
            let file = std::fs::OpenOptions::new().write(true).open(cgroup.path.join(limit));
            let written = file
                .and_then(|mut file| std::io::Write::write_all(&mut file, MACHINE.to_string().as_bytes()));
            written.is_ok().then_some(cgroup)
        })
    }

    fn of(path: PathBuf) -> Self {
        let is_v2 = path.join("memory.max").exists();
        Self { path, is_v2 }
    }

    fn enter(&self) {
        std::fs::write(self.path.join("cgroup.procs"), "0").unwrap();
    }

    /// What is left, with the pages of files that the kernel can drop.
    fn available(&self) -> u64 {
        let (current, stat) = if self.is_v2 {
            ("memory.current", ["inactive_file ", "active_file "])
        } else {
            ("memory.usage_in_bytes", ["total_inactive_file ", "total_active_file "])
        };
        let read = |file: &str| std::fs::read_to_string(self.path.join(file)).unwrap();
        let used: u64 = read(current).trim().parse().unwrap();
        let lines = read("memory.stat");
        let files = lines.lines().filter_map(|line| stat.iter().find_map(|name| line.strip_prefix(name)));
        let files: u64 = files.map(|bytes| bytes.parse::<u64>().unwrap()).sum();
        (MACHINE + files).saturating_sub(used)
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        if std::env::var_os(CGROUP).is_none() {
            support::eventually("the cgroup is empty", || {
                std::fs::remove_dir(&self.path).is_ok() || !self.path.exists()
            });
        }
    }
}

/// Runs in a process of its own: the cgroup is around this process, its broker and all programs.
#[test]
#[ignore = "needs a machine that does nothing else: scripts/test --long runs it"]
#[expect(clippy::disallowed_methods, reason = "the test starts itself")]
fn p8_on_a_small_machine_only_the_program_that_takes_its_memory_ends() {
    let name = "kernel_memory::p8_on_a_small_machine_only_the_program_that_takes_its_memory_ends";
    if let Some(path) = std::env::var_os(CGROUP) {
        return in_small_machine(&MemoryCgroup::of(path.into()));
    }
    let _turn = support::exclusive();
    let Some(cgroup) = MemoryCgroup::make() else {
        return eprintln!("SKIPPED: {name}: a cgroup with a memory limit needs root and a writable tree");
    };
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let child = child
        .args(["--exact", name, "--include-ignored", "--nocapture", "--test-threads=1"])
        .env(CGROUP, &cgroup.path);
    let output = child.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{errors}");
}

fn in_small_machine(cgroup: &MemoryCgroup) {
    cgroup.enter();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    assert!(sandbox.report().able());
    let cases = [
        ("sockets", SOCKETS, true),
        ("descriptors in flight", IN_FLIGHT, true),
        ("locks", LOCKS, true),
        ("watches", WATCHES, true),
        ("resident memory", RESIDENT, true),
        ("pipes", PIPES, false),
    ];
    for (name, code, ends) in cases {
        let before = cgroup.available();
        let (guilty, innocent, least) = beside_an_innocent_program(&sandbox, cgroup, code);
        println!(
            "{name}: {} MiB available, {} at least, {:?} {:?} after {} ms",
            before / MIB,
            least / MIB,
            guilty.status,
            guilty.limit,
            guilty.duration_ms
        );
        assert_eq!(
            (innocent.status, innocent.stdout.as_str()),
            (RunStatus::Ok, "fine\n"),
            "{name}: {innocent:#?}"
        );
        assert!(least >= LEAST_AVAILABLE, "{name}: {} MiB were available", least / MIB);
        if ends {
            assert_out_of_memory(&guilty, &["kernel_memory", "machine_memory"]);
        } else {
            assert_ne!(guilty.status, RunStatus::SandboxError, "{name}: {guilty:#?}");
        }
    }
}

/// The records of a program, and of one beside it that has more memory of its own and does nothing; and the
/// least memory that was available meanwhile.
fn beside_an_innocent_program(
    sandbox: &Sandbox,
    cgroup: &MemoryCgroup,
    code: &str,
) -> (RunRecord, RunRecord, u64) {
    let (guilty, innocent) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let waits = "kept = b'x' * (64 << 20)
open('ready', 'w').close()
while not os.path.exists('end'): time.sleep(0.05)
print('fine')";
    let innocent_program = command(waits, innocent.path());
    let (is_over, least) = (AtomicBool::new(false), AtomicU64::new(u64::MAX));
    std::thread::scope(|scope| {
        let innocent_run = scope.spawn(|| sandbox.run(&innocent_program, &|| false));
        support::eventually("the innocent program runs", || {
            innocent.path().join("ready").exists() || innocent_run.is_finished()
        });
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                least.fetch_min(cgroup.available(), Ordering::Relaxed);
                #[expect(clippy::disallowed_methods, reason = "the test measures in real time")]
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let guilty_record = sandbox.run(&command(code, guilty.path()), &|| false);
        is_over.store(true, Ordering::Relaxed);
        std::fs::write(innocent.path().join("end"), "").unwrap();
        (guilty_record, innocent_run.join().unwrap(), least.load(Ordering::Relaxed))
    })
}
