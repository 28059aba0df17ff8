//! Attacks with the calls that a supervisor makes for its command: nothing outside of the command's own
//! directories changes, whatever path, link, descriptor or race names it.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use nanoclaw_sandbox::{Language, Level, Program, RunRecord, RunStatus};

use crate::support;

/// The directories of an attack: `own` is the command's, everything else belongs to others.
struct Attack {
    home: tempfile::TempDir,
}

/// All that a successful attack could change. The change time shows even a change to the same value.
#[derive(Debug, PartialEq, Eq)]
struct Attributes {
    path: PathBuf,
    mode: u32,
    owner: (u32, u32),
    times: [i64; 4],
}

impl Attributes {
    fn of(path: PathBuf) -> Self {
        let data = std::fs::symlink_metadata(&path).unwrap();
        let times = [data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec()];
        Self { path, mode: data.mode(), owner: (data.uid(), data.gid()), times }
    }
}

impl Attack {
    fn prepare() -> Self {
        let home = tempfile::tempdir().unwrap();
        for directory in ["own/sub", "own-other/deep", "beside"] {
            std::fs::create_dir_all(home.path().join(directory)).unwrap();
        }
        for file in ["beside/victim", "own-other/victim", "own-other/deep/victim", "victim"] {
            let path = home.path().join(file);
            std::fs::write(&path, "theirs").unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o640)).unwrap();
        }
        Self { home }
    }

    /// Everything that is not the command's.
    fn outside(&self) -> Vec<Attributes> {
        let names = [
            "",
            "victim",
            "beside",
            "beside/victim",
            "own-other",
            "own-other/victim",
            "own-other/deep",
            "own-other/deep/victim",
        ];
        let own = names.iter().map(|name| self.home.path().join(name));
        let system = ["/", "/usr", "/usr/bin/env", "/etc/passwd", "/dev/null"].iter().map(PathBuf::from);
        own.chain(system).map(Attributes::of).collect()
    }

    /// Runs a Python program in `own`, with the parent as its first argument.
    fn run(&self, code: &str) -> RunRecord {
        let scratch = tempfile::tempdir().unwrap();
        let parent = self.home.path().canonicalize().unwrap();
        let code = format!("python3 - '{}' <<'END'\n{PRELUDE}\n{code}\nEND", parent.display());
        let mut program = Program::new(Language::Bash, Level::Shell, code);
        program.workdir = Some(self.home.path().join("own"));
        support::sandbox(scratch.path()).run(&program, &|| false)
    }

    /// Runs an attack. It prints `done` at its end and nothing else, and changes nothing outside.
    fn must_fail(code: &str) {
        let _turn = support::exclusive();
        let attack = Self::prepare();
        let before = attack.outside();
        let record = attack.run(code);
        assert_eq!((record.status, record.stdout.as_str()), (RunStatus::Ok, "done\n"), "{record:#?}");
        assert_eq!(attack.outside(), before);
    }
}

/// `refused` prints unless every call fails with one of the given numbers.
const PRELUDE: &str = "import ctypes, errno, os, platform, struct, sys, threading, time
parent, own = sys.argv[1], os.getcwd()
libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == 'x86_64'
FCHMOD, FCHMODAT, FCHOWN, FCHOWNAT = (91, 268, 93, 260) if X86 else (52, 53, 55, 54)
FCHMODAT2, UTIMENSAT, CWD, NOFOLLOW, EMPTY = 452, 280 if X86 else 88, -100, 0x100, 0x1000
TIMES = ctypes.create_string_buffer(struct.pack('4q', 1, 2, 3, 4))
def call(number, *arguments):
    return ctypes.get_errno() if libc.syscall(ctypes.c_long(number), *arguments) < 0 else 0
