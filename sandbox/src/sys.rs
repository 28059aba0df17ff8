//! The only unsafe code of the crate: calls that neither the standard library nor rustix, landlock or
//! seccompiler offer safely. One system call (or one foreign contract) per block, and no policy.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use seccompiler::sock_filter;

use crate::process::ChildExit;

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Waits for a child, reaps it, and returns its exit. Only for children that run a few lines of our own: a
/// killed child may exit late, or never.
pub(crate) fn reap(pid: i32) -> io::Result<ChildExit> {
    reap_with(pid, 0)?.ok_or_else(|| io::ErrorKind::WouldBlock.into())
}

/// Reaps a child that has exited, and returns its exit; `None` if it has not, or if another process traces
/// it.
pub(crate) fn try_reap(pid: i32) -> io::Result<Option<ChildExit>> {
    reap_with(pid, libc::WNOHANG)
}

fn reap_with(pid: i32, options: i32) -> io::Result<Option<ChildExit>> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are to live, writable memory of the right types.
        let reaped = unsafe { libc::wait4(pid, &raw mut status, options, usage.as_mut_ptr()) };
        if reaped == pid {
            break;
        }
        if reaped == 0 {
            return Ok(None);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: zeroed at first and filled by wait4: every field is a plain number.
    let usage = unsafe { usage.assume_init() };
    let exited = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
    let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
    Ok(Some(ChildExit {
        exit_code: exited,
        signal,
        cpu: duration(usage.ru_utime) + duration(usage.ru_stime),
        max_rss_kb: u64::try_from(usage.ru_maxrss).unwrap_or(0),
        oom_kills: 0,
        leaves_processes: false,
    }))
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
}

/// Limits the number of malloc arenas of the C library. False if it does not accept the limit.
pub(crate) fn limit_malloc_arenas(max: i32) -> bool {
    // SAFETY: takes two plain numbers and changes only the allocator's own settings.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, max) == 1 }
}

/// Returns free memory of the C library's heaps to the kernel.
pub(crate) fn trim_malloc() {
    // SAFETY: takes a plain number and touches only memory that the allocator knows to be free.
    unsafe { libc::malloc_trim(0) };
}

/// Bytes that the program has allocated from the C library, in its heaps and in mappings of their own.
pub(crate) fn allocated_bytes() -> usize {
    // SAFETY: takes nothing and returns plain numbers.
    let info = unsafe { libc::mallinfo2() };
    info.uordblks.saturating_add(info.hblkhd)
}

/// Removes the mapped pages of this process's code, or of its constants, from its page tables.
pub(crate) fn unmap_unwritten(range: std::ops::Range<usize>) -> bool {
    let (start, length) = (std::ptr::without_provenance_mut(range.start), range.len());
    // SAFETY: the caller found a private mapping of a file that is read or executed, never written: a
    // removed page is read from the file again at the next access, by this thread, too.
    unsafe { libc::madvise(start, length, libc::MADV_DONTNEED) == 0 }
}

/// Which side of a fork this is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ForkResult {
    /// The new process.
    Child,
    /// The old one, with the new one's id.
    Parent(i32),
}

/// Forks. Only for the broker and its children: with one thread, no lock of another thread can stay locked.
pub(crate) fn fork() -> io::Result<ForkResult> {
    // SAFETY: the caller's process has one thread, so the child may do whatever its parent may.
    match checked(unsafe { libc::fork() }.into())? {
        0 => Ok(ForkResult::Child),
        pid => Ok(ForkResult::Parent(i32::try_from(pid).unwrap_or(0))),
    }
}

/// The result of [`reap_any`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReapOutcome {
    NoChildren,
    /// No child has exited.
    Running,
    /// One child has exited.
    Ended {
        pid: i32,
        exit_code: Option<i32>,
        signal: Option<i32>,
    },
}

