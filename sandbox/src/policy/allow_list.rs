//! Calls that a guest may make once its interpreter is warm. A call without a row fails with EPERM.

use super::rule::CallAction::{self, Allow, AllowIf, Answer, Supervised};
use super::rule::{ArgumentTest, LOW, SyscallRule, bits, one_of, rows, test};
use super::socket::{INTERNET_OPTIONS, INTERNET_SOCKETS, SOCK_FLAGS, SOCKET_PAIR_OPTIONS};

const PROT_EXEC: u64 = 4;
const O_PATH: u64 = 0o10_000_000;
const O_ACCMODE: u64 = 0o3;
const O_TRUNC: u64 = 0o1_000;
/// `__O_TMPFILE`: a file that never gets a name. No count of a directory would show it.
pub(super) const O_TMPFILE: u32 = 0o20_000_000;
/// The rights of its owner by which a directory can be counted.
pub(crate) const LISTABLE_MODE: u32 = 0o500;
pub(super) const LISTABLE_BITS: u64 = LISTABLE_MODE as u64;
/// `S_ISUID | S_ISGID`.
const SET_ID: u64 = 0o6_000;
/// `O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND | __O_TMPFILE`.
const WRITING: u64 = 0o3 | 0o100 | 0o1_000 | 0o2_000 | O_TMPFILE as u64;
const CLONE_THREAD: u64 = 0x0001_0000;
const CLONE_FILES: u64 = 0x400;
/// Every `CLONE_NEW*` flag: time, mount, cgroup, uts, ipc, user, pid, net.
const CLONE_ANY_NAMESPACE: u64 = 0x0000_0080 | 0x0002_0000 | 0x7e00_0000;

/// `mmap` and `mprotect` without `PROT_EXEC`.
const NOT_EXECUTABLE: CallAction = AllowIf(&[&[bits(2, PROT_EXEC, 0)]]);
/// `openat` with flags that neither write, create, truncate nor open with `O_PATH`.
const READ_ONLY: CallAction = AllowIf(&[&[bits(2, WRITING | O_PATH, 0)]]);
/// `openat` in a writable directory: landlock decides, but no `O_PATH`, and no set-id bits on new files.
const NO_O_PATH: CallAction = AllowIf(&[&[bits(2, O_PATH, 0), NEW_FILE_WITHOUT_SET_ID]]);
/// The same, and `O_TRUNC` only together with exactly `O_WRONLY` or `O_RDWR`.
const TRUNCATE_ONLY_IF_WRITING: CallAction = AllowIf(&[
    &[bits(2, O_PATH | O_TRUNC, 0), NEW_FILE_WITHOUT_SET_ID],
    &[bits(2, O_PATH | O_ACCMODE, 0o1), NEW_FILE_WITHOUT_SET_ID],
    &[bits(2, O_PATH | O_ACCMODE, 0o2), NEW_FILE_WITHOUT_SET_ID],
]);
/// `openat` without set-id bits on new files.
const NO_SET_ID: CallAction = AllowIf(&[&[NEW_FILE_WITHOUT_SET_ID]]);
const NEW_FILE_WITHOUT_SET_ID: ArgumentTest = bits(3, SET_ID, 0);
/// `mkdirat` of a directory that can be listed and searched.
const LISTABLE: CallAction = AllowIf(&[&[bits(2, LISTABLE_BITS, LISTABLE_BITS)]]);
/// `umask` that leaves these bits of new directories.
const LEAVES_LISTABLE: CallAction = AllowIf(&[&[bits(0, LISTABLE_BITS, 0)]]);
/// `ioctl(TCGETS)`: `isatty` asks this.
const IS_TERMINAL: &[ArgumentTest] = &[bits(1, LOW, 0x5401)];
/// `ioctl(FIONBIO)`: Python's `setblocking` on its own socket pair; asyncio cannot start without it.
const NON_BLOCKING: &[ArgumentTest] = &[bits(1, LOW, 0x5421)];
/// `ioctl(FIOCLEX)`: Python marks the descriptor of an opener with it (tempfile) and fails on EPERM.
const CLOSE_ON_EXEC: &[ArgumentTest] = &[bits(1, LOW, 0x5451)];
/// `ioctl(FIONCLEX)`, the opposite.
const KEEP_ON_EXEC: &[ArgumentTest] = &[bits(1, LOW, 0x5450)];
/// Clocks by their own numbers. A negative number is the clock of a process id or a descriptor: it would show
/// which processes exist and how much processor time each has used.
const NO_PROCESS_CLOCK: CallAction = AllowIf(&[&[bits(0, 0x8000_0000, 0)]]);
/// `futex` without the priority-inheriting operations: these look their owner up by any process's id.
const NO_PRIORITY_INHERITANCE: CallAction = one_of!(operation:
    FUTEX_WAIT FUTEX_WAKE FUTEX_REQUEUE FUTEX_CMP_REQUEUE FUTEX_WAKE_OP FUTEX_WAIT_BITSET FUTEX_WAKE_BITSET);
