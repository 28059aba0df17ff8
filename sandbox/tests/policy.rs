//! The kernel policy call by call: deadly calls kill, forbidden calls fail, even at the most lenient level.

use nanoclaw_sandbox::{Language, Level, Program, RunStatus};
use std::io::Write as _;

use crate::support;

/// Calls that end a run, whatever their arguments.
const DEADLY: &[(&str, i64)] = &[
    ("ptrace", libc::SYS_ptrace),
    ("process_vm_readv", libc::SYS_process_vm_readv),
    ("process_vm_writev", libc::SYS_process_vm_writev),
    ("bpf", libc::SYS_bpf),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("io_uring_register", libc::SYS_io_uring_register),
    ("userfaultfd", libc::SYS_userfaultfd),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("mount", libc::SYS_mount),
    ("umount2", libc::SYS_umount2),
    ("move_mount", libc::SYS_move_mount),
    ("open_tree", libc::SYS_open_tree),
    ("fsopen", libc::SYS_fsopen),
    ("unshare", libc::SYS_unshare),
    ("setns", libc::SYS_setns),
    ("pivot_root", libc::SYS_pivot_root),
    ("chroot", libc::SYS_chroot),
    ("kexec_load", libc::SYS_kexec_load),
    ("init_module", libc::SYS_init_module),
    ("finit_module", libc::SYS_finit_module),
    ("delete_module", libc::SYS_delete_module),
    ("keyctl", libc::SYS_keyctl),
    ("add_key", libc::SYS_add_key),
    ("request_key", libc::SYS_request_key),
    ("open_by_handle_at", libc::SYS_open_by_handle_at),
    ("pidfd_open", libc::SYS_pidfd_open),
    ("pidfd_getfd", libc::SYS_pidfd_getfd),
    ("process_madvise", libc::SYS_process_madvise),
    ("kcmp", libc::SYS_kcmp),
    ("execve", libc::SYS_execve),
    ("execveat", libc::SYS_execveat),
    ("iopl", libc::SYS_iopl),
    ("ioperm", libc::SYS_ioperm),
    ("modify_ldt", libc::SYS_modify_ldt),
    ("syslog", libc::SYS_syslog),
    ("reboot", libc::SYS_reboot),
    ("swapon", libc::SYS_swapon),
    ("quotactl", libc::SYS_quotactl),
    ("clock_settime", libc::SYS_clock_settime),
    ("memfd_secret", libc::SYS_memfd_secret),
    ("seccomp", libc::SYS_seccomp),
    ("landlock_create_ruleset", libc::SYS_landlock_create_ruleset),
    ("landlock_restrict_self", libc::SYS_landlock_restrict_self),
    ("x32 getpid", 0x4000_0000 + libc::SYS_getpid),
    ("x32 exit_group", 0x4000_0000 + libc::SYS_exit_group),
    ("number -1", -1),
];

#[test]
fn every_call_of_the_kill_list_kills() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    let items: Vec<_> =
        DEADLY.iter().flat_map(|call| [(Level::Lenient, *call), (Level::Standard, *call)]).collect();
    let alive = support::in_parallel(items, 3, |(level, (name, number))| {
        let code = format!(
            "import ctypes\nctypes.CDLL(None).syscall(ctypes.c_long({number}), 0, 0, 0, 0, 0, 0)\nprint('alive')"
        );
        let mut program: Program = support::python(level, &code);
        program.language_check = false;
        let record = sandbox.run(&program, &|| false);
        (record.status != RunStatus::ForbiddenSyscall).then(|| format!("{name} at {level}: {record:#?}"))
    });
    let alive: Vec<_> = alive.into_iter().flatten().collect();
    assert!(alive.is_empty(), "{}", alive.join("\n"));
    support::assert_nothing_left(scratch.path());
}

/// `int 0x80` uses i386 numbers: code has no executable memory for it, and a command that has it is killed.
#[test]
fn calls_of_another_architecture_kill() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    let code = include_str!("programs/hostile/py/int80_compat.py");
    let mut program = support::python(Level::Lenient, code);
    program.language_check = false;
    let record = sandbox.run(&program, &|| false);
    let blocked = record.stdout.starts_with("BLOCKED PermissionError");
    assert!(record.status == RunStatus::ForbiddenSyscall || blocked, "{record:#?}");
    let python = std::path::Path::new("/usr/bin/python3");
    if !python.exists() {
        writeln!(std::io::stderr(), "SKIPPED: no {} for the command's half", python.display())
            .expect("stderr");
        return;
    }
    let command = format!("{} - <<'end'\n{code}\nend\necho $?", python.display());
    let record = sandbox.run(&Program::new(Language::Bash, Level::Shell, command), &|| false);
    // SIGSYS by the filter; SIGSEGV if the kernel has no i386 calls.
    let died = [libc::SIGSYS, libc::SIGSEGV].map(|signal| format!("{}\n", 128 + signal));
    assert!(died.contains(&record.stdout), "{record:#?}");
}