/// Reaps any child that has exited. With `waits`, waits for one.
pub(crate) fn reap_any(waits: bool) -> io::Result<ReapOutcome> {
    let mut status = 0;
    let options = if waits { 0 } else { libc::WNOHANG };
    loop {
        // SAFETY: the pointer is to live, writable memory.
        match checked(unsafe { libc::waitpid(-1, &raw mut status, options) }.into()) {
            Ok(0) => return Ok(ReapOutcome::Running),
            Ok(pid) => {
                let exit_code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
                let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
                return Ok(ReapOutcome::Ended { pid: i32::try_from(pid).unwrap_or(0), exit_code, signal });
            }
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(ReapOutcome::NoChildren),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn signal_set(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the set is live, writable memory; sigemptyset fills it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

/// Blocks exactly these signals until [`wait_for_signal`] takes them. An empty list unblocks all.
pub(crate) fn block_signals(signals: &[i32]) -> io::Result<()> {
    let set = signal_set(signals);
    // SAFETY: the set is live; no old set is requested.
    checked(unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) }.into())
        .map(drop)
}

/// Resets every signal to its default action: children would inherit signals that the caller ignores
/// (`nohup`, `SIGCHLD`). Except `SIGPIPE`, which Rust's own start ignores.
pub(crate) fn default_signals() {
    for signal in (1..32).filter(|signal| *signal != libc::SIGPIPE) {
        // SAFETY: no handler is set, only the default action; numbers that cannot be changed are refused.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Waits for one of these blocked signals.
pub(crate) fn wait_for_signal(signals: &[i32]) -> io::Result<i32> {
    let set = signal_set(signals);
    loop {
        // SAFETY: the set is live; no details are requested.
        match checked(unsafe { libc::sigwaitinfo(&raw const set, std::ptr::null_mut()) }.into()) {
            Ok(signal) => return Ok(i32::try_from(signal).unwrap_or(0)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether this blocked signal waits for the process.
pub(crate) fn is_signal_pending(signal: i32) -> bool {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the set is live, writable memory, initialised by zeros already; the kernel fills it.
    unsafe {
        libc::sigpending(set.as_mut_ptr());
        libc::sigismember(set.as_ptr(), signal) == 1
    }
}

/// Kills every other process that this one may signal. In a landlock domain that scopes signals, this is
/// every process of the domain at once: none can escape by forking.
pub(crate) fn kill_domain() {
    // SAFETY: kill touches no memory.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}

/// Enforces a landlock ruleset on the calling thread. No-new-privs must be set.
pub(crate) fn restrict_self(ruleset: BorrowedFd<'_>, flags: u32) -> io::Result<()> {
    // SAFETY: the call touches no memory.
    checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), flags) }).map(drop)
}

/// A lock on a whole file, or on a directory, that belongs to the open file and ends with it.
fn whole_file(kind: libc::c_int) -> libc::flock {
    let (kind, whence) = (i16::try_from(kind), i16::try_from(libc::SEEK_SET));
    libc::flock {
        l_type: kind.unwrap_or_default(),
        l_whence: whence.unwrap_or_default(),
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// Marks a directory as in use until the descriptor is closed. Other locks (`flock`) are independent of it.
pub(crate) fn hold(directory: BorrowedFd<'_>) -> io::Result<()> {
    let lock = whole_file(libc::F_RDLCK);
    // SAFETY: the kernel only reads the live lock.
    let held = unsafe { libc::fcntl(directory.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    checked(held.into()).map(drop)
}

/// Whether somebody [holds](hold) a directory, in whatever process-id namespace.
pub(crate) fn is_held(directory: BorrowedFd<'_>) -> io::Result<bool> {
    let mut lock = whole_file(libc::F_WRLCK);
    // SAFETY: the kernel reads and writes the live lock: that of the holder, or none.
    checked(unsafe { libc::fcntl(directory.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) }.into())?;
    Ok(libc::c_int::from(lock.l_type) != libc::F_UNLCK)
}

/// Copies a descriptor to a number, without close-on-exec. A descriptor with that number is closed.
pub(crate) fn copy_descriptor(descriptor: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    if descriptor.as_raw_fd() == number {
        // SAFETY: F_SETFD touches no memory.
        return checked(unsafe { libc::fcntl(number, libc::F_SETFD, 0) }.into()).map(drop);
    }
    // SAFETY: dup2 touches no memory; the caller is the child's single thread and owns the number.
    checked(unsafe { libc::dup2(descriptor.as_raw_fd(), number) }.into()).map(drop)
}

/// Takes a descriptor that the parent passed with a fixed number.
pub(crate) fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_GETFD touches no memory; it fails if the number is not open.
    checked(unsafe { libc::fcntl(number, libc::F_GETFD) }.into())?;
    // SAFETY: the number is open, and only the child's start takes it, once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Closes every descriptor from `first` on.
pub(crate) fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: close_range touches no memory; the caller holds no descriptor from `first` on.
    checked(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) }).map(drop)
}

/// The landlock ABI of the kernel; an error without landlock.
pub(crate) fn landlock_abi() -> io::Result<u32> {
    const VERSION: u32 = 1;
    // SAFETY: with the version flag and a null attribute of length 0 the kernel only returns a number.
    let abi = checked(unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, VERSION)
    })?;
    Ok(u32::try_from(abi).unwrap_or(0))
}

fn filter_header(program: &[sock_filter]) -> io::Result<libc::sock_fprog> {
    Ok(libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
        filter: program.as_ptr().cast::<libc::sock_filter>().cast_mut(),
    })
}

/// Installs a seccomp filter permanently, on every thread of the process. No-new-privs must be set.
pub(crate) fn install_filter(program: &[sock_filter]) -> io::Result<()> {
    let header = filter_header(program)?;
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
    // SAFETY: the kernel copies `len` instructions of the same layout and writes nothing.
    let thread = checked(unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const header) })?;
    // A positive result is the id of a thread without the filter: nothing was installed.
    if thread == 0 {
        Ok(())
    } else {
        Err(io::Error::other(format!("thread {thread} cannot be synchronised")))
    }
}

/// Installs a seccomp filter permanently on the calling thread. Returns the descriptor from which another
/// process receives the calls that the filter does not decide.
pub(crate) fn install_asking_filter(program: &[sock_filter]) -> io::Result<OwnedFd> {
    let header = filter_header(program)?;
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
    // SAFETY: the kernel copies `len` instructions of the same layout and writes nothing.
    let listener = checked(unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const header) })?;
    let listener = RawFd::try_from(listener).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    // SAFETY: the kernel has just opened it for this process, and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(listener) })
}

