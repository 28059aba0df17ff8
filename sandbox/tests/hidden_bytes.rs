//! Bytes that a guest hides from the count of its directory: in directories without rights, and in files that
//! no name, no descriptor of the main thread, or no readable process shows.

use std::sync::atomic::{AtomicBool, Ordering};

use nanoclaw_sandbox::{Language, Level, Program, RunRecord, RunStatus, Sandbox};

use crate::support::ordinary_user::also_as_ordinary_user;
use crate::support::{self, python};

/// The limit of the private directory. Each program hides three times as much, in pieces that a count may
/// see.
const LIMIT_BYTES: u64 = 20 << 20;
/// A program that hides its bytes sleeps for longer than this.
const TIMEOUT_MS: u64 = 20_000;

fn sandbox(scratch: &std::path::Path) -> Sandbox {
    let mut options = support::options(scratch);
    for limits in [&mut options.levels.shell, &mut options.levels.lenient] {
        limits.own_directory_bytes = LIMIT_BYTES;
        limits.timeout_ms = TIMEOUT_MS;
    }
    Sandbox::new(options).unwrap()
}

fn bash(code: &str) -> Program {
    Program::new(Language::Bash, Level::Shell, code)
}

/// A command that runs a Python program behind a few definitions.
fn python_command(code: &str) -> Program {
    bash(&format!("python3 - <<'E'\n{DEFINITIONS}{code}\nE"))
}

const DEFINITIONS: &str = "import array, ctypes, os, socket, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
def fill(f): os.posix_fallocate(f, 0, 10 << 20)
def repeat(work): return [work() for _ in range(6)]
def nameless():
    f = os.open('x', os.O_CREAT | os.O_RDWR, 0o600)
    os.unlink('x')
    fill(f)
    return f
def send(sender, *files):
    sender.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', files))])
    for f in files: os.close(f)
def map_and_close(f):
    assert libc.mmap(None, ctypes.c_size_t(4096), 1, 1, f, ctypes.c_size_t(0)) != ctypes.c_void_p(-1).value
    os.close(f)
def in_thread(work):
    ready = threading.Event()
    threading.Thread(target=lambda: (work(), ready.set(), time.sleep(60))).start()
    ready.wait()
    libc.syscall(60 if os.uname().machine == 'x86_64' else 93, 0)
def refused(work):
    try: work()
    except OSError: return True
    return False
";

/// Ways to hide bytes, as Python of a command.
const HIDING: &[(&str, &str)] = &[
    (
        "a directory that can be listed only",
        "os.mkdir('d'); files = [os.open('d/%d' % n, os.O_CREAT | os.O_RDWR, 0o600) for n in range(6)]\n\
         try: os.chmod('d', 0o400)\nfinally: [fill(f) for f in files]; time.sleep(60)",
    ),
    (
        "the own directory without rights",
        "os.mkdir('d'); os.chdir('d')\ntry: os.chmod('..', 0)\n\
         finally: [fill(os.open('%d' % n, os.O_CREAT | os.O_RDWR, 0o600)) for n in range(6)]; time.sleep(60)",
    ),
    ("a file without a name", "files = repeat(nameless); time.sleep(60)"),
    ("a file in flight", "a, b = socket.socketpair(); repeat(lambda: send(a, nameless())); time.sleep(60)"),
    (
        "a file in flight in a socket in flight",
        "a, b = socket.socketpair(); c, d = socket.socketpair(); send(c, nameless()); c = c.detach()\n\
         send(a, os.dup(c), d.detach()); c = socket.socket(fileno=c); repeat(lambda: send(c, nameless()))\n\
         c.close(); time.sleep(60)",
    ),
    ("a mapped file", "repeat(lambda: map_and_close(nameless())); time.sleep(60)"),
    ("a file of a thread that outlives the main one", "in_thread(lambda: repeat(nameless))"),
    ("a mapped file of such a thread", "in_thread(lambda: repeat(lambda: map_and_close(nameless())))"),
];

/// The same as commands.
const HIDING_COMMANDS: &[(&str, &str)] = &[
    (
        "a running program without a name",
        "for i in 1 2 3 4 5 6; do cp /bin/sleep s; head -c 10M /dev/zero >>s; ./s 60 & sleep 0.1; rm s; done; wait",
    ),
    (
        "a file of a program that nobody may read",
        "cp /bin/bash b; chmod 111 b; \
         ./b -c 'exec 3<>x; rm x; printf -v text %1000000s; for i in {1..60}; do printf %s \"$text\" >&3; done; \
         sleep 60 3>&- & wait'",
    ),
];

