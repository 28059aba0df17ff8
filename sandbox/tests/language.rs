//! The languages as a guest sees them: refusals, tracebacks, results, and the standard library.

use nanoclaw_sandbox::{ExtraModules, Language, Level, Program, RunRecord, RunStatus, Sandbox};

use crate::support::{self, javascript, python};

fn run(program: &Program) -> RunRecord {
    let scratch = tempfile::tempdir().unwrap();
    support::sandbox(scratch.path()).run(program, &|| false)
}

fn run_all(programs: Vec<Program>) -> Vec<(Program, RunRecord)> {
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    support::in_parallel(programs, 3, |program| {
        let record = sandbox.run(&program, &|| false);
        (program, record)
    })
}

#[test]
fn refusals_name_line_module_level_and_a_remedy() {
    let _turn = support::shared();
    let record = run(&python(Level::Standard, "x = 1\nfrom os import path"));
    assert_eq!(record.status, RunStatus::ModuleNotAllowed);
    for text in ["line 2", "'os'", "level standard", "json", "strictness=lenient", "extra_allowed_modules"] {
        assert!(
            record.stderr.contains(text) && record.error.as_deref().unwrap().contains(text),
            "{text}: {record:#?}"
        );
    }
    assert_eq!(record.stdout, "");
    let record = run(&python(Level::Standard, "import csv, io\ncsv.writer(io.StringIO())"));
    assert!(record.stderr.contains("write(text)"), "{record:#?}");
    let record = run(&python(Level::Standard, "print(1)\nx = open('f')"));
    assert_eq!(record.status, RunStatus::BuiltinNotAllowed);
    assert!(record.stderr.contains("line 2: builtin 'open'"), "{record:#?}");
}

#[test]
fn a_refused_import_is_explained() {
    let _turn = support::shared();
    let record = run(&python(
        Level::Standard,
        "try:\n    import numpy as np, os\nexcept ImportError:\n    import sys",
    ));
    let message = record.error.unwrap_or_default();
    assert_eq!(record.status, RunStatus::ModuleNotAllowed);
    for text in [
        "line 2",
        "'numpy'",
        "'os' (line 2)",
        "'sys' (line 4)",
        "try/except",
        "extra_allowed_modules.standard",
    ] {
        assert!(message.contains(text), "{text}: {message}");
    }
    assert!(message.contains("not installed") && !message.contains("strictness=lenient"), "{message}");
}

#[test]
fn lenient_explains_why_processes_and_network_are_refused() {
    let _turn = support::shared();
    for (code, text) in [
        ("import subprocess\nsubprocess.run(['ls'])", "no processes"),
        ("import os\nos.system('ls')", "no processes"),
        ("import os\nos.fork()", "no processes"),
        ("import os\nos.execv('/bin/true', ['true'])", "no processes"),
        ("import socket\nsocket.socket()", "no network"),
        ("import urllib.request\nurllib.request.urlopen('http://example.org')", "no network"),
    ] {
        let record = run(&python(Level::Lenient, code));
        assert_eq!(record.status, RunStatus::Error, "{code}: {record:#?}");
        assert!(record.error.unwrap_or_default().contains(text), "{code}: {}", record.stderr);
    }
}

#[test]
fn a_guest_cannot_suppress_the_report_of_its_error() {
    let _turn = support::shared();
    for (code, text) in [
        ("raise ValueError('a\\ud800b')", "ValueError: a\\ud800b"),
        ("import sys\nsys.exit('bye')", "bye"),
        ("import sys\nsys.stderr = None\n1/0", "ZeroDivisionError"),
        ("import sys\nsys.stderr.close()\n1/0", "ZeroDivisionError"),
        ("class E(SystemExit):\n    code = property(lambda s: 1/0)\nraise E()", "SystemExit"),
        ("class C:\n    def __str__(s): raise KeyboardInterrupt\nraise SystemExit(C())", "SystemExit"),
        ("class E(Exception):\n    def __str__(s): 1/0\nraise E()", "E"),
    ] {
        let record = run(&python(Level::Lenient, code));
        assert_eq!((record.status, record.exit_code), (RunStatus::Error, Some(1)), "{code}: {record:#?}");
        assert!(record.error.unwrap_or_default().contains(text), "{code}: {}", record.stderr);
    }
    let record = run(&python(Level::Strict, "'a\\ud800b'[0:2]"));
    assert_eq!((record.status, record.result.as_deref()), (RunStatus::Ok, Some("'a\\ud800'")), "{record:#?}");
    let shown = run(&python(Level::Strict, "class R:\n    def __repr__(s): return '\\ud800'\nR()"));
    assert_eq!(shown.result.as_deref(), Some("\\ud800"), "{shown:#?}");
}

