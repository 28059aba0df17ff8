//! After a failed sync the page cache may have what the disk has not. The server goes on from the disk alone.

use super::{Mounted, fill, lost, runs, skip, submit, submit_until_accepted};
use crate::support::{Server, wait_until};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Needs more pages than later commits write again.
fn large_input() -> String {
    "a large job ".repeat(50_000)
}

/// The files that the preloaded library knows.
const FILES: [&str; 4] = ["SHADOW", "TRIGGER", "KEEP", "DRIVE"];

/// The preloaded library and its files.
struct SickDisk {
    dir: PathBuf,
    library: PathBuf,
}

impl SickDisk {
    fn new(dir: &Path) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/disk_errors/failed_sync.c");
        let library = dir.join("failed_sync.so");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]).args([&library, &source]).arg("-ldl");
        assert!(runs(&mut cc), "the C compiler builds failed_sync.c");
        Self { dir: dir.to_owned(), library }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn start(&self) -> Server {
        let files = FILES.map(|name| (name, self.file(name)));
        let preload = [("LD_PRELOAD", self.library.clone())];
        Server::start_with_environment(&self.dir, "", &[&files[..], &preload[..]].concat())
    }

    /// Submits large jobs until the sync of one fails; `count` syncs in a row do. Returns the accepted ones.
    fn fail_syncs(&self, server: &Server, count: usize) -> Vec<String> {
        let mut accepted = Vec::new();
        loop {
            std::fs::write(self.file("TRIGGER"), vec![b'x'; count]).expect("written");
            match submit(server, &large_input()) {
                // Another commit of the server took the failure.
                Ok(job) => accepted.push(job),
                Err((status, body)) => {
                    assert!(status >= 500, "{status} {body}");
                    break;
                }
            }
        }
        wait_until("the syncs fail", || !self.file("TRIGGER").exists());
        accepted
    }

    /// A server on what the disk has.
    fn after_power_loss(&self) -> (tempfile::TempDir, Server) {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("data")).expect("a data directory");
        std::fs::copy(self.file("SHADOW"), dir.path().join("data/nanoclaw.redb")).expect("a copy");
        let server = Server::start_in(dir.path(), "");
        (dir, server)
    }
}

#[test]
fn p1_after_a_failed_sync_the_store_goes_on_from_what_the_disk_has() {
    for (failures, has_drive_cache) in [(0, false), (1, false), (3, false), (1, true), (3, true)] {
        let dir = tempfile::tempdir().expect("a directory");
        let disk = SickDisk::new(dir.path());
        if has_drive_cache {
            std::fs::write(disk.file("DRIVE"), "").expect("written");
        }
        let mut server = disk.start();
        let mut accepted = vec![submit(&server, "before").expect("accepted")];
        if failures > 0 {
            accepted.extend(disk.fail_syncs(&server, failures));
        }
        accepted.extend((0..5).map(|number| submit_until_accepted(&server, &format!("after {number}"))));
        assert_eq!(lost(&server, &accepted), [""; 0]);
        assert_eq!(server.log().contains("cached pages of the store were dropped"), failures > 0);
        server.kill();
        let (_dir, after) = disk.after_power_loss();
        assert_eq!(
            lost(&after, &accepted),
            [""; 0],
            "{failures} failed syncs, drive cache: {has_drive_cache}"
        );
    }
}

#[test]
fn a_kernel_that_keeps_unwritten_pages_stops_the_server_until_it_drops_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let disk = SickDisk::new(dir.path());
    let mut server = disk.start();
    let mut accepted = vec![submit(&server, "before").expect("accepted")];
    std::fs::write(disk.file("KEEP"), "").expect("written");
    accepted.extend(disk.fail_syncs(&server, 1));
    assert_eq!(server.wait_for_exit().code(), Some(74), "{}", server.log());
    assert!(server.log().contains("the page cache differs from the disk"), "{}", server.log());
    // The pages outlive the process, so the next one must not trust them.
    let refused = crate::support::command(&["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(dir.path().join("data"))
        .env("LD_PRELOAD", &disk.library)
        .envs(FILES.map(|name| (name, disk.file(name))))
        .output()
        .expect("runs");
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{message}");
    assert!(message.contains("the page cache differs from the disk"), "{message}");
    std::fs::remove_file(disk.file("KEEP")).expect("removed");
    drop(server);
    let server = disk.start();
    assert_eq!(lost(&server, &accepted), [""; 0]);
    submit(&server, "after").expect("accepted");
}

#[test]
fn p1_pages_that_a_real_kernel_could_not_write_are_not_trusted() {
    let dir = tempfile::tempdir().expect("a directory");
    let small = dir.path().join("small");
    let (Some(small), image) = (Mounted::tmpfs(small.clone(), 48 << 20), small.join("image")) else {
        return skip("a failed write-back needs root, tmpfs, mkfs.ext4 and loop devices");
    };
    std::fs::File::create(&image).expect("an image").set_len(200 << 20).expect("a size");
    let mut make = Command::new("mkfs.ext4");
    let is_made = runs(make.args(["-qF", "-O", "^has_journal", "-E", "lazy_itable_init=0"]).arg(&image));
    let mounted = is_made.then(|| Mounted::image(&image, dir.path().join("mounted"))).flatten();
    let Some(mounted) = mounted else {
        return skip("a failed write-back needs root, tmpfs, mkfs.ext4 and loop devices");
    };
    let mut server = Server::start_in(&mounted.0, "");
    let mut accepted = vec![submit(&server, "before").expect("accepted")];
    rustix::fs::sync();
    let filler = fill(&small.0);
    let refused = submit(&server, &large_input()).expect_err("the image cannot grow");
    assert!(matches!(refused.0, 500 | 507), "{refused:?}");
    std::fs::remove_file(filler).expect("removed");
    accepted.extend((0..5).map(|number| submit_until_accepted(&server, &format!("after {number}"))));
    assert!(server.log().contains("cached pages of the store were dropped"), "{}", server.log());
    server.kill();
    // What the disk has: the image, without what the page cache of the file system in it has.
    let copy = dir.path().join("copy");
    std::fs::copy(&image, &copy).expect("a copy");
    let after = Mounted::image(&copy, dir.path().join("after")).expect("mounted");
    let server = Server::start_in(&after.0, "");
    assert_eq!(lost(&server, &accepted), [""; 0]);
    drop(server);
}
