//! `nanoclaw doctor --json`: the report that scripts read, with a running server, without one and after one.

use crate::support::upstream::{Answer, Upstream};
use crate::support::{Server, command};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;

fn doctor(data_dir: &Path) -> Value {
    let dir = data_dir.to_str().expect("UTF-8");
    let ran = command(&["doctor", "--json", "--data-dir", dir]).output().expect("it runs");
    let report: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!(ran.status.success(), report["ok"] == true, "{report}");
    report
}

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["checks"].as_array().expect("checks");
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name}: {report}"))
}

#[test]
fn the_json_report_lists_every_check_with_result_and_advice() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = doctor(dir.path());
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    let names = [
        "version",
        "config",
        "models",
        "data_directory",
        "disk",
        "store",
        "server",
        "open_files",
        "memory",
        "kernel",
        "landlock",
        "seccomp",
        "python",
        "javascript",
        "namespaces",
        "cgroup",
        "sandbox_strict",
        "sandbox_standard",
        "sandbox_lenient",
        "sandbox_shell",
        "own_files",
    ];
    let found: Vec<&str> = report["checks"]
        .as_array()
        .expect("checks")
        .iter()
        .filter_map(|check| check["name"].as_str())
        .collect();
    assert_eq!(found, names);
    for check in report["checks"].as_array().expect("checks") {
        assert!(
            check["ok"].is_boolean() && check["found"].is_string() && check["facts"].is_object(),
            "{check}"
        );
        assert!(check["ok"] == true || check["advice"].is_string(), "a failed check has advice: {check}");
    }
    assert_eq!(
        report["ok"],
        report["checks"].as_array().expect("checks").iter().all(|check| check["ok"] == true)
    );
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("the kernel's release");
    assert_eq!(check(&report, "kernel")["facts"], json!({"release": release.trim(), "required": "5.15"}));
    assert!(check(&report, "disk")["facts"]["free_bytes"].is_u64());
    assert!(check(&report, "memory")["facts"]["bytes"].as_u64() > Some(0));
    assert_eq!(check(&report, "store")["facts"]["bytes"], Value::Null, "no store yet");
    assert_eq!(check(&report, "server")["facts"]["reachable"], false);
    let text = command(&["doctor"]).output().expect("it runs").stdout;
    assert!(String::from_utf8(text).expect("text").lines().count() <= 40, "the report fits a screen");
}

#[test]
fn p5_doctor_reports_a_session_key_that_commands_can_read() {
    let dir = tempfile::tempdir().expect("a directory");
    std::os::unix::fs::symlink("/bin/sh", dir.path().join("session_key")).expect("a link");
    let report = doctor(dir.path());
    let shell = check(&report, "sandbox_shell");
    let found = shell["found"].as_str().expect("a text");
    assert!(
        shell["ok"] == false && found.contains("level shell") && found.contains("session_key"),
        "{shell}"
    );
    assert_eq!(check(&report, "sandbox_strict")["ok"], true, "{report}");
}

#[test]
fn doctor_names_the_cause_of_a_level_that_could_not_be_tested() {
    let dir = tempfile::tempdir().expect("a directory");
    let missing = dir.path().join("missing");
    let mut doctor = command(&["doctor", "--json", "--no-models", "--data-dir"]);
    doctor.arg(dir.path()).env("NANOCLAW_CODE_EXECUTION__SCRATCH_DIR", &missing);
    let report = serde_json::from_slice(&doctor.output().expect("it runs").stdout).expect("JSON");
    let strict = check(&report, "sandbox_strict");
    let (found, advice) = (strict["found"].to_string(), strict["advice"].to_string());
    assert!(found.contains("scratch directory") && found.contains("missing"), "{strict}");
    assert!(!advice.contains("missing parts above"), "the kernel has all of them: {strict}");
    assert_eq!(check(&report, "landlock")["ok"], true, "{report}");
    let own_files = check(&report, "own_files")["found"].to_string();
    assert!(own_files.contains("with limits") && own_files.contains("scratch directory"), "{own_files}");
}

