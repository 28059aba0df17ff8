//! P7 on the disk: the kernel lets programs test whether a path exists, how large it is and where a link
//! leads. So a program must not be able to name what another user has.

use crate::support::tenants::Tenants;
use crate::support::turns::{Turn, bash, output, start_model};
use crate::support::upstream::Upstream;
use crate::support::{Server, wait_until};
use serde_json::{Value, json};

/// Tests every path that another user's files would have, from what the program knows: its own path. The
/// names follow in the arguments.
const GUESS: &str = r#"
import os
own = os.getcwd()
user = os.path.dirname(own)
name = os.path.basename(user)
data = os.path.dirname(os.path.dirname(user))
guesses = []
for number in range(1, 9):
    for guess in {f"user_{number}", f"user_{number}" + name[len("user_") + 1:], f"user_{number}-" + "0" * 16}:
        for area in ("jobs", "workspaces", "memories"):
            for below in ("", "/plan", "/plan/notes.txt", "/plan/link", "/own/memory.md", "/.nanoclaw"):
                guesses.append(f"{data}/{area}/{guess}{below}")
found = []
for guess in guesses:
    if (guess + "/").startswith(user + "/"):
        continue
    try:
        os.lstat(guess)
        found.append(guess)
    except FileNotFoundError:
        pass
    except OSError as error:
        found.append(f"{guess}: {error}")
    try:
        os.close(os.open(guess, os.O_RDONLY))
    except FileNotFoundError:
        pass
    except OSError as error:
        found.append(f"{guess}: {error}")
    try:
        found.append(f"{guess}: {os.readlink(guess)}")
    except OSError:
        pass
assert os.path.isdir(own) and os.lstat(user).st_nlink
print(len(guesses), found)
"#;

struct Users {
    tenants: Tenants,
    _model: Upstream,
}

impl Users {
    fn start() -> Self {
        let model = start_model();
        let server = Server::start_against(&model, "auth_mode: multi\nmemory: {enabled: true}\n");
        Self { tenants: Tenants::over(server, &["ann", "bob"]), _model: model }
    }

    /// The result of the last call of a job.
    fn run(&self, token: &str, turns: &[Turn<'_>], more: &Value) -> Value {
        let mut body = json!({"input": serde_json::to_string(turns).expect("JSON")});
        body.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        let path = format!("/v1/jobs/{}", self.tenants.submit(token, &body));
        let job = || self.tenants.ask(token, ("GET", &path), &Value::Null).json();
        wait_until("the job ends", || job()["finished_at"].is_number() || job()["finished_at"].is_string());
        let ended = job();
        assert_eq!(ended["status"], "succeeded", "{ended}");
        let results: Vec<Value> =
            serde_json::from_str(ended["output_text"].as_str().expect("a text")).expect("JSON");
        results.last().expect("a result").clone()
    }
}

#[test]
fn p7_a_program_cannot_confirm_files_of_another_user() {
    let users = Users::start();
    let (ann, bob) = (users.tenants.token("ann"), users.tenants.token("bob"));
    let made = users.tenants.ask(&ann, ("POST", "/api/projects"), &json!({"name": "plan"})).json();
    let project = json!({"project_id": made["data"]["id"]});
    output(&users.run(&ann, &[&[bash("echo secret > notes.txt; ln -s notes.txt link")]], &project));
    output(&users.run(&ann, &[&[bash("echo secret > notes.txt")]], &json!({})));

    let python = ("execute_python", json!({"code": GUESS, "strictness": "lenient"}));
    let found = users.run(&bob, &[&[python]], &json!({}));
    assert_eq!(output(&found).trim_end(), "432 []");
    let command = bash(&format!("python3 - <<'END'\n{GUESS}\nEND\n"));
    let found = users.run(&bob, &[&[command]], &json!({}));
    assert_eq!(output(&found).trim_end(), "432 []");
}

/// The commands that run in a directory below this one.
fn commands_below(directory: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let runs_below = |pid: &String| {
        let place = std::fs::read_link(format!("/proc/{pid}/cwd"));
        place.is_ok_and(|place| place.to_string_lossy().starts_with(directory))
    };
    entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(runs_below).collect()
}

#[test]
fn p7_proc_does_not_tell_where_programs_of_another_user_run() {
    let users = Users::start();
    let (ann, bob) = (users.tenants.token("ann"), users.tenants.token("bob"));
    let turns: &[Turn<'_>] = &[&[bash("exec sleep 40")]];
    let job = users.tenants.submit(&ann, &json!({"input": serde_json::to_string(turns).expect("JSON")}));
    let jobs = users.tenants.server.dir.join("data/jobs").canonicalize();
    let jobs = jobs.unwrap_or_else(|_| users.tenants.server.dir.join("data/jobs")).display().to_string();
    wait_until("the command runs", || !commands_below(&jobs).is_empty());
    let pids = commands_below(&jobs).join(", ");
    let code = format!(
        "import os\nfor pid in [{pids}, os.getppid(), 1]:\n    for name in ('cwd', 'exe', 'root', 'fd/0', 'fd/3'):\n        \
         try:\n            print(pid, name, os.readlink(f'/proc/{{pid}}/{{name}}'))\n        except OSError:\n            \
         pass\nprint(os.readlink('/proc/self').isdigit())"
    );
    let python = ("execute_python", json!({"code": code, "strictness": "lenient"}));
    let found = users.run(&bob, &[&[python]], &json!({}));
    assert_eq!(output(&found), "True\n");
    let command = bash(&format!("python3 - <<'END'\n{code}\nEND\n"));
    let found = users.run(&bob, &[&[command]], &json!({}));
    let lines: Vec<&str> = output(&found).lines().filter(|line| line.contains("user_3-")).collect();
    assert!(lines.is_empty() && output(&found).ends_with("True\n"), "{found}");
    users.tenants.ask(&ann, ("POST", &format!("/v1/jobs/{job}/cancel")), &Value::Null);
}
