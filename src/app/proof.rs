//! The sandbox's self-test at start. Owns the thread that runs it beside the start, so that clients need not wait for it:
//! no program runs at a level before that level's own test has passed (P5).

use crate::ports::Probe;
use nanoclaw_sandbox::{Level, Report, Sandbox};
use std::io;
use std::sync::{Arc, OnceLock};

/// Told what the sandbox achieves on this machine, once it is known.
pub type Announce = Box<dyn FnOnce(&Report) + Send>;

/// The test's outcome, once there is one.
pub(super) struct SandboxProof {
    outcome: Arc<OnceLock<Report>>,
    level: Level,
}

impl SandboxProof {
    /// Starts the test; `announce` hears of the outcome, on the test's thread.
    pub(super) fn begin(sandbox: Arc<Sandbox>, announce: Announce) -> io::Result<Self> {
        let (outcome, level) = (Arc::new(OnceLock::new()), sandbox.options().default_strictness);
        let told = Arc::clone(&outcome);
        let test = move || {
            let report = sandbox.report();
            if let Err(reason) = judge(&report, |_| true) {
                tracing::error!(%reason, "the sandbox does not hold; code does not run at these levels");
            }
            announce(&report);
            told.get_or_init(|| report);
        };
        std::thread::Builder::new().name("self-test".to_owned()).spawn(test)?;
        Ok(Self { outcome, level })
    }

    /// For `/readyz`.
    pub(super) fn probe(&self) -> impl Probe + use<> {
        SandboxProbe { outcome: Arc::clone(&self.outcome), level: self.level }
    }
}

/// Well when the level of a call that names none holds; under test counts as well, because nothing runs before. A level
/// that this kernel is too old for is refused by name when it is asked for, which is no reason to send clients away.
struct SandboxProbe {
    outcome: Arc<OnceLock<Report>>,
    level: Level,
}

impl Probe for SandboxProbe {
    fn name(&self) -> &'static str {
        "sandbox"
    }

    fn check(&self) -> Result<(), String> {
        self.outcome.get().map_or(Ok(()), |report| judge(report, |level| level == self.level))
    }
}

/// Which of the wanted levels do not hold.
fn judge(report: &Report, is_wanted: impl Fn(Level) -> bool) -> Result<(), String> {
    let failed = report.levels.iter().filter(|found| !found.able && is_wanted(found.level));
    let reasons: Vec<String> = failed
        .map(|level| format!("{}: {}", level.level, level.reason.as_deref().unwrap_or("cannot be enforced")))
        .collect();
    if reasons.is_empty() { Ok(()) } else { Err(format!("{}; run 'nanoclaw doctor'", reasons.join("; "))) }
}