#[test]
fn modules_of_the_guest_directory_load_only_after_the_guest_starts() {
    let _turn = support::shared();
    let home = tempfile::tempdir().unwrap();
    for name in ["__future__", "traceback", "tokenize", "_colorize", "codeop", "unicodedata", "textwrap"] {
        let module = format!("open('ran-{name}', 'w')\nimport os\nos.write(3, b'{{\"frame\":\"go\"}}')\n");
        std::fs::write(home.path().join(format!("{name}.py")), module).unwrap();
    }
    std::fs::write(home.path().join("mine.py"), "x = 42").unwrap();
    for (code, status) in [
        ("from __future__ import annotations\nimport mine\nmine.x", RunStatus::Ok),
        ("from __future__ import foo", RunStatus::SyntaxError),
        ("x = (", RunStatus::SyntaxError),
        ("x = '\u{1f600}' y", RunStatus::SyntaxError),
    ] {
        let mut program = python(Level::Lenient, code);
        program.workdir = Some(home.path().to_owned());
        let record = run(&program);
        assert_eq!(record.status, status, "{code}: {record:#?}");
        let ran = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let ran: Vec<_> = ran.filter(|name| name.to_string_lossy().starts_with("ran-")).collect();
        assert!(ran.is_empty(), "{code}: {ran:?}");
    }
}

#[test]
fn names_defined_by_the_guest_are_not_refused_as_builtins() {
    let _turn = support::shared();
    let fine = [
        "import re\nprint(re.compile('a').match('a') is not None)",
        "class F:\n    def open(self): return True\nprint(F().open())",
        "def open(x): return x\nprint(open(True))",
        "def f(input): return input\nprint(f(True))",
        "exec = True\nprint(exec)",
        "def f():\n    global vars\n    vars = True\nf()\nprint(vars)",
        "print([eval for eval in [True]][0])",
        "from collections import abc\nimport collections.abc, xml.etree\nfrom xml.etree import ElementTree\nprint(True)",
        "from __future__ import annotations\nx: nothing = True\nprint(x)",
        "from datetime import datetime\nprint(datetime.strptime('2024', '%Y').year == 2024)",
        "import decimal, hashlib, json, statistics, random, csv, logging\nprint(random.random() < 2)",
        "print('é'.encode('utf-16') != b'')",
    ];
    let programs = fine.iter().map(|code| python(Level::Standard, code)).collect();
    for (program, record) in run_all(programs) {
        assert_eq!(record.stdout, "True\n", "{} -> {record:#?}", program.code);
    }
}

