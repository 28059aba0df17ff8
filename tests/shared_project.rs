//! Commands of jobs and clients share the files of a project; clients do not follow symlinks that a command
//! made.

use nanoclaw::app::system::SystemClock;
use nanoclaw::domain::id::{ProjectId, UserId};
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::project::{Project, ProjectName};
use nanoclaw::domain::workspace::{UserDirectories, Workspace};
use nanoclaw::ports::{FileError, StorageAllowance, StorageScope, Workspaces};
use nanoclaw::workspace::HostFiles;
use nanoclaw_sandbox::{Language, Level, Program, Sandbox, SandboxOptions};
use std::path::PathBuf;
use std::sync::Arc;

const ALLOWANCE: StorageAllowance =
    StorageAllowance { bytes: 1 << 30, entries: 10_000, scope: StorageScope::Project };

#[test]
fn commands_and_clients_share_a_project() {
    let home = tempfile::tempdir().expect("a directory");
    let (root, users) = (home.path().join("workspaces"), UserDirectories::new(&[7; 32]));
    let files = HostFiles::new(root, users, &Limits::default(), Arc::new(SystemClock::new()));
    let project = Project {
        id: ProjectId::from_bits(1),
        user: UserId(1),
        name: ProjectName::try_from("a project".to_owned()).expect("a name"),
        directory: "a project".to_owned(),
        description: String::new(),
        created_at_ms: 0,
        updated_at_ms: 0,
    };
    let project = Workspace::from(&project);
    files.make(&project).expect("a project");
    files.write(&project, "in/from_client", "hello\n", ALLOWANCE).expect("written");
    let canary = home.path().join("canary");
    std::fs::write(&canary, "secret").expect("a canary");
    let sandbox = Sandbox::new(SandboxOptions {
        child_exe: PathBuf::from(env!("CARGO_BIN_EXE_nanoclaw")),
        scratch_dir: home.path().to_owned(),
        ..SandboxOptions::default()
    })
    .expect("a sandbox");
    let command = format!(
        "set -e; cat in/from_client; echo more >> in/from_client; mkdir -p out/deep; echo made > out/deep/file; \
         chmod 400 out/deep/file; ln -s '{0}' link; ln -s / root; \
         if mkfifo pipe || cat link || ls ../.nanoclaw || ls ..; then exit 9; fi; echo done",
        canary.display()
    );
    let program = Program {
        workdir: Some(files.absolute(&project)),
        ..Program::new(Language::Bash, Level::Shell, &command)
    };
    let record = sandbox.run(&program, &|| false);
    assert_eq!(record.stdout, "hello\ndone\n", "{record:?}");

    assert_eq!(files.read(&project, "in/from_client").as_deref(), Ok("hello\nmore\n"));
    assert_eq!(files.read(&project, "out/deep/file").as_deref(), Ok("made\n"));
    for path in ["link", "root/etc/passwd"] {
        assert!(matches!(files.read(&project, path), Err(FileError::WrongKind(_))), "{path}");
    }
    files.write(&project, "out/deep/file", "client's", ALLOWANCE).expect("written over a command's file");
    files.write(&project, "link", "client's", ALLOWANCE).expect("written in a link's place");
    files.delete(&project, "out").expect("deleted");
    files.remove(&project).expect("removed");
    assert_eq!(std::fs::read_to_string(canary).expect("a canary"), "secret");
}
