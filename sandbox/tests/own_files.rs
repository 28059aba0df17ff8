//! What commands do with the files of their own directory: they run what they make, move it between
//! directories, and change its mode and times.

use std::path::Path;

use nanoclaw_sandbox::{Language, Level, Program, RunRecord, RunStatus, Sandbox, SandboxOptions};

use crate::shell_tree::{command_text, shell_request};
use crate::support;
use crate::support::broker::TestBroker;

/// How long a build may take on a busy machine.
const BUILD_MS: u64 = 300_000;

fn bash(code: &str) -> Program {
    Program { timeout_ms: Some(BUILD_MS), ..Program::new(Language::Bash, Level::Shell, code) }
}

fn run(code: &str) -> RunRecord {
    let scratch = tempfile::tempdir().unwrap();
    support::sandbox(scratch.path()).run(&bash(code), &|| false)
}

/// Runs each command line and compares its output.
fn check_all(cases: &[(&'static str, &'static str)]) {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    support::in_parallel(cases.to_vec(), 4, |(code, stdout)| {
        let record = sandbox.run(&bash(code), &|| false);
        assert_eq!(
            (record.stdout.as_str(), record.stderr.as_str(), record.exit_code),
            (stdout, "", Some(0)),
            "{code}\n{record:#?}"
        );
    });
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

/// Whether commands find a program; says so aloud if not.
fn has(program: &str) -> bool {
    let found = run(&format!("command -v {program} >/dev/null")).exit_code == Some(0);
    if !found {
        std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("SKIPPED: no {program} for commands\n"),
        )
        .unwrap();
    }
    found
}

/// The output of a build, which must succeed.
fn build(program: &str, code: &str, expected_end: &str) {
    let _turn = support::exclusive();
    if !has(program) {
        return;
    }
    let record = run(code);
    assert_eq!(record.status, RunStatus::Ok, "{code}\n{record:#?}");
    assert!(record.stdout.ends_with(expected_end), "{code}\n{record:#?}");
}

#[test]
fn a_script_and_a_copied_program_run() {
    check_all(&[
        (
            "printf '#!/bin/sh\\necho script $1\\n' >x; chmod +x x; ./x a; PATH=.:$PATH; x b",
            "script a\nscript b\n",
        ),
        ("cp /bin/echo mine; ./mine copied; mkdir bin; mv mine bin; bin/mine moved", "copied\nmoved\n"),
        ("printf '#!/usr/bin/env bash\\necho $0\\n' >y; install -m 755 y z; ./z", "./z\n"),
        (
            "printf 'echo no shebang\\n' >x; chmod 755 x; ./x; env ./x; find . -name x -exec {} \\;",
            "no shebang\nno shebang\nno shebang\n",
        ),
        ("cp /bin/true t; chmod -x t; ./t 2>/dev/null || echo $?; chmod u+x t; ./t; echo $?", "126\n0\n"),
    ]);
}

#[test]
fn files_and_directories_move_between_own_directories() {
    check_all(&[
        ("mkdir a b; echo x >a/f; python3 -c 'import os; os.rename(\"a/f\", \"b/g\")'; cat b/g; ls a", "x\n"),
        (
            "mkdir -p a/d b; echo x >a/d/f; python3 -c 'import os; os.rename(\"a/d\", \"b/e\")'; cat b/e/f",
            "x\n",
        ),
        ("mkdir a b; echo x >a/f; ln a/f b/g; ls -l b/g | cut -d' ' -f2; mv a/f b; ls b", "2\nf\ng\n"),
        ("mkdir a; echo x >a/f; python3 -c 'import os; os.replace(\"a/f\", \"g\")'; cat g", "x\n"),
        (
            "echo x >f; python3 - <<'E'\nimport os\nfor name in '/usr/f', '/etc/f', '../f':\n    \
          try: os.rename('f', name)\n    except OSError as error: print(error.errno in (1, 13, 18))\nE",
            "True\nTrue\nTrue\n",
        ),
    ]);
}

