//! Calls that end a run as `forbidden_syscall`. No guest has a reason to make them.
//!
//! The kill list is compiled into filters of its own, so that most of it is in force before `CPython` starts.

use super::rule::{CallAction, SyscallRule, rows};

/// The action column is not used here: every row kills.
const KILL: CallAction = CallAction::Answer(libc::EPERM);

/// The kill list.
pub(super) const KILLED: &[SyscallRule] = rows! {
    All KILL, "reads, writes or controls another process":
        SYS_ptrace SYS_process_vm_writev SYS_kcmp SYS_process_madvise SYS_process_mrelease SYS_pidfd_getfd;
    Guests KILL, "the same; a supervisor reads the arguments of its command with it": SYS_process_vm_readv;
    Code KILL, "the same; commands get ENOSYS, because some runtimes probe for the call":
        SYS_pidfd_open SYS_pidfd_send_signal;
    All KILL, "large kernel attack surface":
        SYS_bpf SYS_perf_event_open SYS_userfaultfd SYS_io_uring_enter SYS_io_uring_register;
    Code KILL, "bypasses seccomp; commands get ENOSYS, because some runtimes probe for the call":
        SYS_io_uring_setup;
    All KILL, "changes the file tree":
        SYS_mount SYS_umount2 SYS_move_mount SYS_open_tree SYS_fsopen SYS_fsconfig SYS_fsmount SYS_fspick
        SYS_mount_setattr SYS_pivot_root SYS_chroot;
    All KILL, "namespaces give back dropped privileges": SYS_unshare SYS_setns;
    Code KILL, "starts another program: only the set-up may exec": SYS_execve SYS_execveat;
    All KILL, "changes the kernel or the machine":
        SYS_init_module SYS_finit_module SYS_delete_module SYS_kexec_load SYS_kexec_file_load SYS_reboot
        SYS_swapon SYS_swapoff SYS_acct SYS_syslog SYS_quotactl SYS_quotactl_fd SYS_clock_settime
        SYS_clock_adjtime SYS_settimeofday SYS_adjtimex;
    All KILL, "the kernel's key rings outlive a process": SYS_add_key SYS_request_key SYS_keyctl;
    All KILL, "opens files past every path rule":
        SYS_open_by_handle_at SYS_name_to_handle_at SYS_fanotify_init;
    All KILL, "memory that even the kernel cannot see": SYS_memfd_secret;
    Code KILL, "the policy is complete; commands get ENOSYS":
        SYS_seccomp SYS_landlock_create_ruleset SYS_landlock_add_rule SYS_landlock_restrict_self;
};

/// Calls that a zygote needs to start `CPython` and to confine its children. Later filters remove them.
pub(super) const NEEDED_FOR_SET_UP: &[&str] = &["execve", "seccomp", "landlock_restrict_self"];
/// Calls that the children of a warm zygote need to confine themselves.
pub(super) const NEEDED_BY_ZYGOTE: &[&str] = &["seccomp", "landlock_restrict_self"];
