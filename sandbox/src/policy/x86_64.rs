//! Rules for calls that only x86-64 has. Newer architectures have only the `…at` forms.

#[cfg(target_arch = "x86_64")]
use super::allow_list::LISTABLE_BITS;
#[cfg(target_arch = "x86_64")]
use super::rule::CallAction::{self, Allow, AllowIf, Answer, Supervised};
use super::rule::SyscallRule;
#[cfg(target_arch = "x86_64")]
use super::rule::{LOW, bits, rows};

/// Additions to the kill list.
#[cfg(target_arch = "x86_64")]
pub(super) const KILLED: &[SyscallRule] = rows! {
    All Answer(libc::EPERM), "ports and segments of the machine itself": SYS_iopl SYS_ioperm SYS_modify_ldt;
};

/// Additions to the allow list. Code has neither `open` nor `creat`: its interpreters use `openat`.
#[cfg(target_arch = "x86_64")]
pub(super) const ALLOWED: &[SyscallRule] = rows! {
    All Allow, "the clock": SYS_time;
    WithDirectory Allow, "its own directory; landlock decides on paths":
        SYS_unlink SYS_rmdir SYS_rename SYS_link SYS_symlink;
    WithDirectory LISTABLE, "the same; the server counts what it can list": SYS_mkdir;
    WithDirectory Allow, "names and metadata, no contents": SYS_stat SYS_lstat SYS_access SYS_readlink;
    WithDirectory Allow, "copies of descriptors that it already has": SYS_dup2 SYS_pipe;
    WithDirectory Allow, "waiting on its own descriptors":
        SYS_poll SYS_select SYS_epoll_create SYS_epoll_wait SYS_eventfd;
    WithDirectory Allow, "its own timers": SYS_alarm SYS_pause;
    WithDirectory Allow, "limits can be read": SYS_getrlimit SYS_getpgrp;
    Shell Supervised, "landlock does not mediate it: the supervisor does":
        SYS_chmod SYS_chown SYS_lchown SYS_utime SYS_utimes SYS_futimesat;
    Shell Allow, "processes": SYS_fork SYS_vfork;
    Shell NO_SET_ID, "tar uses it; it opens for writing, which landlock has always mediated": SYS_creat;
    Shell THREAD_POINTER, "starts programs": SYS_arch_prctl;
    Shell Allow, "limits can be lowered; nothing can raise them again": SYS_setrlimit;
    Shell Allow, "waiting on its own descriptors": SYS_signalfd;
    Shell Answer(libc::ENOSYS), "landlock does not mediate it: it would show changes in any directory":
        SYS_inotify_init;
};

/// `ARCH_SET_GS`, `ARCH_SET_FS`, `ARCH_GET_FS`, `ARCH_GET_GS`.
#[cfg(target_arch = "x86_64")]
const THREAD_POINTER: CallAction = AllowIf(&[
    &[bits(0, LOW, 0x1001)],
    &[bits(0, LOW, 0x1002)],
    &[bits(0, LOW, 0x1003)],
    &[bits(0, LOW, 0x1004)],
]);

/// `mkdir` of a directory that can be listed and searched.
#[cfg(target_arch = "x86_64")]
const LISTABLE: CallAction = AllowIf(&[&[bits(1, LISTABLE_BITS, LISTABLE_BITS)]]);

/// `creat` without set-id bits on new files.
#[cfg(target_arch = "x86_64")]
const NO_SET_ID: CallAction = AllowIf(&[&[bits(1, 0o6_000, 0)]]);

#[cfg(not(target_arch = "x86_64"))]
pub(super) const KILLED: &[SyscallRule] = &[];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const ALLOWED: &[SyscallRule] = &[];