#[test]
fn modes_and_times_are_real_in_the_own_directory() {
    check_all(&[
        (
            "touch f; for m in 600 755 444 000 644; do chmod $m f; stat -c %a f; done",
            "600\n755\n444\n0\n644\n",
        ),
        (
            "touch f; chmod u=rw,go= f; stat -c %a f; mkdir -m 700 d; stat -c %a d; chmod -R 750 .; stat -c %a d f",
            "600\n700\n750\n750\n",
        ),
        (
            "touch -d 2001-02-03T04:05:06.789Z f; stat -c %.9Y f; touch -a -d @5 f; stat -c '%X %Y' f",
            "981173106.789000000\n5 981173106\n",
        ),
        (
            "touch f g; touch -d @77 f; touch -r f g; stat -c %Y g; [ f -nt g ] || echo same; touch g; \
          [ g -nt f ] && echo newer",
            "77\nsame\nnewer\n",
        ),
        (
            "echo x >f; chmod 751 f; touch -d @99 f; cp -p f g; cp -a f h; stat -c '%a %Y' g h; mkdir d; cp -a f d; \
          stat -c '%a %Y' d/f",
            "751 99\n751 99\n751 99\n",
        ),
        (
            "mkdir d; echo x >d/f; ln -s f d/l; chmod 711 d/f d; touch -h -d @5 d/l; touch -d @6 d/f; touch -d @7 d; \
          tar cf a.tar d; rm -r d; tar xf a.tar; stat -c '%a %Y' d d/f; stat -c %Y d/l",
            "711 7\n711 6\n5\n",
        ),
        ("ln -s nothing l; touch -h -d @4 l; stat -c %Y l; chown -h $(id -u):$(id -g) l; echo $?", "4\n0\n"),
        ("touch f; chown $(id -u) f; chgrp $(id -g) f; chown $(id -u):$(id -g) . f; echo $?", "0\n"),
        (
            "printf 'a: b\\n\\t@echo made; touch a\\n' >Makefile; touch -d @50 a; touch -d @60 b; make; make -q a; echo $?",
            "made\n0\n",
        ),
        (
            "mkdir d; cd d; touch f; chmod 640 ../d/f; stat -c %a f; chmod 600 \"$PWD/f\"; stat -c %a f; \
          chmod 750 .; stat -c %a .; chmod 700 ..; cd ..; ln -s \"$PWD/d/f\" l; chmod 444 l; stat -c %a d/f",
            "640\n600\n750\n444\n",
        ),
    ]);
}

const CALLS: &str = "python3 - <<'E'
import os, stat, tempfile
mode = lambda f: oct(stat.S_IMODE((os.fstat if isinstance(f, int) else os.lstat)(f).st_mode))
os.mkdir('d'); open('d/f', 'w').close(); os.symlink('d/f', 'l')
f = os.open('d/f', os.O_RDWR); d = os.open('d', os.O_RDONLY)
os.fchmod(f, 0o640); print('fchmod', mode(f))
os.chmod('f', 0o604, dir_fd=d); print('fchmodat', mode(f))
os.chmod('/proc/self/fd/%d' % f, 0o601); print('descriptor link', mode(f))
os.chmod('/dev/fd/%d' % f, 0o606); print('device link', mode(f))
os.chmod('l', 0o602); print('through a link', mode(f))
os.utime(f, (1, 2)); print('futimens', os.fstat(f).st_mtime)
os.utime('f', ns=(3, 4), dir_fd=d); print('utimensat', os.fstat(f).st_mtime_ns)
os.utime('l', (5, 6), follow_symlinks=False); print('link', os.lstat('l').st_mtime, os.fstat(f).st_mtime_ns)
os.utime('l', (7, 8)); print('target', os.fstat(f).st_mtime)
os.utime('d/f'); print('now', os.fstat(f).st_mtime > 1e9)
path = os.open('d/f', os.O_PATH); os.utime('/proc/self/fd/%d' % path, (9, 10)); print('path', os.fstat(f).st_mtime)
os.unlink('d/f'); os.fchmod(f, 0o611); print('deleted', mode(f))
t = tempfile.TemporaryFile(dir='.'); os.fchmod(t.fileno(), 0o600); print('unnamed', mode(t.fileno()))
os.chdir('d'); open('g', 'w').close(); os.chmod('g', 0o700); print('in a directory', mode('g'))
os.mkdir('x'); os.chmod('x', 0o500); print('directory', mode('x'))
os.chmod('../d/x/../g', 0o701); print('dots', mode('g'))
try: os.chmod('none', 0o600)
except FileNotFoundError: print('missing')
E";

