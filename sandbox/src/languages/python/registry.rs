//! The interpreter and the extra modules of the next run: those of the options and those registered later.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::interpreter::PythonInterpreter;
use super::modules::is_module_name;
use crate::clock::now;
use crate::error::SandboxError;
use crate::level::Level;
use crate::options::{ExtraModules, SandboxOptions};

/// Finds the interpreter when first needed.
#[derive(Debug)]
pub(crate) struct PythonRegistry {
    python: Option<PathBuf>,
    /// Serialises registrations. Runs continue meanwhile.
    registration: Mutex<()>,
    state: Mutex<RegistryState>,
}

#[derive(Clone, Debug)]
struct RegistryState {
    extra: ExtraModules,
    found: Option<Result<Arc<PythonRuntime>, String>>,
    /// When the search that failed has ended.
    failed_at: Option<Instant>,
}

/// A search that failed is repeated with the first run after this time: its cause may have passed.
const SEARCH_PAUSE: Duration = Duration::from_secs(5);

/// An interpreter and the extra modules that it can import.
#[derive(Debug)]
pub(crate) struct PythonRuntime {
    pub interpreter: PythonInterpreter,
    pub extra: ExtraModules,
}

impl PythonRegistry {
    /// Uses these options. Starts nothing.
    pub(crate) fn new(options: &SandboxOptions) -> Self {
        let extra = options.extra_allowed_modules.clone();
        let state = RegistryState { extra, found: None, failed_at: None };
        Self { python: options.python.clone(), registration: Mutex::default(), state: Mutex::new(state) }
    }

    /// The interpreter of the next run, or why Python is off.
    pub(crate) fn current(&self) -> Result<Arc<PythonRuntime>, String> {
        self.find_current().map_err(|reason| format!("Python is off: {reason}"))
    }

    fn find_current(&self) -> Result<Arc<PythonRuntime>, String> {
        let mut state = self.lock();
        if state.failed_at.is_some_and(|failed_at| failed_at.elapsed() >= SEARCH_PAUSE) {
            state.found = None;
        }
        if let Some(found) = &state.found {
            return found.clone();
        }
        let found = self.find(&state.extra);
        state.failed_at = found.is_err().then(now);
        state.found = Some(found.clone());
        found
    }

    /// Why Python is off, if the interpreter has been searched for.
    pub(crate) fn known_fault(&self) -> Option<String> {
        // A search holds the lock for a long time.
        let state = self.state.try_lock().ok()?;
        let reason = state.found.as_ref()?.as_ref().err()?;
        Some(format!("Python is off: {reason}"))
    }

    /// Allows modules at a level from the next run on.
    pub(crate) fn allow(&self, level: Level, names: &[&str]) -> Result<(), SandboxError> {
        let fail = |reason: String| SandboxError::AllowModules { level, reason };
        if let Some(bad) = names.iter().find(|name| !is_module_name(name)) {
            return Err(fail(format!("'{}' is not the name of a module", bad.escape_debug())));
        }
        let _guard = self.registration.lock().unwrap_or_else(PoisonError::into_inner);
        self.find_current().map_err(fail)?;
        let mut extra = self.lock().extra.clone();
        let Some(list) = extra.list_mut(level) else {
            return Err(fail("commands import nothing".to_owned()));
        };
        let new: BTreeSet<&str> =
            names.iter().copied().filter(|name| !list.iter().any(|listed| listed == name)).collect();
        if new.is_empty() {
            return Ok(());
        }
        list.extend(new.into_iter().map(str::to_owned));
        // Until the assignment below, new runs use the previous modules.
        let python = self.find(&extra).map_err(fail)?;
        let missing = python.interpreter.missing_modules().iter();
        let missing: Vec<String> = missing
            .filter(|(name, _)| names.contains(&name.as_str()))
            .map(|(name, reason)| format!("{name} ({reason})"))
            .collect();
        if !missing.is_empty() {
            return Err(fail(format!("they cannot be imported: {}", missing.join(", "))));
        }
        *self.lock() = RegistryState { extra, found: Some(Ok(python)), failed_at: None };
        Ok(())
    }

    fn find(&self, extra: &ExtraModules) -> Result<Arc<PythonRuntime>, String> {
        let interpreter = PythonInterpreter::find(self.python.as_deref(), &extra.all())?;
        let mut extra = extra.clone();
        extra.remove(interpreter.missing_modules().iter().map(|(name, _)| name.as_str()));
        Ok(Arc::new(PythonRuntime { interpreter, extra }))
    }

    fn lock(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
