//! Records what a running job waits for and when its log last grew. The stall detector reads it.

use crate::domain::tool::ToolCall;
use crate::ports::Clock;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The most tools that a log line names.
const NAMED_TOOLS: usize = 3;

/// The progress of one run of a job.
pub(super) struct RunProgress {
    clock: Arc<dyn Clock>,
    log_grew_ms: AtomicU64,
    activity: Mutex<RunActivity>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum RunActivity {
    WaitingForStore,
    CallingModel(String),
    /// Ids and names of the calls without an outcome.
    RunningTools(Vec<(String, String)>),
}

impl RunProgress {
    /// A run that begins now.
    pub(super) fn begin(clock: &Arc<dyn Clock>) -> Self {
        let log_grew_ms = AtomicU64::new(clock.monotonic_ms());
        Self { clock: Arc::clone(clock), log_grew_ms, activity: Mutex::new(RunActivity::WaitingForStore) }
    }

    /// Notes that the log grows now.
    pub(super) fn log_grew(&self) {
        self.log_grew_ms.store(self.clock.monotonic_ms(), Ordering::Relaxed);
    }

    /// When the log last grew, monotonic milliseconds.
    pub(super) fn log_grew_ms(&self) -> u64 {
        self.log_grew_ms.load(Ordering::Relaxed)
    }

    pub(super) fn call_model(&self, model: &str) {
        self.set(RunActivity::CallingModel(model.to_owned()));
    }

    pub(super) fn run_tools(&self, calls: &[ToolCall]) {
        let calls = calls.iter().map(|call| (call.id_ref.clone(), call.name.clone())).collect();
        self.set(RunActivity::RunningTools(calls));
    }

    /// Notes that one of the running calls has its outcome.
    pub(super) fn finish(&self, call: &ToolCall) {
        let mut activity = self.activity.lock().unwrap_or_else(PoisonError::into_inner);
        if let RunActivity::RunningTools(calls) = &mut *activity {
            calls.retain(|(id_ref, _)| *id_ref != call.id_ref);
        }
    }

    pub(super) fn wait_for_store(&self) {
        self.set(RunActivity::WaitingForStore);
    }

    /// Describes what the run waits for; for log lines.
    pub(super) fn activity(&self) -> String {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner).to_string()
    }

    fn set(&self, activity: RunActivity) {
        *self.activity.lock().unwrap_or_else(PoisonError::into_inner) = activity;
    }
}

impl fmt::Display for RunActivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CallingModel(model) => write!(f, "asking the model '{model}'"),
            Self::RunningTools(calls) if !calls.is_empty() => {
                let names: Vec<&str> =
                    calls.iter().take(NAMED_TOOLS).map(|(_, name)| name.as_str()).collect();
                write!(f, "running {}", names.join(", "))?;
                match calls.len().saturating_sub(NAMED_TOOLS) {
                    0 => Ok(()),
                    remaining => write!(f, " and {remaining} more"),
                }
            }
            Self::WaitingForStore | Self::RunningTools(_) => f.write_str("waiting for the store"),
        }
    }
}