#[test]
fn refusals_do_not_depend_on_the_position_in_the_program() {
    let _turn = support::shared();
    let refused = [
        (
            Level::Standard,
            "class F:\n    open = 1\n    def g(self): return open('x')",
            RunStatus::BuiltinNotAllowed,
        ),
        (Level::Standard, "f = eval", RunStatus::BuiltinNotAllowed),
        (Level::Standard, "\u{ff4f}pen('x')", RunStatus::BuiltinNotAllowed),
        (Level::Standard, "def f():\n    import socket", RunStatus::ModuleNotAllowed),
        (Level::Standard, "from xml import dom", RunStatus::ModuleNotAllowed),
        (Level::Standard, "from . import x", RunStatus::ModuleNotAllowed),
        (Level::Standard, "try:\n    import numpy\nexcept ImportError: pass", RunStatus::ModuleNotAllowed),
        (Level::Strict, "import json", RunStatus::ModuleNotAllowed),
        (Level::Strict, "isinstance(1, int)", RunStatus::BuiltinNotAllowed),
        (Level::Standard, "from __future__ import foo", RunStatus::SyntaxError),
        (Level::Standard, "x = (", RunStatus::SyntaxError),
        (Level::Standard, "def f():\nreturn 1", RunStatus::SyntaxError),
        (Level::Standard, "nonlocal x", RunStatus::SyntaxError),
        (Level::Standard, "", RunStatus::SyntaxError),
        (Level::Standard, "x = 1\0", RunStatus::SyntaxError),
    ];
    let programs = refused.iter().map(|(level, code, _)| python(*level, code)).collect();
    for (program, record) in run_all(programs) {
        let expected = refused
            .iter()
            .find(|(level, code, _)| (*level, *code) == (program.level, &*program.code))
            .unwrap()
            .2;
        assert_eq!(record.status, expected, "{} -> {record:#?}", program.code);
        assert!(record.error.is_some() && record.exit_code.is_none());
    }
}

#[test]
fn the_import_hook_gives_the_same_message_at_run_time() {
    let _turn = support::shared();
    let code = "imp = __builtins__['__imp' + 'ort__']\ntry:\n    imp('socket')\nexcept ImportError as e:\n    print(e)";
    let record = run(&python(Level::Standard, code));
    assert!(
        record.stdout.contains("line 3: module 'socket' is not allowed at level standard"),
        "{record:#?}"
    );
}

#[test]
fn a_traceback_shows_only_frames_of_the_guest() {
    let _turn = support::shared();
    let code = "import json\ndef load(text):\n    return json.loads(text)\ntry:\n    load('{')\nexcept ValueError as e:\n    raise KeyError('no') from e";
    let record = run(&python(Level::Standard, code));
    let error = record.error.unwrap();
    assert!(
        error.contains("File \"<code>\", line 3, in load") && error.contains("JSONDecodeError"),
        "{error}"
    );
    assert!(error.ends_with("KeyError: 'no'"), "{error}");
    assert!(!error.contains("<string>") && !error.contains("decoder.py"), "{error}");
    assert_eq!(record.stderr.trim_end(), error);
}

#[test]
fn the_last_expression_is_the_result() {
    let _turn = support::shared();
    for (program, result) in [
        (python(Level::Strict, "x = 2\nx * 21"), Some("42")),
        (python(Level::Strict, "'text'"), Some("'text'")),
        (python(Level::Strict, "print(1)"), None),
        (python(Level::Strict, "x = 5"), None),
        (javascript(Level::Strict, "const o = {a: [1, 'b']}; o"), Some("{ a: [ 1, 'b' ] }")),
        (javascript(Level::Strict, "Promise.resolve(6).then(x => x * 7)"), Some("42")),
        (javascript(Level::Strict, "await Promise.resolve(42)"), Some("42")),
        (javascript(Level::Strict, "var x = 1"), None),
        (javascript(Level::Strict, "const r = await (async () => 42)();\nr"), Some("42")),
        (javascript(Level::Strict, "async function main() { await null; return 42 }\nmain()"), Some("42")),
        (javascript(Level::Strict, "var await = 40;\nawait + 2"), Some("42")),
    ] {
        let record = run(&program);
        assert_eq!(
            (record.status, record.result.as_deref()),
            (RunStatus::Ok, result),
            "{} -> {record:#?}",
            program.code
        );
    }
}

