//! Extra modules: by the options, by registration, and numpy and pandas if the host has them.

use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use nanoclaw_sandbox::{ExtraModules, Level, RunRecord, RunStatus, Sandbox, SandboxError};

use crate::support::{self, python};

/// The interpreter to which the distribution's packages belong.
const SYSTEM_PYTHON: &str = "/usr/bin/python3";
const NUMBERS: &str = "import numpy as np\na = np.arange(12.0).reshape(3, 4)\n\
        print(a.sum(), np.linalg.solve(np.eye(3) * 2, np.ones(3)), np.fft.fft([1, 2, 3, 4]).real)\n\
        print((np.ones((300, 300)) @ np.ones((300, 300))).sum(), np.linalg.svd(a)[1].round(1))\n\
        print(np.datetime64('2024-01-01') + np.timedelta64(3, 'D'), np.ma.masked_array([1, 2], [0, 1]).sum())\n\
        print(np.polynomial.Polynomial([1, 2])(3), np.median([3, 1, 2]), np.array([1.5]).astype(str))";
const NUMBERS_OUTPUT: &str =
    "66.0 [0.5 0.5 0.5] [10. -2. -2. -2.]\n27000000.0 [22.4  2.   0. ]\n2024-01-04 1\n7.0 2.0 ['1.5']\n";
const FRAMES: &str = "import pandas as pd\n\
        df = pd.DataFrame({'k': list('abab'), 'v': [1, 2, 3, 4.5], 't': pd.date_range('2024-01-01', periods=4, tz='Europe/Berlin')})\n\
        class Lines:\n    def __init__(s, t): s.lines = t.splitlines(True)\n    def __iter__(s): return iter(s.lines)\n    \
            def read(s, n=-1): t, s.lines = ''.join(s.lines), []; return t\n\
        print(df.groupby('k').v.sum().to_dict(), float(df.describe().v['mean']))\n\
        print(pd.read_csv(Lines('a,b\\n1,2\\n3,4\\n')).sum().to_dict(), df.query('v > 2').shape, len(df.to_json()) > 50)\n\
        print(df.merge(df, on='k').shape, df.pivot_table(index='k', values='v').v.round(2).to_dict())\n\
        print(df.set_index('t').resample('2D').v.sum().tolist(), df.v.rolling(2).mean().tolist()[1:])\n\
        assert df.to_string() and df.to_html() and repr(df) and df.apply(lambda r: r.v, axis=1).sum() == 10.5";
const FRAMES_OUTPUT: &str = "{'a': 4.0, 'b': 6.5} 2.625\n{'a': 4, 'b': 6} (2, 3) True\n(8, 5) {'a': 2.0, 'b': 3.25}\n\
        [3.0, 7.5] [1.5, 2.5, 3.75]\n";

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|&name| name.to_owned()).collect()
}

fn with_modules(scratch: &Path, extra: ExtraModules) -> Sandbox {
    let mut options = support::options(scratch);
    options.extra_allowed_modules = extra;
    Sandbox::new(options).unwrap()
}

/// A sandbox with the system's Python and these modules at strict and standard; `None`, with a message,
/// without them.
fn with_packages(scratch: &Path, modules: &[&str]) -> Option<Sandbox> {
    let mut options = support::options(scratch);
    options.python = Some(SYSTEM_PYTHON.into());
    options.extra_allowed_modules =
        ExtraModules { standard: names(modules), strict: names(modules), ..ExtraModules::default() };
    let sandbox = Sandbox::new(options).unwrap();
    let python = sandbox.report().python;
    let missing =
        (!python.missing_modules.is_empty()).then(|| format!("{:?} are missing", python.missing_modules));
    if let Some(reason) = python.reason.or(missing) {
        assert!(reason.contains("missing") || reason.contains(SYSTEM_PYTHON), "{reason}");
        writeln!(std::io::stderr(), "SKIPPED: install python3-numpy and python3-pandas: {reason}")
            .expect("stderr");
        return None;
    }
    Some(sandbox)
}

fn run_code(sandbox: &Sandbox, level: Level, code: &str) -> RunRecord {
    sandbox.run(&python(level, code), &|| false)
}

