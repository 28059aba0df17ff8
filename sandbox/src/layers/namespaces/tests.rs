//! Namespaces on the real kernel: as root, as nobody, and where they are not permitted.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;

use rustix::process::{DumpableBehavior, PidfdFlags, Signal};

use super::super::tests::{NOBODY, alone, become_nobody, in_child, lacks_root};
use super::*;
use crate::policy::{LandlockDomain, RulesetKind, TcpAccess};

fn is_in_force(namespaces: &Namespaces, kind: &str) -> bool {
    namespaces.reports.iter().any(|report| report.kind == kind && report.held)
}

fn link(kind: &str) -> String {
    fs::read_link(format!("/proc/self/ns/{kind}")).unwrap_or_default().display().to_string()
}

fn error_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn ensure(condition: bool, message: &str) -> Result<(), String> {
    if condition { Ok(()) } else { Err(message.to_owned()) }
}

/// Whether this machine forbids user namespaces to unprivileged processes, with a message.
fn lacks_user_namespaces(subject: &str) -> bool {
    let _turn = alone();
    let failure = in_child(|| {
        become_nobody()?;
        Ok(enter_user().err().unwrap_or_default())
    });
    if !failure.is_empty() {
        eprintln!("SKIPPED: {subject}: {failure}");
    }
    !failure.is_empty()
}

#[test]
fn root_enters_directly_and_keeps_its_user_ids() {
    if lacks_root("entering namespaces by right") {
        return;
    }
    let _turn = alone();
    in_child(|| {
        let before = ["net", "ipc", "uts", "user"].map(link);
        let entered = Namespaces::enter(false);
        let after = ["net", "ipc", "uts", "user"].map(link);
        let changed: Vec<bool> = before.iter().zip(&after).map(|(old, new)| old != new).collect();
        ensure(changed == [true, true, true, false], &format!("{changed:?} {entered:?}"))?;
        let devices = fs::read_to_string("/proc/self/net/dev").map_err(error_text)?;
        ensure(devices.lines().count() == 3, &devices)?;
        // Children of root do this afterwards.
        become_nobody().map(|()| String::new())
    });
}

#[test]
fn the_network_namespace_is_kept_on_request() {
    if lacks_root("entering namespaces by right") {
        return;
    }
    let _turn = alone();
    in_child(|| {
        let before = link("net");
        let entered = Namespaces::enter(true);
        ensure(link("net") == before, "the network namespace changed")?;
        ensure(!is_in_force(&entered, "network") && is_in_force(&entered, "ipc"), &format!("{entered:?}"))
            .map(|()| String::new())
    });
}

#[test]
fn an_unprivileged_user_enters_a_user_namespace_and_keeps_its_ids() {
    if lacks_root("becoming somebody else") || lacks_user_namespaces("the user namespace") {
        return;
    }
    let _turn = alone();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    in_child(|| {
        become_nobody()?;
        let own = folder.path().join("own");
        fs::write(&own, "mine").map_err(error_text)?;
        fs::set_permissions(&own, fs::Permissions::from_mode(0o600)).map_err(error_text)?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(error_text)?;

        let entered = Namespaces::enter(false);
        for kind in ["user", "network", "ipc", "uts"] {
            ensure(is_in_force(&entered, kind), &format!("{kind}: {entered:?}"))?;
        }
        ensure(geteuid().as_raw() == NOBODY && getegid().as_raw() == NOBODY, "another user")?;
        ensure(fs::read_to_string(&own).map_err(error_text)? == "mine", "own file")?;
        fs::write(folder.path().join("another"), "new").map_err(error_text)?;
        let signal = rustix::process::parent_process_death_signal().map_err(error_text)?;
        ensure(signal == Some(Signal::KILL), "the signal for the parent's death is lost")?;
        let dumpable = rustix::process::dumpable_behavior().map_err(error_text)?;
        ensure(
            dumpable == DumpableBehavior::Dumpable,
            "undumpable: its children could not read their /proc",
        )?;
        let sets = rustix::thread::capabilities(None).map_err(error_text)?;
        ensure(sets.effective.is_empty() && sets.permitted.is_empty(), "capabilities are left")?;
        let nested = sys::enter_namespaces(UnshareFlags::NEWUSER);
        ensure(nested.is_err(), "a nested user namespace")?;
        rustix::thread::set_no_new_privs(true).map_err(error_text)?;
        let domain = LandlockDomain {
            abi: sys::landlock_abi().map_err(error_text)?,
            kind: RulesetKind::Full,
            tcp: TcpAccess::Closed,
        };
        crate::policy::restrict(domain, &[]).map_err(error_text)?;
        ensure(fs::read(&own).is_err(), "landlock does not bind")?;
        Ok(String::new())
    });
}

