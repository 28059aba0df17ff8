//! Rows for calls that x86-64 alone still has; newer architectures have only their `…at` forms.

use super::rule::Rule;
#[cfg(target_arch = "x86_64")]
use super::rule::{Outcome, Test, rows};

/// Additions to the kill list.
#[cfg(target_arch = "x86_64")]
pub(super) const KILLED: &[Rule] = rows! {
    All Outcome::Answer(libc::EPERM), "ports and segments of the machine itself": iopl ioperm modify_ldt;
};

/// Additions to the allow list. Code has neither `open` nor `creat`: its interpreters use `openat`.
#[cfg(target_arch = "x86_64")]
pub(super) const ALLOWED: &[Rule] = rows! {
    All Outcome::Allow, "what a file is; contents stay closed": stat lstat;
    All Outcome::Allow, "the clock": time;
    Owners Outcome::Allow, "its own directory; landlock says where": unlink mkdir rmdir rename link symlink;
    Owners Outcome::Allow, "names, no contents": access readlink;
    Owners Outcome::Allow, "copies of descriptors that it already has": dup2 pipe;
    Owners Outcome::Allow, "waiting on its own descriptors": poll select epoll_create epoll_wait eventfd;
    Owners Outcome::Allow, "its own timers": alarm pause;
    Owners Outcome::Allow, "limits can be read": getrlimit getpgrp;
    Owners Outcome::Answer(0), "landlock does not mediate it, and shutil insists on it: pretended":
        chmod chown lchown utime utimes futimesat;
    Shell Outcome::Allow, "processes": fork vfork;
    Shell NO_SET_ID, "tar makes archives with it; it opens for writing, which landlock has always mediated": creat;
    Shell THREAD_POINTER, "a program's start": arch_prctl;
    Shell Outcome::Allow, "limits can be lowered; nothing can raise them again": setrlimit;
    Shell Outcome::Allow, "waiting on its own descriptors": signalfd;
    Shell Outcome::Answer(libc::ENOSYS), "landlock does not mediate it: it would tell what happens in anybody's directories":
        inotify_init;
};

/// `ARCH_SET_GS`, `ARCH_SET_FS`, `ARCH_GET_FS`, `ARCH_GET_GS`.
#[cfg(target_arch = "x86_64")]
const THREAD_POINTER: Outcome = Outcome::AllowIf(&[
    &[Test { argument: 0, mask: 0xffff_ffff, value: 0x1001 }],
    &[Test { argument: 0, mask: 0xffff_ffff, value: 0x1002 }],
    &[Test { argument: 0, mask: 0xffff_ffff, value: 0x1003 }],
    &[Test { argument: 0, mask: 0xffff_ffff, value: 0x1004 }],
]);

/// `creat` without set-id bits on what it makes.
#[cfg(target_arch = "x86_64")]
const NO_SET_ID: Outcome = Outcome::AllowIf(&[&[Test { argument: 1, mask: 0o6_000, value: 0 }]]);

/// Nothing on other architectures.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const KILLED: &[Rule] = &[];
/// Nothing on other architectures.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const ALLOWED: &[Rule] = &[];
