//! What the disk has when the power goes. The files of projects lie on a file system in an image file, which
//! is copied while everything stands still. The copy has what was flushed.

use crate::support::Server;
use rustix::process::Signal;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A mounted ext4 image.
struct Disk {
    image: PathBuf,
    mounted: PathBuf,
}

impl Disk {
    /// A new disk. `None` on a machine that cannot mount one.
    fn new(dir: &Path) -> Option<Self> {
        let image = dir.join("disk");
        std::fs::File::create(&image).expect("an image").set_len(256 << 20).expect("a size");
        let is_made = runs(Command::new("mkfs.ext4").arg("-qF").arg(&image));
        is_made.then(|| Self::mount(image, dir.join("mounted"))).flatten()
    }

    fn mount(image: PathBuf, mounted: PathBuf) -> Option<Self> {
        std::fs::create_dir(&mounted).expect("a mount point");
        runs(Command::new("mount").args(["-o", "loop"]).args([&image, &mounted]))
            .then_some(Self { image, mounted })
    }

    /// The disk after a power loss now. Stop the programs that write before.
    fn after_power_loss(&self, dir: &Path) -> Self {
        let image = dir.join("disk-after");
        assert!(runs(Command::new("cp").arg("--sparse=always").args([&self.image, &image])), "a copy");
        Self::mount(image, dir.join("mounted-after")).expect("the copy is mounted like the first disk")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        assert!(runs(Command::new("umount").arg("--lazy").arg(&self.mounted)), "unmount");
    }
}

fn runs(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn send(server: &Server, signal: Signal) {
    let pid = i32::try_from(server.pid()).ok().and_then(rustix::process::Pid::from_raw).expect("a pid");
    rustix::process::kill_process(pid, signal).expect("a signal");
}

/// Uploads files of 5,000 bytes in one request.
fn upload(server: &Server, project: &str, paths: &[String]) {
    let content = "u".repeat(5_000);
    let head = "Content-Disposition: form-data; name=\"files\"; filename";
    let part = |path: &String| format!("--cut\r\n{head}=\"{path}\"\r\n\r\n{content}\r\n");
    let body = paths.iter().map(part).collect::<String>() + "--cut--\r\n";
    let path = format!("/api/projects/{project}/upload");
    let form = [("content-type", "multipart/form-data; boundary=cut")];
    let reply = server.request(("POST", &path), &form, &body);
    assert_eq!(reply.status, 200, "{}", reply.body);
}

#[test]
fn p1_acknowledged_files_of_a_project_survive_a_power_loss() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(disk) = Disk::new(dir.path()) else {
        writeln!(std::io::stderr(), "SKIPPED: power losses need root, mkfs.ext4 and loop devices")
            .expect("standard error");
        return;
    };
    let config = format!("workspace_root: {}\n", disk.mounted.join("workspaces").display());
    let server = Server::start_in(dir.path(), &config);
    let made = server.post("/api/projects", &json!({"name": "p"})).json();
    let project = made["data"]["id"].as_str().expect("an id");
    // What the start itself left in the cache is not the subject.
    rustix::fs::sync();
    let mut acknowledged: Vec<String> = Vec::new();
    for number in 0..5 {
        let path = format!("put/{number}.txt");
        let url = format!("/api/projects/{project}/files/{path}");
        let reply = server.ask("PUT", &url, &json!({"content": "p".repeat(5_000)}));
        assert_eq!(reply.status, 200, "{}", reply.body);
        acknowledged.push(path);
    }
    let uploaded: Vec<String> = (0..5).map(|number| format!("up{number}.txt")).collect();
    upload(&server, project, &uploaded);
    acknowledged.extend(uploaded);
    for number in 0..3 {
        let path = format!("tool/{number}.txt");
        let call = json!({"path": path, "content": "t".repeat(5_000)});
        let job = server.submit(&json!({"project_id": project, "input": format!("tool: file_write {call}")}));
        assert_eq!(server.wait(&job)["status"], "succeeded");
        acknowledged.push(path);
    }
    send(&server, Signal::STOP);
    let after = disk.after_power_loss(dir.path());
    send(&server, Signal::CONT);
    let found = std::fs::read_dir(after.mounted.join("workspaces/user_1")).expect("the user's directory");
    let project_dir = found.flatten().map(|entry| entry.path()).find(|path| path.ends_with("p"));
    let project_dir = project_dir.expect("the project's directory");
    let lost: Vec<(&String, Option<u64>)> = acknowledged
        .iter()
        .map(|path| (path, std::fs::metadata(project_dir.join(path)).ok().map(|found| found.len())))
        .filter(|(_, size)| *size != Some(5_000))
        .collect();
    assert!(lost.is_empty(), "lost or cut: {lost:?}");
}
