//! Rows for calls that x86-64 alone still has; newer architectures have only their `…at` forms.

use super::rule::Rule;
#[cfg(target_arch = "x86_64")]
use super::rule::{Outcome, rows};

/// Additions to the kill list.
#[cfg(target_arch = "x86_64")]
pub(super) const KILLED: &[Rule] = rows! {
    All Outcome::Answer(libc::EPERM), "ports and segments of the machine itself": iopl ioperm modify_ldt;
};

/// Additions to the allow list. `open` and `creat` are absent: the C library uses `openat`.
#[cfg(target_arch = "x86_64")]
pub(super) const ALLOWED: &[Rule] = rows! {
    All Outcome::Allow, "what a file is; contents stay closed": stat lstat;
    All Outcome::Allow, "the clock": time;
    Roomy Outcome::Allow, "its own directory; landlock says where": unlink mkdir rmdir rename link symlink;
    Roomy Outcome::Allow, "names, no contents": access readlink;
    Roomy Outcome::Allow, "copies of descriptors that it already has": dup2 pipe;
    Roomy Outcome::Allow, "waiting on its own descriptors": poll select epoll_create epoll_wait eventfd;
    Roomy Outcome::Allow, "its own timers": alarm pause;
    Roomy Outcome::Allow, "limits can be read": getrlimit getpgrp;
    Roomy Outcome::Answer(0), "landlock does not mediate it, and shutil insists on it: pretended":
        chmod chown lchown utime utimes futimesat;
};

/// Nothing on other architectures.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const KILLED: &[Rule] = &[];
/// Nothing on other architectures.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const ALLOWED: &[Rule] = &[];
