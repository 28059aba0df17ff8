//! Hostile programs at every level, with the language check on and off: none gets out, nothing stays behind.

#[cfg(test)]
#[allow(dead_code, reason = "each suite uses its part of the support module")]
mod support;

#[cfg(test)]
mod suite {
    use std::collections::BTreeMap;
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use nanoclaw_sandbox::{Language, Level, Options, Program, Record, Sandbox, Status};

    use super::support::{self, Sample};

    /// Where the programs look for what they must not get.
    const CANARY: &str = "/tmp/sbx_canary";
    /// The programs' environment probe looks for this.
    const CANARY_VARIABLE: &str = "SBX_CANARY";
    /// Long enough for a program that ends by itself on a busy machine.
    const PATIENT_MS: u64 = 10_000;
    /// Enough for a program that ends only by its limit.
    const SHORT_MS: u64 = 900;

    struct Canary {
        _tcp: TcpListener,
        _udp: UdpSocket,
        before: BTreeMap<String, (u32, u32, u64)>,
    }

    impl Canary {
        /// Puts everything in place so that each probe could succeed outside.
        fn set_up() -> Self {
            drop(std::fs::remove_dir_all(CANARY));
            std::fs::create_dir_all(CANARY).unwrap();
            for (name, text) in
                [("secret.txt", "SBX_CANARY secret\n"), ("server.redb", "redb"), ("x.xml", "<root/>")]
            {
                std::fs::write(Path::new(CANARY).join(name), text).unwrap();
            }
            Self {
                _tcp: TcpListener::bind("127.0.0.1:47811").unwrap(),
                _udp: UdpSocket::bind("127.0.0.1:47812").unwrap(),
                before: Self::state(),
            }
        }

        fn state() -> BTreeMap<String, (u32, u32, u64)> {
            let entries = std::fs::read_dir(CANARY).unwrap().map(Result::unwrap);
            entries
                .map(|entry| {
                    let data = entry.metadata().unwrap();
                    (entry.file_name().to_string_lossy().into_owned(), (data.mode(), data.uid(), data.size()))
                })
                .collect()
        }

        fn assert_untouched(&self) {
            assert_eq!(Self::state(), self.before, "the canary was touched");
            for path in [
                "/etc/sbx_pwned",
                "/var/tmp/sbx_pwned",
                "/dev/shm/sbx_pwned",
                "/etc/cron.d/sbx",
                "/root/.bashrc_sbx",
            ] {
                assert!(!Path::new(path).exists(), "{path} was written");
            }
        }
    }

    fn escaped(record: &Record) -> bool {
        let said = |text: &str| text.lines().any(|line| line.starts_with("ESCAPED"));
        said(&record.stdout) || said(&record.stderr) || record.result.as_deref().is_some_and(said)
    }

    /// Outside: a killed child, an error, or a program that says that it was blocked. Never the sandbox's own failure.
    fn judge(sample: &Sample, level: Level, check: bool, record: &Record) -> Option<String> {
        let wrong = escaped(record) || record.status == Status::SandboxError;
        wrong.then(|| format!("{} at {level}, check {check}: {record:#?}", sample.name))
    }

    fn run_suite(language: Language, checks: &[bool]) {
        let scratch = tempfile::tempdir().unwrap();
        let mut options: Options = support::options(scratch.path());
        options.levels = support::levels_with_timeout(PATIENT_MS);
        let sandbox = Sandbox::new(options).unwrap();
        assert!(sandbox.report().able(), "this kernel cannot sandbox: {:#?}", sandbox.report());
        let mut items = Vec::new();
        for sample in support::samples("hostile", language) {
            for level in Level::FOR_CODE {
                items.extend(checks.iter().map(|check| (sample.clone(), level, *check)));
            }
        }
        let wrong = support::in_parallel(items, 4, |(sample, level, check)| {
            let mut program = Program::new(language, level, sample.code.clone());
            program.language_check = check;
            let spins = sample.header("expect:").is_some_and(|expect| expect.contains("killed-by-limit"));
            program.timeout_ms = spins.then_some(SHORT_MS);
            judge(&sample, level, check, &sandbox.run(&program, &|| false))
        });
        let wrong: Vec<_> = wrong.into_iter().flatten().collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        support::assert_nothing_left(scratch.path());
    }

    /// The environment can be set only for a new process: the test runs itself once more with the canary in it.
    #[test]
    fn nothing_gets_out_at_any_level() {
        if std::env::var_os(CANARY_VARIABLE).is_none() {
            #[expect(clippy::disallowed_methods, reason = "the test starts itself")]
            let status = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "suite::nothing_gets_out_at_any_level", "--nocapture"])
                .env(CANARY_VARIABLE, "SBX_CANARY in the environment")
                .status()
                .unwrap();
            assert!(status.success());
            return;
        }
        let canary = Canary::set_up();
        run_suite(Language::Python, &[true, false]);
        run_suite(Language::JavaScript, &[false]);
        canary.assert_untouched();
        std::fs::remove_dir_all(CANARY).unwrap();
    }
}