/// Receives a call from a filter's listener.
pub(crate) fn receive_call(listener: BorrowedFd<'_>) -> io::Result<libc::seccomp_notif> {
    let mut call = MaybeUninit::<libc::seccomp_notif>::zeroed();
    // SAFETY: the kernel fills the live memory, whose size is part of the request's number.
    checked(
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, call.as_mut_ptr()) }
            .into(),
    )?;
    // SAFETY: zeroed at first and filled by the kernel: every field is a plain number.
    Ok(unsafe { call.assume_init() })
}

/// Whether the process that made a call still waits for its answer: until then its id is its own.
pub(crate) fn is_call_pending(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the kernel only reads the live number.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
}

/// Answers a call: success, or an error number.
pub(crate) fn answer_call(listener: BorrowedFd<'_>, id: u64, errno: i32) -> io::Result<()> {
    let mut answer = libc::seccomp_notif_resp { id, val: 0, error: -errno, flags: 0 };
    // SAFETY: the kernel only reads the live answer, whose size is part of the request's number.
    checked(
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) }.into(),
    )
    .map(drop)
}

/// Reads another process's memory. Returns how many bytes it has read.
pub(crate) fn read_memory(pid: u32, address: u64, bytes: &mut [u8]) -> io::Result<usize> {
    let invalid = |_| io::Error::from_raw_os_error(libc::EFAULT);
    let pid = i32::try_from(pid).map_err(invalid)?;
    let address = usize::try_from(address).map_err(invalid)?;
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: bytes.len() };
    // SAFETY: the kernel writes at most `bytes.len()` bytes into the live slice; it checks the other address.
    let length = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    checked(length.try_into().unwrap_or(-1))?;
    Ok(usize::try_from(length).unwrap_or(0))
}

/// A descriptor that is readable while one of these blocked signals is pending.
pub(crate) fn signal_descriptor(signals: &[i32]) -> io::Result<OwnedFd> {
    let set = signal_set(signals);
    // SAFETY: the set is live.
    let descriptor = checked(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) }.into())?;
    let descriptor = RawFd::try_from(descriptor).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    // SAFETY: the kernel has just opened it, and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The bytes of a filter in the kernel's layout.
pub(crate) fn filter_bytes(program: &[sock_filter]) -> &[u8] {
    // SAFETY: sock_filter is repr(C) of plain integers without padding; the slice covers exactly the program.
    unsafe { std::slice::from_raw_parts(program.as_ptr().cast::<u8>(), size_of_val(program)) }
}