/// The first argument names the caller itself.
const OF_ITSELF: CallAction = AllowIf(&[&[bits(0, LOW, 0)]]);
/// `getpriority(PRIO_PROCESS, self)`.
const OWN_PRIORITY: CallAction = AllowIf(&[&[bits(0, LOW, 0), bits(1, LOW, 0)]]);
/// A thread of the same process with the same descriptors, and no new namespace.
const THREAD: CallAction = AllowIf(&[&[NEW_THREAD]]);
/// `socketpair(AF_UNIX, SOCK_STREAM | flags, 0)`.
const UNIX_STREAM: CallAction =
    AllowIf(&[&[bits(0, LOW, 1), bits(1, LOW & !SOCK_FLAGS, 1), bits(2, LOW, 0)]]);
/// The same, or with `SOCK_SEQPACKET`, which Rust's library needs to start programs. Neither has an address.
const UNIX_CONNECTED: CallAction = AllowIf(&[
    &[bits(0, LOW, 1), bits(1, LOW & !SOCK_FLAGS, 1), bits(2, LOW, 0)],
    &[bits(0, LOW, 1), bits(1, LOW & !SOCK_FLAGS, 5), bits(2, LOW, 0)],
]);
/// `sendto` on a connected socket: no address, and no out-of-band byte (the kernel's handling of it in unix
/// sockets has had holes).
const NO_ADDRESS: CallAction = AllowIf(&[&[bits(4, u64::MAX, 0), PLAIN_FLAGS]]);
/// `sendmsg` and `recvmsg` likewise. No socket of a command has an address to send to.
const PLAIN_MESSAGES: CallAction = AllowIf(&[&[bits(2, 1 | FAST_OPEN, 0)]]);
/// `recvfrom` likewise.
const IN_BAND: CallAction = AllowIf(&[&[PLAIN_FLAGS]]);
/// The fourth argument without `MSG_OOB` and `MSG_FASTOPEN`.
const PLAIN_FLAGS: ArgumentTest = bits(3, 1 | FAST_OPEN, 0);
/// `MSG_FASTOPEN` connects, and landlock does not mediate that.
const FAST_OPEN: u64 = 0x2000_0000;
/// `renameat2` without `RENAME_WHITEOUT`, which would make a device.
const NO_WHITEOUT: CallAction = AllowIf(&[&[bits(4, 4, 0)]]);
/// `prlimit64` that only reads, of the caller itself.
const ONLY_READS: CallAction = AllowIf(&[&[bits(0, LOW, 0), bits(2, u64::MAX, 0)]]);
/// `fcntl` that looks at a descriptor, copies it, or sets its flags.
const DESCRIPTOR_FLAGS: CallAction = one_of!(command: F_DUPFD F_DUPFD_CLOEXEC F_GETFD F_SETFD F_GETFL);
/// The same, and non-blocking mode and advisory locks (sqlite).
const DESCRIPTOR_FLAGS_AND_LOCKS: CallAction = one_of!(command:
    F_DUPFD F_DUPFD_CLOEXEC F_GETFD F_SETFD F_GETFL F_SETFL F_GETLK F_SETLK F_SETLKW);