#[test]
fn a_registered_module_is_available_from_the_next_run() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    let code = "import io, zlib\nprint(io.StringIO('x').read(), zlib.crc32(b'x') > 0)";
    assert_eq!(run_code(&sandbox, Level::Standard, code).status, RunStatus::ModuleNotAllowed);
    sandbox.allow_modules(Level::Standard, &["io", "zlib", "io"]).unwrap();
    assert_eq!(run_code(&sandbox, Level::Standard, code).stdout, "x True\n");
    assert_eq!(
        run_code(&sandbox, Level::Strict, code).status,
        RunStatus::ModuleNotAllowed,
        "the list belongs to one level"
    );
    let zygotes = support::processes_named("nanoclaw-zygote");
    sandbox.allow_modules(Level::Standard, &["zlib"]).unwrap();
    assert_eq!(run_code(&sandbox, Level::Standard, code).stdout, "x True\n");
    // One that its successor replaced may have ended meanwhile.
    let later = support::processes_named("nanoclaw-zygote");
    assert!(
        !later.is_empty() && later.iter().all(|pid| zygotes.contains(pid)),
        "a module that is there needs no new zygote: {zygotes:?}, then {later:?}"
    );
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

#[test]
fn a_registration_does_not_affect_running_programs() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    assert_eq!(run_code(&sandbox, Level::Standard, "1").status, RunStatus::Ok);
    let is_allowed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let long = scope.spawn(|| {
            let code = "import time\ntime.sleep(1.5)\nprint('slept')\nimport json\nprint(json.dumps(1))";
            run_code(&sandbox, Level::Standard, code)
        });
        let busy = scope.spawn(|| {
            let mut records = Vec::new();
            while !is_allowed.load(Ordering::Relaxed) {
                records.push(run_code(&sandbox, Level::Standard, "print(6 * 7)"));
            }
            records
        });
        sandbox.allow_modules(Level::Standard, &["io"]).unwrap();
        is_allowed.store(true, Ordering::Relaxed);
        assert_eq!(run_code(&sandbox, Level::Standard, "import io\nprint(io.SEEK_SET)").stdout, "0\n");
        assert_eq!(long.join().unwrap().stdout, "slept\n1\n");
        for record in busy.join().unwrap() {
            assert_eq!(record.stdout, "42\n", "{record:#?}");
        }
    });
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

#[test]
fn a_module_that_cannot_be_imported_is_refused_and_changes_nothing() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    for (level, modules, text) in [
        (Level::Standard, &["io", "no_such_module"][..], "no_such_module (No module named"),
        (Level::Standard, &["json.no_such_part"], "json.no_such_part"),
        (Level::Standard, &["-c"], "'-c' is not the name of a module"),
        (Level::Standard, &["os; import sys"], "is not the name of a module"),
        (Level::Strict, &[""], "'' is not the name of a module"),
        (Level::Shell, &["io"], "commands import nothing"),
    ] {
        let error = sandbox.allow_modules(level, modules).unwrap_err();
        assert!(matches!(error, SandboxError::AllowModules { .. }));
        let message = error.to_string();
        assert!(message.contains(text) && message.contains(level.name()), "{message}");
    }
    let record = run_code(&sandbox, Level::Standard, "import io");
    assert_eq!(record.status, RunStatus::ModuleNotAllowed, "all or none");
    assert_eq!(run_code(&sandbox, Level::Standard, "print(1)").stdout, "1\n");
    let mut options = support::options(scratch.path());
    options.extra_allowed_modules.strict = names(&["a b"]);
    let refused = Sandbox::new(options).unwrap_err().to_string();
    assert!(refused.contains("extra_allowed_modules") && refused.contains("'a b'"), "{refused}");
    let mut options = support::options(scratch.path());
    options.python = Some("/bin/true".into());
    let error = Sandbox::new(options).unwrap().allow_modules(Level::Standard, &["io"]).unwrap_err();
    assert!(error.to_string().contains("/bin/true"), "{error}");
}

