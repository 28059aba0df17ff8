//! The self-test of the sandbox, on its own thread after the start. No program runs at a level before that
//! level has passed (P5).

use crate::ports::ReadinessProbe;
use nanoclaw_sandbox::{Level, PythonReport, Sandbox, SandboxReport};
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

/// Receives the result of the self-test, on its thread.
pub type SelfTestListener = Box<dyn FnOnce(&SandboxReport) + Send>;

/// The test and its result.
pub(super) struct SandboxSelfTest {
    outcome: Arc<OnceLock<SandboxReport>>,
    level: Level,
    start_signal: SyncSender<()>,
}

impl SandboxSelfTest {
    /// Creates the thread; the test waits for `start`. `on_report` receives the result.
    pub(super) fn prepare(sandbox: &Arc<Sandbox>, on_report: SelfTestListener) -> io::Result<Self> {
        let (outcome, level) = (Arc::new(OnceLock::new()), sandbox.options().default_strictness);
        let (result, sandbox) = (Arc::clone(&outcome), Arc::clone(sandbox));
        let (start_signal, started) = sync_channel(1);
        let test = move || {
            // The start has failed.
            if started.recv().is_err() {
                return;
            }
            let report = sandbox.report();
            if let Err(reason) = check_levels(&report, |_| true) {
                tracing::error!(%reason, "sandbox self-test failed; code does not run at these levels");
            }
            if let Some(reason) = missing_modules(&report.python) {
                tracing::warn!(%reason, "Python modules are missing");
            }
            on_report(&report);
            result.get_or_init(|| report);
        };
        std::thread::Builder::new().name("self-test".to_owned()).spawn(test)?;
        Ok(Self { outcome, level, start_signal })
    }

    /// Starts the test. Called after the start of the server, because the test starts interpreters.
    pub(super) fn start(&self) {
        if self.start_signal.try_send(()).is_err() {
            tracing::debug!("the self-test has already been started");
        }
    }

    /// The checks for `/readyz`: one for each level, one for Python.
    pub(super) fn probes(&self) -> Vec<Box<dyn ReadinessProbe>> {
        let level_probe = |level: Level| -> Box<dyn ReadinessProbe> {
            let is_needed = level == self.level;
            Box::new(LevelProbe { outcome: Arc::clone(&self.outcome), level, is_needed })
        };
        let python: Box<dyn ReadinessProbe> = Box::new(PythonProbe(Arc::clone(&self.outcome)));
        Level::ALL.into_iter().map(level_probe).chain([python]).collect()
    }
}

/// Passes if the level works or is still being tested. Only the default level is needed for readiness;
/// another level that does not work is refused by name, and counts as degraded.
struct LevelProbe {
    outcome: Arc<OnceLock<SandboxReport>>,
    level: Level,
    is_needed: bool,
}

impl LevelProbe {
    /// The wanted levels that do not work, as an error.
    fn check_level(&self) -> Result<(), String> {
        self.outcome.get().map_or(Ok(()), |report| check_levels(report, |level| level == self.level))
    }
}

impl ReadinessProbe for LevelProbe {
    fn name(&self) -> &'static str {
        match self.level {
            Level::Strict => "sandbox_strict",
            Level::Standard => "sandbox_standard",
            Level::Lenient => "sandbox_lenient",
            Level::Shell => "sandbox_shell",
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.is_needed { self.check_level() } else { Ok(()) }
    }

    fn degradation(&self) -> Option<String> {
        self.check_level().err()
    }

    fn is_off(&self) -> bool {
        true
    }
}

/// Never fails: other tools and JavaScript work without Python.
struct PythonProbe(Arc<OnceLock<SandboxReport>>);

impl ReadinessProbe for PythonProbe {
    fn name(&self) -> &'static str {
        "python"
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    fn degradation(&self) -> Option<String> {
        let python = &self.0.get()?.python;
        match &python.reason {
            Some(reason) => {
                Some(format!("{reason}; install Python 3.9 or later, or name it in code_execution.python"))
            }
            None => missing_modules(python),
        }
    }

    fn is_off(&self) -> bool {
        self.0.get().is_some_and(|report| report.python.reason.is_some())
    }
}

