//! New namespaces for a process at its start. Everything that it forks later is in them, too.
//!
//! The process enters them directly, or through a user namespace that a child tries first. All capabilities
//! that it gains that way are dropped again, and nested user namespaces are forbidden.
//!
//! Not used: mount namespaces (landlock decides on files), pid namespaces (landlock's signal scope ends a
//! tree as reliably), cgroup namespaces (runs could not join a cgroup beside the broker's), and a user
//! namespace for root (it would not map the user ids of root's children).

use std::fs;
use std::io::{self, Write};

use rustix::process::{getegid, geteuid};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};

use super::report::NamespaceReport;
use crate::sys::{self, ForkResult};

/// The kinds besides `user`, by name.
const KINDS: [(&str, UnshareFlags); 3] =
    [("network", UnshareFlags::NEWNET), ("ipc", UnshareFlags::NEWIPC), ("uts", UnshareFlags::NEWUTS)];

/// Which namespaces were entered.
#[derive(Debug, Default)]
pub(super) struct Namespaces {
    pub(super) reports: Vec<NamespaceReport>,
    /// Whether they were entered through a user namespace.
    through_user: bool,
}

impl Namespaces {
    /// Enters every permitted namespace. For a dumpable process with one thread. With `network`, the process
    /// keeps the network.
    pub(super) fn enter(network: bool) -> Self {
        let mut entered = Self::default();
        match namespace_access() {
            NamespaceAccess::Direct => {}
            NamespaceAccess::Unavailable(reason) => {
                entered.refuse_all(&reason, None);
                return entered;
            }
            NamespaceAccess::ThroughUser => {
                if let Err(reason) = enter_user() {
                    entered.refuse_all(&reason, obstacle(true));
                    return entered;
                }
                entered.through_user = true;
                entered.record("user", Ok(()));
            }
        }
        for (kind, flag) in KINDS {
            if network && flag == UnshareFlags::NEWNET {
                entered.refuse(kind, "left alone: the configuration gives commands the network", None);
            } else {
                entered.record(kind, sys::enter_namespaces(flag));
            }
        }
        if entered.through_user {
            drop_gained_privileges();
        }
        entered
    }

    fn record(&mut self, kind: &str, outcome: io::Result<()>) {
        match outcome {
            Ok(()) => {
                let kind = kind.to_owned();
                self.reports.push(NamespaceReport { kind, held: true, reason: None, advice: None });
            }
            Err(error) => {
                self.refuse(kind, &describe(&error, self.through_user), obstacle(self.through_user));
            }
        }
    }

    fn refuse(&mut self, kind: &str, reason: &str, obstacle: Option<&NamespaceObstacle>) {
        self.reports.push(NamespaceReport {
            kind: kind.to_owned(),
            held: false,
            reason: Some(reason.to_owned()),
            advice: obstacle.map(|obstacle| obstacle.advice.to_owned()),
        });
    }

    fn refuse_all(&mut self, reason: &str, obstacle: Option<&NamespaceObstacle>) {
        for kind in KINDS.map(|(kind, _)| kind) {
            self.refuse(kind, reason, obstacle);
        }
    }
}

/// How this process can enter namespaces.
enum NamespaceAccess {
    /// With `CAP_SYS_ADMIN`.
    Direct,
    ThroughUser,
    Unavailable(String),
}

fn namespace_access() -> NamespaceAccess {
    let effective = rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    if effective.contains(CapabilitySet::SYS_ADMIN) {
        return NamespaceAccess::Direct;
    }
    if geteuid().is_root() {
        return NamespaceAccess::Unavailable("root without CAP_SYS_ADMIN, as in most containers".to_owned());
    }
    NamespaceAccess::ThroughUser
}

/// A step of entering a user namespace.
#[derive(Clone, Copy)]
enum UserNamespaceStep {
    Enter,
    Map,
}

impl UserNamespaceStep {
    /// Every error number is below this, so that step and number fit into one exit code.
    const RADIX: i32 = 128;

    fn encode(self, error: &io::Error) -> i32 {
        let number = error.raw_os_error().filter(|number| (1..Self::RADIX).contains(number));
        let number = number.unwrap_or(libc::EIO);
        match self {
            Self::Enter => number,
            Self::Map => number + Self::RADIX,
        }
    }

    fn decode(code: i32) -> (Self, io::Error) {
        let step = if code < Self::RADIX { Self::Enter } else { Self::Map };
        (step, io::Error::from_raw_os_error(code % Self::RADIX))
    }
}