const CALLED: &str = "fchmod 0o640\nfchmodat 0o604\ndescriptor link 0o601\ndevice link 0o606\n\
through a link 0o602\nfutimens 2.0\nutimensat 4\nlink 6.0 4\ntarget 8.0\nnow True\npath 10.0\n\
deleted 0o611\nunnamed 0o600\nin a directory 0o700\ndirectory 0o500\ndots 0o701\nmissing\n";

#[test]
fn every_way_to_name_an_own_file_works() {
    check_all(&[(CALLS, CALLED)]);
}

/// Every call by its number, with every format of times.
#[test]
#[cfg(target_arch = "x86_64")]
fn the_older_calls_work() {
    let code = format!(
        "python3 - <<'E'\nimport ctypes, os, struct\nl = ctypes.CDLL(None, use_errno=True)\n\
         def call(n, *a): return ctypes.get_errno() if l.syscall(ctypes.c_long(n), *a) < 0 else 0\n\
         times = lambda *n: ctypes.create_string_buffer(struct.pack('%dq' % len(n), *n))\n\
         open('f', 'w').close(); s = lambda: (oct(os.stat('f').st_mode & 0o7777), os.stat('f').st_mtime_ns)\n\
         print(call({chmod}, b'f', 0o751), s()); print(call({utime}, b'f', times(1, 2)), s())\n\
         print(call({utimes}, b'f', times(3, 4, 5, 6)), s()); print(call({utimes}, b'f', times(3, 4, 5, 1000000)), s())\n\
         print(call({futimesat}, -100, b'f', times(7, 8, 9, 10)), s())\n\
         print(call({utimensat}, -100, b'f', times(0, (1 << 30) - 2, 11, 12), 0), s())\n\
         print(call({utimensat}, -100, b'f', times(1, 2, 3, 1000000000), 0), s())\n\
         print(call({chown}, b'f', os.getuid(), -1), call({lchown}, b'f', -1, -1), call({chown}, b'f', 4242, -1))\nE",
        chmod = libc::SYS_chmod,
        utime = libc::SYS_utime,
        utimes = libc::SYS_utimes,
        futimesat = libc::SYS_futimesat,
        utimensat = libc::SYS_utimensat,
        chown = libc::SYS_chown,
        lchown = libc::SYS_lchown,
    );
    let expected = "0 ('0o751', SKIP\n0 ('0o751', 2000000000)\n0 ('0o751', 5000006000)\n22 ('0o751', 5000006000)\n\
         0 ('0o751', 9000010000)\n0 ('0o751', 11000000012)\n22 ('0o751', 11000000012)\n0 0 1\n";
    let _turn = support::exclusive();
    let record = run(&code);
    let (first, rest) = record.stdout.split_once('\n').unwrap_or_default();
    assert!(first.starts_with("0 ('0o751', "), "{record:#?}");
    assert_eq!(Some(rest), expected.split_once('\n').map(|(_, rest)| rest), "{record:#?}");
}

#[test]
fn what_cannot_be_done_fails_with_an_honest_error() {
    let code = "touch f; chown 4242 f 2>/dev/null || echo owner; chmod u+s f 2>/dev/null || echo set-id; \
                chmod g+s . 2>/dev/null || echo set-id; chmod +t . 2>/dev/null || echo sticky; stat -c %a f; \
                chmod 777 .. 2>/dev/null || echo parent; chmod 777 /tmp 2>/dev/null || echo outside; \
                touch /usr/bin/env 2>/dev/null || echo times; \
                python3 -c 'import os\ntry: os.setxattr(\"f\", \"user.a\", b\"x\")\nexcept OSError as e: print(e.errno)'";
    check_all(&[(code, "owner\nset-id\nset-id\nsticky\n644\nparent\noutside\ntimes\n95\n")]);
}

