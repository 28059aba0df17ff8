//! The self-test of the sandbox, on its own thread after the start. No program runs at a level before that
//! level has passed (P5). A test that could not be made is repeated until it could.

use crate::ports::{PartFault, ReadinessProbe, SandboxLevelInfo, SandboxLevelState};
use nanoclaw_sandbox::{Level, LevelReport, PythonReport, Sandbox, SandboxReport};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Receives the result of the first self-test, on its thread.
pub type SelfTestListener = Box<dyn FnOnce(&SandboxReport) + Send>;

/// The pause before the first repetition. It doubles up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// How often the thread looks whether a call has tested a level meanwhile.
const POLL: Duration = Duration::from_secs(1);

/// What the sandbox knows of a level.
type KnownLevels = Arc<dyn Fn(Level) -> Option<LevelReport> + Send + Sync>;

/// The last report on Python.
type SharedPython = Arc<Mutex<Option<PythonReport>>>;

/// The test and its result.
pub(super) struct SandboxSelfTest {
    levels: KnownLevels,
    python: SharedPython,
    default_level: Level,
    /// The thread ends when it is dropped.
    start_signal: SyncSender<()>,
}

impl SandboxSelfTest {
    /// Creates the thread; the test waits for `start`. `on_report` receives the first result.
    pub(super) fn prepare(sandbox: &Arc<Sandbox>, on_report: SelfTestListener) -> io::Result<Self> {
        let (start_signal, started) = sync_channel(1);
        let python = SharedPython::default();
        let thread = SelfTestThread { sandbox: Arc::clone(sandbox), python: Arc::clone(&python) };
        let test = move || {
            // The start may have failed.
            if started.recv().is_ok() {
                thread.run(on_report, &started);
            }
        };
        std::thread::Builder::new().name("self-test".to_owned()).spawn(test)?;
        let (known, default_level) = (Arc::clone(sandbox), sandbox.options().default_strictness);
        let levels: KnownLevels = Arc::new(move |level| known.known_level(level));
        Ok(Self { levels, python, default_level, start_signal })
    }

    /// Starts the test. Called after the start of the server, because the test starts interpreters.
    pub(super) fn start(&self) {
        if self.start_signal.try_send(()).is_err() {
            tracing::debug!("the self-test has already been started");
        }
    }

    /// The state of every level, for `/v1/status`.
    pub(super) fn level_states(&self) -> LevelStates {
        LevelStates(Arc::clone(&self.levels))
    }

    /// The checks for `/readyz`: one for each level, one for Python.
    pub(super) fn probes(&self) -> Vec<Box<dyn ReadinessProbe>> {
        let level_probe = |level: Level| -> Box<dyn ReadinessProbe> {
            let is_needed = level == self.default_level;
            Box::new(LevelProbe { levels: Arc::clone(&self.levels), level, is_needed })
        };
        let python: Box<dyn ReadinessProbe> = Box::new(PythonProbe(Arc::clone(&self.python)));
        Level::ALL.into_iter().map(level_probe).chain([python]).collect()
    }
}

/// What the self-test has found of each level.
pub(super) struct LevelStates(KnownLevels);

impl LevelStates {
    /// All levels, the strictest first.
    pub(super) fn all(&self) -> Vec<SandboxLevelInfo> {
        let info = |level: Level| {
            let known = (self.0)(level);
            let state = match &known {
                Some(LevelReport { able: true, .. }) => SandboxLevelState::Ok,
                Some(LevelReport { tested: true, .. }) => SandboxLevelState::Failed,
                Some(_) | None => SandboxLevelState::Testing,
            };
            SandboxLevelInfo { level: level.name(), state, reason: known.and_then(|known| known.reason) }
        };
        Level::ALL.into_iter().map(info).collect()
    }
}

/// Tests until every level has a verdict.
struct SelfTestThread {
    sandbox: Arc<Sandbox>,
    python: SharedPython,
}

