//! The command line: output streams, exit codes, hints, and `nanoclaw demo`.

use crate::support::upstream::{Answer, Upstream};
use crate::support::{BINARY, Ran, Server, against, clean_command, command, database};
use serde_json::{Value, json};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

fn run(arguments: &[&str]) -> Ran {
    command(arguments).output().expect("the binary runs").into()
}

/// A command that refuses its flags may exit before it reads stdin, so a closed pipe is not a failure.
fn feed(arguments: &[&str], stdin: impl AsRef<[u8]>) -> Ran {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    match child.stdin.take().expect("its stdin").write_all(stdin.as_ref()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => panic!("its stdin: {error}"),
        _ => {}
    }
    child.wait_with_output().expect("it ends").into()
}

#[test]
fn demo_shows_a_crash_and_a_resume_and_leaves_no_files() {
    let ran = run(&["demo"]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
    assert!(ran.out.contains("391") && ran.out.contains("2432902008176640000"), "{}", ran.out);
    assert!(ran.err.contains("kill -9") && ran.err.contains("without a gap"), "{}", ran.err);
    let dir =
        ran.err.split("data in ").nth(1).and_then(|t| t.split(')').next()).expect("it names its directory");
    assert!(!std::path::Path::new(dir).exists(), "{dir} is left behind");
}

#[test]
fn exec_passes_on_output_streams_and_exit_code() {
    let ran =
        feed(&["exec", "--lang", "python", "-"], "import sys\nprint('out')\nprint('err', file=sys.stderr)");
    // The standard level has no module `sys`: the message names it and the level that has it.
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains("sys") && ran.err.contains("lenient"), "{}", ran.err);
    let ran = feed(
        &["exec", "--lang", "python", "--strictness", "lenient", "-"],
        "import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(3)",
    );
    assert_eq!((ran.code, ran.out.as_str()), (3, "out\n"), "{}", ran.err);
    assert!(ran.err.contains("err"));
    let ran = feed(&["exec", "--lang", "javascript", "-"], "console.log([1,2,3].map(x => x * 2).join())");
    assert_eq!((ran.code, ran.out.as_str()), (0, "2,4,6\n"), "{}", ran.err);
}

#[test]
fn exec_runs_bash_by_language_name_and_file_extension() {
    let ran = feed(&["exec", "--lang", "bash", "-"], "echo $((6 * 7)); echo no >&2; exit 3");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (3, "42\n", "no\n"));
    let home = tempfile::tempdir().expect("a directory");
    let script = home.path().join("x.sh");
    std::fs::write(&script, "#!/bin/sh\nprintf %s \"$((1 + 1))\"").expect("written");
    let ran = run(&["exec", "--json", script.to_str().expect("UTF-8")]);
    let record: Value = serde_json::from_str(&ran.out).expect("one JSON object");
    assert_eq!(
        (&record["stdout"], &record["engine"], &record["level"]),
        (&json!("2"), &json!("bash"), &json!("shell"))
    );
    let ran = feed(&["exec", "--lang", "bash", "--strictness", "lenient", "-"], "echo 1");
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
    assert!(ran.err.contains("one level only"), "{}", ran.err);
}

#[test]
fn exec_runs_programs_at_the_lowest_priority() {
    let home = tempfile::tempdir().expect("a directory");
    for (name, text) in [("x.py", "print(1)"), ("x.js", "console.log(1)"), ("x.sh", "echo 1")] {
        let path = home.path().join(name);
        std::fs::write(&path, text).expect("written");
        // As a service with `Nice=19` runs them.
        let mut exec = clean_command(Path::new("nice"));
        exec.args(["-n", "19", BINARY, "exec"]).arg(path);
        let ran = Ran::from(exec.output().expect("nice runs"));
        assert_eq!((ran.code, ran.out.as_str()), (0, "1\n"), "{name}: {}", ran.err);
    }
}

