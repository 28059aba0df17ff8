//! The layers below landlock and seccomp: descriptors, session, parent's death, identity, capabilities, rlimits.
//!
//! Owns: that a child starts with three pipes and /dev/null, in a session of its own, and can gain nothing.

use std::fmt::Display;

use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use crate::limits::Limits;
use crate::request::Request;
use crate::sys;

/// Real user ids of root's children start here: one each, so that the process limit counts that child alone.
const FIRST_PRIVATE_UID: u32 = 0x7000_0000;

/// Tasks that a user who is not the child's alone may well have.
const SHARED_UID_TASKS: u64 = 16_384;

/// Isolates this process, in SANDBOX.md's order.
///
/// Descriptors from `first_closed` on are closed.
pub(super) fn isolate(request: &Request, first_closed: i32) -> Result<(), String> {
    close_descriptors(first_closed)?;
    rustix::process::setsid().map_err(|error| failed("setsid", error))?;
    die_with(request.parent_pid)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| failed("dumpable", error))?;
    let is_alone = take_private_uid()?;
    // Before the new uid, exec would fail: the kernel marks a process that changes into a full user.
    limit_resources(&request.limits, is_alone)?;
    std::env::set_current_dir(&request.directory).map_err(|error| failed("own directory", error))?;
    drop_capabilities()?;
    rustix::thread::set_no_new_privs(true).map_err(|error| failed("no-new-privs", error))
}

fn failed(step: &str, error: impl Display) -> String {
    format!("{step}: {error}")
}

fn close_descriptors(first: i32) -> Result<(), String> {
    let null = std::fs::File::open("/dev/null").map_err(|error| failed("/dev/null", error))?;
    rustix::stdio::dup2_stdin(&null).map_err(|error| failed("standard input", error))?;
    drop(null);
    sys::close_from(first.unsigned_abs()).map_err(|error| failed("close_range", error))
}

fn die_with(parent: i32) -> Result<(), String> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| failed("parent's death", error))?;
    // The parent may have died before the line above.
    let now = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    if now == parent { Ok(()) } else { Err("the parent is gone".to_owned()) }
}

/// Gives a child of root a real user id of its own: `RLIMIT_NPROC` never binds the real user root.
///
/// The effective user, and with it every file right, stays. Says whether the id is private: not where ids cannot be
/// changed (a user namespace that maps only some, root without `CAP_SETUID`, any other user).
fn take_private_uid() -> Result<bool, String> {
    use rustix::io::Errno;
    use rustix::process::{Uid, geteuid, getpid, getuid};
    if !getuid().is_root() || !geteuid().is_root() {
        return Ok(false);
    }
    let own = Uid::from_raw(FIRST_PRIVATE_UID | getpid().as_raw_nonzero().get().unsigned_abs());
    match rustix::thread::set_thread_res_uid(own, None, None) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::PERM) => Ok(false),
        Err(error) => Err(failed("private user id", error)),
    }
}

/// `RLIMIT_NPROC` counts every task of a real user. Where that user is the server's own, its threads and those of other
/// runs count too: the limit then only bounds the damage. Processes are the filter's to forbid, threads the parent's to
/// count.
fn process_limit(limits: &Limits, is_alone: bool) -> u64 {
    if is_alone || limits.processes == 0 { limits.processes } else { limits.processes + SHARED_UID_TASKS }
}

fn limit_resources(limits: &Limits, is_alone: bool) -> Result<(), String> {
    let processes = process_limit(limits, is_alone);
    let table = [
        (Resource::Cpu, limits.cpu_s, limits.cpu_s + 1),
        (Resource::As, limits.address_space_bytes, limits.address_space_bytes),
        (Resource::Fsize, limits.file_size_bytes, limits.file_size_bytes),
        (Resource::Nofile, limits.open_files, limits.open_files),
        (Resource::Core, 0, 0),
        (Resource::Nproc, processes, processes),
    ];
    for (resource, soft, hard) in table {
        // What the server's own limits already forbid cannot be raised.
        let ceiling = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let limit = Rlimit { current: Some(soft.min(ceiling)), maximum: Some(hard.min(ceiling)) };
        rustix::process::setrlimit(resource, limit)
            .map_err(|error| failed("rlimit", format!("{resource:?}: {error}")))?;
    }
    Ok(())
}

/// Empties every capability set for good, as far as this process has any.
fn drop_capabilities() -> Result<(), String> {
    let none = CapabilitySet::empty();
    let held = rustix::thread::capabilities(None).map_err(|error| failed("capget", error))?;
    if held.effective.contains(CapabilitySet::SETPCAP) {
        let locked = CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED;
        rustix::thread::set_capabilities_secure_bits(locked).map_err(|error| failed("securebits", error))?;
        for capability in CapabilitySet::all().iter() {
            // The kernel may know fewer than we do.
            rustix::thread::remove_capability_from_bounding_set(capability).ok();
        }
    }
    rustix::thread::clear_ambient_capability_set().map_err(|error| failed("ambient capabilities", error))?;
    let empty = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, empty).map_err(|error| failed("capset", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Level;

    #[test]
    fn a_shared_user_s_other_tasks_leave_room_and_none_stays_none() {
        let lenient = Limits::of(Level::Lenient);
        assert_eq!(process_limit(&lenient, true), lenient.processes);
        assert!(process_limit(&lenient, false) > 10_000);
        assert_eq!(process_limit(&Limits::of(Level::Strict), false), 0);
    }
}
