//! Which store a command speaks to: the one in the named directory or of the configuration, whatever server
//! listens at the configured address.

use crate::support::{Ran, Server, command};
use serde_json::{Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A stopped server with a job, and another one that listens where the configuration says.
struct TwoServers {
    stopped: Server,
    job: String,
    other: Server,
    other_job: String,
    home: TempDir,
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

impl TwoServers {
    fn start() -> Self {
        let (mut stopped, other) = (Server::start(), Server::start());
        let [job, other_job] = [&stopped, &other].map(|server| {
            let job = server.submit(&json!({"input": "hello"}));
            server.wait(&job);
            job
        });
        stopped.terminate();
        Self { stopped, job, other, other_job, home: tempfile::tempdir().expect("a directory") }
    }

    fn data(&self) -> PathBuf {
        self.stopped.dir.join("data")
    }

    /// Runs a command whose configuration names the address of the other server.
    fn run(&self, arguments: &[&str]) -> Ran {
        let address = self.other.url.trim_start_matches("http://");
        let mut command = command(arguments);
        command.env("NANOCLAW_LISTEN", address).current_dir(self.home.path()).output().expect("runs").into()
    }

    /// Runs a command on the directory of the stopped server.
    fn run_on_directory(&self, arguments: &[&str]) -> Ran {
        self.run(&[arguments, &["--data-dir", text(&self.data())]].concat())
    }

    /// Leaves a control file as a killed server does, whose address the other server has now.
    fn leave_control_file(&self) {
        let control = json!({"address": self.other.url, "key": format!("nckc_{}", "x".repeat(43))});
        std::fs::write(self.data().join("control.json"), control.to_string()).expect("written");
    }
}

/// The jobs in a store that no server has open.
fn has_job(data: &Path, job: &str) -> bool {
    let ran: Ran = command(&["verify", job, "--data-dir", text(data)]).output().expect("runs").into();
    assert!(ran.code == 0 || ran.err.contains("there is no job"), "{}", ran.err);
    ran.code == 0
}

#[test]
fn a_backup_of_a_directory_never_copies_the_store_of_another_server() {
    let two = TwoServers::start();
    let config = two.home.path().join("b.yml");
    std::fs::write(&config, format!("data_dir: {}\n", text(&two.data()))).expect("written");
    for (name, place) in
        [("named", ["--data-dir", text(&two.data())]), ("configured", ["--config", text(&config)])]
    {
        let file = two.home.path().join(name);
        let made = two.run(&[&["backup", text(&file)][..], &place].concat());
        assert!(made.code == 0 && made.err.contains("nanoclaw.redb"), "{name}: {}", made.err);
        let data = two.home.path().join(format!("{name}-data"));
        let restored = two.run(&["restore", text(&file), "--data-dir", text(&data)]);
        assert_eq!(restored.code, 0, "{}", restored.err);
        assert!(has_job(&data, &two.job) && !has_job(&data, &two.other_job), "{name}: another store");
    }
    let missing = two.home.path().join("missing");
    let file = two.home.path().join("of-nothing");
    let refused = two.run(&["backup", text(&file), "--data-dir", text(&missing)]);
    assert!(refused.code == 1 && refused.err.contains("there is no store at"), "{}", refused.err);
    assert!(!file.exists());
}

#[test]
fn no_command_of_a_directory_speaks_to_another_server() {
    let two = TwoServers::start();
    for has_control_file in [false, true] {
        if has_control_file {
            two.leave_control_file();
        }
        let of_other = two.run_on_directory(&["verify", &two.other_job]);
        assert!(of_other.code == 1 && of_other.err.contains("there is no job"), "{}", of_other.err);
        let own = two.run_on_directory(&["verify", &two.job]);
        assert_eq!(own.code, 0, "{}", own.err);
        let jobs = two.run_on_directory(&["jobs"]);
        assert!(
            jobs.code == 1 && jobs.err.contains("no server runs with the data directory"),
            "{}",
            jobs.err
        );
        let checkpoint = two.run_on_directory(&["verify", "--checkpoint"]);
        assert!(checkpoint.code == 1 && checkpoint.err.contains("no server answers"), "{}", checkpoint.err);
        let nodes = two.run_on_directory(&["nodes"]);
        assert!(nodes.code == 0 && nodes.err.contains("there are no nodes"), "{}", nodes.err);
        let token = two.run_on_directory(&["token", "new", "--name", "of-the-directory"]);
        assert_eq!(token.code, 0, "{}", token.err);
        let listed = two.run_on_directory(&["token", "list"]);
        assert!(listed.out.contains("of-the-directory"), "{}{}", listed.out, listed.err);
        let doctor = two.run_on_directory(&["doctor", "--json", "--no-models"]);
        let report: Value = serde_json::from_str(&doctor.out).expect("JSON");
        let checks = report["checks"].as_array().expect("checks");
        let server = checks.iter().find(|check| check["name"] == "server").expect("a check");
        assert!(server["found"].to_string().contains("none runs with this data directory"), "{server}");
    }
    let tokens = Ran::from(
        command(&["token", "list", "--data-dir", text(&two.other.dir.join("data"))]).output().expect("runs"),
    );
    assert_eq!((tokens.code, tokens.out.as_str()), (0, ""), "{}", tokens.err);
}

#[test]
fn a_locked_store_whose_control_file_names_another_server_is_not_taken_for_its_store() {
    let two = TwoServers::start();
    two.leave_control_file();
    // As another command, or a server that is just starting.
    let store = File::open(two.data().join("nanoclaw.redb")).expect("the store");
    store.lock().expect("locked");
    let file = two.home.path().join("copy");
    for arguments in [&["backup", text(&file)][..], &["token", "new"], &["verify", &two.other_job]] {
        let refused = two.run_on_directory(arguments);
        assert!(refused.code == 1 && refused.out.is_empty(), "{arguments:?}: {}{}", refused.out, refused.err);
    }
    assert!(!file.exists());
}

#[test]
fn two_places_on_one_command_line_are_refused() {
    let two = TwoServers::start();
    let file = two.home.path().join("copy");
    for (arguments, says) in [
        (&["backup", text(&file)][..], "name two places"),
        (&["verify", "--all"], "name two places"),
        (&["user", "list"], "name two places"),
        (&["jobs"], "name two places"),
    ] {
        let refused = two.run_on_directory(&[arguments, &["--server", &two.other.url]].concat());
        assert!(refused.code == 2 && refused.err.contains(says), "{arguments:?}: {}", refused.err);
    }
    for (arguments, says) in [
        (&["user", "list", "--server", &two.other.url][..], "works on a store"),
        (&["check", "--server", &two.other.url], "works on a store"),
        (&["migrate", "--from", "a", "--to", "b", "--data-dir", "c"], "--from and --to"),
    ] {
        let refused = two.run(arguments);
        assert!(refused.code == 2 && refused.err.contains(says), "{arguments:?}: {}", refused.err);
    }
    // The environment names a server for the other commands.
    let mut of_directory = command(&["verify", &two.job, "--data-dir", text(&two.data())]);
    let ran: Ran = of_directory.env("NANOCLAW_SERVER", &two.other.url).output().expect("runs").into();
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn a_directory_is_named_instead_of_the_database_of_the_configuration() {
    let two = TwoServers::start();
    let config = two.home.path().join("database.yml");
    std::fs::write(&config, "store: {url: \"postgres://nobody@127.0.0.1:1/none\"}\n").expect("written");
    let on_directory = |dir: &Path, arguments: &[&str]| {
        two.run(&[arguments, &["--config", text(&config), "--data-dir", text(dir)]].concat())
    };
    for arguments in [&["check"][..], &["verify", "--all"], &["token", "new"], &["user", "list"], &["tools"]]
    {
        let ran = on_directory(&two.data(), arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    }
    let missing = two.home.path().join("missing");
    for arguments in [&["check"][..], &["verify", "--all"], &["token", "new"], &["tools"]] {
        let refused = on_directory(&missing, arguments);
        assert!(refused.code == 1 && refused.err.contains("there is no store at"), "{}", refused.err);
    }
    assert!(!missing.exists(), "no store is made that no server would use");
}
