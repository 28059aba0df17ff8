//! A file system that fills up: a guest is ended for its own growth only, not for what other programs take.

use std::io::Write as _;
use std::path::Path;

use nanoclaw_sandbox::{Language, Level, Program, RunStatus};

use crate::support;

const MIB: usize = 1 << 20;

/// A small file system of its own; `None`, with a message, without root.
fn small_disk(mib: usize) -> Option<MountedDisk> {
    let disk = MountedDisk(tempfile::tempdir().unwrap());
    let size = format!("size={mib}m");
    if runs("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", disk.path().to_str().unwrap()]) {
        return Some(disk);
    }
    std::mem::forget(disk);
    writeln!(std::io::stderr(), "SKIPPED: a small file system needs root").expect("stderr");
    None
}

struct MountedDisk(tempfile::TempDir);

impl MountedDisk {
    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Another program takes all that is left.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.path().join("others")).unwrap();
        while file.write_all(&vec![1; MIB]).is_ok() {}
        while file.write_all(&[1; 512]).is_ok() {}
    }
}

impl Drop for MountedDisk {
    fn drop(&mut self) {
        runs("umount", &["--lazy", self.path().to_str().unwrap()]);
    }
}

#[expect(clippy::disallowed_methods, reason = "the test mounts a file system")]
fn runs(program: &str, arguments: &[&str]) -> bool {
    std::process::Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

fn bash(code: &str) -> Program {
    Program::new(Language::Bash, Level::Shell, code)
}

#[test]
fn guests_are_not_ended_when_another_program_fills_the_disk() {
    let _turn = support::exclusive();
    let Some(disk) = small_disk(64) else { return };
    let project = disk.path().join("project");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(project.join("old"), vec![1; 8 * MIB]).unwrap();
    let wait = ">started; while [ ! -e end ]; do sleep 0.1; done; echo done";
    let mut in_project = bash(&format!("echo x >new; {wait}"));
    in_project.workdir = Some(project);
    let compute = "import os\nopen('started', 'w').close()\nn = 0\nwhile not os.path.exists('end'): n += 1\nprint('done')";
    let programs = [
        bash(wait),
        // The pause lets a count see the file while there is space.
        bash(&format!("head -c 10M /dev/zero >f; sleep 0.5; {wait}")),
        support::python(Level::Lenient, compute),
        in_project,
    ];
    let sandbox = support::sandbox(disk.path());
    assert!(sandbox.report().able());
    let running = || -> Vec<std::path::PathBuf> {
        let directories = std::fs::read_dir(disk.path()).unwrap().flatten().map(|entry| entry.path());
        directories.filter(|path| path.join("started").exists()).collect()
    };
    std::thread::scope(|scope| {
        let sandbox = &sandbox;
        let runs = programs.each_ref().map(|program| scope.spawn(|| sandbox.run(program, &|| false)));
        support::eventually("all programs run", || running().len() == programs.len());
        disk.fill();
        #[expect(clippy::disallowed_methods, reason = "the guests go on for a while on the full disk")]
        std::thread::sleep(std::time::Duration::from_secs(1));
        for directory in running() {
            std::fs::write(directory.join("end"), "").unwrap();
        }
        for run in runs {
            let record = run.join().unwrap();
            assert_eq!((record.status, record.stdout.as_str()), (RunStatus::Ok, "done\n"), "{record:#?}");
        }
    });
}

#[test]
fn p8_a_guest_that_fills_the_disk_is_ended() {
    let _turn = support::exclusive();
    // With names, without names, and after another program has taken most.
    let plain = "n=0; while :; do head -c 1M /dev/zero >f$n; n=$((n + 1)); done";
    let fill_and_wait = "head -c 100M /dev/zero >f 2>/dev/null; sleep 30";
    let nameless = "python3 -c 'import os, time\nf = open(\"f\", \"wb\", 0); os.unlink(\"f\")\n\
                    try:\n  while True: f.write(b\"x\" * 65536)\nexcept OSError: time.sleep(30)'";
    for code in [plain, fill_and_wait, nameless] {
        for in_project in [false, true] {
            let Some(disk) = small_disk(64) else { return };
            let mut program = bash(code);
            if in_project {
                program.workdir = Some(disk.path().join("project"));
                std::fs::create_dir(disk.path().join("project")).unwrap();
            }
            program.timeout_ms = Some(20_000);
            let sandbox = support::sandbox(disk.path());
            let record = sandbox.run(&program, &|| false);
            assert_eq!(
                (record.status, record.limit.as_deref()),
                (RunStatus::OutputLimit, Some("disk_free_bytes")),
                "{code}, {in_project}: {record:#?}"
            );
            assert!(record.error.unwrap().contains("nearly full"));
        }
    }
}

#[test]
fn p8_files_without_a_name_count_against_the_private_directory() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let mut options = support::options(scratch.path());
    options.levels.shell.own_directory_bytes = 20 << 20;
    let sandbox = nanoclaw_sandbox::Sandbox::new(options).unwrap();
    let code = "python3 -c 'import os, time\nf = open(\"f\", \"wb\", 0); os.unlink(\"f\")\n\
                for _ in range(40): f.write(b\"x\" * (1 << 20))\ntime.sleep(30)'";
    let mut program = bash(code);
    program.timeout_ms = Some(20_000);
    let record = sandbox.run(&program, &|| false);
    assert_eq!(
        (record.status, record.limit.as_deref()),
        (RunStatus::OutputLimit, Some("own_directory_bytes")),
        "{record:#?}"
    );
}