#[test]
fn the_server_can_signal_and_reap_a_process_in_a_namespace() {
    if lacks_root("becoming somebody else") || lacks_user_namespaces("signals from outside") {
        return;
    }
    let _turn = alone();
    in_child(|| {
        become_nobody()?;
        let (reader, writer) = io::pipe().map_err(error_text)?;
        let ForkResult::Parent(pid) = sys::fork().map_err(error_text)? else {
            drop(reader);
            let entered = Namespaces::enter(false);
            if is_in_force(&entered, "user") {
                io::Write::write_all(&mut &writer, b"x").ok();
            }
            rustix::event::poll(&mut [], None).ok();
            sys::exit_now(0);
        };
        drop(writer);
        let mut byte = [0; 1];
        io::Read::read_exact(&mut &reader, &mut byte).map_err(error_text)?;
        let id = rustix::process::Pid::from_raw(pid).ok_or("no pid")?;
        let pidfd = rustix::process::pidfd_open(id, PidfdFlags::empty()).map_err(error_text)?;
        rustix::process::pidfd_send_signal(&pidfd, Signal::TERM).map_err(error_text)?;
        ensure(sys::reap(pid).map_err(error_text)?.signal == Some(libc::SIGTERM), "not signalled")?;
        Ok(String::new())
    });
}

#[test]
fn a_failed_user_map_leaves_the_process_unchanged() {
    if lacks_root("becoming somebody else") || lacks_user_namespaces("the half-way failure") {
        return;
    }
    let _turn = alone();
    in_child(|| {
        become_nobody()?;
        // The kernel then gives the files of /proc/self to root: the namespace can be entered, the map not
        // written.
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(error_text)?;
        let before = link("user");
        let entered = Namespaces::enter(false);
        let reports = &entered.reports;
        ensure(
            reports.iter().all(|report| !report.held && report.reason.is_some()),
            &format!("{reports:?}"),
        )?;
        ensure(
            reports.iter().any(|r| r.reason.as_ref().is_some_and(|r| r.contains("map"))),
            &format!("{reports:?}"),
        )?;
        ensure(geteuid().as_raw() == NOBODY && link("user") == before, "a failed entry changed the process")?;
        Ok(String::new())
    });
}

#[test]
fn a_seccomp_filter_that_forbids_namespaces_is_reported() {
    if lacks_root("becoming somebody else") {
        return;
    }
    let _turn = alone();
    in_child(|| {
        become_nobody()?;
        rustix::thread::set_no_new_privs(true).map_err(error_text)?;
        let forbid = || -> Result<seccompiler::BpfProgram, seccompiler::BackendError> {
            let rules = [(libc::SYS_unshare, Vec::new())].into_iter().collect();
            let refuse = seccompiler::SeccompAction::Errno(1);
            let arch = std::env::consts::ARCH.try_into()?;
            seccompiler::SeccompFilter::new(rules, seccompiler::SeccompAction::Allow, refuse, arch)?
                .try_into()
        };
        sys::install_filter(&forbid().map_err(error_text)?).map_err(error_text)?;
        let entered = Namespaces::enter(false);
        let named =
            |text: &Option<String>| text.as_ref().is_some_and(|text| text.contains("RestrictNamespaces"));
        let reports = &entered.reports;
        ensure(reports.len() == KINDS.len(), "one report per kind")?;
        ensure(reports.iter().all(|r| named(&r.reason) && named(&r.advice)), &format!("{reports:?}"))?;
        Ok(String::new())
    });
}

#[test]
fn a_failed_namespace_step_round_trips_through_an_exit_code() {
    let error = io::Error::from_raw_os_error(libc::ENOSPC);
    for step in [UserNamespaceStep::Enter, UserNamespaceStep::Map] {
        let (_, decoded) = UserNamespaceStep::decode(step.encode(&error));
        assert_eq!(decoded.raw_os_error(), Some(libc::ENOSPC));
    }
    assert!(matches!(
        UserNamespaceStep::decode(UserNamespaceStep::Map.encode(&error)).0,
        UserNamespaceStep::Map
    ));
    assert!(matches!(
        UserNamespaceStep::decode(UserNamespaceStep::Enter.encode(&error)).0,
        UserNamespaceStep::Enter
    ));
}

#[test]
fn each_namespace_obstacle_has_a_reason_and_advice() {
    for obstacle in SETTINGS.iter().chain([&FILTER]) {
        assert!(!obstacle.reason.is_empty() && !obstacle.advice.is_empty());
        assert!(obstacle.file.starts_with("/proc/"));
    }
}