def by_path(directory, path):
    path = os.fsencode(path)
    yield 'fchmodat', call(FCHMODAT, directory, path, 0o777)
    yield 'fchmodat2', call(FCHMODAT2, directory, path, 0o777, 0)
    yield 'utimensat', call(UTIMENSAT, directory, path, TIMES, 0)
    yield 'utimensat now', call(UTIMENSAT, directory, path, None, 0)
    yield 'utimensat nofollow', call(UTIMENSAT, directory, path, TIMES, NOFOLLOW)
    yield 'fchownat', call(FCHOWNAT, directory, path, os.getuid(), os.getgid(), 0)
    yield 'fchownat another', call(FCHOWNAT, directory, path, 4242, 4242, NOFOLLOW)
    if X86:
        if directory == CWD:
            yield 'chmod', call(90, path, 0o777)
            yield 'chown', call(92, path, 4242, 4242)
            yield 'lchown', call(94, path, -1, -1)
            yield 'utime', call(132, path, TIMES)
            yield 'utimes', call(235, path, TIMES)
        yield 'futimesat', call(261, directory, path, TIMES)
def by_descriptor(number):
    yield 'fchmod', call(FCHMOD, number, 0o777)
    yield 'fchmodat2 empty', call(FCHMODAT2, number, b'', 0o777, EMPTY)
    yield 'futimens', call(UTIMENSAT, number, None, TIMES, 0)
    yield 'utimensat empty', call(UTIMENSAT, number, b'', TIMES, EMPTY)
    yield 'fchown', call(FCHOWN, number, os.getuid(), -1)
    yield 'fchownat empty', call(FCHOWNAT, number, b'', -1, -1, EMPTY)
    for link in '/proc/self/fd/%d', '/dev/fd/%d', '/proc/thread-self/fd/%d':
        yield from by_path(CWD, link % number)
def refused(what, results, numbers=(errno.EPERM,)):
    for name, number in results:
        if number not in numbers: print('ESCAPED' if number == 0 else 'ANOTHER ERROR', what, name, number)
";

#[test]
fn paths_and_links_that_lead_out_are_refused() {
    Attack::must_fail(
        "os.symlink(parent + '/victim', 'link'); os.symlink('../beside', 'dirlink'); os.symlink('/', 'root')
os.symlink('link', 'sub/../chain'); os.symlink('..', 'up')
for path in (parent, parent + '/victim', parent + '/own-other', parent + '/own-other/victim', '..', '../victim',
             own + '/..', own + '/../victim', 'sub/../../victim', './/..//victim', 'dirlink/victim', 'dirlink/',
             'root/usr/bin/env', 'up/victim', 'up/own-other/deep/victim', '/', '/usr', '/etc/passwd',
             '/dev/null', '/tmp', '/proc/self/root' + parent + '/victim', '/proc/self/cwd/../victim',
             '/proc/%d/root/usr' % os.getpid(), '/proc/%d/cwd/..' % os.getpid(), '/proc/1/root', '/proc/self/exe',
             '/proc/self/fd/0', '/dev/stdin', '/dev/fd/1', '/proc/%d/cwd' % os.getppid(), '/proc/self', '/proc'):
    refused(path, by_path(CWD, path), (errno.EPERM, errno.EACCES) if path.startswith('/proc/1/') else (errno.EPERM,))
for path in 'link', 'chain', 'root', 'dirlink', 'up':
    with_links = [result for result in by_path(CWD, path) if result[0] not in ('utimensat nofollow', 'lchown')]
    refused(path, with_links)
print('done')",
    );
}