/// Descriptor flags, locks, and pipes up to the size that they have anyway. `F_SETOWN` is absent: it sends
/// signals to others. So are locks of open files (`F_OFD_SETLK`): the kernel's list of locks does not say
/// whose they are.
const DESCRIPTOR_CONTROL: CallAction = AllowIf(&[
    &[command(libc::F_DUPFD)],
    &[command(libc::F_DUPFD_CLOEXEC)],
    &[command(libc::F_GETFD)],
    &[command(libc::F_SETFD)],
    &[command(libc::F_GETFL)],
    &[command(libc::F_SETFL)],
    &[command(libc::F_GETLK)],
    &[command(libc::F_SETLK)],
    &[command(libc::F_SETLKW)],
    &[command(libc::F_GETPIPE_SZ)],
    &[command(libc::F_SETPIPE_SZ), bits(2, LOW & !(PIPE_BYTES - 1), 0)],
    &[command(libc::F_SETPIPE_SZ), bits(2, LOW, PIPE_BYTES)],
]);
/// The size of a new pipe. Larger ones hold memory that no rlimit counts.
const PIPE_BYTES: u64 = 65_536;
/// Signals that a program may send itself. Those by which the parent recognises a limit or a forbidden call
/// are absent.
const HARMLESS_SIGNALS: CallAction = one_of!(signal: SIGINT SIGABRT SIGUSR1 SIGUSR2 SIGSEGV SIGALRM SIGTERM);
/// The same, or a process with descriptors of its own. One table of descriptors belongs to one process, so
/// that what a run holds can be counted: locks of a table that a process shared and left name no living
/// process.
const NO_NAMESPACE: CallAction = AllowIf(&[&[NEW_THREAD], &[NEW_PROCESS]]);
const NEW_THREAD: ArgumentTest =
    bits(0, CLONE_THREAD | CLONE_FILES | CLONE_ANY_NAMESPACE, CLONE_THREAD | CLONE_FILES);
const NEW_PROCESS: ArgumentTest = bits(0, CLONE_THREAD | CLONE_FILES | CLONE_ANY_NAMESPACE, 0);
/// `close_range` without `CLOSE_RANGE_UNSHARE`, which gives a thread a table of its own.
const SAME_TABLE: CallAction = AllowIf(&[&[bits(2, 2, 0)]]);
/// Queries of terminals, pipes and descriptors. None of them writes into a terminal's input.
const TERMINAL_QUESTIONS: CallAction = AllowIf(&[
    IS_TERMINAL,
    NON_BLOCKING,
    CLOSE_ON_EXEC,
    KEEP_ON_EXEC,
    &[bits(1, LOW, 0x541b)],
    &[bits(1, LOW, 0x5413)],
    &[bits(1, LOW, 0x540f)],
]);
/// Thread names, the bounding set, names of mappings, no-new-privs, the parent-death signal.
const OWN_ATTRIBUTES: CallAction = AllowIf(&[
    &[bits(0, LOW, 15)],
    &[bits(0, LOW, 16)],
    &[bits(0, LOW, 23)],
    &[bits(0, LOW, 0x5356_4d41)],
    &[bits(0, LOW, 38)],
    &[bits(0, LOW, 39)],
    &[bits(0, LOW, 1)],
    &[bits(0, LOW, 36)],
]);
/// `fallocate` that grows a file like any write, or punches a hole. `FALLOC_FL_KEEP_SIZE` alone would take
/// blocks past the file size limit.
const WITHIN_LIMITS: CallAction = AllowIf(&[&[command(0)], &[command(3)]]);
/// Barriers inside the process, and the query for the supported ones. The global ones make the whole machine
/// wait.
const OWN_BARRIERS: CallAction = AllowIf(&[&[bits(0, LOW & !0x1f8, 0)]]);
/// Timers on clocks by their own numbers, and on this process's and this thread's processor time.
const OWN_CLOCKS: CallAction =
    AllowIf(&[&[bits(0, 0x8000_0000, 0)], &[test(0, LOW, -6)], &[test(0, LOW, -2)]]);