#[test]
fn exec_obeys_the_most_lenient_level_allowed() {
    let limited = |arguments: &[&str]| -> Ran {
        let mut command = command(arguments);
        command.env("NANOCLAW_CODE_EXECUTION__MAX_STRICTNESS_ALLOWED", "standard");
        command.stdin(Stdio::null()).output().expect("the binary runs").into()
    };
    let home = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = home.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let (python, bash) = (file("x.py", "print(1)"), file("x.sh", "echo 1"));
    assert_eq!(limited(&["exec", &python]).out, "1\n");
    let ran = limited(&["exec", "--strictness", "lenient", &python]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
    assert!(
        ran.err.contains("max_strictness_allowed") && ran.err.contains("strict, standard"),
        "{}",
        ran.err
    );
    let ran = limited(&["exec", &bash]);
    assert_ne!(ran.code, 0);
    assert!(ran.out.is_empty() && ran.err.contains("max_strictness_allowed"), "{}", ran.err);
}

#[test]
fn exec_explains_why_a_program_text_is_invalid() {
    let home = tempfile::tempdir().expect("a directory");
    for (name, bytes, text) in [
        ("utf8.py", &b"x = 1\ny = '\xff'"[..], "not UTF-8 text (line 2"),
        ("utf16.py", b"\xff\xfep\0", "not UTF-8 text (line 1"),
        ("nul.py", b"x = 1\n\0", "line 2: the program holds a NUL byte"),
        ("empty.js", b" \n", "the program is empty"),
        ("prose.py", b"Dear reader, hello.", "line 1: invalid syntax"),
    ] {
        let path = home.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        let ran = run(&["exec", path.to_str().expect("UTF-8")]);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{name}: {}", ran.err);
        assert!(ran.err.contains(text), "{name}: {}", ran.err);
    }
    let long = home.path().join("long.py");
    for (bytes, code) in [(1_048_576, 0), (1_048_577, 1)] {
        std::fs::write(&long, "#".repeat(bytes)).expect("written");
        let ran = run(&["exec", long.to_str().expect("UTF-8")]);
        assert_eq!(ran.code, code, "{bytes}: {}", ran.err);
        assert_eq!(ran.err.contains("the limit is 1048576"), code == 1, "{}", ran.err);
    }
    let ran = feed(&["exec", "--lang", "python", "-"], "\u{feff}print('a')\r\nprint('b')\r\n");
    assert_eq!((ran.code, ran.out.as_str()), (0, "a\nb\n"), "{}", ran.err);
    let ran = feed(&["exec", "--lang", "python", "-"], b"print('\xc3')");
    assert!(ran.code == 1 && ran.err.contains("'-': it is not UTF-8"), "{}", ran.err);
    let ran = run(&["exec", home.path().to_str().expect("UTF-8"), "--lang", "python"]);
    assert!(ran.code == 1 && ran.err.contains("directory"), "{}", ran.err);
}

#[test]
fn exec_json_prints_the_result_record() {
    let ran = feed(&["exec", "--lang", "python", "--json", "-"], "print('hi')\n6*7");
    let record: Value = serde_json::from_str(&ran.out).expect("one JSON object");
    assert_eq!(
        (&record["status"], &record["stdout"], &record["result"]),
        (&json!("ok"), &json!("hi\n"), &json!("42"))
    );
    for key in [
        "exit_code",
        "signal",
        "limit",
        "stderr",
        "stdout_truncated",
        "stderr_truncated",
        "duration_ms",
        "cpu_ms",
        "max_rss_kb",
        "level",
        "engine",
        "engine_version",
    ] {
        assert!(record.get(key).is_some(), "{key} is missing: {record}");
    }
    let ran = feed(&["exec", "--lang", "python", "--json", "--timeout-s", "1", "-"], "while True: pass");
    let record: Value = serde_json::from_str(&ran.out).expect("one JSON object");
    assert_eq!((ran.code, &record["status"]), (124, &json!("timeout")));
}

#[test]
fn exec_refuses_invalid_arguments_and_names_valid_ones() {
    for (arguments, text) in [
        (vec!["exec", "/nonexistent/x.py"], "x.py"),
        (vec!["exec", "--lang", "cobol", "-"], "bash"),
        (vec!["exec", "--lang", "python", "--strictness", "none", "-"], "standard"),
        (vec!["exec", "noending"], "--lang"),
        (vec!["exec", "--lang", "python", "--timeout-s", "0", "-"], "--timeout-s"),
    ] {
        let ran = run(&arguments);
        assert!(ran.code == 1 || ran.code == 2, "{arguments:?}: {}", ran.code);
        assert!(ran.err.contains(text) && ran.out.is_empty(), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn ask_streams_thinking_tool_calls_results_and_the_answer() {
    let server = Server::start();
    let ran = run(&["ask", "--server", &server.url, "tool: calculator {\"expression\": \"17*23\"}"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let has_tool_call = ran.err.contains("→ calculator") && ran.err.contains("← calculator ✓");
    assert!(has_tool_call && ran.out.contains("391"), "{}\n{}", ran.out, ran.err);
    let ran = run(&["ask", "--server", &server.url, "--json", "--thinking", "hello"]);
    let lines: Vec<Value> = ran.out.lines().map(|l| serde_json::from_str(l).expect("JSON lines")).collect();
    assert!(lines.iter().any(|l| l["data"]["type"] == "thinking"));
    assert_eq!(lines.last().expect("events")["event"], "done");
    let listed = run(&["jobs", "--server", &server.url]);
    assert_eq!(listed.out.lines().count(), 3, "a header and two jobs: {}", listed.out);
    let newest = listed.out.lines().nth(1).expect("a job");
    let id = newest.split_whitespace().next().expect("an id").to_owned();
    let tail = run(&["tail", "--server", &server.url, &id]);
    assert_eq!((tail.code, tail.out.contains("hello")), (0, true), "{}", tail.out);
    let cancel = run(&["cancel", "--server", &server.url, &id]);
    assert!(cancel.code == 0 && cancel.out.contains("succeeded"), "{} {}", cancel.out, cancel.err);
}

#[test]
fn a_plain_question_to_the_demo_model_shows_a_tool() {
    let server = Server::start();
    let ran = run(&["ask", "--server", &server.url, "What is 12*7?"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("→ calculator") && ran.out.contains("84"), "{}\n{}", ran.out, ran.err);
}

#[test]
fn p2_ask_prints_every_event_once_although_the_server_restarts() {
    let upstream = Upstream::start(|_, _| Answer::paced_text(&"word ".repeat(40), Duration::from_millis(25)));
    let dir = tempfile::tempdir().expect("a directory");
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
    let config = against(&upstream, "");
    std::fs::write(dir.path().join("config.yml"), &config).expect("written");
    let serve = || {
        let child = command(&["serve", "--listen", &format!("127.0.0.1:{port}"), "--config"])
            .arg(dir.path().join("config.yml"))
            .arg("--data-dir")
            .arg(dir.path().join("data"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        child.expect("the server starts")
    };
    let url = format!("http://127.0.0.1:{port}");
    let mut first = serve();
    let began = Instant::now();
    while ureq::get(format!("{url}/healthz")).call().is_err() {
        assert!(began.elapsed() < Duration::from_secs(20), "the server does not answer");
        std::thread::sleep(Duration::from_millis(20));
    }
    let ask = command(&["ask", "--server", &url, "--json", "go"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ask starts");
    std::thread::sleep(Duration::from_millis(600));
    first.kill().expect("kill -9");
    first.wait().expect("reaped");
    std::thread::sleep(Duration::from_millis(300));
    let mut second = serve();
    let ran: Ran = ask.wait_with_output().expect("ask ends").into();
    second.kill().expect("killed");
    second.wait().expect("reaped");
    assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
    let ids: Vec<u64> = ran
        .out
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).expect("JSON lines")["id"].as_u64().expect("an id"))
        .collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>(), "every event once");
    assert!(ran.out.contains("step_discarded"), "the kill interrupted the stream: {}", ran.out);
}

#[test]
fn ask_exits_with_1_when_the_job_fails() {
    let upstream = Upstream::start(|_, _| Answer::error(401, "no"));
    let server = Server::start_against(&upstream, "");
    let ran = run(&["ask", "--server", &server.url, "x"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("provider_error") && !ran.out.contains("error"), "{} {}", ran.out, ran.err);
}

#[test]
fn an_unreachable_server_is_reported_with_a_hint() {
    let ran = run(&["jobs", "--server", "http://127.0.0.1:9"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.starts_with("nanoclaw: cannot reach the server") && ran.err.contains("\nhint: "),
        "{}",
        ran.err
    );
    assert_eq!(run(&["jobs", "--server", "nonsense"]).code, 2);
}

#[test]
fn p9_a_bad_configuration_exits_78_and_a_secret_is_never_shown() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("c.yml");
    let path = file.to_str().expect("UTF-8");
    for (config, message) in [
        ("lisen: 127.0.0.1:1", "listen"),
        ("listen: 0.0.0.0:80", "auth_mode: multi"),
        (
            "models: [{id: a, api_url: \"http://127.0.0.1:1/v1\", api_key: \"${NOT_SET_ANYWHERE}\"}]",
            "NOT_SET_ANYWHERE",
        ),
        ("workers: many", "workers"),
        ("default_model: nope", "nope"),
        ("models: [{id: a, api_url: \"https://models.example/v1\"}]", "api_key"),
        ("models: [{id: demo, fallback: [nope]}]", "'nope' is no configured model"),
        ("models: [{id: demo, price: {prompt: .nan, completion: 1}}]", "price.prompt"),
        ("models: [{id: demo, rate: {concurrent: 0}}]", "rate.concurrent"),
        ("title_model: nope", "title_model"),
    ] {
        std::fs::write(&file, config).expect("written");
        let ran = run(&["config", "check", "--config", path]);
        assert_eq!(ran.code, 78, "{config}: {}", ran.err);
        assert!(ran.err.contains(message) && ran.err.contains("\nhint: "), "{config}: {}", ran.err);
        let data = dir.path().join("data");
        let serve = ["serve", "--config", path, "--data-dir", data.to_str().expect("UTF-8")];
        assert_eq!(run(&serve).code, 78, "{config}");
        assert!(!data.exists(), "{config}: nothing is created before the configuration is valid");
    }
    std::fs::write(&file, "models: [{id: a, api_url: \"http://127.0.0.1:1/v1\", api_key: sk-very-secret}]")
        .expect("written");
    let ran = run(&["config", "show", "--config", path]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.out.contains("very-secret") && ran.out.contains("***"), "{}", ran.out);
    assert_eq!(run(&["config", "check", "--config", path]).code, 0);
}

#[test]
fn p9_a_key_file_is_named_but_its_content_is_never_shown() {
    let upstream = Upstream::start(|_, _| Answer::error(401, "the key sk-very-secret is bad"));
    let dir = tempfile::tempdir().expect("a directory");
    let (file, key) = (dir.path().join("c.yml"), dir.path().join("provider.key"));
    let (path, key_path) = (file.to_str().expect("UTF-8"), key.to_str().expect("UTF-8"));
    let model =
        |key_file: &str| format!("{{id: a, api_url: \"{}/v1\", api_key_file: {key_file}}}", upstream.url);
    let write = |model: &str| std::fs::write(&file, format!("models: [{model}]")).expect("written");
    write(&model(key_path));
    let checks = |code: i32, text: &str| {
        for command in [["config", "check"], ["config", "show"]] {
            let ran = run(&[command[0], command[1], "--config", path]);
            assert_eq!(ran.code, code, "{command:?}: {}{}", ran.out, ran.err);
            assert!(ran.err.contains(text), "{text}: {}", ran.err);
            assert!(!format!("{}{}", ran.out, ran.err).contains("very-secret"), "{}{}", ran.out, ran.err);
        }
        let ran = run(&["doctor", "--no-models", "--config", path]);
        // The service may read a key that this user may not: doctor continues without it and reports that.
        assert!(ran.out.contains("ok    config"), "{}", ran.out);
        assert!(code == 0 || ran.out.contains(text), "{}", ran.out);
        assert!(!ran.out.contains("very-secret"), "{}", ran.out);
    };
    checks(78, "models[0].api_key_file");
    std::fs::write(&key, "").expect("written");
    checks(78, "is empty");
    std::fs::write(&key, "sk-very-secret\n").expect("written");
    checks(0, "");
    write(&model("provider.key"));
    checks(78, "$CREDENTIALS_DIRECTORY");
    write(&model(&format!("{key_path}, api_key: sk-very-secret")));
    checks(78, "api_key_file");

    write(&model(key_path));
    let shown = run(&["config", "show", "--config", path]).out;
    assert!(shown.contains(&format!("api_key_file: {key_path}")), "{shown}");
    let text = std::fs::read_to_string(&file).expect("readable");
    let server = Server::start_with(&text);
    let job = server.submit(&serde_json::json!({"input": "hi"}));
    let ended = server.wait(&job);
    assert_eq!(ended["status"], "failed", "{ended}");
    let seen = format!("{ended}{:?}{}", server.events(&job), server.log());
    assert!(seen.contains("provider_error") && !seen.contains("very-secret"), "{seen}");
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn doctor_reports_each_check_and_a_broken_store() {
    let ran = run(&["doctor"]);
    for text in ["landlock", "seccomp", "python", "strict", "standard", "lenient", "kernel", "config"] {
        assert!(ran.out.contains(text), "{text}: {}", ran.out);
    }
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("nanoclaw.redb"), "not a store, but long enough").expect("written");
    let broken = run(&["doctor", "--data-dir", dir.path().to_str().expect("UTF-8")]);
    assert!(broken.code == 1 && broken.out.contains("is not a store"), "{}", broken.out);
    let json: Value = serde_json::from_str(&run(&["doctor", "--json"]).out).expect("JSON");
    assert!(json["checks"].is_array());
}

#[test]
fn help_fits_a_screen_and_completions_exist_for_each_shell() {
    let help = run(&["--help"]);
    assert_eq!(help.code, 0);
    assert!(help.out.lines().count() <= 45, "help fits a screen: {}", help.out.lines().count());
    assert_eq!(run(&["--version"]).code, 0);
    assert_eq!(run(&["nonsense"]).code, 2);
    for shell in ["bash", "zsh", "fish"] {
        assert!(run(&["completions", shell]).out.contains("nanoclaw"), "{shell}");
    }
}

#[test]
fn p10_the_server_uses_little_memory_and_its_files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let server = Server::start();
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("its status");
    let kb: u64 = status
        .lines()
        .find_map(|l| l.strip_prefix("RssAnon:"))
        .and_then(|l| l.split_whitespace().next()?.parse().ok())
        .expect("its memory");
    // Without the pages of the program's file, of which a debug build maps over 50 MB. All of a release
    // build's memory is measured by scripts/bench.
    assert!(kb < 9 * 1024, "{kb} KiB of its own");
    let mode = |path: &str| {
        std::fs::metadata(server.dir.join(path)).expect("it is there").permissions().mode() & 0o777
    };
    assert_eq!(mode("data"), 0o700);
    if !database::is_wanted() {
        assert_eq!(mode("data/nanoclaw.redb"), 0o600);
    }
}

#[test]
fn a_closed_stdout_is_not_an_error() {
    let mut child = command(&["config", "show", "--default"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    drop(child.stdout.take());
    let ran: Ran = child.wait_with_output().expect("it ends").into();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}