#[test]
fn doctor_queries_a_running_server_and_does_not_open_its_store() {
    let mut server = Server::start();
    let dir = server.dir.join("data");
    let report = doctor(&dir);
    let facts = &check(&report, "server")["facts"];
    assert_eq!((&facts["address"], &facts["reachable"]), (&json!(server.url), &json!(true)), "{facts}");
    assert!(facts["readiness"]["checks"].is_array(), "{facts}");
    let open_store = &check(&report, "store")["facts"];
    assert!(open_store["bytes"].as_u64() > Some(0) && open_store["layout"].is_null(), "{open_store}");
    assert_eq!(server.get("/readyz").status, 200);

    assert!(server.terminate().success());
    let report = doctor(&dir);
    assert_eq!(check(&report, "server")["facts"]["reachable"], false);
    let closed_store = &check(&report, "store")["facts"];
    assert!(closed_store["layout"].is_u64(), "{closed_store}");
    assert_eq!(closed_store["layout"], closed_store["layout_of_this_version"]);
}

#[test]
fn a_killed_server_is_not_a_failure() {
    let mut server = Server::start();
    server.kill();
    let report = doctor(&server.dir.join("data"));
    let killed = check(&report, "server");
    assert_eq!((&killed["ok"], &killed["facts"]["reachable"]), (&json!(true), &json!(false)), "{killed}");
}

/// A data directory with the control file of a server at this address.
fn data_dir_with_address(address: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let control = json!({"address": address, "key": "k"});
    std::fs::write(dir.path().join("control.json"), control.to_string()).expect("written");
    dir
}

/// Answers each request on its own connection with this response.
fn answer_all<S: Read + Write>(connections: impl Iterator<Item = std::io::Result<S>>, answer: &str) {
    for mut stream in connections.flatten() {
        let mut request = [0; 4096];
        drop(stream.read(&mut request));
        drop(stream.write_all(answer.as_bytes()));
    }
}

#[test]
fn the_reasons_of_an_unready_server_are_shown_over_tcp_and_unix_sockets() {
    let readiness = json!({"status": "unavailable", "checks": [
        {"name": "workers", "ok": true},
        {"name": "store", "ok": false, "reason": "the disk is full; make room"},
    ]});
    let body = readiness.to_string();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("n.sock");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("binds");
    let unix = UnixListener::bind(&path).expect("binds");
    let addresses =
        [format!("http://{}", tcp.local_addr().expect("an address")), format!("unix:{}", path.display())];
    let again = answer.clone();
    std::thread::spawn(move || answer_all(tcp.incoming(), &answer));
    std::thread::spawn(move || answer_all(unix.incoming(), &again));
    for address in addresses {
        let report = doctor(data_dir_with_address(&address).path());
        let server = check(&report, "server");
        let found = server["found"].as_str().expect("a text");
        assert!(server["ok"] == false && found.contains("store: the disk is full; make room"), "{server}");
        assert!(!found.contains("workers"), "only failed checks are listed: {found}");
        assert_eq!(server["facts"]["readiness"], readiness, "{server}");
        assert_eq!(server["facts"]["reachable"], true);
    }
}

#[test]
fn a_server_that_hangs_is_a_failure_and_does_not_block_doctor() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = format!("http://{}", silent.local_addr().expect("an address"));
    let report = doctor(data_dir_with_address(&address).path());
    let server = check(&report, "server");
    let found = server["found"].as_str().expect("a text");
    assert!(server["ok"] == false && found.contains("does not answer"), "{server}");
}

#[test]
fn a_key_that_only_the_service_can_read_is_advice_not_a_failure() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config.yml");
    let text = "models: [{id: m, api_url: \"https://x.test/v1\", api_key: \"${NOBODY_HAS_THIS_KEY}\"}]\n";
    std::fs::write(&file, text).expect("written");
    let mut command = command(&["doctor", "--json", "--config"]);
    let ran = command.arg(&file).arg("--data-dir").arg(dir.path()).output().expect("it runs");
    let report: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    let config = check(&report, "config");
    assert!(config["ok"] == true && config["advice"].to_string().contains("NOBODY_HAS_THIS_KEY"), "{config}");
    let models = check(&report, "models");
    assert_eq!((&models["ok"], &models["facts"]["ids"]), (&json!(true), &json!(["m"])), "{models}");
    assert!(check(&report, "store")["facts"]["path"].is_string(), "the other checks run as well");
}

