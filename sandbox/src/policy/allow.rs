//! Calls that a guest may make once its interpreter is warm. What no row names answers EPERM.

use super::rule::{Outcome, Rule, Test, rows};
use super::socket::{INTERNET, INTERNET_TRAITS, SOCKET_TRAITS};

/// `PROT_EXEC` must be absent from the third argument.
const NOT_EXECUTABLE: Outcome = Outcome::AllowIf(&[&[Test { argument: 2, mask: PROT_EXEC, value: 0 }]]);
/// `openat` with flags that neither write, create, truncate nor open a bare path.
const READ_ONLY: Outcome = Outcome::AllowIf(&[&[Test { argument: 2, mask: WRITING | O_PATH, value: 0 }]]);
/// `openat` in a writable directory: landlock decides, but no bare path, and no set-id bits on what it makes.
const NOT_BARE: Outcome = Outcome::AllowIf(&[&[
    Test { argument: 2, mask: O_PATH, value: 0 },
    Test { argument: 3, mask: SET_ID, value: 0 },
]]);
/// The same, and `O_TRUNC` only together with exactly `O_WRONLY` or `O_RDWR`.
const WRITES_OR_KEEPS: Outcome = Outcome::AllowIf(&[
    &[Test { argument: 2, mask: O_PATH | O_TRUNC, value: 0 }, Test { argument: 3, mask: SET_ID, value: 0 }],
    &[
        Test { argument: 2, mask: O_PATH | O_ACCMODE, value: 0o1 },
        Test { argument: 3, mask: SET_ID, value: 0 },
    ],
    &[
        Test { argument: 2, mask: O_PATH | O_ACCMODE, value: 0o2 },
        Test { argument: 3, mask: SET_ID, value: 0 },
    ],
]);
/// `openat` without set-id bits on what it makes.
const NO_SET_ID: Outcome = Outcome::AllowIf(&[&[Test { argument: 3, mask: SET_ID, value: 0 }]]);
/// `ioctl(TCGETS)`: what `isatty` asks.
const IS_TERMINAL: &[Test] = &[Test { argument: 1, mask: LOW, value: 0x5401 }];
/// `ioctl(FIONBIO)`: what Python's `setblocking` does to its own socket pair; asyncio cannot start without.
const NON_BLOCKING: &[Test] = &[Test { argument: 1, mask: LOW, value: 0x5421 }];
/// `ioctl(FIOCLEX)` and back: how Python marks a descriptor of an opener (tempfile); it takes no EPERM for an answer.
const CLOSE_ON_EXEC: &[Test] = &[Test { argument: 1, mask: LOW, value: 0x5451 }];
/// Its opposite.
const KEEP_ON_EXEC: &[Test] = &[Test { argument: 1, mask: LOW, value: 0x5450 }];
/// Clocks by their own numbers. A negative one is a clock of a process by its id (or of a descriptor): it tells which
/// processes there are, and how much processor time each has used.
const NO_PROCESS_CLOCK: Outcome = Outcome::AllowIf(&[&[Test { argument: 0, mask: 0x8000_0000, value: 0 }]]);
/// `futex` without the operations on locks that lend priority: these look their owner up by any process's id.
const NO_OWNERS: Outcome = Outcome::AllowIf(&[
    &[operation(libc::FUTEX_WAIT)],
    &[operation(libc::FUTEX_WAKE)],
    &[operation(libc::FUTEX_REQUEUE)],
    &[operation(libc::FUTEX_CMP_REQUEUE)],
    &[operation(libc::FUTEX_WAKE_OP)],
    &[operation(libc::FUTEX_WAIT_BITSET)],
    &[operation(libc::FUTEX_WAKE_BITSET)],
]);
/// The first argument names the caller itself.
const OF_ITSELF: Outcome = Outcome::AllowIf(&[&[Test { argument: 0, mask: LOW, value: 0 }]]);
/// `getpriority(PRIO_PROCESS, self)`.
const OWN_PRIORITY: Outcome = Outcome::AllowIf(&[&[
    Test { argument: 0, mask: LOW, value: 0 },
    Test { argument: 1, mask: LOW, value: 0 },
]]);
/// A thread of the same process and no new namespace.
const THREAD: Outcome = Outcome::AllowIf(&[&[Test {
    argument: 0,
    mask: CLONE_THREAD | CLONE_ANY_NAMESPACE,
    value: CLONE_THREAD,
}]]);
/// `socketpair(AF_UNIX, SOCK_STREAM | flags, 0)`.
const UNIX_STREAM: Outcome = Outcome::AllowIf(&[&[
    Test { argument: 0, mask: LOW, value: 1 },
    Test { argument: 1, mask: LOW & !SOCK_FLAGS, value: 1 },
    Test { argument: 2, mask: LOW, value: 0 },
]]);
/// `sendto` on a connected socket: no address, and no out-of-band byte, whose bookkeeping in unix sockets has had holes.
const NO_ADDRESS: Outcome =
    Outcome::AllowIf(&[&[Test { argument: 4, mask: u64::MAX, value: 0 }, NOT_OUT_OF_BAND]]);