/// Enters a user namespace that maps our own user and group.
///
/// A process cannot leave a user namespace whose map it could not write (`AppArmor` allows the namespace and
/// forbids the map; an undumpable process may not write it). There it would be the user nobody, without
/// access to its files. So a child tries first.
fn enter_user() -> Result<(), String> {
    let code = try_in_child().map_err(|error| format!("cannot try a user namespace: {error}"))?;
    if code != 0 {
        let (step, error) = UserNamespaceStep::decode(code);
        let name = match step {
            UserNamespaceStep::Enter => "a user namespace",
            UserNamespaceStep::Map => "the map of a user namespace",
        };
        return Err(format!("{name}: {}", describe(&error, true)));
    }
    enter_and_map().map_err(|(_, error)| format!("a user namespace: {}", describe(&error, true)))
}

fn try_in_child() -> io::Result<i32> {
    match sys::fork()? {
        ForkResult::Child => {
            sys::exit_now(enter_and_map().map_or_else(|(step, error)| step.encode(&error), |()| 0));
        }
        // A filter may kill the child: that counts as a refusal.
        ForkResult::Parent(pid) => Ok(sys::reap(pid)?.exit_code.unwrap_or(libc::EPERM)),
    }
}

fn enter_and_map() -> Result<(), (UserNamespaceStep, io::Error)> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    sys::enter_namespaces(UnshareFlags::NEWUSER).map_err(|error| (UserNamespaceStep::Enter, error))?;
    // Without privilege, the kernel accepts a group map only after setgroups is denied.
    write_proc("/proc/self/setgroups", "deny")
        .and_then(|()| write_proc("/proc/self/uid_map", &format!("{user} {user} 1")))
        .and_then(|()| write_proc("/proc/self/gid_map", &format!("{group} {group} 1")))
        .map_err(|error| (UserNamespaceStep::Map, error))
}

/// Writes a file of the kernel in one call.
fn write_proc(path: &str, value: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
}

/// Forbids nested user namespaces and drops every capability that was gained.
fn drop_gained_privileges() {
    // This is the limit of our own namespace. If /proc/sys is read-only, only the filters forbid nested ones.
    write_proc("/proc/sys/user/max_user_namespaces", "0").ok();
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    // Dropping cannot fail; the broker drops them once more later, or exits.
    rustix::thread::set_capabilities(None, sets).ok();
}

/// An error with its most probable cause.
fn describe(error: &io::Error, through_user: bool) -> String {
    match obstacle(through_user) {
        Some(obstacle) => format!("{error} ({})", obstacle.reason),
        None => error.to_string(),
    }
}

/// A known cause.
struct NamespaceObstacle {
    /// The file that shows it.
    file: &'static str,
    /// The line of the file that shows it.
    value: &'static str,
    reason: &'static str,
    advice: &'static str,
}

/// The cause that concerns all namespaces.
const FILTER: NamespaceObstacle = NamespaceObstacle {
    file: "/proc/self/status",
    value: "Seccomp:\t2",
    reason: "a seccomp filter is in force: RestrictNamespaces= of the unit, or the container's",
    advice: "nothing where that is meant; else RestrictNamespaces=user net ipc uts in the unit",
};

/// The causes that concern only user namespaces.
const SETTINGS: [NamespaceObstacle; 3] = [
    NamespaceObstacle {
        file: "/proc/sys/user/max_user_namespaces",
        value: "0",
        reason: "user.max_user_namespaces is 0",
        advice: "sysctl user.max_user_namespaces=1024, if other programs on this machine may have them too",
    },
    NamespaceObstacle {
        file: "/proc/sys/kernel/unprivileged_userns_clone",
        value: "0",
        reason: "kernel.unprivileged_userns_clone is 0",
        advice: "sysctl kernel.unprivileged_userns_clone=1, if other programs on this machine may have them too",
    },
    NamespaceObstacle {
        file: "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        value: "1",
        reason: "kernel.apparmor_restrict_unprivileged_userns is 1",
        advice: "an AppArmor profile for nanoclaw with the line 'userns,'",
    },
];

fn obstacle(through_user: bool) -> Option<&'static NamespaceObstacle> {
    let settings: &[NamespaceObstacle] = if through_user { &SETTINGS } else { &[] };
    settings.iter().chain([&FILTER]).find(|obstacle| {
        let text = fs::read_to_string(obstacle.file).unwrap_or_default();
        text.lines().any(|line| line.trim() == obstacle.value)
    })
}

#[cfg(test)]
mod tests;