#[test]
fn import_side_effects_of_a_module_do_no_harm() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    // One prints at import, one is an easter egg.
    sandbox.allow_modules(Level::Standard, &["this"]).unwrap();
    let record = run_code(&sandbox, Level::Standard, "import this\nprint(len(this.d) > 10)");
    assert_eq!((record.status, &*record.stdout), (RunStatus::Ok, "True\n"), "{record:#?}");
}

#[test]
fn lenient_has_the_modules_of_every_level() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let Some(sandbox) = with_packages(scratch.path(), &["numpy"]) else { return };
    let record = run_code(&sandbox, Level::Lenient, NUMBERS);
    assert_eq!((record.status, &*record.stdout), (RunStatus::Ok, NUMBERS_OUTPUT), "{record:#?}");
    let without_packages = with_modules(scratch.path(), ExtraModules::default());
    let record = run_code(&without_packages, Level::Lenient, "import numpy");
    assert!(record.error.unwrap_or_default().contains("No module named 'numpy'"), "{}", record.stderr);
}

#[test]
fn numpy_and_pandas_work_at_strict_and_standard() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let Some(sandbox) = with_packages(scratch.path(), &["numpy", "pandas"]) else { return };
    for level in [Level::Strict, Level::Standard] {
        for (code, expected) in [(NUMBERS, NUMBERS_OUTPUT), (FRAMES, FRAMES_OUTPUT)] {
            let record = run_code(&sandbox, level, code);
            assert_eq!((record.status, &*record.stdout), (RunStatus::Ok, expected), "{level}: {record:#?}");
        }
        let record = run_code(&sandbox, level, "import numpy as np\nnp.fromfile('/etc/passwd')");
        assert_eq!(record.status, RunStatus::Error, "{record:#?}");
        let record = run_code(&sandbox, level, "import pandas as pd\npd.read_csv('/etc/passwd')");
        assert_eq!(record.status, RunStatus::Error, "{record:#?}");
        let record =
            run_code(&sandbox, level, "import numpy as np\nx = np.ones((1 << 20, 1 << 8))\nprint('ESCAPED')");
        assert_eq!(
            (record.status, &*record.stdout),
            (RunStatus::Error, ""),
            "2 GB were never touched: {record:#?}"
        );
        let record =
            run_code(&sandbox, level, "import numpy as np\nl = []\nwhile True: l.append(np.ones(1 << 20))");
        assert_eq!(record.status, RunStatus::Oom, "{record:#?}");
    }
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

#[test]
fn no_two_runs_get_the_same_random_numbers() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let assert_differs = |sandbox: &Sandbox, level, code: &str| {
        let records =
            [run_code(sandbox, level, code), run_code(sandbox, level, code), run_code(sandbox, level, code)];
        let mut outputs: Vec<String> = records.into_iter().map(|record| record.stdout).collect();
        assert!(outputs.iter().all(|line| line.len() > 5), "{code}: {outputs:?}");
        outputs.sort();
        outputs.dedup();
        assert_eq!(outputs.len(), 3, "{code}");
    };
    let sandbox = support::sandbox(scratch.path());
    assert_differs(&sandbox, Level::Strict, "import random\nprint(random.random())");
    for code in [
        "import random\nprint(random.random())",
        "import uuid\nprint(uuid.uuid4())",
        "import uuid\nprint(uuid.uuid1())",
        "import secrets\nprint(secrets.token_hex())",
        "import tempfile\nprint(next(tempfile._get_candidate_names()))",
        "import os\nprint(os.urandom(8).hex())",
        "import random\nprint(random.SystemRandom().random())",
    ] {
        assert_differs(&sandbox, Level::Lenient, code);
    }
    let Some(sandbox) = with_packages(scratch.path(), &["numpy", "pandas"]) else { return };
    for code in [
        "import numpy\nprint(numpy.random.rand())",
        "import numpy\nprint(numpy.random.default_rng().random())",
        "import pandas, numpy\nprint(pandas.Series(range(10**6)).sample(1).tolist()[0] + numpy.random.rand())",
    ] {
        assert_differs(&sandbox, Level::Standard, code);
    }
}

#[test]
fn numpy_is_preloaded() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let Some(sandbox) = with_packages(scratch.path(), &["numpy"]) else { return };
    let code = "import sys\nprint('numpy' in sys.modules)\nimport numpy as np\nprint(np.arange(10).sum())";
    assert_eq!(run_code(&sandbox, Level::Standard, code).stdout, "True\n45\n");
}