const fn command(value: i32) -> ArgumentTest {
    test(1, LOW, value)
}

/// An operation of `futex`, with or without `FUTEX_PRIVATE_FLAG` and `FUTEX_CLOCK_REALTIME`.
const fn operation(value: i32) -> ArgumentTest {
    test(1, LOW & !0x180, value)
}

const fn signal(value: i32) -> ArgumentTest {
    test(2, LOW, value)
}

/// The allow list.
pub(super) const ALLOWED: &[SyscallRule] = rows! {
    All Allow, "descriptors that it already has":
        SYS_read SYS_readv SYS_pread64 SYS_write SYS_writev SYS_lseek SYS_close;
    All Allow, "metadata of descriptors that it already has": SYS_fstat;
    WithDirectory Allow, "file metadata; landlock does not mediate it, and contents stay closed":
        SYS_newfstatat SYS_statx;
    All Allow, "memory": SYS_munmap SYS_mremap SYS_madvise SYS_brk;
    Code NOT_EXECUTABLE, "memory, but no code beyond that of the warm-up": SYS_mmap SYS_mprotect;
    All Allow, "ends itself": SYS_exit SYS_exit_group;
    All Allow, "its own signals":
        SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_sigaltstack SYS_restart_syscall;
    All NO_PRIORITY_INHERITANCE, "locks inside the process": SYS_futex;
    All Allow, "the same": SYS_sched_yield;
    All NO_PROCESS_CLOCK, "the machine's clocks, not those of other processes":
        SYS_clock_gettime SYS_clock_getres SYS_clock_nanosleep;
    All Allow, "the clock": SYS_nanosleep SYS_gettimeofday;
    All Allow, "randomness": SYS_getrandom;
    All Allow, "its own ids": SYS_getpid SYS_gettid SYS_getppid SYS_getuid SYS_geteuid SYS_getgid SYS_getegid;
    All Allow, "imports list library directories": SYS_getcwd SYS_getdents64;
    Confined READ_ONLY, "imports read library files": SYS_openat;
    Confined AllowIf(&[IS_TERMINAL]), "isatty": SYS_ioctl;
    Confined DESCRIPTOR_FLAGS, "descriptor flags": SYS_fcntl;
    All Answer(libc::ENOSYS), "its flags lie in memory, which a filter cannot read: the C library falls back to clone":
        SYS_clone3;

    Lenient AllowIf(&[IS_TERMINAL, NON_BLOCKING, CLOSE_ON_EXEC, KEEP_ON_EXEC]), "isatty, asyncio, tempfile":
        SYS_ioctl;
    Lenient DESCRIPTOR_FLAGS_AND_LOCKS, "descriptor flags, locks on its own files": SYS_fcntl;
    Lenient THREAD, "threads, never processes": SYS_clone;
    WithDirectory Allow, "starts threads": SYS_set_robust_list SYS_rseq SYS_set_tid_address;
    WithDirectory Allow, "facts about the machine that the library asks for":
        SYS_getrusage SYS_times SYS_sysinfo SYS_uname SYS_getgroups;
    Lenient OF_ITSELF, "the same, of itself alone: another number would show which processes exist":
        SYS_sched_getaffinity SYS_getpgid SYS_getsid;
    Lenient OWN_PRIORITY, "the same": SYS_getpriority;
    Lenient ONLY_READS, "limits can be read, never set": SYS_prlimit64;
    WithDirectory Allow, "its own directory; landlock decides on paths":
        SYS_unlinkat SYS_renameat SYS_linkat SYS_symlinkat SYS_ftruncate SYS_fsync SYS_fdatasync
        SYS_flock SYS_chdir SYS_fchdir;
    WithDirectory LISTABLE, "the same; the server counts what it can list": SYS_mkdirat;
    WithDirectory LEAVES_LISTABLE, "the same": SYS_umask;
    WithDirectory NO_WHITEOUT, "the same": SYS_renameat2;
    WithDirectory Allow, "mmap.flush on its own files": SYS_msync;
    WithDirectory Allow, "names and sizes, no contents":
        SYS_readlinkat SYS_faccessat SYS_faccessat2 SYS_statfs SYS_fstatfs;
    WithDirectory Allow, "copies between descriptors that it already has":
        SYS_dup SYS_dup3 SYS_pipe2 SYS_pwrite64 SYS_preadv SYS_pwritev SYS_sendfile SYS_copy_file_range;
    WithDirectory Allow, "waiting on its own descriptors":
        SYS_ppoll SYS_pselect6 SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_eventfd2;
    Shell UNIX_CONNECTED, "pipes to child programs": SYS_socketpair;
    Lenient UNIX_STREAM, "asyncio wakes itself through a socket pair": SYS_socketpair;
    WithDirectoryOffline NO_ADDRESS, "writes into that pair": SYS_sendto;
    WithDirectory Allow, "closes that pair": SYS_shutdown;
    WithDirectoryOffline IN_BAND, "reads from that pair": SYS_recvfrom;
    WithDirectory Allow, "its own timers and signals":
        SYS_setitimer SYS_getitimer SYS_rt_sigpending SYS_rt_sigtimedwait;
    Shell Supervised, "landlock does not mediate it: the supervisor does":
        SYS_fchmod SYS_fchmodat SYS_fchmodat2 SYS_fchown SYS_fchownat SYS_utimensat;
    WithDirectory Answer(libc::EOPNOTSUPP), "landlock does not mediate it; programs continue where attributes are not supported":
        SYS_listxattr SYS_llistxattr SYS_flistxattr SYS_getxattr SYS_lgetxattr SYS_fgetxattr SYS_setxattr
        SYS_lsetxattr SYS_fsetxattr SYS_removexattr SYS_lremovexattr SYS_fremovexattr;

    Shell Allow, "programs map their own code": SYS_mmap SYS_mprotect;
    Shell Allow, "programs; landlock decides on paths": SYS_execve SYS_execveat;
    Shell NO_NAMESPACE, "processes and threads, but no namespaces, and no descriptors that processes share": SYS_clone;
    Shell Allow, "waits for its processes; makes groups and sessions":
        SYS_wait4 SYS_waitid SYS_setpgid SYS_setsid SYS_getpgid SYS_getsid;
    Shell Allow, "signal handlers": SYS_rt_sigsuspend;
    Shell TERMINAL_QUESTIONS, "questions about terminals and pipes": SYS_ioctl;
    Shell DESCRIPTOR_CONTROL, "descriptor flags, locks on its own files": SYS_fcntl;
    Shell OWN_ATTRIBUTES, "names, and settings that can only be lowered": SYS_prctl;
    Shell OF_ITSELF, "limits can be lowered; nothing can raise them again": SYS_prlimit64;
    Shell OF_ITSELF, "its own processors": SYS_sched_setaffinity;
    Shell Allow, "the C library asks this of each thread by its number; kill shows used numbers as well":
        SYS_sched_getaffinity SYS_sched_getscheduler SYS_sched_getparam;
    Shell Allow, "make and others set the ids that they already have; without a capability the kernel allows no other":
        SYS_setuid SYS_setgid SYS_setreuid SYS_setregid SYS_setresuid SYS_setresgid;
    Shell Allow, "facts":
        SYS_sched_get_priority_max SYS_sched_get_priority_min SYS_getresuid SYS_getresgid SYS_getcpu
        SYS_getpriority;
    Shell OWN_BARRIERS, "barriers between its own threads": SYS_membarrier;
    Shell OWN_PRIORITY, "nice": SYS_setpriority;
    Shell OWN_CLOCKS, "its own timers": SYS_timer_create;
    Shell Allow, "the same":
        SYS_timerfd_create SYS_timerfd_settime SYS_timerfd_gettime SYS_timer_settime SYS_timer_gettime
        SYS_timer_delete SYS_timer_getoverrun;
    Shell Allow, "waiting on its own descriptors": SYS_signalfd4 SYS_epoll_pwait2;
    Shell Answer(libc::ENOSYS), "landlock does not mediate it: it would show changes in any directory; tail and others continue without it":
        SYS_inotify_init1;
    Shell Allow, "descriptors that it already has":
        SYS_preadv2 SYS_pwritev2 SYS_splice SYS_tee SYS_fadvise64 SYS_readahead
        SYS_sync_file_range;
    Shell SAME_TABLE, "the same, in the table that its threads share": SYS_close_range;
    Shell WITHIN_LIMITS, "the same; blocks count against limits": SYS_fallocate;
    Shell PLAIN_MESSAGES, "messages on its own socket pair": SYS_sendmsg SYS_recvmsg;
    Shell Allow, "the same": SYS_getsockopt SYS_getsockname SYS_getpeername;
    ShellWithoutNetwork SOCKET_PAIR_OPTIONS, "the same, but no socket filters": SYS_setsockopt;
    Shell Answer(libc::ENOSYS), "runtimes ask for these and continue without them":
        SYS_pidfd_open SYS_pidfd_send_signal SYS_io_uring_setup SYS_openat2 SYS_seccomp
        SYS_landlock_create_ruleset SYS_landlock_add_rule SYS_landlock_restrict_self;
    ShellWithNetwork INTERNET_SOCKETS, "the operator allows the network; other protocols would load kernel modules":
        SYS_socket;
    ShellWithNetwork INTERNET_OPTIONS, "the same; neither packet filters nor protocols above TCP":
        SYS_setsockopt;
    ShellWithNetwork Allow, "the same": SYS_connect SYS_bind SYS_listen SYS_accept SYS_accept4;
    ShellWithNetwork IN_BAND, "the same, without the out-of-band byte and without a connection beside connect":
        SYS_sendto SYS_recvfrom SYS_sendmmsg SYS_recvmmsg;
};