#[test]
fn lenient_has_the_standard_library_files_and_threads() {
    let _turn = support::shared();
    let fine = [
        "import tempfile, os\nf = tempfile.NamedTemporaryFile('w+'); f.write('x'); f.seek(0)\nprint(f.read() == 'x')",
        "import shutil, os\nopen('a', 'w').write('x'); shutil.copy2('a', 'b'); os.makedirs('d/e'); shutil.move('b', 'd/e/b')\n\
             shutil.rmtree('d'); print(os.listdir('.') == ['a'])",
        "import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return True\nprint(asyncio.run(f()))",
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as p: print(sum(p.map(abs, range(-4, 0))) == 10)",
        "import sqlite3\nc = sqlite3.connect('x.db'); c.execute('create table t(x)'); c.execute('insert into t values (1)'); c.commit()\n\
             print(c.execute('select count(*) from t').fetchone() == (1,))",
        "import zoneinfo, datetime\nprint(datetime.datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo('Europe/Berlin')).utcoffset().seconds == 7200)",
        "import zipfile, gzip, bz2, lzma\nz = zipfile.ZipFile('a.zip', 'w'); z.writestr('x', 'y'); z.close()\nprint(zipfile.ZipFile('a.zip').read('x') == b'y')",
        "import ctypes\nprint(ctypes.CDLL(None).abs(-3) == 3)",
        "import signal\nsignal.signal(signal.SIGALRM, lambda *a: print(True)); signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause()",
        "import os\nprint(open(os.devnull, 'w').write('x') == 1)",
        "import atexit, sys\natexit.register(print, True)",
        "import threading\nthreading.Thread(target=print, args=(True,)).start()",
        "print(eval('1 + 1') == 2)",
    ];
    let programs = fine.iter().map(|code| python(Level::Lenient, code)).collect();
    for (program, record) in run_all(programs) {
        assert_eq!(
            (record.status, &*record.stdout),
            (RunStatus::Ok, "True\n"),
            "{} -> {record:#?}",
            program.code
        );
    }
}

#[test]
fn extra_modules_extend_a_level_and_missing_ones_are_named() {
    let _turn = support::shared();
    let scratch = tempfile::tempdir().unwrap();
    let mut options = support::options(scratch.path());
    options.extra_allowed_modules =
        ExtraModules { standard: vec!["io".to_owned()], ..ExtraModules::default() };
    let sandbox = Sandbox::new(options.clone()).unwrap();
    let program = python(Level::Standard, "import io\nprint(io.StringIO('x').read())");
    assert_eq!(sandbox.run(&program, &|| false).stdout, "x\n");
    options.extra_allowed_modules.standard = vec!["no_such_module".to_owned()];
    let sandbox = Sandbox::new(options).unwrap();
    let missing = python(Level::Standard, "import no_such_module");
    let record = sandbox.run(&missing, &|| false);
    assert_eq!(record.status, RunStatus::ModuleNotAllowed, "Python itself works: {record:#?}");
    let error = record.error.unwrap();
    assert!(error.contains("cannot import it (No module named") && error.contains("operator"), "{error}");
    let python = sandbox.report().python;
    assert_eq!(python.reason, None);
    assert_eq!(python.missing_modules[0].0, "no_such_module");
}

#[test]
fn the_way_out_of_an_import_error_is_the_nearest_allowed_level_that_has_the_module() {
    let _turn = support::shared();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new(support::options(scratch.path())).unwrap();
    let way_out = |level, max_level, code: &str| {
        let program = nanoclaw_sandbox::Program { max_level, ..python(level, code) };
        sandbox.run(&program, &|| false).error.unwrap()
    };
    let near = way_out(Level::Strict, None, "import json");
    assert!(near.contains("strictness=standard") && !near.contains("strictness=lenient"), "{near}");
    let far = way_out(Level::Strict, None, "import os");
    assert!(far.contains("strictness=lenient (full standard library)"), "{far}");
    let bounded = way_out(Level::Strict, Some(Level::Standard), "import os");
    assert!(
        bounded.contains("this job may use standard at most") && !bounded.contains("strictness="),
        "{bounded}"
    );
    let builtin = way_out(Level::Standard, Some(Level::Standard), "open('x')");
    assert!(builtin.contains("this job may use standard at most"), "{builtin}");
}