#[test]
fn lenient_python_copies_files_and_gets_honest_errors() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let code = "import os, shutil, dbm.dumb, pathlib, tarfile, zipfile
os.mkdir('d'); pathlib.Path('d/f').write_text('x'); pathlib.Path('d/f').touch()
shutil.copy('d/f', 'a'); shutil.copy2('d/f', 'b'); shutil.copytree('d', 'e'); shutil.move('a', 'e/a'); shutil.copymode('b', 'e/a')
with tarfile.open('t.tar', 'w') as t: t.add('d')
with tarfile.open('t.tar') as t: t.extractall('t')
with dbm.dumb.open('db', 'c') as db: db['k'] = 'v'
print(open('e/f').read(), open('e/a').read(), open('t/d/f').read(), dbm.dumb.open('db')['k'])
for change in (lambda: os.chmod('b', 0o600), lambda: os.utime('b'), lambda: os.chown('b', -1, -1), lambda: os.chmod('/', 0o777)):
    try: change(); print('a lie')
    except PermissionError: print('refused')";
    let record = support::sandbox(scratch.path()).run(&support::python(Level::Lenient, code), &|| false);
    assert_eq!(record.stdout, "x x x b'v'\nrefused\nrefused\nrefused\nrefused\n", "{record:#?}");
}

/// Older kernels have the same supervisor; below landlock ABI 2 nothing moves between directories.
#[test]
fn modes_and_times_are_real_on_older_kernels() {
    let _turn = support::exclusive();
    let broker = TestBroker::start();
    for abi in [6, 5, 3, 2, 1] {
        let own_dir = tempfile::tempdir().unwrap();
        let request = shell_request(own_dir.path(), abi).to_string();
        let code = "touch f; chmod 640 f; touch -d @7 f; stat -c '%a %Y' f; chmod 777 /tmp 2>/dev/null || echo refused; \
                    mkdir a; ln f a/f 2>/dev/null; echo $?";
        let expected = if abi >= 2 { "640 7\nrefused\n0\n" } else { "640 7\nrefused\n1\n" };
        let outcome = broker.run(&request, &command_text(code));
        assert_eq!(outcome.stdout, expected, "under ABI {abi}: {outcome:?}");
    }
}

#[test]
fn own_programs_are_refused_where_the_operator_forbids_them() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let options = SandboxOptions { shell_run_own_files: false, ..support::options(scratch.path()) };
    let code =
        "cp /bin/echo mine; ./mine no; echo $?; printf 'echo read\\n' >x; chmod +x x; ./x; echo $?; sh x";
    let sandbox = Sandbox::new(options).unwrap();
    let record = sandbox.run(&bash(code), &|| false);
    assert_eq!(record.stdout, "126\n126\nread\n", "{record:#?}");
    assert_eq!(sandbox.missing_for_own_files(), Vec::<String>::new(), "modes work all the same");
}

#[test]
fn a_session_does_not_run_its_own_files() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    let code = "cp /bin/true t; chmod 700 t && ./t 2>/dev/null; echo $?; stat -c %a t";
    let mut session =
        sandbox.open_session(&nanoclaw_sandbox::SessionSpec::new("/bin/sh", &["-c", code])).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut session.take_stdout().unwrap(), &mut text).unwrap();
    assert_eq!(text, "126\n700\n");
}

#[test]
fn a_c_program_is_compiled_and_run() {
    build(
        "gcc",
        "printf '#include <stdio.h>\\nint main(void) { puts(\"hello from c\"); }\\n' >a.c; gcc a.c -o a && ./a",
        "hello from c\n",
    );
}

