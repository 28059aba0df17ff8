//! The sandbox's self-test at start. Owns the thread that runs it beside the start, so that clients need not wait for it:
//! no program runs at a level before that level's own test has passed (P5).

use crate::ports::ReadinessProbe;
use nanoclaw_sandbox::{Level, Sandbox, SandboxReport};
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

/// Told what the sandbox achieves on this machine, once it is known.
pub type Announce = Box<dyn FnOnce(&SandboxReport) + Send>;

/// The test's outcome, once there is one.
pub(super) struct SandboxProof {
    outcome: Arc<OnceLock<SandboxReport>>,
    level: Level,
    go: SyncSender<()>,
}

impl SandboxProof {
    /// Makes the test ready; `announce` hears of the outcome, on the test's thread.
    pub(super) fn prepare(sandbox: Arc<Sandbox>, announce: Announce) -> io::Result<Self> {
        let (outcome, level) = (Arc::new(OnceLock::new()), sandbox.options().default_strictness);
        let told = Arc::clone(&outcome);
        let (go, gate) = sync_channel(1);
        let test = move || {
            // A start that failed: nobody asks any more.
            if gate.recv().is_err() {
                return;
            }
            let report = sandbox.report();
            if let Err(reason) = judge(&report, |_| true) {
                tracing::error!(%reason, "the sandbox does not hold; code does not run at these levels");
            }
            announce(&report);
            told.get_or_init(|| report);
        };
        std::thread::Builder::new().name("self-test".to_owned()).spawn(test)?;
        Ok(Self { outcome, level, go })
    }

    /// Lets the test run. It starts interpreters, and would take the processor from whoever starts.
    pub(super) fn begin(&self) {
        if self.go.try_send(()).is_err() {
            tracing::debug!("the self-test has been begun already");
        }
    }

    /// For `/readyz`: one for each level, and one for Python.
    pub(super) fn probes(&self) -> Vec<Box<dyn ReadinessProbe>> {
        let of_level = |level: Level| -> Box<dyn ReadinessProbe> {
            let is_needed = level == self.level;
            Box::new(LevelProbe { outcome: Arc::clone(&self.outcome), level, is_needed })
        };
        let python: Box<dyn ReadinessProbe> = Box::new(PythonProbe(Arc::clone(&self.outcome)));
        Level::ALL.into_iter().map(of_level).chain([python]).collect()
    }
}

/// Well when this level holds; under test counts as well, because nothing runs before. The server is not ready without the
/// level of a call that names none. Any other is refused by name when it is asked for, which is no reason to send clients
/// away: its kernel may be too old for it.
struct LevelProbe {
    outcome: Arc<OnceLock<SandboxReport>>,
    level: Level,
    is_needed: bool,
}

impl LevelProbe {
    fn judge(&self) -> Result<(), String> {
        self.outcome.get().map_or(Ok(()), |report| judge(report, |level| level == self.level))
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
        if self.is_needed { self.judge() } else { Ok(()) }
    }

    fn degradation(&self) -> Option<String> {
        self.judge().err()
    }
}

/// Without Python the other tools work, and JavaScript does.
struct PythonProbe(Arc<OnceLock<SandboxReport>>);

impl ReadinessProbe for PythonProbe {
    fn name(&self) -> &'static str {
        "python"
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    fn degradation(&self) -> Option<String> {
        let reason = self.0.get()?.python.reason.as_ref()?;
        Some(format!("{reason}; install Python 3.9 or later, or name it in code_execution.python"))
    }
}

/// Which of the wanted levels do not hold.
fn judge(report: &SandboxReport, is_wanted: impl Fn(Level) -> bool) -> Result<(), String> {
    let failed = report.levels.iter().filter(|found| !found.able && is_wanted(found.level));
    let reasons: Vec<String> = failed
        .map(|level| format!("{}: {}", level.level, level.reason.as_deref().unwrap_or("cannot be enforced")))
        .collect();
    if reasons.is_empty() { Ok(()) } else { Err(format!("{}; run 'nanoclaw doctor'", reasons.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nanoclaw_sandbox::LevelReport;

    fn proof(unable: &[Level], python: Option<&str>) -> SandboxProof {
        let sandbox = Sandbox::new(nanoclaw_sandbox::SandboxOptions::default()).expect("good options");
        let mut report = sandbox.report();
        let reason = |level| unable.contains(&level).then(|| "no landlock".to_owned());
        let level = |level| LevelReport { level, able: !unable.contains(&level), reason: reason(level) };
        report.levels = Level::ALL.map(level).to_vec();
        report.python.reason = python.map(str::to_owned);
        SandboxProof { outcome: Arc::new(report.into()), level: Level::Standard, go: sync_channel(1).0 }
    }

    fn told(proof: &SandboxProof) -> Vec<(&'static str, bool, Option<String>)> {
        let told =
            |probe: Box<dyn ReadinessProbe>| (probe.name(), probe.check().is_ok(), probe.degradation());
        proof.probes().into_iter().map(told).filter(|(_, ok, short)| !ok || short.is_some()).collect()
    }

    #[test]
    fn p5_without_its_level_the_server_is_not_ready_and_other_levels_are_told_of() {
        assert_eq!(told(&proof(&[], None)), []);
        let [(name, false, Some(reason))] = &told(&proof(&[Level::Standard], None))[..] else {
            panic!("the level of a call that names none")
        };
        assert!(*name == "sandbox_standard" && reason.contains("no landlock") && reason.contains("doctor"));
        let of_others = told(&proof(&[Level::Strict, Level::Lenient], Some("python3 is not in PATH")));
        let names: Vec<_> = of_others.iter().map(|(name, ok, _)| (*name, *ok)).collect();
        assert_eq!(names, [("sandbox_strict", true), ("sandbox_lenient", true), ("python", true)]);
        assert!(of_others[2].2.as_ref().is_some_and(|reason| reason.contains("install Python")));
        let untested =
            SandboxProof { outcome: Arc::default(), level: Level::Standard, go: sync_channel(1).0 };
        assert_eq!(told(&untested), [], "nothing runs before the test has passed");
    }
}
