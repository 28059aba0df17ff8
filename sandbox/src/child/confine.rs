//! The confinement besides landlock and seccomp: session, parent-death signal, user id, capabilities,
//! rlimits.

use std::ffi::CStr;
use std::fmt::Display;

use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, Signal};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use crate::broker::RunRequest;
use crate::limits::RunLimits;

/// Under root each child gets its own real user id from here on, so that its process limit counts only that
/// child.
pub(crate) const FIRST_PRIVATE_UID: u32 = 0x7000_0000;

/// Allowance for other tasks of a user id that the child shares.
pub(crate) const SHARED_UID_TASKS: u64 = 16_384;

/// Whether a child's real user id is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UidIsolation {
    Private,
    /// It is the server's user id.
    Shared,
}

/// The first steps of SANDBOX.md's order, which need no run: session, parent-death signal, user id.
pub(super) fn detach(name: &CStr, broker: Pid) -> Result<UidIsolation, String> {
    enter_session(name)?;
    set_parent_death_signal(broker, Signal::KILL)?;
    take_private_uid()
}

/// The next steps: rlimits, directory, capabilities.
pub(super) fn apply_limits(request: &RunRequest, isolation: UidIsolation) -> Result<(), String> {
    limit_resources(&request.limits, isolation)?;
    enter_directory(request)?;
    drop_capabilities()
}

/// Enters the run's directory, and a command's directory below it. Links that lead out of it are not
/// followed.
pub(crate) fn enter_directory(request: &RunRequest) -> Result<(), String> {
    use rustix::fs::{Mode, OFlags, ResolveFlags};
    std::env::set_current_dir(&request.directory).map_err(|error| failed("own directory", error))?;
    let Some(below) = &request.subdirectory else { return Ok(()) };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(rustix::fs::CWD, below, flags, Mode::empty(), resolve)
        .and_then(rustix::process::fchdir)
        .map_err(|error| failed(&format!("directory '{}'", below.display()), error))
}

fn failed(step: &str, error: impl Display) -> String {
    format!("{step}: {error}")
}

/// Names the process, gives it a session of its own, and makes it undumpable.
pub(crate) fn enter_session(name: &CStr) -> Result<(), String> {
    rustix::thread::set_name(name).map_err(|error| failed("name", error))?;
    rustix::process::setsid().map_err(|error| failed("setsid", error))?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| failed("dumpable", error))
}

/// The kernel sends `signal` to this process when `parent` dies.
pub(crate) fn set_parent_death_signal(parent: Pid, signal: Signal) -> Result<(), String> {
    rustix::process::set_parent_process_death_signal(Some(signal))
        .map_err(|error| failed("parent's death", error))?;
    // The parent may have died before the line above.
    if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err("the parent is gone".to_owned()) }
}

/// Gives a child of root a private real user id: `RLIMIT_NPROC` has no effect on the real user root.
///
/// The effective user and its file rights stay. The id stays shared where it cannot be changed (a user
/// namespace that maps few ids, root without `CAP_SETUID`, any other user).
fn take_private_uid() -> Result<UidIsolation, String> {
    use rustix::io::Errno;
    use rustix::process::{Uid, geteuid, getpid, getuid};
    if !getuid().is_root() || !geteuid().is_root() {
        return Ok(UidIsolation::Shared);
    }
    let own = Uid::from_raw(FIRST_PRIVATE_UID | getpid().as_raw_nonzero().get().unsigned_abs());
    match rustix::thread::set_thread_res_uid(own, None, None) {
        Ok(()) => Ok(UidIsolation::Private),
        Err(Errno::INVAL | Errno::PERM) => Ok(UidIsolation::Shared),
        Err(error) => Err(failed("private user id", error)),
    }
}

/// `RLIMIT_NPROC` counts every task of a real user. With a shared user id the tasks of the server and of
/// other runs count, too, so the limit only bounds the damage: filters forbid processes, and the parent
/// counts threads.
fn process_limit(limits: &RunLimits, isolation: UidIsolation) -> u64 {
    if isolation == UidIsolation::Private || limits.processes == 0 {
        limits.processes
    } else {
        limits.processes + SHARED_UID_TASKS
    }
}

/// Sets the rlimits of a run.
pub(crate) fn limit_resources(limits: &RunLimits, isolation: UidIsolation) -> Result<(), String> {
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
        // A limit above the server's own cannot be set.
        let ceiling = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let limit = Rlimit { current: Some(soft.min(ceiling)), maximum: Some(hard.min(ceiling)) };
        rustix::process::setrlimit(resource, limit)
            .map_err(|error| failed("rlimit", format!("{resource:?}: {error}")))?;
    }
    Ok(())
}

/// Drops every privilege of the broker permanently, except the one that its children need to change their
/// user id.
pub(crate) fn drop_broker_privileges() -> Result<(), String> {
    let current = rustix::thread::capabilities(None).map_err(|error| failed("capget", error))?;
    if current.effective.contains(CapabilitySet::SETPCAP) {
        let locked = CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED;
        rustix::thread::set_capabilities_secure_bits(locked).map_err(|error| failed("securebits", error))?;
        for capability in (CapabilitySet::all() - CapabilitySet::SETUID).iter() {
            // The kernel may know fewer capabilities.
            rustix::thread::remove_capability_from_bounding_set(capability).ok();
        }
    }
    rustix::thread::clear_ambient_capability_set().map_err(|error| failed("ambient capabilities", error))?;
    let retained = current.permitted & CapabilitySet::SETUID;
    set_capabilities(retained)?;
    rustix::thread::set_no_new_privs(true).map_err(|error| failed("no-new-privs", error))
}

/// Empties every capability set permanently.
pub(crate) fn drop_capabilities() -> Result<(), String> {
    set_capabilities(CapabilitySet::empty())
}

fn set_capabilities(retained: CapabilitySet) -> Result<(), String> {
    let sets =
        CapabilitySets { effective: retained, permitted: retained, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).map_err(|error| failed("capset", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Level;

    #[test]
    fn the_process_limit_is_raised_for_a_shared_user_and_zero_stays_zero() {
        let lenient = RunLimits::of(Level::Lenient);
        assert_eq!(process_limit(&lenient, UidIsolation::Private), lenient.processes);
        assert!(process_limit(&lenient, UidIsolation::Shared) > 10_000);
        assert_eq!(process_limit(&RunLimits::of(Level::Strict), UidIsolation::Shared), 0);
    }
}
