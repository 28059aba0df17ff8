//! What file tools do with files that others change, with encodings, and with dot files.

use crate::support::directories::user_directory;
use crate::support::turns::{Turn, TurnServer, bash, error, read, sleep, write};
use serde_json::{Value, json};
use std::fs;

fn edit(old: &str, new: &str) -> (&'static str, Value) {
    ("file_edit", json!({"path": "f", "old_text": old, "new_text": new}))
}

fn assert_ok(result: &Value) {
    assert_eq!(result["success"], true, "{result}");
}

#[test]
fn an_edit_of_a_file_that_changed_since_it_was_read_is_refused_until_it_is_read_again() {
    let fixture = TurnServer::start("");
    let (_, results) = fixture.run(&[
        &[bash("printf 'one\\ntwo\\n' > f"), edit("one", "1")],
        &[read("f")],
        &[edit("1", "eins"), edit("two", "zwei")],
        &[bash("echo three >> f"), edit("eins", "1")],
        &[read("f"), edit("eins", "1")],
        &[write("f", "all\n"), edit("all", "everything")],
        &[bash("touch f"), edit("everything", "all")],
        &[("file_write", json!({"path": "f", "content": "more\n", "mode": "append"})), edit("more", "less")],
        &[
            bash("echo end >> f"),
            ("file_write", json!({"path": "f", "content": "x\n", "mode": "append"})),
            edit("x", "y"),
        ],
    ]);
    let refused = [6, 17];
    for (at, result) in results.iter().enumerate() {
        if refused.contains(&at) {
            let message = error(result);
            assert!(message.contains("'f' has changed since you last read or wrote it"), "{message}");
            assert!(message.contains("Read it again (file_read)"), "{message}");
        } else {
            assert_eq!(result["success"], true, "{at}: {result}");
        }
    }
}