#[test]
fn a_child_has_a_main_thread_logging_and_fork_functions_like_a_new_interpreter() {
    let _turn = support::shared();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    let code = "import logging, os, threading
main = threading.main_thread()
print(main is threading.current_thread(), main.native_id == threading.get_native_id(), threading.active_count())
print(os.register_at_fork.__module__)
def warn(): logging.warning('from a thread')
thread = threading.Thread(target=warn)
thread.start()
thread.join()
logging.warning('from the main thread')";
    let record = sandbox.run(&python(Level::Lenient, code), &|| false);
    assert_eq!(record.stdout, "True True 1\nposix\n", "{record:#?}");
    assert_eq!(record.stderr, "WARNING:root:from a thread\nWARNING:root:from the main thread\n");
}

#[test]
fn allowed_modules_that_are_not_warm_are_imported_by_the_program() {
    let _turn = support::shared();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    let record =
        sandbox.run(&python(Level::Standard, "import json.tool\nprint(json.tool.__name__)"), &|| false);
    assert_eq!(record.stdout, "json.tool\n", "{record:#?}");
    let record = sandbox.run(&python(Level::Standard, "import _pydecimal"), &|| false);
    assert_eq!(record.status, RunStatus::ModuleNotAllowed, "{record:#?}");
}

/// A virtual environment with one module, and a sandbox that allows the module at level standard.
fn with_own_module(home: &Path, name: &str, code: &str) -> Sandbox {
    let base = support::sandbox(home).report().python;
    let (path, version) = (base.path.unwrap(), base.version.unwrap());
    let mut numbers = version.split_whitespace().last().unwrap().split('.');
    let minor = format!("python{}.{}", numbers.next().unwrap(), numbers.next().unwrap());
    let packages = home.join("env/lib").join(minor).join("site-packages");
    std::fs::create_dir_all(&packages).unwrap();
    std::fs::create_dir_all(home.join("env/bin")).unwrap();
    std::os::unix::fs::symlink(&path, home.join("env/bin/python3")).unwrap();
    let settings = format!("home = {}\n", path.parent().unwrap().display());
    std::fs::write(home.join("env/pyvenv.cfg"), settings).unwrap();
    std::fs::write(packages.join(format!("{name}.py")), code).unwrap();
    let mut options = support::options(home);
    options.python = Some(home.join("env/bin/python3"));
    options.extra_allowed_modules = ExtraModules { standard: names(&[name]), ..ExtraModules::default() };
    Sandbox::new(options).unwrap()
}

/// Landlock confines the thread that asks for it, and no other.
#[test]
fn p5_nothing_runs_beside_a_thread_from_a_fork_hook_and_the_module_is_named() {
    let _turn = support::shared();
    let home = tempfile::tempdir().unwrap();
    let hook = "import os, threading, time\n\
                def start():\n    threading.Thread(target=time.sleep, args=(100,), daemon=True).start()\n\
                os.register_at_fork(after_in_child=start)\n";
    let sandbox = with_own_module(home.path(), "hooking", hook);
    let record = run_code(&sandbox, Level::Standard, "print('ran')");
    let error = record.error.unwrap_or_default();
    assert_eq!((record.status, record.stdout.as_str()), (RunStatus::SandboxError, ""), "{error}");
    assert!(error.contains("2 threads") && error.contains("hooking"), "{error}");
}

#[test]
fn a_module_that_starts_a_thread_is_left_out_and_named() {
    let _turn = support::shared();
    let home = tempfile::tempdir().unwrap();
    let thread =
        "import threading, time\nthreading.Thread(target=time.sleep, args=(100,), daemon=True).start()\n";
    let sandbox = with_own_module(home.path(), "threading_on", thread);
    assert_eq!(run_code(&sandbox, Level::Standard, "print(1)").stdout, "1\n", "Python itself works");
    let missing = sandbox.report().python.missing_modules;
    assert!(
        missing.iter().any(|(_, reason)| reason.contains("'threading_on' starts a thread")),
        "{missing:?}"
    );
}
