//! Fail closed: a child whose set-up fails in any step says so and runs nothing.

#[cfg(test)]
mod suite {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use serde_json::{Value, json};

    /// Starts the child as the sandbox does, with this assignment; returns its report and exit code.
    #[expect(clippy::disallowed_methods, reason = "the test stands in for the parent")]
    fn report_of(request: &str) -> (String, Option<i32>) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(request.as_bytes()).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        // The shell only gives the report pipe its number, then becomes the child.
        let output = Command::new("/bin/sh")
            .args([
                "-c",
                "exec \"$0\" \"$1\" 3>&1 4>&2 >&2",
                env!("CARGO_BIN_EXE_nanoclaw-sandbox-child"),
                nanoclaw_sandbox::CHILD_MARKER,
            ])
            .stdin(Stdio::from(file))
            .output()
            .unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.code())
    }

    fn request() -> Value {
        json!({
            "parent_pid": std::process::id(),
            "level": "strict",
            "limits": nanoclaw_sandbox::Limits::of(nanoclaw_sandbox::Level::Strict),
            "landlock_abi": 1,
            "directory": "/",
            "files": [],
            "task": {"kind": "javascript", "code": "console.log('ran')", "language_check": true},
        })
    }

    fn assert_closed(request: &str, words: &str) {
        let (report, code) = report_of(request);
        assert!(report.starts_with("{\"frame\":\"failed\"") && report.contains(words), "{words}: {report}");
        assert!(!report.contains("\"go\"") && code != Some(0), "{report}");
    }

    #[test]
    fn the_unchanged_assignment_runs() {
        let (report, code) = report_of(&request().to_string());
        assert!(report.contains("\"go\""), "{report}");
        assert_eq!(code, Some(0));
    }

    #[test]
    fn any_step_that_fails_ends_the_child() {
        for (field, value, words) in [
            ("landlock_abi", json!(99), "landlock"),
            ("landlock_abi", json!(0), "landlock"),
            ("files", json!([{"path": "/proc/nonexistent", "access": "read_tree"}]), "landlock"),
            ("parent_pid", json!(1), "the parent is gone"),
            ("directory", json!("/proc/nonexistent"), "own directory"),
            ("limits", json!({}), "cannot decode"),
            ("task", json!({"kind": "shell"}), "cannot decode"),
        ] {
            let mut changed = request();
            changed[field] = value;
            assert_closed(&changed.to_string(), words);
        }
        assert_closed("not json", "cannot decode");
    }

    /// On old kernels landlock does not mediate truncation (ABI 3), TCP (4), signals (6): the filters do.
    #[test]
    fn every_level_holds_under_the_rules_of_every_older_kernel() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("own")).unwrap();
        let canary = home.path().join("canary");
        std::fs::write(&canary, "kept").unwrap();
        for level in nanoclaw_sandbox::Level::FOR_CODE {
            for abi in 1..=6 {
                let mut changed = request();
                changed["level"] = json!(level);
                changed["limits"] = json!(nanoclaw_sandbox::Limits::of(level));
                changed["landlock_abi"] = json!(abi);
                changed["files"] = json!([{"path": home.path().join("own"), "access": "own_tree"}]);
                changed["task"] = json!({"kind": "probe", "quiet": {"canary": canary}});
                let (report, code) = report_of(&changed.to_string());
                assert_eq!(code, Some(0), "{level} under ABI {abi}: {report}");
                assert_eq!(std::fs::read_to_string(&canary).unwrap(), "kept");
            }
        }
    }

    #[test]
    fn a_python_that_cannot_start_is_reported() {
        let mut changed = request();
        changed["task"] = json!({
            "kind": "python", "interpreter": "/usr/bin/python3", "code": "print(1)", "language_check": true,
            "allowed_modules": [], "refused_builtins": [], "warm_modules": [], "extra_path": [],
        });
        assert_closed(&changed.to_string(), "cannot start");
    }

    #[test]
    fn without_a_report_pipe_nothing_runs() {
        #[expect(clippy::disallowed_methods, reason = "the test stands in for a careless caller")]
        let output = Command::new(env!("CARGO_BIN_EXE_nanoclaw-sandbox-child"))
            .arg(nanoclaw_sandbox::CHILD_MARKER)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(70));
        assert!(output.stdout.is_empty());
    }
}
