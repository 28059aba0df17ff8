//! Ordinary commands work at level shell: everyday commands with their output and exit code.
//!
//! Denied by design, and tested here: named pipes, `/proc`, `/dev/shm` and with it Python's cross-process
//! locks. What commands do with their own files is in `own_files`.

use std::path::Path;

use nanoclaw_sandbox::{Language, Level, Program, RunRecord, RunStatus, Sandbox};

use crate::support;

fn bash(code: &str) -> Program {
    Program::new(Language::Bash, Level::Shell, code)
}

/// A command line, its standard output and its exit code.
type Case = (&'static str, &'static str, i32);

fn has(program: &str) -> bool {
    ["/usr/local/bin", "/usr/bin", "/bin"].iter().any(|path| Path::new(path).join(program).exists())
}

fn check(sandbox: &Sandbox, (code, stdout, exit_code): Case) {
    let record = sandbox.run(&bash(code), &|| false);
    assert_eq!((record.stdout.as_str(), record.exit_code), (stdout, Some(exit_code)), "{code}\n{record:#?}");
    let status = if exit_code == 0 { RunStatus::Ok } else { RunStatus::Error };
    assert_eq!((record.status, record.signal, record.limit.as_deref()), (status, None, None), "{code}");
}

fn check_all(cases: &[Case]) {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    support::in_parallel(cases.to_vec(), 4, |case| check(&sandbox, case));
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

fn run(program: &Program) -> RunRecord {
    let scratch = tempfile::tempdir().unwrap();
    support::sandbox(scratch.path()).run(program, &|| false)
}

#[test]
fn shell_builtins_work() {
    check_all(&[
        ("echo out; echo err >&2; echo also >/dev/stdout", "out\nalso\n", 0),
        ("seq 5 | tac | head -2 | tr '\\n' ,", "5,4,", 0),
        ("cat <<E\nhere $((6 * 7))\nE\ncat <<<string", "here 42\nstring\n", 0),
        ("cat <(echo one) <(echo two); while read l; do echo \"$l!\"; done < <(echo x)", "one\ntwo\nx!\n", 0),
        ("for i in 1 2 3; do (sleep 0.0$i; echo $i >$i) & done; wait; cat 1 2 3; jobs", "1\n2\n3\n", 0),
        ("coproc cat; echo hi >&${COPROC[1]}; read -u ${COPROC[0]} l; echo $l", "hi\n", 0),
        ("set -o pipefail; false | true; echo $?; set -e; false; echo no", "1\n", 1),
        ("yes | head -1; echo ${PIPESTATUS[@]}", "y\n141 0\n", 0),
        ("exec 3>f; echo x >&3; cat f; read x; echo $?", "x\n1\n", 0),
        ("ulimit -n 20; ulimit -n; ulimit -n 30 2>/dev/null; ulimit -n", "20\n20\n", 0),
        ("ulimit -v 200000; ulimit -Hv", "200000\n", 0),
        ("echo $(( $(nproc) > 0 )); date +%s | grep -cE '^[0-9]{10}$'", "1\n1\n", 0),
    ]);
}

#[test]
fn the_exit_code_is_that_of_the_command() {
    check_all(&[
        ("true", "", 0),
        ("exit 3", "", 3),
        ("exit 70", "", 70),
        ("exit 255", "", 255),
        ("no_such_command", "", 127),
        ("/etc/passwd", "", 126),
        ("kill -TERM $$", "", 143),
        ("kill -SEGV $$", "", 139),
        ("kill -KILL $$", "", 137),
        ("kill -SYS $$", "", 159),
        ("sh -c 'kill -9 $$'", "", 137),
        ("timeout 0.2 sleep 5", "", 124),
        ("timeout -s KILL 0.2 sleep 5", "", 137),
        ("sleep 5 & kill $!; wait $!", "", 143),
        ("sleep 5 & kill %1; wait; echo gone", "gone\n", 0),
        ("trap 'echo caught; exit 5' TERM; kill -TERM $$; sleep 1", "caught\n", 5),
        ("trap 'echo bye' EXIT; exit 4", "bye\n", 4),
    ]);
}

#[test]
fn file_and_text_commands_work() {
    check_all(&[
        ("f=$(mktemp); d=$(mktemp -d); case $f$d in \"$PWD\"/*\"$PWD\"/*) echo own;; esac", "own\n", 0),
        ("mkdir -p a/b; seq 9 >a/b/n; find a -name n | xargs cat | sort -rn | head -1", "9\n", 0),
        (
            "seq 4 | awk '{s += $1} END {print s}'; echo cat | sed s/c/b/; seq 3 >f; sed -i 2d f; cat f",
            "10\nbat\n1\n3\n",
            0,
        ),
        ("mkdir d; echo x >d/f; tar czf a.tgz d; rm -r d; tar xzf a.tgz; cat d/f", "x\n", 0),
        ("mkdir d; echo x >d/f; tar cf - d | gzip >a.gz; gunzip <a.gz | tar tf -", "d/\nd/f\n", 0),
        ("echo x >a; gzip a; gunzip a.gz; cat a; gzip -c a | zcat", "x\nx\n", 0),
        (
            "mkdir d; echo x >d/f; ln -s f d/l; cp -a d e; readlink e/l; mv e g; cat g/l; rm -r g; ls",
            "f\nx\nd\n",
            0,
        ),
        (
            "touch -d 2001-01-01 t; echo 'echo ran' >x; chmod +x x; sh ./x; install -m 644 x y; cat y",
            "ran\necho ran\n",
            0,
        ),
        ("echo 'echo ran' >x; ./x 2>/dev/null || echo $?; chmod +x x; ./x", "126\nran\n", 0),
        ("mkfifo f 2>/dev/null || echo none; ls /proc /tmp /root 2>/dev/null", "none\n", 2),
        (
            "dd if=/dev/zero of=f bs=1M count=1 2>/dev/null; stat -c %s f; du -sk f | cut -f1",
            "1048576\n1024\n",
            0,
        ),
        (
            "head -c 5 /dev/urandom | wc -c; echo x >/dev/null; printf a | sha256sum | cut -c1-8",
            "5\nca978112\n",
            0,
        ),
        ("echo a >x; echo b >y; diff x y | head -1; cmp x x; ln x z; echo c >>z; cat x", "1c1\na\nc\n", 0),
    ]);
}

#[test]
fn the_environment_is_scrubbed() {
    let _turn = support::exclusive();
    let mut program =
        bash("env | cut -d= -f1 | sort | tr '\\n' ' '; echo; echo $HOME $TMPDIR; pwd; echo $TOKEN");
    program.environment = vec![("TOKEN".to_owned(), "let through".to_owned())];
    let record = run(&program);
    let lines: Vec<&str> = record.stdout.lines().collect();
    let [names, directories, own_dir, token] = lines[..] else { panic!("{record:#?}") };
    let mut expected = vec![
        "GIT_CONFIG_NOSYSTEM",
        "HOME",
        "LANG",
        "MALLOC_ARENA_MAX",
        "PATH",
        "PWD",
        "SHELL",
        "SHLVL",
        "TERM",
        "TMPDIR",
        "TOKEN",
        "_",
    ];
    // What some machines and users need beyond that.
    expected.extend(rustix::process::geteuid().is_root().then_some("TAR_OPTIONS"));
    expected.extend(Path::new("/etc/gitconfig").exists().then_some("CARGO_CARGO_NEW_VCS"));
    expected.sort_unstable();
    let expected = expected.join(" ");
    assert_eq!((names.trim(), token), (expected.as_str(), "let through"));
    assert!(
        own_dir.contains("nanoclaw-run-") && directories == format!("{own_dir} {own_dir}"),
        "{record:#?}"
    );
}

const PROCESSES: &str = "
import asyncio, multiprocessing, subprocess, sys
def work(pipe): pipe.send(6 * 7)
async def ask():
    child = await asyncio.create_subprocess_exec('echo', 'a', stdout=asyncio.subprocess.PIPE)
    return await child.communicate()
if __name__ == '__main__':
    print(subprocess.run(['echo', 's'], capture_output=True, text=True).stdout.strip())
    print(subprocess.check_output('echo p | cat', shell=True, text=True).strip())
    print(asyncio.run(ask())[0].decode().strip())
    for method in 'fork', 'spawn':
        context = multiprocessing.get_context(method)
        parent, peer = context.Pipe()
        child = context.Process(target=work, args=(peer,))
        child.start(); print(method, parent.recv()); child.join()
";

#[test]
fn programs_and_their_child_processes_work() {
    let code = format!("python3 -c 'print(6 * 7)'; cat >m.py <<'E'\n{PROCESSES}\nE\npython3 m.py");
    let python: &'static str = Box::leak(code.into_boxed_str());
    let git = "git init -q r && cd r && git config user.email a@b && git config user.name n && echo x >f && \
                   git add . && git commit -qm first && git log --format=%s && git checkout -qb b && \
                   git status --short && cd .. && git clone -q r s 2>/dev/null && cat s/f && git -C s gc -q";
    let gcc = "printf '#include <stdio.h>\\nint main(void) { puts(\"c\"); }\\n' >a.c; gcc a.c -o a && echo built; ./a";
    let make = "printf 'all: a b\\n\\t@cat a b\\na b:\\n\\t@echo $@ >$@\\n' >Makefile; make -s -j2; \
                    printf 'int x;' >x.c; make -s x.o; ls x.o";
    let cases: [(&str, Case); 6] = [
        ("python3", (python, "42\ns\np\na\nfork 42\nspawn 42\n", 0)),
        ("git", (git, "first\nx\n", 0)),
        ("gcc", (gcc, "built\nc\n", 0)),
        ("make", (make, "a\nb\nx.o\n", 0)),
        ("node", ("node -e 'console.log(6 * 7); setTimeout(() => process.exit(3), 1)'", "42\n", 3)),
        ("perl", ("perl -e 'print 6 * 7, \"\\n\"; system(\"echo sub\"); exit 2'", "42\nsub\n", 2)),
    ];
    let present = cases.into_iter().filter(|(program, _)| has(program)).map(|(_, case)| case);
    check_all(&present.collect::<Vec<_>>());
}

/// Calls that depend on their arguments: set-id bits, limits and processors of other processes, foreign ids.
#[test]
#[cfg(target_arch = "x86_64")]
fn arguments_of_allowed_calls_are_limited() {
    let code = format!(
        "python3 - $PPID <<'E'\nimport ctypes, os, sys\nl = ctypes.CDLL(None, use_errno=True)\n\
             def call(n, *a): return ctypes.get_errno() if l.syscall(ctypes.c_long(n), *a) < 0 else 0\n\
             parent, mask = int(sys.argv[1]), ctypes.create_string_buffer(b'\\x01' + bytes(127))\n\
             print(call({creat}, b'plain', 0o644), call({creat}, b'set', 0o4755), call({creat}, b'/etc/x', 0o644))\n\
             print(call({affinity}, 0, 128, mask), call({affinity}, parent, 128, mask))\n\
             print(call({limit}, 0, 7, None, mask), call({limit}, parent, 7, None, mask))\n\
             print(call({uid}, -1, os.getuid(), -1), call({uid}, 4242, 4242, 4242))\nE",
        creat = libc::SYS_creat,
        affinity = libc::SYS_sched_setaffinity,
        limit = libc::SYS_prlimit64,
        uid = libc::SYS_setresuid,
    );
    check_all(&[(Box::leak(code.into_boxed_str()), "0 1 13\n0 1\n0 1\n0 1\n", 0)]);
}

#[test]
fn a_project_directory_is_used_and_kept() {
    let _turn = support::exclusive();
    let home = tempfile::tempdir().unwrap();
    let project = home.path().join("project");
    std::fs::create_dir_all(project.join("sub/deep")).unwrap();
    std::fs::write(home.path().join("beside"), "not the project's").unwrap();
    std::os::unix::fs::symlink(home.path(), project.join("out")).unwrap();
    std::os::unix::fs::symlink("sub", project.join("in")).unwrap();
    let mut program = bash("pwd; echo made >made; cat ../beside ../../beside; echo $?");
    program.workdir = Some(project.clone());
    for (subdirectory, path) in [(None, ""), (Some("sub"), "/sub"), (Some("in/deep"), "/sub/deep")] {
        program.subdirectory = subdirectory.map(Into::into);
        let record = run(&program);
        let path = format!("{}{path}", project.canonicalize().unwrap().display());
        assert_eq!(record.stdout, format!("{path}\n1\n"), "{record:#?}");
        assert_eq!(std::fs::read_to_string(format!("{path}/made")).unwrap(), "made\n");
    }
    for subdirectory in ["out", "sub/../..", "..", "/etc", "absent", "made"] {
        program.subdirectory = Some(subdirectory.into());
        let record = run(&program);
        assert_eq!(
            (record.status, record.exit_code),
            (RunStatus::SandboxError, None),
            "{subdirectory}: {record:#?}"
        );
        assert!(record.error.unwrap().contains(&format!("directory '{subdirectory}'")));
    }
}

#[test]
fn a_command_that_cannot_run_is_refused_with_a_message() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    let longest = 128 * 1024 - 1;
    let fits = sandbox.run(&bash(&format!("echo ok #{}", "x".repeat(longest - 9))), &|| false);
    assert_eq!(fits.stdout, "ok\n", "{:?}", fits.error);
    for (program, status, message) in [
        (bash(&"#".repeat(longest + 1)), RunStatus::SyntaxError, "the limit is 131071"),
        (bash(&"#".repeat(1 << 20)), RunStatus::SyntaxError, "write long input to a file"),
        (bash(" \n"), RunStatus::SyntaxError, "empty"),
        (bash("echo a\necho \0"), RunStatus::SyntaxError, "line 2"),
        (Program::new(Language::Bash, Level::Strict, "true"), RunStatus::SandboxError, "level shell alone"),
        (Program::new(Language::Bash, Level::Lenient, "true"), RunStatus::SandboxError, "level shell alone"),
        (Program::new(Language::Python, Level::Shell, "1"), RunStatus::SandboxError, "is for commands"),
        (Program::new(Language::JavaScript, Level::Shell, "1"), RunStatus::SandboxError, "is for commands"),
    ] {
        let record = sandbox.run(&program, &|| false);
        assert_eq!((record.status, record.exit_code), (status, None), "{record:#?}");
        assert!(record.error.as_deref().unwrap_or_default().contains(message), "{record:#?}");
    }
}
