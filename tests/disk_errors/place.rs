//! A store that is moved, removed or replaced: nothing is accepted into a file without a name, and no empty
//! store takes the place of one that is missing.

use super::{Mounted, lost, skip, submit, submit_until_accepted};
use crate::support::{Server, command, wait_until};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

const NEW_STORE_HINT: &str = "--new-store";

/// The outcome of a server that does not start: code and message.
fn refused_start(data: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0"]);
    let output = serve.args(arguments).arg("--data-dir").arg(data).output().expect("runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Ends the load also when a test fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Submits from several threads while `act` runs; returns the accepted jobs.
fn accepted_during(server: &Server, act: impl FnOnce()) -> Vec<String> {
    let (accepted, stop) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    let job = submit(server, "under load");
                    accepted.lock().expect("lock").extend(job);
                }
            });
        }
        let _stop = StopOnDrop(&stop);
        wait_until("load", || accepted.lock().expect("lock").len() > 20);
        act();
    });
    accepted.into_inner().expect("lock")
}

fn is_refused(server: &Server) -> bool {
    submit(server, "more").is_err_and(|(status, body)| status == 503 && body.contains("store_moved"))
}

#[test]
fn p1_a_store_that_is_renamed_under_load_accepts_nothing_until_it_is_back() {
    let server = Server::start();
    let (store, aside) = (server.dir.join("data/nanoclaw.redb"), server.dir.join("aside"));
    let accepted = accepted_during(&server, || {
        std::fs::rename(&store, &aside).expect("renamed");
        wait_until("submissions are refused", || is_refused(&server));
    });
    let ready = server.get("/readyz");
    assert!(ready.status == 503 && ready.body.contains("moved, removed or replaced"), "{}", ready.body);
    assert_eq!(server.get(&format!("/v1/jobs/{}", accepted[0])).status, 200, "reads go on");
    assert!(!store.exists(), "no store takes its place");
    std::fs::rename(&aside, &store).expect("renamed");
    let last = submit_until_accepted(&server, "after");
    wait_until("the server is ready", || server.get("/readyz").status == 200);
    let server = server.crash_and_restart("");
    assert_eq!(lost(&server, &accepted), [""; 0]);
    assert_eq!(server.wait(&last)["status"], "succeeded");
}

#[test]
fn p1_a_store_that_is_removed_under_load_is_saved_by_a_backup() {
    let mut server = Server::start();
    let store = server.dir.join("data/nanoclaw.redb");
    let accepted = accepted_during(&server, || {
        std::fs::remove_file(&store).expect("removed");
        wait_until("submissions are refused", || is_refused(&server));
    });
    assert!(!store.exists(), "no store takes its place");
    let saved = server.dir.join("saved.redb");
    let backup = |arguments: &[&str]| command(arguments).arg(&saved).output().expect("runs");
    let made = backup(&["backup", "--server", &server.url]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    server.kill();
    let (code, message) = refused_start(&server.dir.join("data"), &[]);
    assert!(code == Some(1) && message.contains(NEW_STORE_HINT), "{message}");
    let data = server.dir.join("data");
    let restored = command(&["restore", "--data-dir"]).arg(&data).arg(&saved).output().expect("runs");
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let server = Server::start_in(&server.dir.clone(), "");
    assert_eq!(lost(&server, &accepted), [""; 0]);
}

#[test]
fn p1_a_store_that_another_file_replaces_is_not_written_and_the_other_is_not_opened() {
    let server = Server::start();
    let first = submit(&server, "first").expect("accepted");
    let mut other = Server::start();
    other.terminate();
    let (store, aside) = (server.dir.join("data/nanoclaw.redb"), server.dir.join("aside"));
    std::fs::hard_link(&store, &aside).expect("linked");
    let accepted = accepted_during(&server, || {
        std::fs::copy(other.dir.join("data/nanoclaw.redb"), server.dir.join("copy")).expect("copied");
        std::fs::rename(server.dir.join("copy"), &store).expect("renamed over the store");
        wait_until("submissions are refused", || is_refused(&server));
    });
    assert_eq!(server.get(&format!("/v1/jobs/{first}")).status, 200, "reads go on in the open store");
    std::fs::rename(&aside, &store).expect("renamed back");
    submit_until_accepted(&server, "after");
    assert_eq!(lost(&server, &accepted), [""; 0]);
    assert_eq!(lost(&server, &[first]), [""; 0]);
}

#[test]
fn an_idle_server_notices_within_seconds_that_its_store_is_gone() {
    let server = Server::start();
    std::fs::remove_file(server.dir.join("data/nanoclaw.redb")).expect("removed");
    wait_until("the log says so", || server.log().contains("moved, removed or replaced"));
}

#[test]
fn a_store_that_is_missing_or_a_link_to_nowhere_is_no_new_store() {
    let mut server = Server::start();
    let first = submit(&server, "first").expect("accepted");
    server.terminate();
    let data = server.dir.join("data");
    let (store, aside) = (data.join("nanoclaw.redb"), server.dir.join("aside"));
    assert!(data.join("nanoclaw.id").exists(), "written beside the store");
    std::fs::rename(&store, &aside).expect("renamed");
    let (code, message) = refused_start(&data, &[]);
    assert!(code == Some(1) && message.contains("although this directory had a store"), "{message}");
    assert!(message.contains(NEW_STORE_HINT) && !store.exists(), "{message}");
    let (_, doctor) = {
        let output = command(&["doctor", "--no-models", "--data-dir"]).arg(&data).output().expect("runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert!(doctor.contains("although this directory had a store"), "{doctor}");

    std::os::unix::fs::symlink("nowhere", &store).expect("linked");
    for arguments in [&[][..], &[NEW_STORE_HINT][..]] {
        let (code, message) = refused_start(&data, arguments);
        assert!(code == Some(1) && message.contains("symbolic link that leads nowhere"), "{message}");
    }
    assert!(!data.join("nowhere").exists(), "nothing is created behind the link");
    std::fs::remove_file(&store).expect("removed");
    std::os::unix::fs::symlink(&aside, &store).expect("linked");
    let linked = Server::start_in(&server.dir.clone(), "");
    assert_eq!(lost(&linked, &[first]), [""; 0], "a link to a store is a store");
    drop(linked);

    std::fs::remove_file(&store).expect("removed");
    let empty = Server::start_with_arguments(&server.dir.clone(), "", &[NEW_STORE_HINT]);
    submit(&empty, "fresh").expect("accepted");
}

#[test]
fn p1_a_store_whose_disk_is_unmounted_accepts_nothing_until_it_is_mounted_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let Some(mounted) = Mounted::tmpfs(data.clone(), 64 << 20) else {
        return skip("a mount needs root");
    };
    let server = Server::start_in(dir.path(), "");
    let first = submit(&server, "first").expect("accepted");
    let other = Mounted::tmpfs(dir.path().join("other"), 1 << 20).expect("mounted");
    let bind = |from: &Path, to: &Path| {
        assert!(super::runs(std::process::Command::new("mount").arg("--bind").args([from, to])), "mounted");
    };
    // An empty disk on top of the store's, as after a wrong mount.
    bind(&other.0, &data);
    wait_until("submissions are refused", || is_refused(&server));
    assert_eq!(std::fs::read_dir(&other.0).expect("a directory").count(), 0, "nothing is created there");
    assert!(super::runs(std::process::Command::new("umount").arg(&data)), "unmounted");
    let second = submit_until_accepted(&server, "second");
    assert_eq!(lost(&server, &[first, second]), [""; 0]);
    drop(server);
    drop((mounted, other));
}
