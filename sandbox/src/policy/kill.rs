//! Calls that no guest has a reason to make: one of them ends the run as `forbidden_syscall`.
//!
//! Owns: the kill list. It is compiled into filters of its own: most of it holds before `CPython` even starts.

use super::rule::{Outcome, Rule, rows};

/// Killed. The outcome column is unused here: a row means death.
const DEADLY: Outcome = Outcome::Answer(libc::EPERM);

/// The kill list.
pub(super) const KILLED: &[Rule] = rows! {
    All DEADLY, "reads, writes or steers another process":
        ptrace process_vm_readv process_vm_writev kcmp process_madvise process_mrelease pidfd_getfd;
    Code DEADLY, "likewise; commands are told that there is no such call, which some runtimes ask for":
        pidfd_open pidfd_send_signal;
    All DEADLY, "large kernel attack surface":
        bpf perf_event_open userfaultfd io_uring_enter io_uring_register;
    Code DEADLY, "walks around seccomp; commands are told that there is no such call, which some runtimes ask for":
        io_uring_setup;
    All DEADLY, "changes what the file tree is":
        mount umount2 move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr pivot_root chroot;
    All DEADLY, "namespaces give back what was taken":
        unshare setns;
    Code DEADLY, "another program image: only the set-up may exec":
        execve execveat;
    All DEADLY, "changes the kernel or the machine":
        init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct syslog quotactl quotactl_fd
        clock_settime clock_adjtime settimeofday adjtimex;
    All DEADLY, "the kernel's key rings outlive a process":
        add_key request_key keyctl;
    All DEADLY, "opens files past every path rule":
        open_by_handle_at name_to_handle_at fanotify_init;
    All DEADLY, "memory that even the kernel cannot see":
        memfd_secret;
    Code DEADLY, "the policy itself is finished; commands are told that there is no such call":
        seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self;
};

/// Calls that a zygote needs to become `CPython` and to close its children: later filters take them away.
pub(super) const NEEDED_FOR_SET_UP: &[&str] = &["execve", "seccomp", "landlock_restrict_self"];
/// Calls that a warm zygote's children need to close themselves.
pub(super) const NEEDED_BY_ZYGOTE: &[&str] = &["seccomp", "landlock_restrict_self"];
