//! New namespaces for a process at its very start: all that it forks later lives in them too.
//!
//! Owns: how they are had (by right, or through a user namespace that is tried out in a child first), the closing of
//! nested user namespaces, and the one capability kept for pid namespaces.
//! Refuses: mount namespaces (landlock decides on files) and cgroup namespaces (their border would keep runs from
//! joining a cgroup beside the broker's own); a user namespace for root, whose children need user ids it would not map.

use std::fs;
use std::io::{self, Write};

use rustix::process::{getegid, geteuid};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};

use super::NamespaceReport;
use crate::sys::{self, Fork};

/// The kinds beside `user` and `pid` that are entered, by name.
const KINDS: [(&str, UnshareFlags); 3] =
    [("network", UnshareFlags::NEWNET), ("ipc", UnshareFlags::NEWIPC), ("uts", UnshareFlags::NEWUTS)];

/// The namespaces this process is in, and whether its children can have pid namespaces.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    reports: Vec<NamespaceReport>,
    gives_pid: bool,
    /// `CAP_SYS_ADMIN` is kept ready, not in force, and only over our own user namespace.
    raises: bool,
}

impl Namespaces {
    /// Enters what can be entered. For a process with one thread that has not made itself undumpable yet.
    ///
    /// `network`: the operator wants commands to have the network, so it stays.
    pub(crate) fn enter(network: bool) -> Self {
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
                entered.raises = true;
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
        let pid = try_pid();
        entered.gives_pid = pid.is_ok();
        entered.tell("pid", pid);
        if entered.raises {
            entered.close_behind();
        }
        entered
    }

    /// What became of each kind.
    pub(crate) fn reports(&self) -> &[NamespaceReport] {
        &self.reports
    }

    /// Whether [`Namespaces::fork_into_pid`] can be used.
    pub(crate) fn gives_pid(&self) -> bool {
        self.gives_pid
    }

    /// Forks a child as process 1 of a pid namespace of its own; see `sys::fork_into_pid_namespace` for what that means.
    pub(crate) fn fork_into_pid(&self) -> io::Result<Fork> {
        if !self.gives_pid {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if !self.raises {
            return sys::fork_into_pid_namespace();
        }
        keep(CapabilitySet::SYS_ADMIN, CapabilitySet::SYS_ADMIN)?;
        match sys::fork_into_pid_namespace() {
            // The child has no more use for it at all.
            Ok(Fork::Child) => keep(CapabilitySet::empty(), CapabilitySet::empty()).map(|()| Fork::Child),
            other => {
                keep(CapabilitySet::empty(), CapabilitySet::SYS_ADMIN)?;
                other
            }
        }
    }

    /// Nobody below can make another user namespace, and of the capabilities gained, one is kept out of force if needed.
    fn close_behind(&mut self) {
        // One's own namespace's count, not the machine's. Where /proc/sys is read-only, the filters alone forbid it.
        write_proc("/proc/sys/user/max_user_namespaces", "0").ok();
        let kept = if self.gives_pid { CapabilitySet::SYS_ADMIN } else { CapabilitySet::empty() };
        if keep(CapabilitySet::empty(), kept).is_err() {
            // Then they stay until each child drops them, as it does in any case.
            self.raises = false;
        }
    }

    fn tell(&mut self, kind: &str, outcome: io::Result<()>) {
        match outcome {
            Ok(()) => {
                let kind = kind.to_owned();
                self.reports.push(NamespaceReport { kind, held: true, reason: None, advice: None });
            }
            Err(error) => self.refuse(kind, &describe(&error, self.raises), obstacle(self.raises)),
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
        for kind in KINDS.map(|(kind, _)| kind).into_iter().chain(["pid"]) {
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

/// Whether a child can be process 1 of a new pid namespace.
fn try_pid() -> io::Result<()> {
    match sys::fork_into_pid_namespace()? {
        Fork::Child => sys::exit_now(0),
        Fork::Parent(pid) => sys::reap(pid).map(drop),
    }
}

fn keep(effective: CapabilitySet, permitted: CapabilitySet) -> io::Result<()> {
    let sets = CapabilitySets { effective, permitted, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).map_err(Into::into)
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
    advice: "nothing where that is meant; else RestrictNamespaces=user net ipc uts pid in the unit",
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