/// Whether the kernel has seccomp filters.
pub(crate) fn has_seccomp_filters() -> bool {
    // SAFETY: with a null program the kernel returns EFAULT if it has filters, EINVAL otherwise; nothing is
    // set.
    let result =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, std::ptr::null::<u8>()) };
    result < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
}

/// Exits at once, without clean-up.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit does not return and touches no memory.
    unsafe { libc::_exit(code) }
}

/// Attempts of the self-test: each makes one call that the policy must stop.
pub(crate) mod attempt {
    use std::io;

    use super::checked;

    /// Truncates a file by its path.
    pub(crate) fn truncate(path: &std::path::Path) -> io::Result<()> {
        use std::os::unix::ffi::OsStrExt;
        let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: the path is null-terminated and live.
        checked(unsafe { libc::truncate(path.as_ptr(), 0) }.into()).map(drop)
    }

    /// Opens an internet socket.
    pub(crate) fn socket() -> io::Result<()> {
        // SAFETY: socket touches no memory.
        checked(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0) }.into()).map(drop)
    }

    /// Forks; the child exits at once.
    pub(crate) fn fork() -> io::Result<()> {
        // SAFETY: a raw fork in the self-test's single-threaded child.
        let pid = checked(unsafe {
            libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0usize, 0usize, 0usize, 0usize)
        })?;
        if pid == 0 {
            super::exit_now(0);
        }
        Ok(())
    }

    /// Checks whether it may signal the parent.
    pub(crate) fn signal_parent(parent: i32) -> io::Result<()> {
        // SAFETY: signal 0 sends nothing.
        checked(unsafe { libc::kill(parent, 0) }.into()).map(drop)
    }

    /// Maps memory that can be written and executed.
    pub(crate) fn executable_memory() -> io::Result<()> {
        let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: an anonymous mapping at an address of the kernel's choice; nothing uses it.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) };
        if address == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Asks to be traced. Must kill.
    pub(crate) fn ptrace() -> io::Result<()> {
        // SAFETY: PTRACE_TRACEME touches no memory.
        checked(unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) }).map(drop)
    }

    /// Executes this very program's file. Must kill.
    pub(crate) fn execve() -> io::Result<()> {
        let path = c"/proc/self/exe";
        let none: [*const libc::c_char; 1] = [std::ptr::null()];
        // SAFETY: path and both lists are null-terminated and live.
        checked(unsafe { libc::execve(path.as_ptr(), none.as_ptr(), none.as_ptr()) }.into()).map(drop)
    }

    /// Sets up an `io_uring` with a null parameter block. Must kill.
    pub(crate) fn io_uring() -> io::Result<()> {
        // SAFETY: the kernel refuses a null block with EFAULT before anything else.
        let result = unsafe { libc::syscall(libc::SYS_io_uring_setup, 8, std::ptr::null::<u8>()) };
        match checked(result) {
            // EFAULT means that the call ran: the policy did not hold.
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Makes any call and returns its result; an error as its negative number.
    #[cfg(feature = "ablation")]
    pub(crate) fn call(call: [u64; 7]) -> i64 {
        let [number, one, two, three, four, five, six] = call;
        // SAFETY: the test's child makes the call, and nothing but the test depends on that child.
        match checked(unsafe { libc::syscall(number.cast_signed(), one, two, three, four, five, six) }) {
            Ok(answer) => answer,
            Err(error) => -i64::from(error.raw_os_error().unwrap_or(0)),
        }
    }

    /// Makes a system call by its x32 number. Must kill.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn x32_call() -> io::Result<()> {
        // SAFETY: getpid touches no memory.
        checked(unsafe { libc::syscall(0x4000_0000 + libc::SYS_getpid) }).map(drop)
    }

    /// Other architectures have no second number range: a call of the kill list replaces it.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn x32_call() -> io::Result<()> {
        ptrace()
    }
}

/// The limit of an allocator, and whether it was reached. A guest cannot forge either.
#[derive(Debug)]
pub(crate) struct AllocationMeter {
    /// In bytes.
    pub limit: std::cell::Cell<usize>,
    /// Whether an allocation was refused.
    pub refused: std::cell::Cell<bool>,
}

/// The allocator of `QuickJS`.
pub(crate) struct MeteredAllocator {
    used: usize,
    meter: std::rc::Rc<AllocationMeter>,
}

