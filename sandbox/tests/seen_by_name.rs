//! What programs learn about files and processes by their names alone: landlock does not mediate metadata.

use nanoclaw_sandbox::{Language, Level, Program};

use crate::support;

/// Tells in which mount namespace a test runs.
const HIDDEN: &str = "NANOCLAW_TEST_HIDDEN_PROC";

/// Asks for metadata in every way. `CALLS` has the numbers of system calls.
const METADATA: &str = r#"
import ctypes, json, os
l = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(4096)
def call(number, *arguments):
    return l.syscall(ctypes.c_long(number), *arguments)
n = CALLS
library = os.path.dirname(os.__file__)
for path in ("/proc", "/proc/1", "/proc/self", "/proc/%d" % os.getppid(), "/etc/passwd", library, os.__file__, "."):
    name = path.encode()
    ways = [("statx", -100, name, flags, 0x7ff, buffer) for flags in (0, 0x100, 0x1000)]
    ways += [("newfstatat", -100, name, buffer, flags) for flags in (0, 0x100, 0x1000)]
    ways += [("stat", name, buffer), ("lstat", name, buffer), ("statfs", name, buffer)]
    ways += [("access", name, 0), ("faccessat", -100, name, 0), ("faccessat2", -100, name, 0, 0)]
    ways += [("readlink", name, buffer, 4096), ("readlinkat", -100, name, buffer, 4096), ("chdir", name)]
    ways += [("getxattr", name, b"user.x", buffer, 4096), ("listxattr", name, buffer, 4096)]
    for way in ways:
        if way[0] in n and call(n[way[0]], *way[1:]) >= 0:
            print("ESCAPED:", way[:3])
    for look in (os.stat, os.lstat, os.readlink, os.statvfs, os.listdir, os.chdir):
        try:
            look(path)
        except OSError:
            continue
        if not path.startswith(library) or look not in (os.stat, os.listdir):
            print("ESCAPED:", look, path)
is_file = lambda path: (os.stat(path).st_mode & 0o170000) == 0o100000
print(is_file(os.__file__), is_file(library), "json" in os.listdir(library), os.stat(os.__file__).st_size > 9000)
"#;

fn numbers() -> String {
    let mut numbers = vec![
        ("statx", libc::SYS_statx),
        ("newfstatat", libc::SYS_newfstatat),
        ("statfs", libc::SYS_statfs),
        ("faccessat", libc::SYS_faccessat),
        ("faccessat2", libc::SYS_faccessat2),
        ("readlinkat", libc::SYS_readlinkat),
        ("chdir", libc::SYS_chdir),
        ("getxattr", libc::SYS_getxattr),
        ("listxattr", libc::SYS_listxattr),
    ];
    #[cfg(target_arch = "x86_64")]
    numbers.extend([
        ("stat", libc::SYS_stat),
        ("lstat", libc::SYS_lstat),
        ("access", libc::SYS_access),
        ("readlink", libc::SYS_readlink),
    ]);
    let numbers: Vec<String> =
        numbers.into_iter().map(|(name, number)| format!("'{name}': {number}")).collect();
    format!("{{{}}}", numbers.join(", "))
}

#[test]
fn p7_strict_and_standard_programs_get_no_metadata_of_a_path() {
    let _turn = support::shared();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    for level in [Level::Strict, Level::Standard] {
        let mut program = support::python(level, &METADATA.replace("CALLS", &numbers()));
        program.language_check = false;
        let record = sandbox.run(&program, &|| false);
        assert_eq!(record.stdout, "True False True True\n", "{level}: {record:#?}");
    }
}

/// Looks for processes: prints how many of them it sees.
const PROCESSES: &str = r#"
import os
seen = 0
for pid in [1, os.getppid(), PIDS]:
    for path in (f"/proc/{pid}", f"/proc/{pid}/task", f"/proc/{pid}/fd"):
        try:
            os.lstat(path)
            seen += 1
        except FileNotFoundError:
            pass
        try:
            os.close(os.open(path, os.O_RDONLY))
            print("opened", path)
        except FileNotFoundError:
            pass
        except OSError:
            seen += 1
os.lstat("/proc/self")
print(seen)
"#;

/// The unit has `ProtectProc=invisible`, which is such a mount.
#[test]
fn p7_where_proc_hides_processes_programs_see_none_but_their_own() {
    if std::env::var_os(HIDDEN).is_none() {
        let _turn = support::exclusive();
        // The group of root sees all processes, whatever the mount says.
        let script = "mount --make-rprivate / && mount -t proc -o hidepid=invisible proc /proc && \
                      exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"";
        let run = |program: &[&std::ffi::OsStr]| {
            #[expect(clippy::disallowed_methods, reason = "the test starts itself with another /proc")]
            let mut command = std::process::Command::new("unshare");
            command.args(["--mount", "sh", "-c", script, "sh"]).args(program).env(HIDDEN, "1").status()
        };
        if !run(&["true".as_ref()]).is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: this user may not mount /proc and become another one");
            return;
        }
        let test = "seen_by_name::p7_where_proc_hides_processes_programs_see_none_but_their_own";
        let own = std::env::current_exe().unwrap();
        let arguments = [own.as_os_str(), "--exact".as_ref(), test.as_ref(), "--nocapture".as_ref()];
        assert!(run(&arguments).unwrap().success());
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    let code = PROCESSES.replace("PIDS", &std::process::id().to_string());
    let record = sandbox.run(&support::python(Level::Lenient, &code), &|| false);
    assert_eq!(record.stdout, "0\n", "{record:#?}");
    let own = std::process::id();
    let command = format!("ls -d /proc/1 /proc/$PPID/task /proc/{own} 2>/dev/null; ls -d /proc/self");
    let record = sandbox.run(&Program::new(Language::Bash, Level::Shell, command), &|| false);
    assert_eq!(record.stdout, "/proc/self\n", "{record:#?}");
}
