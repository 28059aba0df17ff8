//! A server that is killed leaves no process, and its successor sweeps up its directory.

#[cfg(test)]
#[allow(dead_code, reason = "each suite uses its part of the support module")]
mod support;

#[cfg(test)]
mod suite {
    use std::path::Path;
    use std::time::Duration;

    use nanoclaw_sandbox::Level;

    use super::support;

    /// Set in the process that is to be killed: where its private directories are.
    const VICTIM: &str = "NANOCLAW_TEST_VICTIM";

    /// Asks again and again for up to ten seconds.
    #[expect(clippy::disallowed_methods, reason = "the test waits for other processes")]
    fn eventually(what: &str, mut asked: impl FnMut() -> bool) {
        for _ in 0..1_000 {
            if asked() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it never came to be: {what}");
    }

    fn guest_of(victim: u32) -> Option<String> {
        let tasks = std::fs::read_dir(format!("/proc/{victim}/task")).ok()?;
        let children =
            tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        children.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).next()
    }

    #[test]
    fn a_killed_server_leaves_nothing() {
        if let Some(scratch) = std::env::var_os(VICTIM) {
            let program = support::python(Level::Lenient, "open('here', 'w').close()\nwhile True: pass");
            support::sandbox(Path::new(&scratch)).run(&program, &|| false);
            return;
        }
        let scratch = tempfile::tempdir().unwrap();
        #[expect(clippy::disallowed_methods, reason = "the test starts itself")]
        let mut victim = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "suite::a_killed_server_leaves_nothing"])
            .env(VICTIM, scratch.path())
            .spawn()
            .unwrap();
        let works = |entry: std::fs::DirEntry| entry.path().join("here").exists();
        eventually("the guest works", || std::fs::read_dir(scratch.path()).unwrap().flatten().any(works));
        let guest = guest_of(victim.id()).unwrap();
        victim.kill().unwrap();
        victim.wait().unwrap();
        eventually("the guest is dead", || {
            let state = std::fs::read_to_string(format!("/proc/{guest}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        });
        assert!(support::sandbox(scratch.path()).report().able());
        support::assert_nothing_left(scratch.path());
    }
}