/// `sendmsg` and `recvmsg` without that byte. No socket of a command has an address to send to.
const PLAIN_MESSAGES: Outcome = Outcome::AllowIf(&[&[Test { argument: 2, mask: 1, value: 0 }]]);
/// `recvfrom` likewise.
const IN_BAND: Outcome = Outcome::AllowIf(&[&[NOT_OUT_OF_BAND]]);
/// The fourth argument without `MSG_OOB`.
const NOT_OUT_OF_BAND: Test = Test { argument: 3, mask: 1, value: 0 };
/// `renameat2` without `RENAME_WHITEOUT`, which would make a device.
const NO_WHITEOUT: Outcome = Outcome::AllowIf(&[&[Test { argument: 4, mask: 4, value: 0 }]]);
/// `prlimit64` that only reads, of the caller itself.
const ONLY_READS: Outcome = Outcome::AllowIf(&[&[
    Test { argument: 0, mask: LOW, value: 0 },
    Test { argument: 2, mask: u64::MAX, value: 0 },
]]);
/// `fcntl` that looks at a descriptor, copies it, or sets its flags.
const DESCRIPTOR_FLAGS: Outcome = Outcome::AllowIf(&[
    &[command(libc::F_DUPFD)],
    &[command(libc::F_DUPFD_CLOEXEC)],
    &[command(libc::F_GETFD)],
    &[command(libc::F_SETFD)],
    &[command(libc::F_GETFL)],
]);
/// The same, and non-blocking mode and advisory locks (sqlite).
const DESCRIPTOR_FLAGS_AND_LOCKS: Outcome = Outcome::AllowIf(&[
    &[command(libc::F_DUPFD)],
    &[command(libc::F_DUPFD_CLOEXEC)],
    &[command(libc::F_GETFD)],
    &[command(libc::F_SETFD)],
    &[command(libc::F_GETFL)],
    &[command(libc::F_SETFL)],
    &[command(libc::F_GETLK)],
    &[command(libc::F_SETLK)],
    &[command(libc::F_SETLKW)],
]);

/// Signals that a program may send itself. Those by which the parent knows a limit or a forbidden call are absent.
const HARMLESS_SIGNALS: Outcome = Outcome::AllowIf(&[
    &[signal(libc::SIGINT)],
    &[signal(libc::SIGABRT)],
    &[signal(libc::SIGUSR1)],
    &[signal(libc::SIGUSR2)],
    &[signal(libc::SIGSEGV)],
    &[signal(libc::SIGALRM)],
    &[signal(libc::SIGTERM)],
]);

pub(super) const LOW: u64 = 0xffff_ffff;
const PROT_EXEC: u64 = 4;
const O_PATH: u64 = 0o10_000_000;
const O_ACCMODE: u64 = 0o3;
const O_TRUNC: u64 = 0o1_000;
/// `S_ISUID | S_ISGID`.
const SET_ID: u64 = 0o6_000;
/// `O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND | __O_TMPFILE`.
const WRITING: u64 = 0o3 | 0o100 | 0o1_000 | 0o2_000 | 0o20_000_000;
const CLONE_THREAD: u64 = 0x0001_0000;
/// Every `CLONE_NEW*` flag: time, mount, cgroup, uts, ipc, user, pid, net.
const CLONE_ANY_NAMESPACE: u64 = 0x0000_0080 | 0x0002_0000 | 0x7e00_0000;
/// `SOCK_CLOEXEC | SOCK_NONBLOCK`.
pub(super) const SOCK_FLAGS: u64 = 0o2_000_000 | 0o4_000;

