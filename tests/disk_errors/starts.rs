//! Starts that fail name the cause and what to do; a start on a full disk serves what can be read.

use super::{Mounted, fill, runs, skip, submit, submit_until_accepted};
use crate::support::{BINARY, Reply, Server, wait_until};
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A user without rights of its own.
const NOBODY: &str = "65534";

/// One way to prevent a start.
struct BadStart {
    name: &'static str,
    /// Changes a data directory with a store.
    change: fn(data: &Path),
    needs_root: bool,
    /// Parts of the message.
    says: &'static [&'static str],
}

fn store(data: &Path) -> std::path::PathBuf {
    data.join("nanoclaw.redb")
}

fn write_newer_layout(data: &Path) {
    let meta = redb::TableDefinition::<&[u8], &[u8]>::new("meta");
    let database = redb::Database::open(store(data)).expect("opens");
    let writing = database.begin_write().expect("begins");
    let mut table = writing.open_table(meta).expect("a table");
    table.insert(b"schema".as_slice(), b"\x0199".as_slice()).expect("inserted");
    drop(table);
    writing.commit().expect("committed");
}

fn give_to_root(data: &Path) {
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    };
    mode(&store(data), 0o600);
    assert!(runs(Command::new("chown").arg("root").arg(store(data))), "chown");
}

const BAD_STARTS: &[BadStart] = &[
    BadStart {
        name: "not a store",
        change: |data| std::fs::write(store(data), "something else").expect("written"),
        needs_root: false,
        says: &["it is not a store", "hint: restore a backup (nanoclaw restore FILE)"],
    },
    BadStart {
        name: "empty",
        change: |data| std::fs::write(store(data), "").expect("written"),
        needs_root: false,
        says: &["it is not a store", "hint: restore a backup (nanoclaw restore FILE)"],
    },
    BadStart {
        name: "a directory",
        change: |data| {
            std::fs::remove_file(store(data)).expect("removed");
            std::fs::create_dir(store(data)).expect("made");
        },
        needs_root: false,
        says: &["it is a directory", "hint: restore a backup"],
    },
    BadStart {
        name: "damaged",
        change: |data| {
            let mut bytes = std::fs::read(store(data)).expect("read");
            bytes[64..4096].fill(0xA5);
            std::fs::write(store(data), bytes).expect("written");
        },
        needs_root: false,
        says: &["hint: restore a backup (nanoclaw restore FILE)"],
    },
    BadStart {
        name: "of a newer version",
        change: write_newer_layout,
        needs_root: false,
        says: &["schema is version 99", "hint: use the version that has written it"],
    },
    BadStart {
        name: "of another user",
        change: give_to_root,
        needs_root: true,
        says: &["Permission denied", "hint: run this as the user that owns it"],
    },
    BadStart {
        name: "read-only",
        change: |data| {
            let mount = |options: &[&str]| runs(Command::new("mount").args(options).arg(data));
            assert!(mount(&["-o", "remount,ro"]), "remounted");
        },
        needs_root: true,
        says: &["Read-only file system", "hint: the disk is mounted read-only"],
    },
];

/// Starts the server as another user, if this one is root. Returns code and message.
fn refused_start(data: &Path, user: Option<&str>) -> (Option<i32>, String) {
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir"].map(OsString::from);
    let arguments: Vec<OsString> = serve.into_iter().chain([data.into()]).collect();
    let mut command = match user {
        None => Command::new(BINARY),
        Some(user) => {
            let mut command = Command::new("setpriv");
            command.arg(format!("--reuid={user}")).args(["--clear-groups", "--"]).arg(BINARY);
            command
        }
    };
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let output = command.args(arguments).output().expect("runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_start_that_fails_names_the_cause_and_what_to_do() {
    for case in BAD_STARTS {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().join("data");
        let mounted = if case.needs_root { Mounted::tmpfs(data.clone(), 64 << 20) } else { None };
        if case.needs_root && mounted.is_none() {
            skip(&format!("a start on a store that is {} needs root", case.name));
            continue;
        }
        Server::start_in(dir.path(), "").terminate();
        let user = (case.name == "of another user").then_some(NOBODY);
        if user.is_some() {
            assert!(runs(Command::new("chown").args(["-R", NOBODY]).arg(&data)), "chown");
            let traverse = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(dir.path(), traverse).expect("a mode");
        }
        (case.change)(&data);
        let (code, message) = refused_start(&data, user);
        // No start heals a damaged file, so systemd makes no other one.
        let wanted = if case.name == "damaged" { 65 } else { 1 };
        assert_eq!(code, Some(wanted), "{}: {message}", case.name);
        for part in case.says {
            assert!(message.contains(part), "{}: '{part}' is not in: {message}", case.name);
        }
    }
}

#[test]
fn a_start_beside_a_running_server_names_its_process() {
    let server = Server::start();
    let (code, message) = refused_start(&server.dir.join("data"), None);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains(&format!("process {} has it open", server.pid())), "{message}");
    assert!(message.contains("hint: a server runs over this directory: stop it first"), "{message}");
}

#[test]
fn p1_a_start_on_a_full_disk_serves_reads_and_refuses_new_work_with_507() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let Some(mounted) = Mounted::tmpfs(data.clone(), 64 << 20) else {
        return skip("a full disk needs root");
    };
    let mut server = Server::start_in(dir.path(), "");
    let jobs: Vec<String> =
        (0..20).map(|n| submit(&server, &format!("job {n}")).expect("accepted")).collect();
    let running = submit(&server, "stream: 1000 words, 60 ms").expect("accepted");
    server.wait(&jobs[19]);
    // Killed in the middle of writes, so that the next start has to repair the store.
    server.kill();
    drop(server);
    // What is free inside the file takes room on the disk again.
    assert!(runs(Command::new("fallocate").arg("--dig-holes").arg(store(&data))), "holes");
    let filler = fill(&mounted.0);
    let server = Server::start_in(dir.path(), "");
    // The first commit fails, and until the store is open for reads alone they are refused.
    wait_until("reads work", || {
        let answers = jobs.iter().map(|job| server.get(&format!("/v1/jobs/{job}")));
        let refused: Vec<_> = answers.filter(|answer| answer.status != 200).collect();
        let is_short = |answer: &Reply| answer.status == 503 && answer.body.contains("\"recovering\"");
        assert!(refused.iter().all(is_short), "{refused:?}");
        refused.is_empty()
    });
    let events = server.events(&jobs[0]);
    assert_eq!(events.last().expect("an end").name, "done");
    let (status, body) = submit(&server, &"more ".repeat(100_000)).expect_err("the disk is full");
    assert!(status == 507 && body.contains("disk_full"), "{status} {body}");
    assert_eq!(server.get("/healthz").status, 200);
    let ready = server.get("/readyz");
    assert!(ready.body.contains("disk is full"), "{}", ready.body);
    std::fs::remove_file(filler).expect("removed");
    let last = submit_until_accepted(&server, "after");
    assert_eq!(server.wait(&last)["status"], "succeeded");
    let resumed = server.get(&format!("/v1/jobs/{running}")).json();
    assert!(resumed["attempt"].as_u64() >= Some(2), "it was interrupted and goes on: {resumed}");
    drop(server);
    drop(mounted);
}
