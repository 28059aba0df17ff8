//! Errors of the disk under the real binary: failed syncs, a store that is moved away, and starts that fail.

mod failed_syncs;
mod place;
mod starts;

use crate::support::Server;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn runs(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A mounted file system, unmounted at the end.
struct Mounted(PathBuf);

impl Mounted {
    /// A tmpfs of this size; `None` on a machine that cannot mount one.
    fn tmpfs(at: PathBuf, bytes: u64) -> Option<Self> {
        std::fs::create_dir(&at).expect("a mount point");
        let options = format!("size={bytes}");
        runs(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&at))
            .then_some(Self(at))
    }

    /// A file system in an image file.
    fn image(image: &Path, at: PathBuf) -> Option<Self> {
        std::fs::create_dir(&at).expect("a mount point");
        runs(Command::new("mount").args(["-o", "loop"]).args([image, &at])).then_some(Self(at))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        assert!(runs(Command::new("umount").arg("--lazy").arg(&self.0)), "unmount");
    }
}

fn skip(reason: &str) {
    writeln!(std::io::stderr(), "SKIPPED: {reason}").expect("standard error");
}

/// Writes zeros until the disk is full; returns the file.
fn fill(dir: &Path) -> PathBuf {
    let path = dir.join("filler");
    let mut filler = std::fs::File::create(&path).expect("a file");
    while filler.write_all(&[0; 4096]).is_ok() {}
    drop(filler);
    path
}

/// The status of a submission, and its id if it was accepted.
fn submit(server: &Server, input: &str) -> Result<String, (u16, String)> {
    let reply = server.post("/v1/jobs", &json!({"input": input}));
    match reply.status {
        202 => Ok(reply.json()["id"].as_str().expect("an id").to_owned()),
        status => Err((status, reply.body)),
    }
}

/// Submits until one is accepted again.
fn submit_until_accepted(server: &Server, input: &str) -> String {
    let mut accepted = None;
    crate::support::wait_until("a submission is accepted", || {
        accepted = submit(server, input).ok();
        accepted.is_some()
    });
    accepted.expect("accepted")
}

/// Those of the jobs that the server does not have.
fn lost(server: &Server, jobs: &[String]) -> Vec<String> {
    jobs.iter().filter(|job| server.get(&format!("/v1/jobs/{job}")).status != 200).cloned().collect()
}