fn assert_limited(name: &str, record: &RunRecord) {
    assert_eq!(
        (record.status, record.limit.as_deref()),
        (RunStatus::OutputLimit, Some("own_directory_bytes")),
        "{name}: {record:#?}"
    );
}

#[test]
fn p8_hidden_bytes_count_against_the_private_directory() {
    let _turn = support::exclusive();
    also_as_ordinary_user("hidden_bytes::p8_hidden_bytes_count_against_the_private_directory", || {
        let scratch = tempfile::tempdir().unwrap();
        let sandbox = sandbox(scratch.path());
        assert!(sandbox.report().able(), "{:#?}", sandbox.report());
        let hiding = HIDING.iter().map(|(name, code)| (*name, python_command(code)));
        let commands = HIDING_COMMANDS.iter().map(|(name, code)| (*name, bash(code)));
        let lenient = "import os, time\nf = open('f', 'wb', 0); os.unlink('f')\n[f.write(b'x' * (1 << 20)) for _ in range(60)]; time.sleep(60)";
        let lenient = [("a file without a name at lenient", python(Level::Lenient, lenient))];
        let programs = hiding.chain(commands).chain(lenient).collect();
        let records =
            support::in_parallel(programs, 4, |(name, program)| (name, sandbox.run(&program, &|| false)));
        let held = |record: &RunRecord| record.limit.as_deref() == Some("own_directory_bytes");
        let hidden: Vec<_> =
            records.iter().filter(|(_, record)| !held(record)).map(|(name, _)| name).collect();
        assert!(hidden.is_empty(), "hidden: {hidden:#?}\n{records:#?}");
        for (name, record) in &records {
            assert_limited(name, record);
        }
        drop(sandbox);
        support::assert_nothing_left(scratch.path());
    });
}

/// What an innocent program may do at the same time: it holds small files without names, maps one, sends
/// some, rewrites one, and has threads and children.
const INNOCENT: &str = "import mmap, subprocess, tempfile
def small():
    f = os.open('y', os.O_CREAT | os.O_RDWR, 0o600); os.unlink('y'); os.write(f, b'x' * 4096); return f
held = [small() for _ in range(8)]; mapped = mmap.mmap(small(), 4096)
a, b = socket.socketpair()
for _ in range(20):
    send(a, small()); b.recvmsg(1, 64)
threads = [threading.Thread(target=time.sleep, args=(0.5,)) for _ in range(4)]
[t.start() for t in threads]
with open('rewritten', 'wb') as f:
    for _ in range(60): f.seek(0); f.write(b'x' * (1 << 20))
t = tempfile.TemporaryFile(dir='.'); t.write(b'x' * (1 << 20)); t.flush()
subprocess.run(['sleep', '0.5'], check=True)
[t.join() for t in threads]
print('done')";

#[test]
fn p8_an_innocent_program_beside_those_that_hide_bytes_ends_normally() {
    let _turn = support::exclusive();
    also_as_ordinary_user(
        "hidden_bytes::p8_an_innocent_program_beside_those_that_hide_bytes_ends_normally",
        || {
            let scratch = tempfile::tempdir().unwrap();
            let sandbox = sandbox(scratch.path());
            let hiding = "repeat(lambda: map_and_close(nameless())); time.sleep(60)";
            let programs = [python_command(hiding), python_command(INNOCENT)];
            let both = (0..20).flat_map(|_| programs.iter().cloned().zip([false, true])).collect();
            let records = support::in_parallel(both, 4, |(program, is_innocent)| {
                (is_innocent, sandbox.run(&program, &|| false))
            });
            for (is_innocent, record) in records {
                if is_innocent {
                    assert_eq!(
                        (record.status, record.stdout.as_str()),
                        (RunStatus::Ok, "done\n"),
                        "{record:#?}"
                    );
                } else {
                    assert_limited("a mapped file", &record);
                }
            }
        },
    );
}

/// Prints each way by which a directory loses the rights by which it is counted.
const DIRECTORY_RIGHTS: &str = "mode_of = lambda name: os.stat(name).st_mode & 0o777
os.mkdir('d'); os.mkdir('d/e'); d = os.open('d', os.O_RDONLY)
for mode in 0, 0o100, 0o300, 0o400, 0o600, 0o677, 0o277:
    os.chmod('d', mode); os.fchmod(d, mode); os.chmod('e', mode, dir_fd=d); os.chmod('.', mode)
    for name in '.', 'd', 'd/e':
        if mode_of(name) != mode | 0o500: print('%o: %s has %o' % (mode, name, mode_of(name)))
    os.chmod('.', 0o700); os.chmod('d', 0o700)
    for work in (lambda: os.mkdir('n', mode), lambda: os.mkdir('n', mode, dir_fd=d)):
        if not refused(work): print('made with %o' % mode)
