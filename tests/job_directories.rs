//! The directory of a job without a project: shared by all tools of the job, kept over restarts, bounded, and
//! removed with the job.

use crate::support::directories::user_directory;
use crate::support::turns::{Turn, TurnServer, bash, error, output, read, sleep, write};
use crate::support::upstream::{Answer, Upstream, tool_results};
use crate::support::{Server, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The directories of the jobs of a user.
fn directories(fixture: &TurnServer, user: u32) -> PathBuf {
    user_directory(&fixture.server.dir.join("data/jobs"), user)
}

fn directory(fixture: &TurnServer, job: &str) -> PathBuf {
    directories(fixture, 1).join(job)
}

#[test]
fn all_tools_of_a_job_share_one_directory() {
    let tools = tempfile::tempdir().expect("a directory");
    let tool = "export default {\n  name: 'js_note', description: 'Reads and writes a note.',\n  \
                permissions: {files: 'write'},\n  handler(args, host) { const text = host.readFile('f.txt'); \
                host.writeFile('js.txt', text + 'js\\n'); return text; },\n};\n";
    fs::write(tools.path().join("note.js"), tool).expect("a tool");
    let config = format!(
        "tools_dir: {}\ntools:\n  - {{name: count_lines, description: Counts., command: 'wc -l < f.txt', \
         parameters: {{type: object}}, in_project: true}}\n",
        tools.path().display()
    );
    let fixture = TurnServer::start(&config);
    let python = "open('py.txt', 'w').write(open('f.txt').read() + 'py')\nprint('done')";
    let turns: &[Turn<'_>] = &[
        &[bash("echo hi > f.txt; mkdir sub; pwd")],
        &[bash("cat f.txt")],
        &[("execute_python", json!({"code": python, "strictness": "lenient"}))],
        &[("js_note", json!({})), ("count_lines", json!({}))],
        &[read("py.txt"), read("js.txt"), write("sub/from_tool", "tool")],
        &[bash("cat sub/from_tool"), ("file_list", json!({"pattern": "**/*"}))],
        &[
            ("file_search", json!({"pattern": "^hi$"})),
            ("file_edit", json!({"path": "f.txt", "old_text": "hi", "new_text": "ho"})),
        ],
        &[
            bash("cat f.txt"),
            ("file_delete", json!({"path": "f.txt"})),
            ("file_exists", json!({"path": "f.txt"})),
        ],
    ];
    let (job, results) = fixture.run(turns);
    let at = directory(&fixture, &job);
    assert_eq!(output(&results[0]).trim_end(), at.canonicalize().expect("it").to_str().expect("a path"));
    assert_eq!(output(&results[1]), "hi\n");
    assert_eq!(output(&results[2]), "done\n");
    assert_eq!(results[3]["data"], "hi\n", "{}", results[3]);
    assert_eq!(results[4]["data"], 1, "{}", results[4]);
    assert_eq!(results[5]["data"]["content"], "hi\npy", "{}", results[5]);
    assert_eq!(results[6]["data"]["content"], "hi\njs\n", "{}", results[6]);
    assert_eq!(output(&results[8]), "tool");
    assert_eq!(
        (&results[9]["data"]["total_files"], &results[9]["data"]["total_dirs"]),
        (&json!(4), &json!(1))
    );
    assert_eq!(results[10]["data"]["total_matches"], 3, "{}", results[10]);
    assert_eq!(output(&results[12]), "ho\n");
    assert_eq!(results[14]["data"]["exists"], false, "{}", results[14]);
    let (other, results) = fixture.run(&[&[bash("ls -A"), ("file_list", json!({}))]]);
    assert_ne!(other, job);
    assert_eq!((output(&results[0]), &results[1]["data"]["total_files"]), ("", &json!(0)), "another job");
}

#[test]
fn a_model_writes_a_program_and_runs_it_in_the_same_job() {
    let fixture = TurnServer::start("");
    let (_, results) = fixture.run(&[
        &[write("hello.sh", "echo hello from $1\n"), bash("sh hello.sh sh")],
        &[write("app/hello.py", "import sys\nprint('hello from', sys.argv[1])\n")],
        &[
            bash("python3 app/hello.py python"),
            ("bash", json!({"command": "python3 hello.py dir", "working_dir": "app"})),
        ],
    ]);
    assert_eq!(output(&results[1]), "hello from sh\n");
    assert_eq!(output(&results[3]), "hello from python\n");
    assert_eq!(output(&results[4]), "hello from dir\n");
}

#[test]
fn a_job_that_uses_no_files_has_no_directory() {
    let fixture = TurnServer::start("");
    let (job, _) = fixture.run(&[&[
        ("calculator", json!({"expression": "6*7"})),
        ("execute_python", json!({"code": "print(1)"})),
    ]]);
    assert!(!directory(&fixture, &job).exists());
    assert!(!fixture.server.dir.join("data/jobs").exists());
}

#[test]
fn the_directory_goes_with_the_job() {
    let fixture = TurnServer::start("");
    let (job, _) = fixture.run(&[&[bash("mkdir -p a/b; echo 1 > a/b/f; chmod 000 a; echo 2 > g")]]);
    let at = directory(&fixture, &job);
    assert!(at.is_dir());
    let deleted = fixture.server.ask("DELETE", &format!("/v1/jobs/{job}"), &Value::Null);
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    assert!(!at.exists(), "gone with the answer");
    let message = json!({"text": json!([[["bash", {"command": "echo 1 > f"}]]]).to_string()});
    let made = fixture.server.post("/api/conversations", &json!({"title": "t"})).json();
    let id = made["data"]["id"].as_str().expect("an id").to_owned();
    let sent = fixture.server.post(&format!("/api/conversations/{id}/messages"), &message);
    assert_eq!(sent.status, 200, "{}", sent.body);
    let all = directories(&fixture, 1);
    let is_empty = || {
        let names = fs::read_dir(&all).into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.filter(|name| name != ".nanoclaw").count() == 0
    };
    assert!(!is_empty(), "the message's job has a directory");
    let deleted = fixture.server.ask("DELETE", &format!("/api/conversations/{id}"), &Value::Null);
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    wait_until("the directory of a deleted conversation's job is removed", is_empty);
}

#[test]
fn retention_removes_the_directory_with_the_job() {
    let config = "retention: {jobs: 1s}\n";
    let fixture = TurnServer::start("");
    let (job, _) = fixture.run(&[&[bash("echo 1 > f")]]);
    assert!(directory(&fixture, &job).is_dir());
    // Retention runs soon after a start: the job is removed there, and its directory at once.
    let fixture = fixture.crash_and_restart(config);
    wait_until("the directory of a removed job is removed", || !directory(&fixture, &job).exists());
    assert_eq!(fixture.server.get(&format!("/v1/jobs/{job}")).status, 404);
}

#[test]
fn old_files_are_removed_although_their_job_stays() {
    let fixture = TurnServer::start("");
    let (job, _) = fixture.run(&[&[bash("echo 1 > f")]]);
    std::thread::sleep(Duration::from_millis(1_100));
    let fixture = fixture.crash_and_restart("retention: {job_files: 1s}\n");
    wait_until("the files of an old job are removed", || !directory(&fixture, &job).exists());
    assert_eq!(fixture.server.get(&format!("/v1/jobs/{job}")).status, 200);
}

#[test]
fn a_crash_keeps_the_files_of_a_job_and_a_start_removes_those_of_no_job() {
    let fixture = TurnServer::start("");
    let marker = fixture.server.dir.join("marker");
    let first: Turn<'_> = &[bash("echo kept > f.txt")];
    let second: Turn<'_> = &[sleep(4)];
    let job = fixture.submit(&[first, second, &[bash("cat f.txt"), read("f.txt")]], &json!({}));
    fixture.wait_until_called(&job, "execute_python");
    let orphan = directories(&fixture, 1).join("job_01ARZ3NDEKTSV4RRFFQ69G5FAV");
    // The start renames the directory of this user.
    let foreign = |fixture: &TurnServer| directories(fixture, 9).join("job_01ARZ3NDEKTSV4RRFFQ69G5FAW");
    for leftover in [&orphan, &foreign(&fixture)] {
        fs::create_dir_all(leftover.join("a/b")).expect("a leftover");
        symlink(&marker, leftover.join("link")).expect("a link");
    }
    fs::write(&marker, "stays").expect("a marker");
    let fixture = fixture.crash_and_restart("");
    let results = fixture.results(&job);
    assert_eq!(output(&results[2]), "kept\n");
    assert_eq!(results[3]["data"]["content"], "kept\n");
    wait_until("leftovers are removed", || !orphan.exists() && !foreign(&fixture).exists());
    assert_eq!(fs::read_to_string(&marker).expect("it"), "stays");
    assert!(directory(&fixture, &job).join("f.txt").exists());
}

#[test]
fn a_retried_job_finds_its_files() {
    let upstream = Upstream::start(|request, number| match number {
        0 => Answer::calls(&[bash("echo kept > f.txt")]),
        1 => Answer::error(400, "not now"),
        2 => Answer::calls(&[bash("cat f.txt")]),
        _ => {
            Answer::text(tool_results(request).last().expect("a result")["content"].as_str().expect("a text"))
        }
    });
    let server = Server::start_against(&upstream, "");
    let job = server.submit(&json!({"input": "go"}));
    assert_eq!(server.wait(&job)["status"], "failed");
    let retried = server.post(&format!("/v1/jobs/{job}/retry"), &Value::Null);
    assert_eq!(retried.status, 202, "{}", retried.body);
    let ended = server.wait(&job);
    assert!(ended["output_text"].as_str().is_some_and(|text| text.contains("kept")), "{ended}");
}

#[test]
fn the_paths_that_the_shell_prints_are_accepted_by_every_tool() {
    let fixture = TurnServer::start("");
    let (_, results) = fixture.run(&[
        &[bash("mkdir -p a/b; echo one > a/one.txt; pwd")],
        &[
            read("@DIR@/a/one.txt"),
            read("a/b/../one.txt"),
            write("@DIR@/a/b/two.txt", "two"),
            ("file_list", json!({"path": "@DIR@", "pattern": "**/*.txt"})),
            ("file_search", json!({"pattern": "^two$", "path": "@DIR@/a"})),
            ("bash", json!({"command": "cat two.txt", "working_dir": "@DIR@/a/b"})),
            read("@DIR@/../../canary"),
            read("/etc/passwd"),
        ],
    ]);
    for result in &results[1..3] {
        assert_eq!(
            (&result["data"]["content"], &result["data"]["path"]),
            (&json!("one\n"), &json!("a/one.txt"))
        );
    }
    assert_eq!(results[4]["data"]["total_files"], 2, "{}", results[4]);
    assert_eq!(results[5]["data"]["matches"][0]["path"], "a/b/two.txt", "{}", results[5]);
    assert_eq!(output(&results[6]), "two");
    let directory = output(&results[0]).trim_end();
    for refused in &results[7..] {
        let message = error(refused);
        assert!(message.contains(&format!("is outside the job's directory '{directory}'")), "{message}");
    }
}

#[test]
fn paths_may_be_absolute_and_have_dots_as_long_as_they_stay_in_the_project() {
    let fixture = TurnServer::start("");
    let own = |at: &Path| at.to_str().expect("a path").to_owned();
    let project = fixture.server.post("/api/projects", &json!({"name": "app"})).json();
    let id = project["data"]["id"].as_str().expect("an id").to_owned();
    let at = user_directory(&fixture.server.dir.join("data/workspaces"), 1).join("app");
    fs::create_dir_all(at.join("a/b")).expect("directories");
    fs::write(at.join("a/one.txt"), "one\n").expect("a file");
    let absolute = |path: &str| own(&at.join(path));
    let turns: &[Turn<'_>] = &[&[
        read(&absolute("a/one.txt")),
        read("a/b/../one.txt"),
        read(&absolute("a/../a/./one.txt")),
        write(&absolute("a/100%.txt"), "percent"),
        ("file_edit", json!({"path": absolute("a/one.txt"), "old_text": "one", "new_text": "1"})),
        ("file_list", json!({"path": absolute("a"), "pattern": "*.txt"})),
        ("file_list", json!({"pattern": absolute("a/*.txt")})),
        ("file_search", json!({"pattern": "^1$", "path": absolute("a")})),
        ("file_search", json!({"pattern": "^1$", "glob": absolute("a/**")})),
        ("file_exists", json!({"path": absolute("")})),
        ("file_mkdir", json!({"path": absolute("new/../new/deep")})),
        ("file_delete", json!({"path": absolute("a/one.txt")})),
        ("bash", json!({"command": "pwd", "working_dir": absolute("a/b")})),
        ("bash", json!({"command": "pwd", "working_dir": "a/b/../../new"})),
        ("bash", json!({"command": "pwd", "working_dir": absolute("")})),
        ("bash", json!({"command": "pwd", "working_dir": "../../../.."})),
        ("bash", json!({"command": "pwd", "working_dir": "/etc"})),
    ]];
    let job = fixture.submit(turns, &json!({"project_id": id}));
    let results = fixture.results(&job);
    for result in &results[..3] {
        assert_eq!(
            (&result["data"]["content"], &result["data"]["path"]),
            (&json!("one\n"), &json!("a/one.txt"))
        );
    }
    assert_eq!(fs::read_to_string(at.join("a/100%.txt")).expect("it"), "percent");
    assert_eq!(results[3]["data"]["path"], "a/100%.txt");
    assert_eq!(results[4]["success"], true, "{}", results[4]);
    for listed in &results[5..7] {
        assert_eq!(listed["data"]["total_files"], 2, "{listed}");
        assert_eq!(listed["data"]["files"][0]["path"], "a/100%.txt", "{listed}");
    }
    for found in &results[7..9] {
        assert_eq!(
            found["data"]["matches"],
            json!([{"path": "a/one.txt", "line": 1, "text": "1"}]),
            "{found}"
        );
    }
    assert_eq!(results[9]["data"]["type"], "directory", "{}", results[9]);
    assert!(at.join("new/deep").is_dir() && !at.join("a/one.txt").exists());
    let real =
        |path: &str| format!("{}\n", own(&at.canonicalize().expect("it").join(path)).trim_end_matches('/'));
    assert_eq!(output(&results[12]), real("a/b"));
    assert_eq!(output(&results[13]), real("new"));
    assert_eq!(output(&results[14]), real(""));
    for refused in &results[15..] {
        let message = error(refused);
        assert!(
            message.contains("is outside of the job's directory '") && message.contains("/user_1-"),
            "{message}"
        );
    }
}

