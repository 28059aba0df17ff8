//! Skills, through the real binary: the list in prompts, `read_skill`, scripts in the sandbox, folders that
//! are added, broken and removed while the server runs, and those of projects.

use crate::support::directories::user_directory;
use crate::support::turns::{TurnServer, bash, error, output};
use crate::support::{Server, command, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Makes a skill in a directory.
fn write_skill(dir: &Path, name: &str, description: &str, body: &str) {
    fs::create_dir_all(dir.join(name)).expect("a folder");
    let text = format!("---\nname: {name}\ndescription: {description}\n---\n\n{body}\n");
    fs::write(dir.join(name).join("SKILL.md"), text).expect("a skill");
}

/// A directory with one skill that has scripts, and a server for it.
fn start(extra: &str) -> (tempfile::TempDir, TurnServer) {
    let dir = tempfile::tempdir().expect("a directory");
    write_skill(dir.path(), "greet", "Greets people. Use it for greetings.", "Run scripts/hello.sh NAME.");
    fs::create_dir_all(dir.path().join("greet/scripts")).expect("a folder");
    fs::create_dir_all(dir.path().join("greet/references")).expect("a folder");
    let script = dir.path().join("greet/scripts/hello.sh");
    fs::write(&script, "#!/bin/sh\necho hello $1\n").expect("a script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("permissions");
    fs::write(dir.path().join("greet/references/more.md"), "# More\n").expect("a file");
    let server = TurnServer::start(&format!("skills: {{dir: {}}}\n{extra}", dir.path().display()));
    (dir, server)
}

fn read_skill(arguments: Value) -> (&'static str, Value) {
    ("read_skill", arguments)
}

/// The first system message of the newest job.
fn prompt(server: &TurnServer) -> String {
    server.server.wait(&server.submit(&[], &json!({})));
    system(server)
}

fn system(server: &TurnServer) -> String {
    let requests = server.upstream.requests();
    let first = &requests.last().expect("a request")["messages"][0];
    first["content"].as_str().unwrap_or_default().to_owned()
}

fn project(server: &Server, name: &str) -> String {
    let made = server.post("/api/projects", &json!({"name": name})).json();
    made["data"]["id"].as_str().expect("an id").to_owned()
}

#[test]
fn without_configuration_there_is_no_tool_and_no_text() {
    let server = TurnServer::start("");
    assert!(!prompt(&server).to_lowercase().contains("skill"), "{}", system(&server));
    let tools = server.server.get("/v1/tools").body;
    assert!(!tools.contains("read_skill") && !tools.contains("\"name\":\"memory\""), "{tools}");
    let requests = server.upstream.requests();
    assert!(!requests[0]["tools"].to_string().contains("read_skill"));
}

#[test]
fn prompts_list_skills_and_models_read_them() {
    let (dir, server) = start("");
    let text = prompt(&server);
    assert!(text.contains("\n- greet: Greets people. Use it for greetings."), "{text}");
    assert!(!text.contains("scripts/hello.sh"), "the body is read when it is wanted: {text}");
    let reads = [
        read_skill(json!({"name": "greet"})),
        read_skill(json!({"name": "greet", "path": "references/more.md"})),
        read_skill(
            json!({"name": "greet", "path": format!("{}/greet/references/more.md", dir.path().display())}),
        ),
        read_skill(json!({})),
    ];
    let (_, results) = server.run(&[&reads]);
    let skill = &results[0]["data"];
    assert_eq!(skill["instructions"], "Run scripts/hello.sh NAME.", "{skill}");
    assert_eq!(skill["files"], json!(["references/more.md", "scripts/hello.sh"]));
    assert_eq!(skill["directory"], dir.path().join("greet").display().to_string());
    assert!(skill["note"].as_str().is_some_and(|note| note.contains("bash")), "{skill}");
    for result in &results[1..3] {
        assert_eq!(result["data"]["content"], "# More\n", "{result}");
    }
    assert_eq!(results[3]["data"]["names"], json!(["greet"]));
    server.server.wait(&server.submit(&[], &json!({"tools": ["bash"]})));
    assert!(!system(&server).contains("greet"), "a job without the tool has no list");
}

#[test]
fn agents_see_the_skills_that_they_can_read() {
    let (_dir, server) = start("");
    let task = |tools: Value| json!({"tasks": [{"name": "a", "instruction": "greet", "tools": tools}]});
    let system_of_agent = |server: &TurnServer| {
        let requests = server.upstream.requests();
        let mut texts = requests.iter().filter_map(|request| request["messages"][0]["content"].as_str());
        texts.rfind(|text| text.contains("You are the agent 'a'")).expect("an agent").to_owned()
    };
    server.run(&[&[("multi_agent", task(json!(["read_skill", "bash"])))]]);
    let text = system_of_agent(&server);
    assert!(text.contains("\n- greet: Greets people."), "{text}");
    server.run(&[&[("multi_agent", task(json!(["bash"])))]]);
    let text = system_of_agent(&server);
    assert!(!text.contains("greet:"), "an agent without the tool has no list: {text}");
}

#[test]
fn p7_a_skill_opens_nothing_outside_of_its_folder() {
    let (dir, server) = start("");
    fs::write(dir.path().join("secret.md"), "canary").expect("a file");
    symlink("/etc/passwd", dir.path().join("greet/passwd")).expect("a link");
    symlink(dir.path().join("greet"), dir.path().join("linked")).expect("a link");
    let paths = ["../secret.md", "/etc/passwd", "passwd", "scripts/../../secret.md", "scripts", "none", "."];
    let mut reads: Vec<_> =
        paths.iter().map(|path| read_skill(json!({"name": "greet", "path": path}))).collect();
    for name in ["..", ".", "linked", "greet/scripts", "grete"] {
        reads.push(read_skill(json!({"name": name})));
    }
    for read in &reads {
        let (_, results) = server.run(&[std::slice::from_ref(read)]);
        assert!(!error(&results[0]).is_empty(), "{read:?}");
        assert!(!results[0].to_string().contains("canary") && !results[0].to_string().contains("root:"));
    }
    let (_, results) = server.run(&[&[reads.pop().expect("a call")]]);
    assert!(error(&results[0]).contains("did you mean 'greet'"), "{results:?}");
}

#[test]
fn p5_scripts_run_in_the_sandbox_and_cannot_change_the_skill() {
    let (dir, server) = start("");
    fs::write(dir.path().join("greet/scripts/hello.py"), "print('hello python')\n").expect("a script");
    let skill = dir.path().join("greet").display().to_string();
    let python = format!("exec(open('{skill}/scripts/hello.py').read())");
    let write = format!("open('{skill}/scripts/new.py', 'w')");
    let calls = [
        bash(&format!("{skill}/scripts/hello.sh you")),
        bash(&format!("python3 {skill}/scripts/hello.py")),
        bash(&format!("cat {skill}/SKILL.md | wc -l; echo x > {skill}/new; rm {skill}/SKILL.md; ls {skill}")),
        ("execute_python", json!({"code": python, "strictness": "lenient"})),
        ("execute_python", json!({"code": write, "strictness": "lenient"})),
        ("execute_python", json!({"code": python, "strictness": "standard"})),
    ];
    let (_, results) = server.run(&[&calls]);
    assert_eq!(output(&results[0]), "hello you\n");
    assert_eq!(output(&results[1]), "hello python\n");
    assert!(output(&results[2]).ends_with("SKILL.md\nreferences\nscripts\n"), "{}", results[2]);
    assert_eq!(output(&results[3]), "hello python\n");
    for refused in &results[4..] {
        assert_eq!(refused["success"], false, "{refused}");
    }
    assert!(dir.path().join("greet/SKILL.md").exists() && !dir.path().join("greet/new").exists());
}

#[test]
fn skills_are_loaded_changed_and_removed_without_a_restart_and_bad_ones_are_named() {
    let (dir, server) = start("");
    let lists = |text: &str| prompt(&server).contains(text);
    write_skill(dir.path(), "count", "Counts things.", "One, two.");
    wait_until("the new skill is listed", || lists("- count: Counts things."));
    write_skill(dir.path(), "count", "Counts anything.", "One, two.");
    wait_until("the change is listed", || lists("- count: Counts anything."));
    fs::write(dir.path().join("count/SKILL.md"), "no front matter").expect("a file");
    wait_until("the broken skill is gone", || !lists("- count:"));
    write_skill(dir.path(), "Bad_Name", "x", "x");
    write_skill(dir.path(), "other", "x", "x");
    fs::rename(dir.path().join("other"), dir.path().join("renamed")).expect("renamed");
    symlink("/etc", dir.path().join("link")).expect("a link");
    fs::create_dir(dir.path().join("empty")).expect("a folder");
    for part in [
        "count",
        "must begin with YAML",
        "Bad_Name",
        "renamed",
        "is 'other'",
        "link",
        "empty",
        "does not exist",
    ] {
        wait_until("the log names each folder and reason", || server.server.log().contains(part));
    }
    assert!(lists("- greet:"), "the others stay");
    fs::remove_dir_all(dir.path()).expect("removed");
    wait_until("no skill is left", || !prompt(&server).contains("greet"));
    assert!(server.server.log().contains("skills.dir cannot be used"), "{}", server.server.log());
}

#[test]
fn p8_long_lists_are_cut_with_a_note() {
    let dir = tempfile::tempdir().expect("a directory");
    for number in 0..12 {
        write_skill(dir.path(), &format!("skill-{number:02}"), "Does something.", "x");
    }
    let config = format!("skills: {{dir: {}, listed: 10}}", dir.path().display());
    let server = TurnServer::start(&config);
    let text = prompt(&server);
    assert!(text.contains("- skill-09:") && !text.contains("- skill-10:"), "{text}");
    assert!(text.contains("(2 more are not listed here"), "{text}");
    let (_, results) = server.run(&[&[read_skill(json!({"name": "skill-11"})), read_skill(json!({}))]]);
    assert_eq!(results[0]["data"]["instructions"], "x");
    assert_eq!(results[1]["data"]["names"].as_array().map(Vec::len), Some(12));
}

#[test]
fn skills_of_a_project_are_for_its_jobs_and_never_replace_those_of_the_operator() {
    let (_dir, server) = start_with_projects();
    let (own, other) = (project(&server.server, "own"), project(&server.server, "other"));
    let workspace = user_directory(&server.server.dir.join("data/workspaces"), 1).join("own/skills");
    write_skill(&workspace, "plan", "Plans the work of this project.", "Read TODO.md.");
    write_skill(&workspace, "greet", "Says something else.", "Be rude.");
    fs::create_dir(workspace.join("broken")).expect("a folder");
    fs::write(workspace.join("plan/run.sh"), "echo planned").expect("a script");
    let in_project = json!({"project_id": own});
    server.server.wait(&server.submit(&[], &in_project));
    let text = system(&server);
    assert!(text.contains("- plan: Plans the work") && text.contains("- greet: Greets people."), "{text}");
    assert!(!text.contains("Says something else"), "{text}");
    let calls = [
        read_skill(json!({"name": "plan"})),
        read_skill(json!({"name": "greet"})),
        read_skill(json!({"name": "broken"})),
        read_skill(json!({})),
        read_skill(json!({"name": "plan", "path": "../../x"})),
        bash("sh skills/plan/run.sh"),
    ];
    let results = server.results(&server.submit(&[&calls], &in_project));
    let plan = &results[0]["data"];
    assert_eq!((&plan["instructions"], &plan["directory"]), (&json!("Read TODO.md."), &json!("skills/plan")));
    assert_eq!(results[1]["data"]["instructions"], "Run scripts/hello.sh NAME.");
    assert!(error(&results[2]).contains("SKILL.md: does not exist"), "{}", results[2]);
    let skipped = results[3]["data"]["skipped"].to_string();
    assert!(skipped.contains("the operator of the server has a folder of this name"), "{skipped}");
    assert!(error(&results[4]).contains("leads out of the skill"), "{}", results[4]);
    assert_eq!(output(&results[5]), "planned\n");
    for folder in ["greet", "broken"] {
        let line = format!("folder={folder} ");
        let log = server.server.log();
        assert_eq!(log.matches(&line).count(), 1, "each is logged once: {log}");
    }
    for body in [json!({}), json!({"project_id": other})] {
        server.server.wait(&server.submit(&[], &body));
        assert!(!system(&server).contains("- plan:"), "only jobs of the project have its skills");
    }
}

/// The server of [`start`] that takes skills of projects, too.
fn start_with_projects() -> (tempfile::TempDir, TurnServer) {
    let dir = tempfile::tempdir().expect("a directory");
    write_skill(dir.path(), "greet", "Greets people.", "Run scripts/hello.sh NAME.");
    let config = format!("skills: {{dir: {}, projects: true}}", dir.path().display());
    (dir, TurnServer::start(&config))
}

#[test]
fn the_doctor_names_the_skills_and_the_folders_that_are_none() {
    let dir = tempfile::tempdir().expect("a directory");
    write_skill(&dir.path().join("skills"), "good", "x", "x");
    fs::create_dir(dir.path().join("skills/bad")).expect("a folder");
    let config = dir.path().join("config.yml");
    let doctor = |skills: &str| {
        let text = format!("skills: {{dir: {skills}}}\ndata_dir: {}/data\n", dir.path().display());
        fs::write(&config, text).expect("a configuration");
        let path = config.to_str().expect("UTF-8");
        let ran = command(&["doctor", "--json", "--no-models", "--config", path]).output().expect("it runs");
        let report: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
        let checks = report["checks"].as_array().expect("checks").clone();
        checks.into_iter().find(|check| check["name"] == "skills").expect("a check")
    };
    let check = doctor("skills");
    assert_eq!((&check["ok"], &check["facts"]["skills"]), (&json!(true), &json!(["good"])), "{check}");
    let advice = check["advice"].as_str().expect("advice");
    assert!(advice.contains("bad") && advice.contains("SKILL.md: does not exist"), "{check}");
    assert_eq!(doctor("none")["ok"], false);
}