for mask in 0o777, 0o700, 0o400, 0o100:
    if not refused(lambda: os.umask(mask)): print('umask %o' % mask)
for mode in 0o500, 0o555, 0o711, 0o700:
    os.chmod('d', mode)
    if mode_of('d') != mode | 0o500: print('%o became %o' % (mode, mode_of('d')))
os.mkdir('r', 0o555); os.umask(0o277); f = open('f', 'w'); os.fchmod(f.fileno(), 0)
if mode_of('f') != 0: print('files have any mode')
print('done')";

#[test]
fn a_directory_keeps_the_rights_by_which_it_is_counted() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = sandbox(scratch.path());
    let record = sandbox.run(&python_command(DIRECTORY_RIGHTS), &|| false);
    assert_eq!(record.stdout, "done\n", "{record:#?}");
    let lenient = "import os\ndef refused(work):\n    try: work()\n    except PermissionError: return True\n\
                   print(refused(lambda: os.mkdir('d', 0o300)), refused(lambda: os.umask(0o777)), os.mkdir('d', 0o700))";
    let record = sandbox.run(&python(Level::Lenient, lenient), &|| false);
    assert_eq!(record.stdout, "True True None\n", "{record:#?}");
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

#[test]
fn no_file_begins_without_a_name_and_programs_do_without() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = sandbox(scratch.path());
    let code = "import os, tempfile\ntry: os.open('.', os.O_TMPFILE | os.O_RDWR, 0o600)\nexcept OSError as e: print(e.errno)\n\
                f = tempfile.TemporaryFile(dir='.'); f.write(b'x' * 5); f.seek(0); print(len(f.read()))";
    for program in [python_command(code), python(Level::Lenient, code)] {
        let record = sandbox.run(&program, &|| false);
        assert_eq!(record.stdout, format!("{}\n5\n", libc::EOPNOTSUPP), "{record:#?}");
    }
}

/// A thread with descriptors of its own would hide them: the server looks at one thread of a process.
#[test]
fn threads_share_their_descriptors() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = sandbox(scratch.path());
    // CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD, without CLONE_FILES. Without a stack of its own the
    // new thread would crash.
    let code = "clone = 56 if os.uname().machine == 'x86_64' else 220\n\
                print(libc.syscall(clone, 0x10b00, 0, 0, 0, 0), ctypes.get_errno())\n\
                print(libc.syscall(436, 900, 901, 2), ctypes.get_errno(), libc.syscall(436, 900, 901, 0))";
    let record = sandbox.run(&python_command(code), &|| false);
    assert_eq!(record.stdout, "-1 1\n-1 1 0\n", "{record:#?}");
}

/// The server can read what lenient Python has open, without privileges, too. Landlock keeps other guests
/// away.
#[test]
fn p7_no_other_guest_looks_into_lenient_python() {
    let _turn = support::exclusive();
    also_as_ordinary_user("hidden_bytes::p7_no_other_guest_looks_into_lenient_python", || {
        let scratch = tempfile::tempdir().unwrap();
        let sandbox = sandbox(scratch.path());
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let code = "import time\nopen('ready', 'w').close(); time.sleep(60)";
            let run = scope
                .spawn(|| sandbox.run(&python(Level::Lenient, code), &|| has_ended.load(Ordering::Relaxed)));
            let is_ready = || {
                let directories = std::fs::read_dir(scratch.path()).unwrap().flatten();
                directories.map(|entry| entry.path().join("ready")).any(|path| path.exists())
            };
            support::eventually("it runs", is_ready);
            let guests = support::processes_named("nanoclaw-guest");
            let [pid] = guests.as_slice() else { panic!("{guests:?}") };
            let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
            assert!(maps.contains("python"), "the control: {maps}");
            let look = format!(
                "cd /proc/{pid}; cat maps environ io fd/*; ls fd map_files; readlink exe cwd; head -c 9 mem"
            );
            let record = sandbox.run(&bash(&look), &|| false);
            assert_eq!(record.stdout, "", "{record:#?}");
            has_ended.store(true, Ordering::Relaxed);
            run.join().unwrap();
        });
    });
}
