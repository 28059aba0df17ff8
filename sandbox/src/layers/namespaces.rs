//! New namespaces for a process at its very start: all that it forks later lives in them too.
//!
//! Owns: how they are had (by right, or through a user namespace that is tried out in a child first), the closing of
//! nested user namespaces, and that every capability gained on the way goes again.
//! Refuses: mount namespaces (landlock decides on files), pid namespaces (landlock's signal scope ends a tree as surely)
//! and cgroup namespaces (their border would keep runs from joining a cgroup beside the broker's own); a user namespace
//! for root, whose children need user ids it would not map.

use std::fs;
use std::io::{self, Write};

use rustix::process::{getegid, geteuid};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};

use super::NamespaceReport;
use crate::sys::{self, Fork};

/// The kinds beside `user` that are entered, by name.
const KINDS: [(&str, UnshareFlags); 3] =
    [("network", UnshareFlags::NEWNET), ("ipc", UnshareFlags::NEWIPC), ("uts", UnshareFlags::NEWUTS)];

/// What became of each kind of namespace.
#[derive(Debug, Default)]
pub(super) struct Namespaces {
    reports: Vec<NamespaceReport>,
    /// Whether they were entered through a user namespace.
    through_user: bool,
}

impl Namespaces {
    /// Enters what can be entered. For a process with one thread that has not made itself undumpable yet.
    ///
    /// `network`: the operator wants commands to have the network, so it stays.
    pub(super) fn enter(network: bool) -> Self {
        let mut entered = Self::default();
        match way() {
            Way::Direct => {}
            Way::Closed(reason) => {
                entered.refuse_all(&reason, None);
                return entered;
            }
            Way::User => {
                if let Err(reason) = enter_user() {
                    entered.refuse_all(&reason, obstacle(true));
                    return entered;
                }
                entered.through_user = true;
                entered.tell("user", Ok(()));
            }
        }
        for (kind, flag) in KINDS {
            if network && flag == UnshareFlags::NEWNET {
                entered.refuse(kind, "left alone: the configuration gives commands the network", None);
            } else {
                entered.tell(kind, sys::enter_namespaces(flag));
            }
        }
        if entered.through_user {
            close_behind();
        }
        entered
    }

    /// What became of each kind.
    pub(super) fn into_reports(self) -> Vec<NamespaceReport> {
        self.reports
    }