#[test]
fn p7_no_path_leads_into_the_directory_of_another_job_or_user() {
    let fixture = TurnServer::start("");
    let (other, _) = fixture.run(&[&[bash("echo secret > canary")]]);
    let foreign = directory(&fixture, &other).join("canary");
    let absolute = foreign.to_str().expect("a path").to_owned();
    let outside = fixture.server.dir.join("canary");
    fs::write(&outside, "secret").expect("a canary");
    let links = format!(
        "ln -s {0} leaf; ln -s {1} link; mkdir d; ln -s .. d/up; ln -s / root; cat {0} 2>&1; echo; ls {1} 2>&1",
        foreign.display(),
        directory(&fixture, &other).display()
    );
    let mut probes: Vec<(&str, Value)> = Vec::new();
    let relative = format!("../{other}/canary");
    let through = format!("d/up/../{other}/canary");
    let paths = [
        &absolute,
        &relative,
        &through,
        "leaf",
        "link/canary",
        "root/etc/passwd",
        "d/up/canary",
        "link/../x",
    ];
    let paths: Vec<&str> = paths.iter().map(std::convert::AsRef::as_ref).collect();
    for path in &paths {
        probes.push(read(path));
        probes.push(("file_edit", json!({"path": path, "old_text": "secret", "new_text": "x"})));
        probes.push(("file_write", json!({"path": path, "content": "x", "mode": "append"})));
    }
    probes.push(("file_search", json!({"pattern": "secret"})));
    probes.push(("bash", json!({"command": "cat canary", "working_dir": "link"})));
    probes.push(("bash", json!({"command": "cat canary", "working_dir": format!("../{other}")})));
    let (_, results) = fixture.run(&[&[bash(&links)], &probes]);
    let text = serde_json::to_string(&results).expect("JSON");
    assert!(!text.contains("secret\\n") && !text.contains("root:"), "{text}");
    let searched =
        results.iter().find(|result| result["data"].get("total_matches").is_some()).expect("a search");
    assert_eq!(searched["data"]["total_matches"], 0, "{searched}");
    assert_eq!(fs::read_to_string(&foreign).expect("it"), "secret\n");
    assert_eq!(fs::read_to_string(&outside).expect("it"), "secret");
}

