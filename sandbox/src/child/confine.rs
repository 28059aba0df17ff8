//! The layers below landlock and seccomp: session, parent's death, identity, capabilities, rlimits.
//!
//! Owns: that a child lives in a session of its own, dies with its parent, and can gain nothing.

use std::ffi::CStr;
use std::fmt::Display;

use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, Signal};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use crate::broker::Order;
use crate::limits::RunLimits;

/// Real user ids of root's children start here: one each, so that the process limit counts that child alone.
pub(crate) const FIRST_PRIVATE_UID: u32 = 0x7000_0000;

/// Tasks that a user who is not the child's alone may well have.
pub(crate) const SHARED_UID_TASKS: u64 = 16_384;

/// Whether a child's real user id is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// Nobody else has it.
    Alone,
    /// It is the server's.
    Shared,
}

/// Isolates this process, in SANDBOX.md's order.
pub(crate) fn isolate(order: &Order, broker: Pid) -> Result<(), String> {
    let isolation = stand_apart(c"nanoclaw-guest", broker)?;
    take_bounds(order, isolation)
}

/// What that order begins with, and no run needs to be known for.
pub(crate) fn stand_apart(name: &CStr, broker: Pid) -> Result<Isolation, String> {
    enter_session(name)?;
    die_with(broker, Signal::KILL)?;
    take_private_uid()
}

/// The rest of it.
pub(crate) fn take_bounds(order: &Order, isolation: Isolation) -> Result<(), String> {
    limit_resources(&order.limits, isolation)?;
    enter_directory(order)?;
    drop_capabilities()
}

/// Goes to the run's directory, and below it where a command wants to start: never past a link that somebody planted.
pub(crate) fn enter_directory(order: &Order) -> Result<(), String> {
    use rustix::fs::{Mode, OFlags, ResolveFlags};
    std::env::set_current_dir(&order.directory).map_err(|error| failed("own directory", error))?;
    let Some(below) = &order.subdirectory else { return Ok(()) };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(rustix::fs::CWD, below, flags, Mode::empty(), resolve)
        .and_then(rustix::process::fchdir)
        .map_err(|error| failed(&format!("directory '{}'", below.display()), error))
}

fn failed(step: &str, error: impl Display) -> String {
    format!("{step}: {error}")
}

/// A session of its own, a name for the operator's process list, and nobody looks in.
pub(crate) fn enter_session(name: &CStr) -> Result<(), String> {
    rustix::thread::set_name(name).map_err(|error| failed("name", error))?;
    rustix::process::setsid().map_err(|error| failed("setsid", error))?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| failed("dumpable", error))
}

/// Has the kernel send `signal` when `parent` dies.
pub(crate) fn die_with(parent: Pid, signal: Signal) -> Result<(), String> {
    rustix::process::set_parent_process_death_signal(Some(signal))
        .map_err(|error| failed("parent's death", error))?;
    // The parent may have died before the line above.
    if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err("the parent is gone".to_owned()) }
}

/// Gives a child of root a real user id of its own: `RLIMIT_NPROC` never binds the real user root.
///
/// The effective user, and with it every file right, stays. The id is not private where ids cannot be changed (a user
/// namespace that maps only some, root without `CAP_SETUID`, any other user).
pub(crate) fn take_private_uid() -> Result<Isolation, String> {
    use rustix::io::Errno;
    use rustix::process::{Uid, geteuid, getpid, getuid};
    if !getuid().is_root() || !geteuid().is_root() {
        return Ok(Isolation::Shared);
    }
    let own = Uid::from_raw(FIRST_PRIVATE_UID | getpid().as_raw_nonzero().get().unsigned_abs());
    match rustix::thread::set_thread_res_uid(own, None, None) {
        Ok(()) => Ok(Isolation::Alone),
        Err(Errno::INVAL | Errno::PERM) => Ok(Isolation::Shared),
        Err(error) => Err(failed("private user id", error)),
    }
}

/// `RLIMIT_NPROC` counts every task of a real user. Where that user is the server's own, its threads and those of other
/// runs count too: the limit then only bounds the damage. Processes are the filter's to forbid, threads the parent's to
/// count.
fn process_limit(limits: &RunLimits, isolation: Isolation) -> u64 {
    if isolation == Isolation::Alone || limits.processes == 0 {
        limits.processes
    } else {
        limits.processes + SHARED_UID_TASKS
    }
}

/// Sets every rlimit of a level.
pub(crate) fn limit_resources(limits: &RunLimits, isolation: Isolation) -> Result<(), String> {
    let processes = process_limit(limits, isolation);
    let table = [
        (Resource::Cpu, limits.cpu_s, limits.cpu_s.saturating_add(1)),
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

/// Leaves a broker only what its children need to become somebody else, for good: no privilege can come back.
pub(crate) fn shed_privileges() -> Result<(), String> {
    let held = rustix::thread::capabilities(None).map_err(|error| failed("capget", error))?;
    if held.effective.contains(CapabilitySet::SETPCAP) {
        let locked = CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED;
        rustix::thread::set_capabilities_secure_bits(locked).map_err(|error| failed("securebits", error))?;
        for capability in (CapabilitySet::all() - CapabilitySet::SETUID).iter() {
            // The kernel may know fewer than we do.
            rustix::thread::remove_capability_from_bounding_set(capability).ok();
        }
    }
    rustix::thread::clear_ambient_capability_set().map_err(|error| failed("ambient capabilities", error))?;
    let kept = held.permitted & CapabilitySet::SETUID;
    set_capabilities(kept)?;
    rustix::thread::set_no_new_privs(true).map_err(|error| failed("no-new-privs", error))
}

/// Empties every capability set for good.
pub(crate) fn drop_capabilities() -> Result<(), String> {
    set_capabilities(CapabilitySet::empty())
}

fn set_capabilities(kept: CapabilitySet) -> Result<(), String> {
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).map_err(|error| failed("capset", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Level;

    #[test]
    fn a_shared_user_s_other_tasks_leave_room_and_none_stays_none() {
        let lenient = RunLimits::of(Level::Lenient);
        assert_eq!(process_limit(&lenient, Isolation::Alone), lenient.processes);
        assert!(process_limit(&lenient, Isolation::Shared) > 10_000);
        assert_eq!(process_limit(&RunLimits::of(Level::Strict), Isolation::Shared), 0);
    }
}
