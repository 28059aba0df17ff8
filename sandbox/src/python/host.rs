//! The host's interpreter together with the modules that the operator adds to the lists: what the next run finds.
//!
//! Owns: the extra modules, those of the options and those registered later. Refuses: a module that cannot be imported.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Interpreter;
use crate::error::SandboxError;
use crate::level::Level;
use crate::options::{ExtraModules, SandboxOptions};

/// What runs find; looked for when first needed.
#[derive(Debug)]
pub(crate) struct Host {
    python: Option<PathBuf>,
    /// One registration at a time; runs go on meanwhile.
    turn: Mutex<()>,
    known: Mutex<Known>,
}

#[derive(Clone, Debug)]
struct Known {
    extra: ExtraModules,
    found: Option<Result<Arc<Python>, String>>,
}

/// An interpreter, and what it may import beyond the lists.
#[derive(Debug)]
pub(crate) struct Python {
    /// The interpreter.
    pub interpreter: Interpreter,
    /// Its extra modules.
    pub extra: ExtraModules,
}

impl Host {
    /// What these options say. Nothing is started yet.
    pub(crate) fn new(options: &SandboxOptions) -> Self {
        let known = Known { extra: options.extra_allowed_modules.clone(), found: None };
        Self { python: options.python.clone(), turn: Mutex::default(), known: Mutex::new(known) }
    }

    /// The interpreter of the next run, or why there is none.
    pub(crate) fn current(&self) -> Result<Arc<Python>, String> {
        let mut known = self.known();
        let Known { extra, found } = &mut *known;
        found.get_or_insert_with(|| self.find(extra)).clone()
    }

    /// Allows modules at a level from the next run on.
    pub(crate) fn allow(&self, level: Level, names: &[&str]) -> Result<(), SandboxError> {
        let fail = |reason: String| SandboxError::AllowModules { level, reason };
        if let Some(bad) = names.iter().find(|name| !is_module_name(name)) {
            return Err(fail(format!("'{}' is not the name of a module", bad.escape_debug())));
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.current().map_err(fail)?;
        let mut extra = before.extra.clone();
        let Some(list) = extra.list(level) else {
            return Err(fail("commands import nothing".to_owned()));
        };
        let new: BTreeSet<&str> = names.iter().copied().filter(|name| !has(list, name)).collect();
        if new.is_empty() {
            return Ok(());
        }
        list.extend(new.into_iter().map(str::to_owned));
        // Runs that start meanwhile find what was there before.
        let python = self.find(&extra).map_err(fail)?;
        *self.known() = Known { extra, found: Some(Ok(python)) };
        Ok(())
    }

    fn find(&self, extra: &ExtraModules) -> Result<Arc<Python>, String> {
        let interpreter = Interpreter::find(self.python.as_deref(), &extra.all())?;
        Ok(Arc::new(Python { interpreter, extra: extra.clone() }))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn has(list: &[String], name: &str) -> bool {
    list.iter().any(|listed| listed == name)
}

/// Whether this can name a module: identifiers with dots between.
pub(crate) fn is_module_name(name: &str) -> bool {
    let is_identifier = |part: &str| {
        let mut letters = part.chars();
        letters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
            && letters.all(|letter| letter.is_alphanumeric() || letter == '_')
    };
    name.len() <= MAX_NAME_BYTES && name.split('.').all(is_identifier)
}

/// The longest name of a module.
const MAX_NAME_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_identifiers_with_dots() {
        for good in ["numpy", "numpy.linalg", "_x1", "größe"] {
            assert!(is_module_name(good), "{good}");
        }
        for bad in ["", ".", "a.", ".a", "a..b", "1a", "a b", "a-b", "../x", "-c", "a\0", "a;b", "os,sys"] {
            assert!(!is_module_name(bad), "{bad}");
        }
        assert!(!is_module_name(&"a".repeat(MAX_NAME_BYTES + 1)));
    }
}