#[test]
fn javascript_has_console_timers_promises_and_plain_errors() {
    let _turn = support::shared();
    let cases = [
        (
            "setTimeout(() => console.log(2), 20); setTimeout(console.log, 5, 1); queueMicrotask(() => console.log(0))",
            "0\n1\n2\n",
        ),
        (
            "let n = 0; const t = setInterval(() => { console.log(++n); if (n === 3) clearInterval(t) }, 1)",
            "1\n2\n3\n",
        ),
        (
            "print('a', 1, null, undefined, 2n, [1, 'x'], {k: {l: 1}}, new Map([[1, 2]]), new Set([3]))",
            "a 1 null undefined 2n [ 1, 'x' ] { k: { l: 1 } } Map(1) { 1 => 2 } Set(1) { 3 }\n",
        ),
        ("console.log('%s is %d', 'x', 3, 'more')", "x is 3 more\n"),
        (
            "class A { x = 1 } console.log(new A(), function f() {}, Symbol('s'), new Date(0), /r/g)",
            "A { x: 1 } [Function: f] Symbol(s) 1970-01-01T00:00:00.000Z /r/g\n",
        ),
        ("x = 010; with ({y: 1}) console.log(x + y)", "9\n"),
        ("#!/usr/bin/env node\nconsole.log(await new Promise(r => setTimeout(r, 1, 'done')))", "done\n"),
        ("console.log('\\ud800'.length, '\\ud83d\\ude00')", "1 😀\n"),
    ];
    let programs = cases.iter().map(|(code, _)| javascript(Level::Standard, code)).collect();
    for (program, record) in run_all(programs) {
        let expected = cases.iter().find(|(code, _)| *code == program.code).unwrap().1;
        assert_eq!(
            (record.status, &*record.stdout),
            (RunStatus::Ok, expected),
            "{} -> {record:#?}",
            program.code
        );
    }
}

#[test]
fn javascript_errors_are_reported_with_their_position() {
    let _turn = support::shared();
    let cases = [
        ("function f() { null.x }\nf()", "TypeError"),
        ("throw {code: 7}", "code: 7"),
        ("Promise.reject(new RangeError('far'))", "RangeError: far"),
        ("setTimeout(() => { throw new Error('late') }, 1)", "Error: late"),
        ("(async () => { await null; throw new Error('deep') })()", "Error: deep"),
        ("import('os').then(m => console.log('ESCAPED'))", "os"),
        ("function f() { return f() + 1 } f()", "stack"),
        ("Promise.reject(new Error('first')); Promise.reject(new Error('second'))", "first"),
        ("try { new ArrayBuffer(2 ** 31) } catch {}\nnull.x", "null"),
        ("const fs = require('fs')", "no modules"),
        ("console.log(process.argv)", "not Node.js"),
        ("await fetch('http://localhost')", "no network"),
    ];
    let programs = cases.iter().map(|(code, _)| javascript(Level::Standard, code)).collect();
    for (program, record) in run_all(programs) {
        let text = cases.iter().find(|(code, _)| *code == program.code).unwrap().1;
        let error = record.error.clone().unwrap_or_default();
        assert_eq!(record.status, RunStatus::Error, "{} -> {record:#?}", program.code);
        assert!(error.contains(text) && !error.contains("<prelude>"), "{} -> {record:#?}", program.code);
    }
    let record = run(&javascript(Level::Strict, "let a = 1;\nlet b = ;"));
    assert!(record.error.unwrap().starts_with("line 2: SyntaxError"), "{}", record.stderr);
    let record = run(&javascript(Level::Strict, "const a = await f(1);\nlet b = ;"));
    assert!(record.error.unwrap().starts_with("line 2: SyntaxError"), "{}", record.stderr);
    let caught = run(&Program::new(
        Language::JavaScript,
        Level::Strict,
        "Promise.reject(1).catch(() => console.log('caught'))",
    ));
    assert_eq!((caught.status, &*caught.stdout), (RunStatus::Ok, "caught\n"));
}