/// Rules where landlock mediates truncation.
pub(super) const ALLOWED_WITH_TRUNCATION: &[SyscallRule] = rows! {
    Lenient NO_O_PATH, "files of its own directory; landlock decides on paths": SYS_openat;
    Shell NO_SET_ID, "files of its own directory and the system's; landlock decides on paths": SYS_openat;
    WithDirectory Allow, "the same": SYS_truncate;
};

/// Rules where landlock does not mediate truncation: a call that truncates must open for writing. Landlock
/// has always mediated that, and does so before the kernel truncates.
pub(super) const ALLOWED_WITHOUT_TRUNCATION: &[SyscallRule] = rows! {
    WithDirectory TRUNCATE_ONLY_IF_WRITING, "files of its own directory; landlock decides on paths":
        SYS_openat;
};

/// The first landlock ABI that mediates truncation.
pub(super) const TRUNCATION_ABI: u32 = 3;

/// Rules where landlock scopes signals.
pub(super) const ALLOWED_WITH_SIGNAL_SCOPE: &[SyscallRule] = rows! {
    Lenient HARMLESS_SIGNALS, "abort and raise_signal; the landlock scope limits it to the process":
        SYS_tgkill;
    Shell Allow, "the landlock scope limits them to the command's own processes":
        SYS_kill SYS_tkill SYS_tgkill SYS_rt_sigqueueinfo;
};

/// The first landlock ABI that scopes signals.
pub(super) const SIGNAL_SCOPE_ABI: u32 = 6;