impl SelfTestThread {
    fn run(self, on_report: SelfTestListener, end: &Receiver<()>) {
        let mut report = self.test();
        log_report(&report, None);
        on_report(&report);
        let mut pause = FIRST_PAUSE;
        while !report.is_final() && self.wait(pause, end) {
            let earlier = std::mem::replace(&mut report, self.test());
            log_report(&report, Some(&earlier));
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    fn test(&self) -> SandboxReport {
        let report = self.sandbox.report();
        *self.python.lock().unwrap_or_else(PoisonError::into_inner) = Some(report.python.clone());
        report
    }

    /// Waits until the next test is due; false at the end of the server.
    fn wait(&self, pause: Duration, end: &Receiver<()>) -> bool {
        let untested = || {
            let is_untested = |level| self.sandbox.known_level(level).is_some_and(|known| !known.tested);
            Level::ALL.into_iter().filter(|level| is_untested(*level)).count()
        };
        let (before, mut waited) = (untested(), Duration::ZERO);
        // A call may have tested a level: then the other levels, and Python, may work again, too.
        while waited < pause && untested() >= before {
            if end.recv_timeout(POLL) == Err(RecvTimeoutError::Disconnected) {
                return false;
            }
            waited += POLL;
        }
        true
    }
}

/// Logs what has changed since the earlier report.
fn log_report(report: &SandboxReport, earlier: Option<&SandboxReport>) {
    let before = |level: Level| earlier?.levels.iter().find(|known| known.level == level);
    for found in &report.levels {
        let level = found.level.name();
        match (&found.reason, before(found.level)) {
            (reason, Some(before)) if *reason == before.reason => {}
            (Some(reason), _) if found.tested => {
                tracing::error!(level, reason, "sandbox self-test failed; no program runs at this level");
            }
            (Some(reason), _) => {
                tracing::warn!(level, reason, "sandbox self-test could not be made; it is tried again");
            }
            (None, Some(_)) => tracing::info!(level, "sandbox level works again"),
            (None, None) => {}
        }
    }
    if earlier.is_none_or(|earlier| earlier.python.missing_modules != report.python.missing_modules)
        && let Some(reason) = missing_modules(&report.python)
    {
        tracing::warn!(%reason, "Python modules are missing");
    }
}

/// Passes if the level works or has no verdict yet. Only the default level is needed for readiness; another
/// level that does not work is refused by name, and counts as degraded.
struct LevelProbe {
    levels: KnownLevels,
    level: Level,
    is_needed: bool,
}

impl LevelProbe {
    /// The report on a level that is off.
    fn fault(&self) -> Option<LevelReport> {
        (self.levels)(self.level).filter(|known| !known.able)
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

    fn part(&self) -> String {
        format!("sandbox: {}", self.level)
    }

    fn check(&self) -> Result<(), PartFault> {
        let failed = self.fault().filter(|fault| self.is_needed && fault.tested);
        failed.map_or(Ok(()), |fault| Err(explain(&fault)))
    }

    fn degradation(&self) -> Option<PartFault> {
        self.fault().as_ref().map(explain)
    }

    fn is_off(&self) -> bool {
        true
    }
}

/// Why a level is off, and what helps.
fn explain(fault: &LevelReport) -> PartFault {
    let LevelReport { level, reason, tested, .. } = fault;
    let reason = reason.as_deref().unwrap_or("cannot be enforced");
    if *tested {
        PartFault::new(format!("{level}: {reason}"), "run 'nanoclaw doctor'")
    } else {
        PartFault::from(format!("{level} is being tested again: {reason}"))
    }
}

/// Never fails: other tools and JavaScript work without Python.
struct PythonProbe(SharedPython);

impl PythonProbe {
    fn report(&self) -> Option<PythonReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ReadinessProbe for PythonProbe {
    fn name(&self) -> &'static str {
        "python"
    }

    fn check(&self) -> Result<(), PartFault> {
        Ok(())
    }

    fn degradation(&self) -> Option<PartFault> {
        let python = self.report()?;
        match &python.reason {
            Some(reason) if python.path.is_none() => {
                let hint = "install Python 3.9 or later, or name it in code_execution.python";
                Some(PartFault::new(reason.clone(), hint))
            }
            Some(reason) => Some(PartFault::from(reason.clone())),
            None => missing_modules(&python),
        }
    }

    fn is_off(&self) -> bool {
        self.report().is_some_and(|python| python.reason.is_some())
    }
}

/// The modules of the configuration that Python cannot import, and what to do.
pub fn missing_modules(python: &PythonReport) -> Option<PartFault> {
    let name = |(name, reason): &(String, String)| format!("{name} ({reason})");
    let names: Vec<String> = python.missing_modules.iter().map(name).collect();
    (!names.is_empty()).then(|| {
        PartFault::new(
            format!("code_execution.extra_allowed_modules: {} cannot be imported", names.join(", ")),
            "install it for this Python and restart, or remove the entry; Python works without it",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(level: Level, tested: bool, reason: Option<&str>) -> LevelReport {
        LevelReport { level, able: reason.is_none(), reason: reason.map(str::to_owned), tested }
    }

    fn python(reason: Option<&str>, missing: &[(&str, &str)]) -> PythonReport {
        let missing = missing.iter().map(|(name, reason)| ((*name).to_owned(), (*reason).to_owned()));
        let reason = reason.map(str::to_owned);
        PythonReport { path: None, version: None, reason, missing_modules: missing.collect() }
    }

    /// A test with these faults; its default level is `standard`.
    fn self_test(faults: &[LevelReport], python: PythonReport) -> SandboxSelfTest {
        let faults = faults.to_vec();
        let find = move |wanted| faults.iter().find(|fault| fault.level == wanted).cloned();
        SandboxSelfTest {
            levels: Arc::new(move |wanted| Some(find(wanted).unwrap_or_else(|| level(wanted, true, None)))),
            python: Arc::new(Mutex::new(Some(python))),
            default_level: Level::Standard,
            start_signal: sync_channel(1).0,
        }
    }

    /// Name, readiness and reason of every probe that has something to report.
    fn shortfalls(self_test: &SandboxSelfTest) -> Vec<(&'static str, bool, String)> {
        let probes = self_test.probes().into_iter();
        let found = probes.map(|probe| {
            let check = probe.check();
            (probe.name(), check.is_ok(), check.err().or_else(|| probe.degradation()).map(|f| f.to_string()))
        });
        found.filter_map(|(name, is_ready, reason)| Some((name, is_ready, reason?))).collect()
    }

    #[test]
    fn p5_only_a_failing_default_sandbox_level_makes_the_server_unready() {
        assert_eq!(shortfalls(&self_test(&[], python(None, &[]))), []);
        let no_landlock = |failed| level(failed, true, Some("no landlock"));
        let needed = shortfalls(&self_test(&[no_landlock(Level::Standard)], python(None, &[])));
        let [("sandbox_standard", false, reason)] = &needed[..] else { panic!("{needed:?}") };
        assert!(reason.contains("no landlock") && reason.contains("doctor"), "{reason}");
        let others = [no_landlock(Level::Strict), no_landlock(Level::Lenient)];
        let found = shortfalls(&self_test(&others, python(Some("python3 is not in PATH"), &[])));
        let names: Vec<_> = found.iter().map(|(name, is_ready, _)| (*name, *is_ready)).collect();
        assert_eq!(names, [("sandbox_strict", true), ("sandbox_lenient", true), ("python", true)]);
        assert!(found[2].2.contains("install Python"), "{found:?}");
        let untested = SandboxSelfTest {
            levels: Arc::new(|_| None),
            python: SharedPython::default(),
            ..self_test(&[], python(None, &[]))
        };
        assert_eq!(shortfalls(&untested), [], "nothing runs before the test has passed");
    }

    #[test]
    fn p5_a_test_that_could_not_be_made_degrades_the_server_and_names_the_cause() {
        let full = level(Level::Standard, false, Some("no space left in the scratch directory '/scratch'"));
        let self_test = self_test(&[full], python(None, &[]));
        let found = shortfalls(&self_test);
        let [("sandbox_standard", true, reason)] = &found[..] else { panic!("{found:?}") };
        assert!(reason.contains("no space left") && reason.contains("tested again"), "{reason}");
        assert!(!reason.contains("doctor"), "the doctor knows no more: {reason}");
        assert!(self_test.probes().iter().any(|probe| probe.part() == "sandbox: standard"));
    }

    #[test]
    fn the_state_of_a_level_follows_its_test() {
        let faults = [
            level(Level::Strict, true, Some("no landlock")),
            level(Level::Lenient, false, Some("no space left")),
        ];
        let states = self_test(&faults, python(None, &[])).level_states().all();
        let states: Vec<_> =
            states.iter().map(|info| (info.level, info.state, info.reason.as_deref())).collect();
        let expected = [
            ("strict", SandboxLevelState::Failed, Some("no landlock")),
            ("standard", SandboxLevelState::Ok, None),
            ("lenient", SandboxLevelState::Testing, Some("no space left")),
            ("shell", SandboxLevelState::Ok, None),
        ];
        assert_eq!(states, expected);
        let unknown = LevelStates(Arc::new(|_| None));
        assert!(unknown.all().iter().all(|info| info.state == SandboxLevelState::Testing));
    }

    #[test]
    fn a_missing_module_degrades_python_and_leaves_it_on() {
        let without_numpy = self_test(&[], python(None, &[("numpy", "No module named 'numpy'")]));
        let found = shortfalls(&without_numpy);
        let [("python", true, reason)] = &found[..] else { panic!("{found:?}") };
        assert!(reason.contains("numpy (No module named 'numpy')"), "{reason}");
        assert!(reason.contains("extra_allowed_modules"), "{reason}");
        let is_off = |test: &SandboxSelfTest| {
            test.probes().iter().any(|probe| probe.name() == "python" && probe.is_off())
        };
        assert!(!is_off(&without_numpy) && is_off(&self_test(&[], python(Some("no python3"), &[]))));
    }
}