#[test]
fn descriptors_of_foreign_files_are_refused() {
    Attack::must_fail(
        "opened = [os.open(path, os.O_PATH) for path in (parent, parent + '/victim', parent + '/own-other', '/', '/usr')]
opened += [os.open(path, os.O_RDONLY) for path in ('/dev/null', '/etc/passwd', '/usr/bin/env', '/usr')]
opened += [0, 1, 2, *os.pipe(), os.open('/dev/null', os.O_RDWR), os.open('/dev/zero', os.O_RDONLY)]
import socket; pair = socket.socketpair(); opened += [pair[0].fileno()]
for number in opened: refused(os.readlink('/proc/self/fd/%d' % number), by_descriptor(number))
for directory, name in ((opened[0], 'victim'), (opened[0], 'own-other/victim'), (opened[2], 'victim'),
                        (opened[2], '../victim'), (opened[3], 'usr'), (opened[4], 'bin/env'), (opened[2], '.')):
    refused(name, by_path(directory, name))
for number in -1, 99, 1 << 20: refused(number, list(by_descriptor(number))[:6], (errno.EBADF,))
print('done')",
    );
}

#[test]
fn special_bits_and_foreign_owners_are_refused() {
    Attack::must_fail(
        "open('mine', 'w').close(); os.mkdir('dir'); f = os.open('mine', os.O_RDWR)
os.chmod('mine', 0o600); os.chmod('dir', 0o700)
for bits in 0o4755, 0o2755, 0o6777, 0o1777, 0o7000:
    for path in b'mine', b'dir', b'.':
        refused(bits, [('chmod', call(FCHMODAT, CWD, path, bits)), ('chmod2', call(FCHMODAT2, CWD, path, bits, 0))])
    refused(bits, [('fchmod', call(FCHMOD, f, bits)), ('link', call(FCHMODAT, CWD, b'/proc/self/fd/%d' % f, bits))])
for user, group in (4242, -1), (-1, 4242), (os.getuid(), 4242), (0xfffffffe, -1):
    refused(user, [('chown', call(FCHOWNAT, CWD, b'mine', user, group, 0)), ('fchown', call(FCHOWN, f, user, group))])
if os.stat('mine').st_mode & 0o7777 != 0o600 or os.stat('dir').st_mode & 0o7777 != 0o700: print('ESCAPED')
print('done')",
    );
}

#[test]
fn bad_arguments_get_the_errors_of_the_kernel() {
    Attack::must_fail(
        "open('mine', 'w').close()
def is_error(what, number, expected):
    if number != expected: print(what, number)
for address in 0, 1, 4096, 1 << 46, (1 << 64) - 4096:
    is_error('path', call(FCHMODAT, CWD, ctypes.c_void_p(address), 0o600), errno.EFAULT)
    if address: is_error('times', call(UTIMENSAT, CWD, b'mine', ctypes.c_void_p(address), 0), errno.EFAULT)
is_error('long', call(FCHMODAT, CWD, b'x' * 5000, 0o600), errno.ENAMETOOLONG)
is_error('empty', call(FCHMODAT, CWD, b'', 0o600), errno.ENOENT)
is_error('empty times', call(UTIMENSAT, CWD, b'', TIMES, 0), errno.ENOENT)
is_error('flags', call(UTIMENSAT, CWD, b'mine', TIMES, 0x800), errno.EINVAL)
is_error('flags', call(FCHMODAT2, CWD, b'mine', 0o600, 1), errno.EINVAL)
is_error('part', call(FCHMODAT, CWD, b'mine/x', 0o600), errno.ENOTDIR)
os.symlink('loop', 'loop'); is_error('loop', call(FCHMODAT, CWD, b'loop', 0o600), errno.ELOOP)
is_error('link mode', call(FCHMODAT2, CWD, b'loop', 0o600, NOFOLLOW), errno.EOPNOTSUPP)
bad = ctypes.create_string_buffer(struct.pack('4q', 1, 1000000000, 3, 4))
is_error('nanoseconds', call(UTIMENSAT, CWD, b'mine', bad, 0), errno.EINVAL)
print('done')",
    );
}