const fn command(value: i32) -> Test {
    Test { argument: 1, mask: LOW, value: value.unsigned_abs() as u64 }
}

/// An operation of `futex`, with or without `FUTEX_PRIVATE_FLAG` and `FUTEX_CLOCK_REALTIME`.
const fn operation(value: i32) -> Test {
    Test { argument: 1, mask: LOW & !0x180, value: value.unsigned_abs() as u64 }
}

const fn signal(value: i32) -> Test {
    Test { argument: 2, mask: LOW, value: value.unsigned_abs() as u64 }
}

/// A process or a thread, and no new namespace.
const NO_NAMESPACE: Outcome =
    Outcome::AllowIf(&[&[Test { argument: 0, mask: CLONE_ANY_NAMESPACE, value: 0 }]]);
/// What terminals, pipes and descriptors answer, and nothing that types into a terminal.
const ASKS: Outcome = Outcome::AllowIf(&[
    IS_TERMINAL,
    NON_BLOCKING,
    CLOSE_ON_EXEC,
    KEEP_ON_EXEC,
    &[Test { argument: 1, mask: LOW, value: 0x541b }],
    &[Test { argument: 1, mask: LOW, value: 0x5413 }],
    &[Test { argument: 1, mask: LOW, value: 0x540f }],
]);
/// Descriptor flags, locks and pipe sizes; no signals to others through `F_SETOWN`.
const DESCRIPTOR_CONTROL: Outcome = Outcome::AllowIf(&[
    &[command(libc::F_DUPFD)],
    &[command(libc::F_DUPFD_CLOEXEC)],
    &[command(libc::F_GETFD)],
    &[command(libc::F_SETFD)],
    &[command(libc::F_GETFL)],
    &[command(libc::F_SETFL)],
    &[command(libc::F_GETLK)],
    &[command(libc::F_SETLK)],
    &[command(libc::F_SETLKW)],
    &[command(libc::F_OFD_GETLK)],
    &[command(libc::F_OFD_SETLK)],
    &[command(libc::F_OFD_SETLKW)],
    &[command(libc::F_GETPIPE_SZ)],
    &[command(libc::F_SETPIPE_SZ)],
]);
/// Names of threads, what the bounding set holds, names of mappings, no-new-privs, signals at a parent's death.
const OWN_TRAITS: Outcome = Outcome::AllowIf(&[
    &[Test { argument: 0, mask: LOW, value: 15 }],
    &[Test { argument: 0, mask: LOW, value: 16 }],
    &[Test { argument: 0, mask: LOW, value: 23 }],
    &[Test { argument: 0, mask: LOW, value: 0x5356_4d41 }],
    &[Test { argument: 0, mask: LOW, value: 38 }],
    &[Test { argument: 0, mask: LOW, value: 39 }],
    &[Test { argument: 0, mask: LOW, value: 1 }],
    &[Test { argument: 0, mask: LOW, value: 36 }],
]);
/// `fallocate` that grows a file like any write, or punches a hole. `FALLOC_FL_KEEP_SIZE` alone would take blocks past the
/// file size limit.
const WITHIN_LIMITS: Outcome = Outcome::AllowIf(&[&[command(0)], &[command(3)]]);
/// Barriers inside the process, and the question which there are. The global ones make the whole machine wait.
const OWN_BARRIERS: Outcome = Outcome::AllowIf(&[&[Test { argument: 0, mask: LOW & !0x1f8, value: 0 }]]);
/// Timers on clocks by their own numbers, and on this process's and this thread's processor time.
const OWN_CLOCKS: Outcome =
    Outcome::AllowIf(&[&[Test { argument: 0, mask: 0x8000_0000, value: 0 }], &[first(-6)], &[first(-2)]]);