#[test]
fn p8_the_directory_is_bounded_for_a_job_and_for_all_jobs_of_a_user() {
    let fixture = TurnServer::start(
        "limits: {job_bytes: 2000000, job_entries: 40, user_job_bytes: 3000000, user_job_entries: 1000}\n",
    );
    let fill = |bytes: u32| bash(&format!("head -c {bytes} /dev/zero > f; sync; sleep 0.3; echo written"));
    let (first_job, results) = fixture.run(&[
        &[fill(2_500_000)],
        &[write("more", "x")],
        &[bash("rm f; echo removed")],
        &[write("more", "x"), bash("for n in $(seq 60); do echo > n$n; done; sleep 0.3; echo made")],
        &[("file_mkdir", json!({"path": "a/b/c"})), bash("rm -f n*; echo removed")],
        &[fill(1_500_000)],
    ]);
    assert!(
        error(&results[0]).contains("(job_bytes)") && results[0]["data"]["limit"] == "job_bytes",
        "{}",
        results[0]
    );
    assert!(error(&results[1]).contains("limits.job_bytes"), "{}", results[1]);
    assert_eq!(output(&results[2]), "removed\n", "a first_job directory can be cleaned up");
    assert_eq!(results[3]["success"], true, "{}", results[3]);
    assert!(error(&results[4]).contains("(job_entries)"), "{}", results[4]);
    assert!(error(&results[5]).contains("limits.job_entries"), "{}", results[5]);
    assert_eq!(output(&results[6]), "removed\n");
    assert_eq!(output(&results[7]), "written\n");
    let (_, results) = fixture.run(&[&[fill(1_900_000)]]);
    let message = error(&results[0]);
    assert!(message.contains("(user_job_bytes)") && message.contains("delete jobs"), "{message}");
    // What is on the disk counts after a start, too, and a deleted job frees its part.
    let fixture = fixture.crash_and_restart("limits: {job_bytes: 2000000, user_job_bytes: 2500000}\n");
    let (_, results) = fixture.run(&[&[fill(1_900_000)]]);
    assert!(error(&results[0]).contains("(user_job_bytes)"), "{}", results[0]);
    for job in fixture.server.get("/v1/jobs?limit=100").json()["data"].as_array().expect("jobs") {
        let deleted = fixture.server.ask(
            "DELETE",
            &format!("/v1/jobs/{}", job["id"].as_str().expect("an id")),
            &Value::Null,
        );
        assert_eq!(deleted.status, 200, "{}", deleted.body);
    }
    assert!(!directory(&fixture, &first_job).exists());
    wait_until("the deleted jobs no longer count", || {
        fixture.run(&[&[fill(1_500_000)]]).1[0]["success"] == true
    });
}