#[test]
fn each_models_endpoint_is_asked_and_what_it_says_is_shown() {
    let upstream = Upstream::start(|request, _| match request["model"].as_str() {
        Some("locked") => Answer::error(401, "the key sk-secret is bad"),
        Some("busy") => Answer::error(429, "slow down"),
        _ => Answer::text("ok"),
    });
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config.yml");
    let line = |id: &str| format!("  - {{id: {id}, api_url: \"{}/v1\", api_key: sk-secret}}\n", upstream.url);
    let ids = ["fine", "busy"].map(line).concat();
    let gone = format!("  - {{id: gone, api_url: \"http://{closed}/v1\"}}\n");
    let data = dir.path().join("data");
    let doctor = |models: &str, flags: &[&str]| {
        std::fs::write(&file, format!("data_dir: {}\nmodels:\n{models}", data.display())).expect("written");
        let arguments = ["doctor", "--config", file.to_str().expect("UTF-8")];
        command(&[&arguments[..], flags].concat()).output().expect("it runs")
    };
    let text = |output: &std::process::Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let host = "127.0.0.1";
    let ran = text(&doctor(&format!("{ids}{gone}"), &[]));
    for shown in [
        format!("ok    model_endpoint    model 'fine' at {host}: answers"),
        format!(
            "warn  model_endpoint    model 'busy' at {host}: the model's provider is limiting requests (HTTP 429)"
        ),
        format!(
            "warn  model_endpoint    model 'gone' at {host}: the model's provider refused the connection"
        ),
    ] {
        assert!(ran.contains(&shown), "{shown}: {ran}");
    }
    let locked = doctor(&line("locked"), &["--json"]);
    let report: Value = serde_json::from_slice(&locked.stdout).expect("JSON");
    let endpoint = check(&report, "model_endpoint");
    assert_eq!(
        (&endpoint["ok"], &endpoint["facts"]["answers"]),
        (&json!(false), &json!(false)),
        "{endpoint}"
    );
    assert!(!text(&locked).contains("sk-secret"), "{endpoint}");
    let calls = upstream.requests().len();
    assert!(!text(&doctor(&line("locked"), &["--no-models"])).contains("model_endpoint"));
    assert_eq!(upstream.requests().len(), calls, "nothing is asked");
}

#[test]
fn p9_open_registration_is_a_warning_of_the_start_and_of_doctor() {
    let config = "auth_mode: multi\nregistration: open\n";
    let server = Server::start_with(config);
    assert!(server.log().contains("registration: open lets everybody"), "{}", server.log());
    for (config, is_warned) in
        [(config, true), ("auth_mode: multi\n", false), ("registration: open\n", false)]
    {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("config.yml");
        std::fs::write(&file, format!("{config}data_dir: {}\n", dir.path().display())).expect("written");
        let file = file.to_str().expect("UTF-8");
        let run = |arguments: &[&str]| {
            let ran = command(arguments).args(["--config", file]).output().expect("it runs");
            String::from_utf8(ran.stdout).expect("UTF-8")
        };
        let text = run(&["doctor", "--no-models"]);
        let line = text.lines().find(|line| line.contains("  config  ")).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(line.starts_with("warn  "), is_warned, "{config}: {text}");
        let report: Value = serde_json::from_str(&run(&["doctor", "--no-models", "--json"])).expect("JSON");
        let config_check = check(&report, "config");
        let warnings = config_check["facts"]["warnings"].as_array().expect("warnings");
        assert_eq!((warnings.len(), &config_check["ok"]), (usize::from(is_warned), &json!(true)), "{report}");
    }
}