const fn first(value: i32) -> Test {
    Test { argument: 0, mask: LOW, value: value.cast_unsigned() as u64 }
}
/// The allow list.
pub(super) const ALLOWED: &[Rule] = rows! {
    All Outcome::Allow, "descriptors that it already has": read readv pread64 write writev lseek close;
    All Outcome::Allow, "what a file is; landlock does not mediate it, contents stay closed": fstat newfstatat statx;
    All Outcome::Allow, "memory": munmap mremap madvise brk;
    Code NOT_EXECUTABLE, "memory, but no code that was not there at warm-up": mmap mprotect;
    All Outcome::Allow, "its own end": exit exit_group;
    All Outcome::Allow, "its own signals": rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack restart_syscall;
    All NO_OWNERS, "locks inside the process": futex;
    All Outcome::Allow, "likewise": sched_yield;
    All NO_PROCESS_CLOCK, "the clock, and nobody else's": clock_gettime clock_getres clock_nanosleep;
    All Outcome::Allow, "the clock": nanosleep gettimeofday;
    All Outcome::Allow, "randomness": getrandom;
    All Outcome::Allow, "who it is": getpid gettid getppid getuid geteuid getgid getegid;
    All Outcome::Allow, "imports list library directories": getcwd getdents64;
    Confined READ_ONLY, "imports read library files": openat;
    Confined Outcome::AllowIf(&[IS_TERMINAL]), "isatty": ioctl;
    Confined DESCRIPTOR_FLAGS, "descriptor flags": fcntl;
    All Outcome::Answer(libc::ENOSYS), "its flags lie in memory, out of a filter's sight: the C library falls back to clone": clone3;

    Roomy Outcome::AllowIf(&[IS_TERMINAL, NON_BLOCKING, CLOSE_ON_EXEC, KEEP_ON_EXEC]), "isatty, asyncio, tempfile": ioctl;
    Roomy DESCRIPTOR_FLAGS_AND_LOCKS, "descriptor flags, locks on its own files": fcntl;
    Roomy THREAD, "threads, never processes": clone;
    Owners Outcome::Allow, "a thread's start": set_robust_list rseq set_tid_address;
    Owners Outcome::Allow, "facts about the machine that the library asks for":
        getrusage times sysinfo uname getgroups;
    Roomy OF_ITSELF, "likewise, of itself alone: another number would tell which processes there are":
        sched_getaffinity getpgid getsid;
    Roomy OWN_PRIORITY, "likewise": getpriority;
    Roomy ONLY_READS, "limits can be read, never set": prlimit64;
    Owners Outcome::Allow, "its own directory; landlock says where":
        mkdirat unlinkat renameat linkat symlinkat ftruncate fsync fdatasync flock umask chdir fchdir;
    Owners NO_WHITEOUT, "likewise": renameat2;
    Owners Outcome::Allow, "mmap.flush on its own files": msync;
    Owners Outcome::Allow, "names and sizes, no contents": readlinkat faccessat faccessat2 statfs fstatfs;
    Owners Outcome::Allow, "copies between descriptors that it already has":
        dup dup3 pipe2 pwrite64 preadv pwritev sendfile copy_file_range;
    Owners Outcome::Allow, "waiting on its own descriptors": ppoll pselect6 epoll_create1 epoll_ctl epoll_pwait eventfd2;
    Owners UNIX_STREAM, "asyncio wakes itself through a socket pair": socketpair;
    Offline NO_ADDRESS, "bytes into that pair": sendto;
    Owners Outcome::Allow, "the end of that pair": shutdown;
    Offline IN_BAND, "bytes out of it": recvfrom;
    Owners Outcome::Allow, "its own timers and signals": setitimer getitimer rt_sigpending rt_sigtimedwait;
    Owners Outcome::Answer(0), "landlock does not mediate it, and shutil insists on it: pretended":
        fchmod fchmodat fchmodat2 fchown fchownat utimensat setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr;
    Owners Outcome::Answer(libc::EOPNOTSUPP), "landlock does not mediate it; shutil goes on where there are no attributes":
        listxattr llistxattr flistxattr getxattr lgetxattr fgetxattr;

    Shell Outcome::Allow, "programs map their own code": mmap mprotect;
    Shell Outcome::Allow, "programs; landlock says which": execve execveat;
    Shell NO_NAMESPACE, "processes and threads, but no namespaces": clone;
    Shell Outcome::Allow, "processes are waited for, in groups and sessions of their own":
        wait4 waitid setpgid setsid getpgid getsid;
    Shell Outcome::Allow, "a handler's rest": rt_sigsuspend;
    Shell ASKS, "what a terminal or a pipe is": ioctl;
    Shell DESCRIPTOR_CONTROL, "descriptor flags, locks on its own files": fcntl;
    Shell OWN_TRAITS, "names, and what can only become less": prctl;
    Shell OF_ITSELF, "limits can be lowered; nothing can raise them again": prlimit64;
    Shell OF_ITSELF, "where it runs": sched_setaffinity;
    Shell Outcome::Allow, "the C library asks this of each thread by its number; which numbers are taken, kill tells as well":
        sched_getaffinity sched_getscheduler sched_getparam;
    Shell Outcome::Allow, "make and others set the ids that they have; without a capability the kernel lets them have no other":
        setuid setgid setreuid setregid setresuid setresgid;
    Shell Outcome::Allow, "facts": sched_get_priority_max sched_get_priority_min getresuid getresgid getcpu getpriority;
    Shell OWN_BARRIERS, "runtimes order their own threads": membarrier;
    Shell OWN_PRIORITY, "nice": setpriority;
    Shell OWN_CLOCKS, "timers of its own": timer_create;
    Shell Outcome::Allow, "likewise": timerfd_create timerfd_settime timerfd_gettime timer_settime
        timer_gettime timer_delete timer_getoverrun;
    Shell Outcome::Allow, "waiting on its own descriptors": signalfd4 epoll_pwait2;
    Shell Outcome::Answer(libc::ENOSYS), "landlock does not mediate it: it would tell what happens in anybody's directories; tail and others go on without":
        inotify_init1;
    Shell Outcome::Allow, "descriptors that it already has": close_range preadv2 pwritev2 splice tee fadvise64 readahead sync_file_range;
    Shell WITHIN_LIMITS, "likewise; blocks count": fallocate;
    Shell PLAIN_MESSAGES, "its own socket pair": sendmsg recvmsg;
    Shell Outcome::Allow, "likewise": getsockopt getsockname getpeername;
    Networkless SOCKET_TRAITS, "likewise, but no programs in the kernel": setsockopt;
    Shell Outcome::Answer(libc::ENOSYS), "runtimes ask for these and go on without":
        pidfd_open pidfd_send_signal io_uring_setup openat2 seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self;
    Online INTERNET, "the operator allows the network; other protocols would load modules into the kernel": socket;
    Online INTERNET_TRAITS, "likewise; neither packet filters nor protocols above TCP": setsockopt;
    Online Outcome::Allow, "likewise": connect bind listen accept accept4;
    Online IN_BAND, "likewise, without the out-of-band byte": sendto recvfrom sendmmsg recvmmsg;
};