    fn tell(&mut self, kind: &str, outcome: io::Result<()>) {
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

    fn refuse(&mut self, kind: &str, reason: &str, obstacle: Option<&Obstacle>) {
        self.reports.push(NamespaceReport {
            kind: kind.to_owned(),
            held: false,
            reason: Some(reason.to_owned()),
            advice: obstacle.map(|obstacle| obstacle.advice.to_owned()),
        });
    }

    fn refuse_all(&mut self, reason: &str, obstacle: Option<&Obstacle>) {
        for kind in KINDS.map(|(kind, _)| kind) {
            self.refuse(kind, reason, obstacle);
        }
    }
}

/// How namespaces can be had.
enum Way {
    /// By right.
    Direct,
    /// Through a user namespace of our own.
    User,
    /// Not at all.
    Closed(String),
}

fn way() -> Way {
    let held = rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    if held.contains(CapabilitySet::SYS_ADMIN) {
        return Way::Direct;
    }
    if geteuid().is_root() {
        return Way::Closed("root without CAP_SYS_ADMIN, as in most containers".to_owned());
    }
    Way::User
}

/// Which step of the way into a user namespace failed.
#[derive(Clone, Copy)]
enum Step {
    Enter,
    Map,
}

impl Step {
    /// Every error number is below this: step and number fit into an exit code together.
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

/// Enters a user namespace in which we are who we were.
///
/// There is no way back out of one whose map could not be written (`AppArmor` lets us in and forbids the map; an
/// undumpable process may not write it): there we would be nobody, without our files. So a child goes first.
fn enter_user() -> Result<(), String> {
    let code = try_in_child().map_err(|error| format!("cannot try a user namespace: {error}"))?;
    if code != 0 {
        let (step, error) = Step::decode(code);
        let what = match step {
            Step::Enter => "a user namespace",
            Step::Map => "the map of a user namespace",
        };
        return Err(format!("{what}: {}", describe(&error, true)));
    }
    go_through().map_err(|(_, error)| format!("a user namespace: {}", describe(&error, true)))
}

fn try_in_child() -> io::Result<i32> {
    match sys::fork()? {
        Fork::Child => {
            sys::exit_now(go_through().map_or_else(|(step, error)| step.encode(&error), |()| 0));
        }
        // A child that a signal ended (a filter that kills) is as good a refusal as any.
        Fork::Parent(pid) => Ok(sys::reap(pid)?.exit_code.unwrap_or(libc::EPERM)),
    }
}

fn go_through() -> Result<(), (Step, io::Error)> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    sys::enter_namespaces(UnshareFlags::NEWUSER).map_err(|error| (Step::Enter, error))?;
    // Without privilege, the kernel takes a map of groups only from who has given up changing them.
    write_proc("/proc/self/setgroups", "deny")
        .and_then(|()| write_proc("/proc/self/uid_map", &format!("{user} {user} 1")))
        .and_then(|()| write_proc("/proc/self/gid_map", &format!("{group} {group} 1")))
        .map_err(|error| (Step::Map, error))
}

/// Writes one of the kernel's files in one go.
fn write_proc(path: &str, value: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
}

/// Nobody below can make another user namespace, and every capability that was gained goes.
fn close_behind() {
    // One's own namespace's count, not the machine's. Where /proc/sys is read-only, the filters alone forbid it.
    write_proc("/proc/sys/user/max_user_namespaces", "0").ok();
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    // Dropping cannot be refused; if it were, the broker sheds them a moment later, or does not begin.
    rustix::thread::set_capabilities(None, sets).ok();
}

/// An error with what most probably stands behind it.
fn describe(error: &io::Error, through_user: bool) -> String {
    match obstacle(through_user) {
        Some(obstacle) => format!("{error} ({})", obstacle.reason),
        None => error.to_string(),
    }
}

/// Something that is known to stand in the way.
struct Obstacle {
    /// Where to look.
    file: &'static str,
    /// What stands there.
    value: &'static str,
    reason: &'static str,
    advice: &'static str,
}

/// What stands in every way.
const FILTER: Obstacle = Obstacle {
    file: "/proc/self/status",
    value: "Seccomp:\t2",
    reason: "a seccomp filter is in force: RestrictNamespaces= of the unit, or the container's",
    advice: "nothing where that is meant; else RestrictNamespaces=user net ipc uts in the unit",
};

/// What stands in the way of user namespaces alone.
const SETTINGS: [Obstacle; 3] = [
    Obstacle {
        file: "/proc/sys/user/max_user_namespaces",
        value: "0",
        reason: "user.max_user_namespaces is 0",
        advice: "sysctl user.max_user_namespaces=1024, if other programs on this machine may have them too",
    },
    Obstacle {
        file: "/proc/sys/kernel/unprivileged_userns_clone",
        value: "0",
        reason: "kernel.unprivileged_userns_clone is 0",
        advice: "sysctl kernel.unprivileged_userns_clone=1, if other programs on this machine may have them too",
    },
    Obstacle {
        file: "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        value: "1",
        reason: "kernel.apparmor_restrict_unprivileged_userns is 1",
        advice: "an AppArmor profile for nanoclaw with the line 'userns,'",
    },
];

fn obstacle(through_user: bool) -> Option<&'static Obstacle> {
    let settings: &[Obstacle] = if through_user { &SETTINGS } else { &[] };
    settings.iter().chain([&FILTER]).find(|obstacle| {
        let text = fs::read_to_string(obstacle.file).unwrap_or_default();
        text.lines().any(|line| line.trim() == obstacle.value)
    })
}

#[cfg(test)]
mod tests;