/// The modules of the configuration that Python cannot import, and what to do.
pub fn missing_modules(python: &PythonReport) -> Option<String> {
    let name = |(name, reason): &(String, String)| format!("{name} ({reason})");
    let names: Vec<String> = python.missing_modules.iter().map(name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "code_execution.extra_allowed_modules: {} cannot be imported; install it for this Python and restart, or remove \
             the entry; Python works without it",
            names.join(", ")
        )
    })
}

/// Which of the wanted levels do not hold.
fn check_levels(report: &SandboxReport, is_wanted: impl Fn(Level) -> bool) -> Result<(), String> {
    let failed = report.levels.iter().filter(|result| !result.able && is_wanted(result.level));
    let reasons: Vec<String> = failed
        .map(|level| format!("{}: {}", level.level, level.reason.as_deref().unwrap_or("cannot be enforced")))
        .collect();
    if reasons.is_empty() { Ok(()) } else { Err(format!("{}; run 'nanoclaw doctor'", reasons.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nanoclaw_sandbox::LevelReport;

    fn self_test(unable: &[Level], python: Option<&str>) -> SandboxSelfTest {
        let sandbox = Sandbox::new(nanoclaw_sandbox::SandboxOptions::default()).expect("good options");
        let mut report = sandbox.report();
        let reason = |level| unable.contains(&level).then(|| "no landlock".to_owned());
        let level = |level| LevelReport { level, able: !unable.contains(&level), reason: reason(level) };
        report.levels = Level::ALL.map(level).to_vec();
        report.python.reason = python.map(str::to_owned);
        SandboxSelfTest {
            outcome: Arc::new(report.into()),
            level: Level::Standard,
            start_signal: sync_channel(1).0,
        }
    }

    fn shortfalls(self_test: &SandboxSelfTest) -> Vec<(&'static str, bool, Option<String>)> {
        let described =
            |probe: Box<dyn ReadinessProbe>| (probe.name(), probe.check().is_ok(), probe.degradation());
        self_test
            .probes()
            .into_iter()
            .map(described)
            .filter(|(_, ok, short)| !ok || short.is_some())
            .collect()
    }

    #[test]
    fn p5_only_a_failing_default_sandbox_level_makes_the_server_unready() {
        assert_eq!(shortfalls(&self_test(&[], None)), []);
        let [(name, false, Some(reason))] = &shortfalls(&self_test(&[Level::Standard], None))[..] else {
            panic!("the level of a call that names none")
        };
        assert!(*name == "sandbox_standard" && reason.contains("no landlock") && reason.contains("doctor"));
        let of_others =
            shortfalls(&self_test(&[Level::Strict, Level::Lenient], Some("python3 is not in PATH")));
        let names: Vec<_> = of_others.iter().map(|(name, ok, _)| (*name, *ok)).collect();
        assert_eq!(names, [("sandbox_strict", true), ("sandbox_lenient", true), ("python", true)]);
        assert!(of_others[2].2.as_ref().is_some_and(|reason| reason.contains("install Python")));
        let mut without_numpy = self_test(&[], None);
        let mut report = without_numpy.outcome.get().expect("tested").clone();
        report.python.missing_modules = vec![("numpy".to_owned(), "No module named 'numpy'".to_owned())];
        without_numpy.outcome = Arc::new(report.into());
        let [("python", true, Some(reason))] = &shortfalls(&without_numpy)[..] else {
            panic!("the module alone is missing")
        };
        assert!(
            reason.contains("numpy (No module named 'numpy')") && reason.contains("extra_allowed_modules")
        );
        let is_off = |test: &SandboxSelfTest| {
            test.probes().iter().any(|probe| probe.name() == "python" && probe.is_off())
        };
        assert!(!is_off(&without_numpy) && is_off(&self_test(&[], Some("no python3"))));
        let untested = SandboxSelfTest {
            outcome: Arc::default(),
            level: Level::Standard,
            start_signal: sync_channel(1).0,
        };
        assert_eq!(shortfalls(&untested), [], "nothing runs before the test has passed");
    }
}
