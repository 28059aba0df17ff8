//! Client commands as a new user tries them: addresses, pipes, files, conversations, lists and approvals.

use crate::support::upstream::{Answer, Upstream, tool_results};
use crate::support::{BINARY, Ran, Server, command};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

fn run(server: &Server, arguments: &[&str]) -> Ran {
    command(arguments).args(["--server", &server.url]).output().expect("the binary runs").into()
}

fn feed(server: &Server, arguments: &[&str], stdin: &str) -> Ran {
    let mut command = command(arguments);
    command.args(["--server", &server.url]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("its stdin").write_all(stdin.as_bytes()).expect("written");
    child.wait_with_output().expect("it ends").into()
}

#[test]
fn client_commands_find_the_server_by_the_configuration() {
    let server = Server::start();
    let address = server.url.trim_start_matches("http://");
    let file = server.dir.join("client.yml");
    std::fs::write(&file, format!("listen: {address}\n")).expect("written");
    let file = file.to_str().expect("UTF-8");
    let data = server.dir.join("data");
    let data = data.to_str().expect("UTF-8");
    for (arguments, listen) in [
        (&["jobs"][..], address),
        (&["jobs", "--config", file], ""),
        // The server chose its port itself and wrote it into its data directory.
        (&["jobs", "--data-dir", data], "127.0.0.1:0"),
    ] {
        let mut command = command(arguments);
        if !listen.is_empty() {
            command.env("NANOCLAW_LISTEN", listen);
        }
        let ran: Ran = command.output().expect("the binary runs").into();
        assert!(ran.code == 0 && ran.out.starts_with("JOB "), "{arguments:?}: {}{}", ran.out, ran.err);
    }
    let broken: Ran = command(&["jobs"]).env("NANOCLAW_LISTEN", "nowhere").output().expect("it runs").into();
    assert_eq!(broken.code, 78, "{}", broken.err);
}

#[test]
fn ask_reads_a_prompt_from_a_pipe_and_attaches_files() {
    let upstream = Upstream::start(|_, _| Answer::text("read"));
    let server = Server::start_against(&upstream, "");
    let ran = feed(&server, &["ask"], "hello from a pipe\n");
    assert_eq!((ran.code, ran.out.as_str()), (0, "read\n"), "{}", ran.err);
    let file = server.dir.join("notes.txt");
    std::fs::write(&file, "milk and bread").expect("written");
    let ran =
        run(&server, &["ask", "what?", "--system", "Be brief.", "--file", file.to_str().expect("UTF-8")]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let requests = upstream.requests();
    assert!(requests[0].to_string().contains("hello from a pipe"), "{}", requests[0]);
    let last = requests.last().expect("a request").to_string();
    for text in ["Be brief.", "what?", "notes.txt", "milk and bread"] {
        assert!(last.contains(text), "{text}: {last}");
    }
    let missing = run(&server, &["ask", "what?", "--file", "/nonexistent/x"]);
    assert!(missing.code == 1 && missing.err.contains("/nonexistent/x"), "{}", missing.err);
}

#[test]
fn chat_asks_each_line_in_one_conversation() {
    let server = Server::start();
    let ran = feed(&server, &["chat", "--conversation", "trip"], "first line\n\nsecond line\n");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("first line") && ran.out.contains("second line"), "{}", ran.out);
    let page = server.get("/v1/jobs?conversation_id=trip").json();
    let inputs: Vec<&Value> =
        page["data"].as_array().expect("jobs").iter().map(|job| &job["input"]).collect();
    assert_eq!(inputs, [&json!("second line"), &json!("first line")]);
}

#[test]
fn jobs_are_listed_with_a_header_and_watched() {
    let server = Server::start();
    server.wait(&server.submit(&json!({"input": "the first words"})));
    let listed = run(&server, &["jobs"]);
    let lines: Vec<&str> = listed.out.lines().collect();
    assert!(lines[0].starts_with("JOB ") && lines[0].ends_with("INPUT"), "{}", listed.out);
    assert!(lines[1].starts_with("job_") && lines[1].ends_with("the first words"), "{}", listed.out);
    let mut watch = command(&["jobs", "--watch", "--server", &server.url]);
    let mut child = watch.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its stdout")).lines();
    // The list is shown again and again.
    for _ in 0..4 {
        lines.next().expect("a line").expect("UTF-8");
    }
    child.kill().expect("killed");
    child.wait().expect("reaped");
}

#[test]
fn a_field_of_another_system_is_refused_with_our_name_for_it() {
    let server = Server::start();
    let reply = server.post("/v1/jobs", &json!({"prompt": "hello"}));
    assert_eq!(reply.status, 400);
    assert!(reply.body.contains("did you mean 'input'"), "{}", reply.body);
}

#[test]
fn things_of_the_server_are_listed_shown_and_deleted() {
    let server = Server::start();
    let project = server.post("/api/projects", &json!({"name": "notes"})).json();
    let project = project["data"]["id"].as_str().expect("an id").to_owned();
    let schedule =
        server.post("/v1/schedules", &json!({"name": "tea", "every_s": 3_600, "job": {"input": "x"}})).json();
    let schedule = schedule["id"].as_str().expect("an id").to_owned();
    let job = server.submit(&json!({"input": "hello", "conversation_id": "trip"}));
    server.wait(&job);
    for (kind, texts) in [
        ("projects", [project.as_str(), "notes"]),
        ("schedules", [schedule.as_str(), "tea"]),
        ("conversations", ["trip", "MESSAGE_COUNT"]),
        ("jobs", [job.as_str(), "succeeded"]),
        ("models", ["demo", "ID"]),
        ("tools", ["calculator", "GROUP"]),
        ("usage", ["demo", "TOTAL_TOKENS"]),
        ("batches", ["ID", "STATUS"]),
        ("webhooks", ["ID", "STATE"]),
    ] {
        let listed = run(&server, &["list", kind]);
        assert_eq!(listed.code, 0, "{kind}: {}", listed.err);
        assert!(texts.iter().all(|text| listed.out.contains(text)), "{kind}: {}", listed.out);
    }
    let now_s = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
    server.submit(&json!({"input": "later", "run_at": now_s + 7_300, "deadline_at": now_s + 90_000}));
    for command in [&["jobs"][..], &["list", "jobs"]] {
        let listed = run(&server, command).out;
        assert!(listed.contains("[due in 1d, starts in 2h] later"), "{listed}");
    }
    let answer = run(&server, &["output", &job]);
    assert!(answer.code == 0 && answer.out.contains("hello"), "{}{}", answer.out, answer.err);
    let shown = run(&server, &["show", &project]);
    let shown: Value = serde_json::from_str(&shown.out).expect("JSON");
    assert_eq!(shown["name"], json!("notes"));
    assert_eq!(run(&server, &["show", "conversations", "trip"]).code, 0);
    assert_eq!(run(&server, &["delete", &schedule]).code, 0);
    let gone = run(&server, &["show", &schedule]);
    assert!(gone.code == 1 && gone.err.contains("\nhint: "), "{}", gone.err);
}

#[test]
fn bash_completes_ids_of_jobs_and_names_of_models_and_tools() {
    let server = Server::start();
    let job = server.submit(&json!({"input": "hello"}));
    let script = server.dir.join("completions.bash");
    std::fs::write(&script, run(&server, &["completions", "bash"]).out).expect("written");
    let complete = |words: &str| {
        let text = format!(
            "source completions.bash; nanoclaw() {{ '{BINARY}' --server {} \"$@\"; }}\n\
             COMP_WORDS=({words} ''); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _nanoclaw_ids; echo \"${{COMPREPLY[@]}}\"",
            server.url
        );
        let ran = Command::new("bash").args(["-c", &text]).current_dir(&server.dir).output().expect("bash");
        String::from_utf8(ran.stdout).expect("UTF-8")
    };
    assert!(complete("nanoclaw tail").contains(&job));
    assert!(complete("nanoclaw ask --model").contains("demo"));
    assert!(complete("nanoclaw ask --tools").contains("calculator"));
}

/// Runs `nanoclaw ask` on a terminal of its own and answers its question; returns what the terminal shows.
fn ask_and_answer(server: &Server, answer: &str) -> Option<String> {
    let line = format!("'{BINARY}' ask --server {} go", server.url);
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = match script.env("SHELL", "/bin/sh").spawn() {
        Ok(child) => child,
        Err(error) => {
            writeln!(std::io::stderr(), "SKIPPED: no program 'script' makes a terminal: {error}")
                .expect("stderr");
            return None;
        }
    };
    let (mut stdin, mut stdout) =
        (child.stdin.take().expect("its stdin"), child.stdout.take().expect("its stdout"));
    let (mut shown, mut bytes) = (Vec::new(), [0; 4_096]);
    let mut is_answered = false;
    while let Ok(count @ 1..) = stdout.read(&mut bytes) {
        shown.extend_from_slice(&bytes[..count]);
        if !is_answered && String::from_utf8_lossy(&shown).contains("[y/N] ") {
            stdin.write_all(answer.as_bytes()).expect("written");
            is_answered = true;
        }
    }
    child.wait().expect("it ends");
    Some(String::from_utf8_lossy(&shown).into_owned())
}

#[test]
fn ask_on_a_terminal_asks_before_a_call_that_needs_approval() {
    let upstream = Upstream::start(|request, _| {
        match tool_results(request).first().and_then(|result| result["content"].as_str()) {
            None => Answer::calls(&[("text_process", json!({"text": "abc", "operation": "upper"}))]),
            Some(content) => Answer::text(content),
        }
    });
    let server = Server::start_against(&upstream, "approval: [\"text_process\"]");
    for (answer, text) in [("y\n", "ABC"), ("\n", "denied")] {
        let Some(shown) = ask_and_answer(&server, answer) else { return };
        assert!(shown.contains("allow the calls?") && shown.contains(text), "{answer:?}: {shown}");
    }
}