/// Threads exchange an own file and a link that leads out while others change the name's mode and times.
#[test]
fn races_with_links_change_nothing_outside() {
    Attack::must_fail(
        "os.makedirs('a/d'); open('a/d/victim', 'w').close(); os.symlink('../../beside', 'a/l')
open('f', 'w').close(); os.symlink(parent + '/victim', 'l')
stop, RENAMEAT2 = time.monotonic() + 6, 316 if X86 else 276
def swap(one, other):
    while time.monotonic() < stop: call(RENAMEAT2, CWD, one, CWD, other, 2)
def swap_names():
    while time.monotonic() < stop:
        os.rename('a', 'b'); os.rename('b', 'a')
def change(path):
    while time.monotonic() < stop:
        call(FCHMODAT, CWD, path, 0o777); call(UTIMENSAT, CWD, path, TIMES, 0); call(FCHOWNAT, CWD, path, -1, -1, 0)
work = [(swap, b'f', b'l'), (swap, b'a/d', b'a/l'), (swap_names,), (change, b'f'), (change, b'a/d/victim'), (change, b'l')]
threads = [threading.Thread(target=one, args=arguments) for one, *arguments in work]
for thread in threads: thread.start()
for thread in threads: thread.join()
print('done')",
    );
}

/// A thread changes the path and the descriptor while the supervisor reads them.
#[test]
fn races_with_arguments_change_nothing_outside() {
    Attack::must_fail(
        "mine, theirs = os.fsencode(own) + b'/mine\\0', os.fsencode(parent) + b'/victim\\0'
open('mine', 'w').close(); stop = time.monotonic() + 4
length = max(len(mine), len(theirs)); path = ctypes.create_string_buffer(length)
foreign, own_file = os.open(parent + '/victim', os.O_PATH), os.open('mine', os.O_RDONLY)
number, foreign_dir, own_dir = os.dup(own_file), os.open(parent, os.O_PATH), os.open('.', os.O_PATH)
open('victim', 'w').close(); directory = os.dup(own_dir)
def write():
    while time.monotonic() < stop:
        ctypes.memmove(path, mine, len(mine)); ctypes.memmove(path, theirs, len(theirs))
def replace():
    while time.monotonic() < stop:
        os.dup2(foreign, number); os.dup2(foreign_dir, directory); os.dup2(own_file, number); os.dup2(own_dir, directory)
def change():
    while time.monotonic() < stop:
        call(FCHMODAT, CWD, path, 0o777); call(UTIMENSAT, CWD, path, TIMES, 0); call(FCHMOD, number, 0o777)
        call(FCHMODAT, directory, b'victim', 0o777); call(UTIMENSAT, number, None, TIMES, 0)
threads = [threading.Thread(target=work) for work in (write, replace, change, change)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print('done')",
    );
}

/// Callers that die, and many at once, do not stop the supervisor.
#[test]
fn callers_that_die_do_not_stop_others() {
    Attack::must_fail(
        "import signal
open('f', 'w').close()
for _ in range(200):
    child = os.fork()
    if child == 0:
        while True: os.chmod('f', 0o640)
    time.sleep(0.001); os.kill(child, signal.SIGKILL); os.waitpid(child, 0)
children = []
for _ in range(20):
    children.append(os.fork())
    if children[-1] == 0:
        for n in range(200): os.chmod('f', 0o600 + n % 8)
        os._exit(0)
if [os.waitpid(child, 0)[1] for child in children] != [0] * 20: print('a child failed')
os.chmod('f', 0o751)
if os.stat('f').st_mode & 0o777 != 0o751: print('no effect')
print('done')",
    );
}

/// The descriptor through which the supervisor receives calls stays with it.
#[test]
fn the_command_has_no_descriptor_of_its_supervisor() {
    Attack::must_fail(
        "links = ['/proc/self/fd/%d' % number for number in range(3, 64)]
names = [os.readlink(link) for link in links if os.path.lexists(link)]
if any('seccomp' in name or 'socket' in name or 'signalfd' in name for name in names): print('ESCAPED', names)
print('done')",
    );
}