/// The kernel itself returns EPERM to a group leader, so a child of one shows the filter's answer.
#[test]
fn a_command_may_create_sessions() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let command = "setsid --wait sh -c 'echo in a session' || echo $?";
    let program = Program::new(Language::Bash, Level::Shell, command);
    let record = support::sandbox(scratch.path()).run(&program, &|| false);
    assert_eq!(record.stdout, "in a session\n", "{record:#?}");
}

/// The broker's filter and two last ones; commands have one more, for supervised calls; the children of a
/// zygote have two more: the early kill list and the zygote's.
#[test]
fn guest_processes_have_all_filters() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    for (program, filters) in [
        (support::javascript(Level::Strict, "for (;;) {}"), "3"),
        (support::python(Level::Lenient, "while True: pass"), "5"),
        (support::python(Level::Standard, "while True: pass"), "5"),
        (Program::new(Language::Bash, Level::Shell, "sleep 100"), "4"),
    ] {
        let seen = std::cell::RefCell::new(String::new());
        // Checked repeatedly while the program runs.
        let has_filters = || {
            *seen.borrow_mut() = guest_filters().unwrap_or_default();
            *seen.borrow() == filters
        };
        let mut program = program;
        program.timeout_ms = Some(20_000);
        let record = sandbox.run(&program, &has_filters);
        assert_eq!(seen.take(), filters, "{record:#?}");
    }
}

/// The maximal number of filters of the processes that may run guest code.
fn guest_filters() -> Option<String> {
    let descendants = support::descendants(std::process::id());
    let guests = descendants.into_iter().filter(|pid| {
        let name = support::name_of(*pid);
        name == "nanoclaw-guest" || name == "sleep"
    });
    let filters = guests.filter_map(|pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
        line.map(|count| count.trim().to_owned())
    });
    filters.max()
}

/// The filter refuses these flags (EPERM) with otherwise valid arguments, and allows what good programs
/// need.
#[test]
fn forbidden_flags_of_allowed_calls_are_refused() {
    let _turn = support::exclusive();
    let code = "import ctypes, mmap, os, socket\nl = ctypes.CDLL(None, use_errno=True)\n\
            def call(n, *a): return ctypes.get_errno() if l.syscall(ctypes.c_long(n), *a) < 0 else 0\n\
            open('a', 'w').write('x')\nmove = lambda flags: call(RENAMEAT2, -100, b'a', -100, b'b', flags)\n\
            print(move(4), move(5), move(1))\none, two = socket.socketpair()\n\
            for flag in (1, 0):\n    for f in (one.send, ):\n        \
            try: print(f(b'x', flag))\n        except OSError as e: print(e.errno)\n\
            try: print(two.recv(1, 1))\nexcept OSError as e: print(e.errno)\nprint(two.recv(1))\n\
            f = open('m', 'w+b'); f.truncate(4096); m = mmap.mmap(f.fileno(), 0); m[0] = 1; print(m.flush())"
        .replace("RENAMEAT2", &libc::SYS_renameat2.to_string());
    let scratch = tempfile::tempdir().unwrap();
    let record = support::sandbox(scratch.path()).run(&support::python(Level::Lenient, &code), &|| false);
    assert_eq!(record.stdout, "1 1 0\n1\n1\n1\nb'x'\nNone\n", "{record:#?}");
}

#[test]
fn forbidden_calls_fail_with_an_error() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    let code = include_str!("programs/own/quiet_calls.py");
    for level in Level::FOR_CODE {
        let mut program = support::python(level, code);
        program.language_check = false;
        let record = sandbox.run(&program, &|| false);
        assert_eq!(record.status, RunStatus::Ok, "{record:#?}");
        assert!(record.stdout.lines().count() > 60, "{record:#?}");
        let got: Vec<_> = record.stdout.lines().filter(|line| line.starts_with("ESCAPED")).collect();
        assert!(got.is_empty(), "{level}: {got:?}");
    }
    support::assert_nothing_left(scratch.path());
}