#[test]
fn a_background_job_has_a_directory_of_its_own() {
    let fixture = TurnServer::start("");
    let task = json!([[["bash", {"command": "ls -A; echo child > f"}]]]).to_string();
    let (job, results) =
        fixture.run(&[&[bash("echo parent > f"), ("spawn", json!({"task": task, "label": "child"}))]]);
    assert_eq!(results[1]["success"], true, "{}", results[1]);
    let children = || {
        fs::read_dir(directories(&fixture, 1)).into_iter().flatten().flatten().filter(|entry| {
            let name = entry.file_name();
            name != ".nanoclaw" && name.to_str() != Some(&job) && entry.path().join("f").exists()
        })
    };
    wait_until("the child has written", || children().count() == 1);
    assert_eq!(fs::read_to_string(directory(&fixture, &job).join("f")).expect("it"), "parent\n");
}

#[test]
fn the_job_of_a_deleted_project_continues_in_its_own_directory() {
    let fixture = TurnServer::start("");
    let project = fixture.server.post("/api/projects", &json!({"name": "app"})).json();
    let id = project["data"]["id"].as_str().expect("an id").to_owned();
    let job = fixture.submit(
        &[&[bash("echo 1 > f")], &[sleep(5)], &[bash("ls -A; echo 2 > g"), read("g")]],
        &json!({"project_id": id}),
    );
    fixture.wait_until_called(&job, "execute_python");
    let deleted = fixture.server.ask("DELETE", &format!("/api/projects/{id}"), &Value::Null);
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    let results = fixture.results(&job);
    assert_eq!(output(&results[2]), "", "{results:?}");
    assert_eq!(results[3]["data"]["content"], "2\n", "{}", results[3]);
}
