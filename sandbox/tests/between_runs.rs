//! A run does not see the changes of the previous one: each has its own process, though the interpreter is
//! warm.

use nanoclaw_sandbox::{Level, RunStatus};

use crate::support::{self, javascript, python};

/// A change by one run, and an expression that is True if the next run does not see it.
const TRACES: &[(&str, &str)] = &[
    ("x = 1", "'x' not in globals()"),
    ("import builtins\nbuiltins.len = lambda _: 99", "len('ab') == 2"),
    ("import json\njson.dumps = None", "__import__('json').dumps(1) == '1'"),
    ("import sys\nsys.modules['json'] = None", "__import__('json') is not None"),
    ("import sys\nsys.modules['mine'] = sys", "'mine' not in __import__('sys').modules"),
    (
        "import sys\nsys.path.append('/x')\nsys.argv.append('x')",
        "'/x' not in __import__('sys').path and len(__import__('sys').argv) == 1",
    ),
    ("import decimal\ndecimal.getcontext().prec = 3", "__import__('decimal').getcontext().prec == 28"),
    (
        "import warnings\nwarnings.filterwarnings('error')\nwarnings.simplefilter('always')",
        "not any(f[0] in ('error', 'always') and f[2] is Warning for f in __import__('warnings').filters)",
    ),
    ("import os\nos.environ['LEAK'] = '1'", "'LEAK' not in __import__('os').environ"),
    (
        "import os\nos.mkdir('d')\nos.chdir('d')",
        "__import__('os').path.basename(__import__('os').getcwd()) != 'd'",
    ),
    ("open('left.txt', 'w').write('x')", "__import__('os').listdir('.') == []"),
    ("import atexit\natexit.register(print, 'LEAKED')", "True"),
    (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(0.1,), daemon=True).start()",
        "__import__('threading').active_count() == 1",
    ),
    (
        "import locale\nlocale.setlocale(locale.LC_ALL, 'C')",
        "__import__('locale').setlocale(__import__('locale').LC_NUMERIC) in ('C', 'C.UTF-8')",
    ),
    (
        "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)",
        "__import__('signal').getsignal(14) == __import__('signal').SIG_DFL",
    ),
    ("import sys\nsys.setrecursionlimit(50_000)", "__import__('sys').getrecursionlimit() == 1000"),
    ("import gc\ngc.disable()", "__import__('gc').isenabled()"),
    ("import sys\nsys.stdout = None", "__import__('sys').stdout is not None"),
    ("import logging\nlogging.basicConfig(level=1)", "not __import__('logging').getLogger().handlers"),
    (
        "import re\nre.purge()\nimport string\nstring.digits = ''",
        "__import__('string').digits == '0123456789'",
    ),
    (
        "import time, os\nos.environ['TZ'] = 'Asia/Tokyo'\ntime.tzset()",
        "__import__('time').tzname[0] == 'UTC'",
    ),
    ("import random\nrandom.seed(1)", "__import__('random').random() != 0.13436424411240122"),
    ("import os\nos.umask(0o277)", "oct(__import__('os').umask(0o22)) == '0o22'"),
    ("import linecache\nlinecache.cache.clear()", "True"),
    (
        "class Mine(dict): pass\nimport copyreg\ncopyreg.pickle(Mine, None or (lambda m: m))",
        "not any(c.__name__ == 'Mine' for c in __import__('copyreg').dispatch_table)",
    ),
];

#[test]
fn a_python_run_sees_no_change_of_an_earlier_run() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    for (trace, question) in TRACES {
        let first = sandbox.run(&python(Level::Lenient, trace), &|| false);
        assert_eq!(first.status, RunStatus::Ok, "{trace}: {first:#?}");
        let second = sandbox.run(&python(Level::Lenient, &format!("print({question})")), &|| false);
        assert_eq!(second.stdout, "True\n", "{trace}: {second:#?}");
    }
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

#[test]
fn standard_and_strict_runs_see_no_change_of_an_earlier_run() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    for level in [Level::Strict, Level::Standard] {
        for (trace, question) in [
            (
                "import decimal\ndecimal.getcontext().prec = 3",
                "import decimal\nprint(decimal.getcontext().prec == 28)",
            ),
            ("import math\nmath.pi = 3", "import math\nprint(math.pi > 3.1)"),
            ("import random\nrandom.seed(1)", "import random\nprint(random.random() != 0.13436424411240122)"),
            ("x = 1", "try:\n    x\nexcept NameError:\n    print(True)"),
            ("import string\nstring.digits = ''", "import string\nprint(string.digits > '')"),
        ] {
            assert_eq!(sandbox.run(&python(level, trace), &|| false).status, RunStatus::Ok, "{trace}");
            let second = sandbox.run(&python(level, question), &|| false);
            assert_eq!(second.stdout, "True\n", "{trace}: {second:#?}");
        }
    }
}

#[test]
fn a_javascript_run_sees_no_change_of_an_earlier_run() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    for (trace, question) in [
        ("globalThis.x = 1; var y = 2; z = 3", "typeof x + typeof y + typeof z === 'undefined'.repeat(3)"),
        ("Array.prototype.map = null", "[1].map(x => x)[0] === 1"),
        ("Object.prototype.leak = 1", "({}).leak === undefined"),
        ("console.log = null; print = null", "typeof console.log === 'function'"),
        (
            "setTimeout(() => {}, 1); Promise.resolve().then(() => { globalThis.late = 1 })",
            "typeof late === 'undefined'",
        ),
        ("JSON.stringify = () => 'forged'", "JSON.stringify(1) === '1'"),
        ("Math.random = () => 4", "Math.random() !== 4"),
        ("Date.now = () => 0", "Date.now() > 0"),
    ] {
        let first = sandbox.run(&javascript(Level::Standard, trace), &|| false);
        assert_eq!(first.status, RunStatus::Ok, "{trace}: {first:#?}");
        let second = sandbox.run(&javascript(Level::Standard, &format!("print({question})")), &|| false);
        assert_eq!(second.stdout, "true\n", "{trace}: {second:#?}");
    }
    let random_number =
        || sandbox.run(&javascript(Level::Standard, "print(Math.random())"), &|| false).stdout;
    assert_ne!(random_number(), random_number());
}