/// Rules that hold only where landlock mediates truncation.
pub(super) const ALLOWED_WITH_TRUNCATION: &[Rule] = rows! {
    Roomy NOT_BARE, "files of its own directory; landlock says which": openat;
    Shell NO_SET_ID, "files of its own directory and the system's; landlock says which": openat;
    Owners Outcome::Allow, "likewise": truncate;
};

/// Rules that hold where it does not: what truncates must open for writing, which landlock has always mediated, and
/// does so before the kernel truncates.
pub(super) const ALLOWED_WITHOUT_TRUNCATION: &[Rule] = rows! {
    Owners WRITES_OR_KEEPS, "files of its own directory; landlock says which": openat;
};

/// The ABI that mediates truncation.
pub(super) const TRUNCATION_ABI: u32 = 3;

/// Rules that hold only where landlock scopes signals.
pub(super) const ALLOWED_WITH_SIGNAL_SCOPE: &[Rule] = rows! {
    Roomy HARMLESS_SIGNALS, "abort and raise_signal; the landlock scope keeps it inside the process": tgkill;
    Shell Outcome::Allow, "the landlock scope keeps them inside the command's own processes":
        kill tkill tgkill rt_sigqueueinfo;
};

/// The ABI that scopes signals.
pub(super) const SIGNAL_SCOPE_ABI: u32 = 6;
