//! What a running job is doing and when its log last grew, for whoever looks at it from outside (`vigil`). Owns these two
//! facts; refuses to judge them.

use crate::domain::tool::ToolCall;
use crate::ports::Clock;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// So many tools are named; of more, how many they are.
const NAMED: usize = 3;

/// Where one run of a job stands.
pub(super) struct Progress {
    clock: Arc<dyn Clock>,
    grown_ms: AtomicU64,
    doing: Mutex<Doing>,
}

/// What it waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Doing {
    /// The store, or its own thoughts.
    Thinking,
    /// A model.
    Asking(String),
    /// Calls of tools: their ids and names.
    Running(Vec<(String, String)>),
}

impl Progress {
    /// A run that begins now.
    pub(super) fn begin(clock: &Arc<dyn Clock>) -> Self {
        let grown_ms = AtomicU64::new(clock.monotonic_ms());
        Self { clock: Arc::clone(clock), grown_ms, doing: Mutex::new(Doing::Thinking) }
    }

    /// The log has grown, or is about to.
    pub(super) fn grow(&self) {
        self.grown_ms.store(self.clock.monotonic_ms(), Ordering::Relaxed);
    }

    /// When it last did, monotonic milliseconds.
    pub(super) fn grown_ms(&self) -> u64 {
        self.grown_ms.load(Ordering::Relaxed)
    }

    /// This model is asked.
    pub(super) fn ask(&self, model: &str) {
        self.set(Doing::Asking(model.to_owned()));
    }

    /// These calls are made.
    pub(super) fn run(&self, calls: &[ToolCall]) {
        self.set(Doing::Running(calls.iter().map(|call| (call.id_ref.clone(), call.name.clone())).collect()));
    }

    /// One of them has its outcome.
    pub(super) fn finish(&self, call: &ToolCall) {
        if let Doing::Running(calls) = &mut *self.doing.lock().unwrap_or_else(PoisonError::into_inner) {
            calls.retain(|(id_ref, _)| *id_ref != call.id_ref);
        }
    }

    /// Nothing is waited for but the store.
    pub(super) fn think(&self) {
        self.set(Doing::Thinking);
    }

    /// What it is doing, in a few words.
    pub(super) fn doing(&self) -> String {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner).to_string()
    }

    fn set(&self, doing: Doing) {
        *self.doing.lock().unwrap_or_else(PoisonError::into_inner) = doing;
    }
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asking(model) => write!(f, "asking the model '{model}'"),
            Self::Running(calls) if !calls.is_empty() => {
                let names: Vec<&str> = calls.iter().take(NAMED).map(|(_, name)| name.as_str()).collect();
                write!(f, "running {}", names.join(", "))?;
                match calls.len().saturating_sub(NAMED) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            Self::Thinking | Self::Running(_) => f.write_str("waiting for the store"),
        }
    }
}
