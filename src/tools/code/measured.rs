//! A code runner that records metrics of each run.

use super::{CodeRunner, RunCaller};
use crate::ports::{Measurement, Meter};
use nanoclaw_sandbox::{HostCalls, Language, Level, Program, RunRecord};
use std::sync::Arc;
use std::time::Duration;

/// Wraps another runner.
pub struct MeasuredCode {
    runner: Arc<dyn CodeRunner>,
    meter: Arc<dyn Meter>,
}

impl MeasuredCode {
    /// Records every run of `runner` in `meter`.
    pub fn new(runner: Arc<dyn CodeRunner>, meter: Arc<dyn Meter>) -> Self {
        Self { runner, meter }
    }

    fn record(&self, program: &Program, record: RunRecord) -> RunRecord {
        self.meter.record(Measurement::SandboxRan {
            language: program.language.name(),
            level: record.level.name(),
            status: record.status.name(),
            took_us: record.duration_ms.saturating_mul(1_000),
        });
        record
    }
}

impl CodeRunner for MeasuredCode {
    fn run(&self, program: &Program, caller: RunCaller<'_>) -> RunRecord {
        self.record(program, self.runner.run(program, caller))
    }

    fn run_with_host(&self, program: &Program, host: Arc<dyn HostCalls>, caller: RunCaller<'_>) -> RunRecord {
        self.record(program, self.runner.run_with_host(program, host, caller))
    }

    fn default_level(&self) -> Level {
        self.runner.default_level()
    }

    fn levels(&self) -> Vec<Level> {
        self.runner.levels()
    }

    fn timeout(&self, level: Level) -> Duration {
        self.runner.timeout(level)
    }

    fn known_fault(&self, language: Language, level: Level) -> Option<String> {
        self.runner.known_fault(language, level)
    }
}
