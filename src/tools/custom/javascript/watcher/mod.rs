//! Watches `tools_dir` and publishes the tools found in it. Other files are skipped with a
//! warning; the tool of a changed file is withdrawn before the file runs again.

use super::description::ToolDescription;
use super::error::ToolFileError;
use super::files::{FileStamp, read, tool_files};
use super::program;
use super::registry::JavaScriptRegistry;
use super::tool::{JavaScriptDeps, JavaScriptTool};
use crate::ports::{CancelToken, Tool};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// How often a file that took too long runs again.
const TIMEOUT_TRIES: u32 = 3;

/// The watcher and the files that it has found.
pub(super) struct DirectoryWatcher {
    dir: PathBuf,
    deps: JavaScriptDeps,
    registry: Arc<JavaScriptRegistry>,
    cancel: CancelToken,
    files: BTreeMap<String, WatchedFile>,
    /// The last logged error of the directory.
    logged_error: Option<String>,
}

struct WatchedFile {
    stamp: FileStamp,
    state: ToolFileState,
}

enum ToolFileState {
    Tool(Arc<dyn Tool>),
    /// No tool. The file runs again while tries are left.
    Rejected {
        reason: String,
        tries_left: u32,
    },
}

impl DirectoryWatcher {
    pub(super) fn new(
        dir: PathBuf,
        deps: JavaScriptDeps,
        registry: Arc<JavaScriptRegistry>,
        cancel: CancelToken,
    ) -> Self {
        Self { dir, deps, registry, cancel, files: BTreeMap::new(), logged_error: None }
    }

    /// Loads every file that is new, has changed, or could not be loaded before.
    pub(super) fn scan(&mut self) {
        let files = self.find_files();
        let count_before = self.files.len();
        self.files.retain(|name, file| files.get(name) == Some(&file.stamp));
        // First: a changed file must not run with its old text while other files load.
        if self.files.len() != count_before {
            self.publish();
        }
        for (name, stamp) in files {
            if self.cancel.reason().is_some() {
                return;
            }
            self.update(name, stamp);
        }
    }

    fn find_files(&mut self) -> BTreeMap<String, FileStamp> {
        match tool_files(&self.dir) {
            Ok(files) => {
                self.logged_error = None;
                files
            }
            Err(error) => {
                let message = error.to_string();
                if self.logged_error.as_ref() != Some(&message) {
                    tracing::warn!(dir = %self.dir.display(), %error, "tools_dir cannot be used");
                    self.logged_error = Some(message);
                }
                BTreeMap::new()
            }
        }
    }

    fn update(&mut self, name: String, stamp: FileStamp) {
        let (logged_reason, tries_left) = match self.files.remove(&name).map(|file| file.state) {
            None => (String::new(), TIMEOUT_TRIES),
            Some(ToolFileState::Rejected { reason, tries_left }) if tries_left > 0 => (reason, tries_left),
            Some(state) => {
                self.files.insert(name, WatchedFile { stamp, state });
                return;
            }
        };
        let state = match self.load(&name) {
            Ok(tool) => {
                tracing::info!(file = name, tool = %tool.spec().name, "tool loaded from tools_dir");
                ToolFileState::Tool(tool)
            }
            Err(error) => {
                let reason = error.to_string();
                if reason != logged_reason {
                    tracing::warn!(file = name, %error, "file of tools_dir rejected");
                }
                ToolFileState::Rejected { reason, tries_left: tries_left_after(&error, tries_left) }
            }
        };
        let is_tool = matches!(state, ToolFileState::Tool(_));
        self.files.insert(name, WatchedFile { stamp, state });
        if is_tool {
            self.publish();
        }
    }

    fn load(&self, name: &str) -> Result<Arc<dyn Tool>, ToolFileError> {
        let source = program::parse_export(&read(&self.dir.join(name))?)?;
        let description = ToolDescription::of(&source, self.deps.code.as_ref(), &self.cancel)?;
        let (file, deps) = (name.to_owned(), self.deps.clone());
        Ok(Arc::new(JavaScriptTool { file, source, description, deps }))
    }

    fn publish(&self) {
        let tools = self.files.values().filter_map(|file| match &file.state {
            ToolFileState::Tool(tool) => Some(Arc::clone(tool)),
            ToolFileState::Rejected { .. } => None,
        });
        self.registry.put(tools.collect());
    }
}

/// Errors of the machine keep all tries, a timeout uses one, and errors of the file use all.
fn tries_left_after(error: &ToolFileError, tries_left: u32) -> u32 {
    match error {
        ToolFileError::Read(_) | ToolFileError::Unavailable(_) => tries_left,
        ToolFileError::TimedOut(_) => tries_left.saturating_sub(1),
        ToolFileError::Invalid(_) | ToolFileError::NoDescription(_) | ToolFileError::BadDescription(_) => 0,
    }
}

#[cfg(test)]
mod tests;