const CONFIGURE: &str = "cat >configure <<'E'
#!/bin/sh
cat >conftest.c <<'C'
int main(void) { return 0; }
C
${CC-cc} conftest.c -o conftest && ./conftest || { echo 'cannot run C compiled programs' >&2; exit 77; }
rm -f conftest*; sed s/@name@/configured/ Makefile.in >Makefile
cat >config.status <<'C'
#!/bin/sh
echo status
C
chmod +x config.status; ./config.status
E
printf 'all:\\n\\t@echo @name@\\ninstall: all\\n\\t@install -d out/bin; install -m 755 configure out/bin\\n' >Makefile.in
chmod +x configure && ./configure && make && make -s install && stat -c %a out/bin/configure";

#[test]
fn a_configure_script_and_make_work() {
    build("make", CONFIGURE, "status\nconfigured\nconfigured\n755\n");
}

#[test]
fn a_virtual_environment_of_python_works() {
    let code = "python3 -m venv v && . v/bin/activate && python -c 'import sys; print(sys.prefix != sys.base_prefix)' && \
                v/bin/pip --version | cut -d' ' -f1";
    build("python3", code, "True\npip\n");
}

#[test]
fn a_rust_program_is_created_and_run_offline() {
    let code = "cargo new --quiet hello && cd hello && cargo run --quiet --offline && cargo run --quiet --offline && \
                touch src/main.rs && cargo build --offline 2>&1 | grep -c Compiling";
    build("cargo", code, "Hello, world!\nHello, world!\n1\n");
}

#[test]
fn scripts_of_npm_packages_run() {
    let code = "mkdir -p p/node_modules/say/bin p/node_modules/.bin && cd p && \
                printf '{\"name\":\"p\",\"version\":\"1.0.0\",\"scripts\":{\"go\":\"say script\"}}' >package.json && \
                printf '#!/usr/bin/env node\\nconsole.log(\"said\", process.argv[2])\\n' >node_modules/say/bin/say.js && \
                chmod 755 node_modules/say/bin/say.js && ln -s ../say/bin/say.js node_modules/.bin/say && \
                node_modules/.bin/say bin && npm run --silent go";
    build("npm", code, "said bin\nsaid script\n");
}

#[test]
fn npm_installs_a_local_package() {
    let code = "mkdir tool app && printf '{\"name\":\"tool\",\"version\":\"1.0.0\",\"bin\":{\"tool\":\"t.js\"}}' >tool/package.json && \
                printf '#!/usr/bin/env node\\nconsole.log(\"tool ran\")\\n' >tool/t.js && cd tool && npm pack --silent && \
                cd ../app && printf '{\"name\":\"app\",\"version\":\"1.0.0\"}' >package.json && \
                npm install --silent --offline --no-audit --no-fund ../tool/tool-1.0.0.tgz && node_modules/.bin/tool";
    build("npm", code, "tool ran\n");
}

#[test]
fn git_and_tar_keep_modes() {
    let code = "git init -q r && cd r && git config user.email a@b && git config user.name n && printf '#!/bin/sh\\necho ran\\n' >x && \
                chmod +x x && git add . && git commit -qm one && git ls-files -s | cut -c1-6 && rm x && git checkout -q . && ./x && \
                git archive HEAD | tar xf - -C .. && ../x";
    build("git", code, "100755\nran\nran\n");
}

/// A supervised call stops its thread for the supervisor's work; other calls do not.
#[test]
fn supervised_calls_are_quick() {
    let _turn = support::exclusive();
    if !Path::new("/usr/bin/python3").exists() {
        return assert!(!has("python3"));
    }
    let code = "/usr/bin/python3 - <<'E'\nimport os, time\nopen('f', 'w').close()\nt = time.perf_counter()\n\
                for n in range(5000): os.chmod('f', 0o600 + n % 8)\nprint((time.perf_counter() - t) * 200)\nE";
    let record = run(code);
    let microseconds: f64 = record.stdout.trim().parse().unwrap_or_else(|_| panic!("{record:#?}"));
    println!("a supervised chmod takes {microseconds:.1} µs");
    assert!(microseconds < 1_000.0, "{microseconds}");
}