#[test]
fn a_change_during_a_restart_is_noticed() {
    let fixture = TurnServer::start("");
    let turns: &[Turn<'_>] =
        &[&[write("f", "one\n"), read("f")], &[sleep(4)], &[edit("one", "two")], &[read("f")]];
    let job = fixture.submit(turns, &json!({}));
    fixture.wait_until_called(&job, "execute_python");
    let file = user_directory(&fixture.server.dir.join("data/jobs"), 1).join(&job).join("f");
    fs::write(&file, "one, changed\n").expect("a change");
    let fixture = fixture.crash_and_restart("");
    let results = fixture.results(&job);
    let message = error(&results[3]);
    assert!(message.contains("has changed since you last read"), "{message}");
    assert_eq!(results[4]["data"]["content"], "one, changed\n");
}

#[test]
fn two_jobs_of_a_project_do_not_overwrite_each_others_edits_unseen() {
    let fixture = TurnServer::start("");
    let project = fixture.server.post("/api/projects", &json!({"name": "app"})).json();
    let id = project["data"]["id"].as_str().expect("an id").to_owned();
    let file = user_directory(&fixture.server.dir.join("data/workspaces"), 1).join("app/f");
    fs::write(&file, "one\n").expect("a file");
    let more = json!({"project_id": id});
    let first = fixture.submit(&[&[read("f")], &[sleep(5)], &[edit("one", "first")]], &more);
    fixture.wait_until_called(&first, "execute_python");
    let second = fixture.submit(&[&[edit("one", "one\nsecond")]], &more);
    assert_ok(&fixture.results(&second)[0]);
    assert!(error(&fixture.results(&first)[2]).contains("has changed since"));
    assert_eq!(fs::read_to_string(&file).expect("it"), "one\nsecond\n");
}

#[test]
fn a_file_is_written_in_the_named_encoding() {
    let fixture = TurnServer::start("");
    let encoded = |path: &str, content: &str, encoding: &str| {
        ("file_write", json!({"path": path, "content": content, "encoding": encoding}))
    };
    let (job, results) = fixture.run(&[&[
        encoded("bytes", "AAH/\n/g==", "base64"),
        encoded("latin", "café", "latin-1"),
        encoded("wide", "a", "utf-16"),
        encoded("plain", "é", "utf-8"),
        write("100%.txt", "percent"),
        write("%41%2f.txt", "no escape"),
        encoded("bad", "no base64!", "base64"),
        encoded("bad", "中", "latin-1"),
        encoded("bad", "a", "klingon"),
        ("file_read", json!({"path": "latin", "encoding": "latin-1"})),
    ]]);
    let at = user_directory(&fixture.server.dir.join("data/jobs"), 1).join(&job);
    assert_eq!(fs::read(at.join("bytes")).expect("it"), [0, 1, 255, 254]);
    assert_eq!(fs::read(at.join("latin")).expect("it"), b"caf\xe9");
    assert_eq!(fs::read(at.join("wide")).expect("it"), [0xFF, 0xFE, b'a', 0]);
    assert_eq!(fs::read(at.join("plain")).expect("it"), "é".as_bytes());
    assert_eq!(fs::read(at.join("100%.txt")).expect("it"), b"percent");
    assert_eq!(fs::read(at.join("%41%2f.txt")).expect("it"), b"no escape");
    assert!(error(&results[6]).contains("not valid base64"), "{}", results[6]);
    assert!(error(&results[7]).contains("has no character '中'"), "{}", results[7]);
    assert!(error(&results[8]).contains("'klingon' is no encoding"), "{}", results[8]);
    assert_eq!(results[9]["data"]["content"], "café");
    assert!(!at.join("bad").exists());
    let project = fixture.server.post("/api/projects", &json!({"name": "app"})).json();
    let files = format!("/api/projects/{}/files", project["data"]["id"].as_str().expect("an id"));
    let put = fixture.server.ask("PUT", &format!("{files}/100%25.txt"), &json!({"content": "x"}));
    assert_eq!(put.status, 200, "{}", put.body);
    let user = user_directory(&fixture.server.dir.join("data/workspaces"), 1);
    assert!(user.join("app/100%.txt").is_file());
}

#[test]
fn dot_files_are_like_others_and_secrets_stay_hidden() {
    let fixture = TurnServer::start("");
    let secrets =
        [".env", ".env.local", ".ssh/id_ed25519", "id_rsa", "server.key", "a/cert.pem", ".git/config"];
    let mut probes: Vec<(&str, Value)> = vec![
        write(".gitignore", "target\n"),
        write(".github/workflows/ci.yml", "on: push\n"),
        write(".env.example", "KEY=\n"),
        read(".gitignore"),
        ("file_edit", json!({"path": ".gitignore", "old_text": "target", "new_text": "/target"})),
    ];
    probes.extend(secrets.iter().flat_map(|path| [read(path), write(path, "x")]));
    let make = "mkdir -p .ssh .git a; for f in .env .env.local .ssh/id_ed25519 id_rsa server.key a/cert.pem .git/config; \
                do echo KEY=secret > $f; done";
    let (_, results) = fixture.run(&[
        &[bash(make)],
        &probes,
        &[
            ("file_list", json!({"pattern": "**/*"})),
            ("file_search", json!({"pattern": "KEY|target"})),
            bash("cat .gitignore .env"),
        ],
    ]);
    for result in &results[1..6] {
        assert_ok(result);
    }
    for result in &results[6..20] {
        let message = error(result);
        assert!(message.contains("is hidden") && message.contains("files.show_hidden"), "{message}");
    }
    let listed = results[20]["data"]["files"].as_array().expect("files");
    let paths: Vec<&str> = listed.iter().filter_map(|file| file["path"].as_str()).collect();
    assert_eq!(paths, [".env.example", ".github/workflows/ci.yml", ".gitignore"]);
    assert_eq!(results[21]["data"]["total_matches"], 2, "{}", results[21]);
    assert!(results[22]["data"]["output"].as_str().is_some_and(|text| text.contains("KEY=secret")));
}

#[test]
fn errors_name_bash_only_in_jobs_that_have_it() {
    let fixture = TurnServer::start("");
    let file_tools = ["file_read", "file_write", "file_edit", "file_delete", "file_mkdir"];
    let latin = ("file_write", json!({"path": "f", "content": "caf\u{e9}", "encoding": "latin-1"}));
    let nul = ("file_write", json!({"path": "nul", "content": "AAAA", "encoding": "base64"}));
    let turns: &[Turn<'_>] = &[
        &[latin, nul, ("file_mkdir", json!({"path": "d"}))],
        &[
            edit("caf", "x"),
            ("file_write", json!({"path": "f", "content": "x", "mode": "append"})),
            ("file_delete", json!({"path": "d"})),
            read("nul"),
        ],
    ];
    for (more, has_bash) in [
        (json!({}), true),
        (json!({"tools": file_tools}), false),
        (json!({"strictness": "strict", "tools": file_tools}), false),
    ] {
        let job = fixture.submit(turns, &more);
        for result in &fixture.results(&job)[3..] {
            let message = error(result);
            assert_eq!(message.contains("bash"), has_bash, "{more}: {message}");
            assert!(has_bash || !message.contains("execute_python"), "{more}: {message}");
        }
    }
}