impl MeteredAllocator {
    pub(crate) fn new(meter: std::rc::Rc<AllocationMeter>) -> Self {
        Self { used: 0, meter }
    }

    fn fits(&self, more: usize) -> bool {
        let fits = self.used.checked_add(more).is_some_and(|total| total <= self.meter.limit.get());
        if !fits {
            self.meter.refused.set(true);
        }
        fits
    }

    fn count(&mut self, block: *mut libc::c_void) -> *mut u8 {
        if block.is_null() {
            self.meter.refused.set(true);
        } else {
            // SAFETY: the block was just allocated by malloc, calloc or realloc.
            self.used = self.used.saturating_add(unsafe { libc::malloc_usable_size(block) });
        }
        block.cast()
    }
}

// SAFETY: every block comes from the C library's allocator, which aligns to 16 bytes; failures are null
// pointers.
unsafe impl rquickjs::allocator::Allocator for MeteredAllocator {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        if !self.fits(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: malloc takes any size.
        self.count(unsafe { libc::malloc(size) })
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        if !self.fits(count.saturating_mul(size)) {
            return std::ptr::null_mut();
        }
        // SAFETY: calloc takes any sizes and checks their product.
        self.count(unsafe { libc::calloc(count, size) })
    }

    unsafe fn dealloc(&mut self, block: *mut u8) {
        // SAFETY: the caller hands back a block of this allocator.
        self.used = self.used.saturating_sub(unsafe { Self::usable_size(block) });
        // SAFETY: likewise, and it is not used afterwards.
        unsafe { libc::free(block.cast()) }
    }

    unsafe fn realloc(&mut self, block: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: null or a block of this allocator.
        let old = unsafe { Self::usable_size(block) };
        if !self.fits(size.saturating_sub(old)) {
            return std::ptr::null_mut();
        }
        // SAFETY: null or a block of this allocator; the old pointer is dead if this succeeds.
        let moved = unsafe { libc::realloc(block.cast(), size) };
        if !moved.is_null() {
            self.used = self.used.saturating_sub(old);
        }
        self.count(moved)
    }

    unsafe fn usable_size(block: *mut u8) -> usize {
        // SAFETY: null or a block of this allocator.
        unsafe { libc::malloc_usable_size(block.cast()) }
    }
}

fn must_have_one_thread() -> io::Result<()> {
    let is_alone = std::fs::read_dir("/proc/self/task")?.count() == 1;
    if is_alone { Ok(()) } else { Err(io::Error::other("only a process with one thread can be cloned")) }
}

/// Forks a child into a cgroup (`directory` is its open directory). Unlike a later move, this waits for no
/// lock of the whole machine. Needs Linux 5.7, no filter on `clone3` (systemd's `RestrictNamespaces=` has
/// one), and one thread (checked).
pub(crate) fn fork_into_cgroup(directory: BorrowedFd<'_>) -> io::Result<ForkResult> {
    // libc's constant of this name is truncated to 32 bits.
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    must_have_one_thread()?;
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
    // SAFETY: clone_args is plain numbers; zero means "not used" for each.
    let mut arguments = unsafe { MaybeUninit::<libc::clone_args>::zeroed().assume_init() };
    arguments.flags = CLONE_INTO_CGROUP;
    arguments.exit_signal = u64::try_from(libc::SIGCHLD).map_err(invalid)?;
    arguments.cgroup = u64::try_from(directory.as_raw_fd()).map_err(invalid)?;
    let size = size_of::<libc::clone_args>();
    // SAFETY: the arguments are live and of the given size. Without CLONE_VM and a stack this is a fork: the
    // child gets a copy of everything. With one thread, which was just counted, no lock is held by another.
    // What the C library's fork does beyond that: it renews the cached thread id, which our code does not
    // read (raise and abort ask the kernel), and runs fork handlers, of which we have none.
    match checked(unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size) })? {
        0 => Ok(ForkResult::Child),
        pid => Ok(ForkResult::Parent(i32::try_from(pid).unwrap_or(0))),
    }
}

/// Puts the calling thread into new namespaces.
pub(crate) fn enter_namespaces(kinds: rustix::thread::UnshareFlags) -> io::Result<()> {
    if kinds.contains(rustix::thread::UnshareFlags::FILES) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the descriptor table, the only thing that must not be unshared, was excluded above.
    unsafe { rustix::thread::unshare_unsafe(kinds) }.map_err(Into::into)
}
