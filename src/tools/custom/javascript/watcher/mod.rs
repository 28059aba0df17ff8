//! Watches `tools_dir` and publishes the tools found in it. A file that is no tool is skipped with a
//! warning; the tool of a changed file is withdrawn before the file is asked again.

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

/// How often a file that took too long is asked again.
const LATE_TRIES: u32 = 3;

/// Whoever looks, and what is known from the looks before.
pub(super) struct DirectoryWatcher {
    dir: PathBuf,
    deps: JavaScriptDeps,
    registry: Arc<JavaScriptRegistry>,
    cancel: CancelToken,
    files: BTreeMap<String, WatchedFile>,
    /// What is wrong with the directory itself, as it was last told.
    complaint: Option<String>,
}

/// What is known of a file.
struct WatchedFile {
    stamp: FileStamp,
    state: ToolFileState,
}

/// What came of a file.
enum ToolFileState {
    Tool(Arc<dyn Tool>),
    /// It is none, for the reason that was told; whether it may be one the next time, unchanged.
    Left {
        told: String,
        tries_left: u32,
    },
}

impl DirectoryWatcher {
    /// Has looked at nothing yet.
    pub(super) fn new(
        dir: PathBuf,
        deps: JavaScriptDeps,
        registry: Arc<JavaScriptRegistry>,
        cancel: CancelToken,
    ) -> Self {
        Self { dir, deps, registry, cancel, files: BTreeMap::new(), complaint: None }
    }

    /// Looks at every file that is new, has changed, or could not be asked before.
    pub(super) fn look(&mut self) {
        let found = self.found();
        let before = self.files.len();
        self.files.retain(|name, known| found.get(name) == Some(&known.stamp));
        // Before any file is asked, which takes its time: what has changed must not run as it was.
        if self.files.len() != before {
            self.publish();
        }
        for (name, stamp) in found {
            if self.cancel.reason().is_some() {
                return;
            }
            self.ask(name, stamp);
        }
    }

    fn found(&mut self) -> BTreeMap<String, FileStamp> {
        match tool_files(&self.dir) {
            Ok(found) => {
                self.complaint = None;
                found
            }
            Err(error) => {
                let complaint = error.to_string();
                if self.complaint.as_ref() != Some(&complaint) {
                    tracing::warn!(dir = %self.dir.display(), %error, "tools_dir cannot be used: it has no tools for now");
                    self.complaint = Some(complaint);
                }
                BTreeMap::new()
            }
        }
    }

    fn ask(&mut self, name: String, stamp: FileStamp) {
        let (told, tries_left) = match self.files.remove(&name).map(|known| known.state) {
            None => (String::new(), LATE_TRIES),
            Some(ToolFileState::Left { told, tries_left }) if tries_left > 0 => (told, tries_left),
            Some(settled) => {
                self.files.insert(name, WatchedFile { stamp, state: settled });
                return;
            }
        };
        let state = match self.load(&name) {
            Ok(tool) => {
                tracing::info!(file = name, tool = %tool.spec().name, "a tool of tools_dir is there");
                ToolFileState::Tool(tool)
            }
            Err(error) => {
                let words = error.to_string();
                // Once, not every second.
                if words != told {
                    tracing::warn!(file = name, %error, "a file of tools_dir is left out");
                }
                ToolFileState::Left { told: words, tries_left: tries_left_after(&error, tries_left) }
            }
        };
        let is_tool = matches!(state, ToolFileState::Tool(_));
        self.files.insert(name, WatchedFile { stamp, state });
        if is_tool {
            self.publish();
        }
    }

    fn load(&self, name: &str) -> Result<Arc<dyn Tool>, ToolFileError> {
        let source = program::exporting(&read(&self.dir.join(name))?)?;
        let description = ToolDescription::of(&source, self.deps.code.as_ref(), &self.cancel)?;
        Ok(Arc::new(JavaScriptTool::new(name, source, description, self.deps.clone())))
    }

    fn publish(&self) {
        let tools = self.files.values().filter_map(|known| match &known.state {
            ToolFileState::Tool(tool) => Some(Arc::clone(tool)),
            ToolFileState::Left { .. } => None,
        });
        self.registry.put(tools.collect());
    }
}

/// What is not the file's own fault is tried for ever, what may be a few times more, what is never again.
fn tries_left_after(error: &ToolFileError, tries_left: u32) -> u32 {
    match error {
        ToolFileError::Read(_) | ToolFileError::Unasked(_) => tries_left,
        ToolFileError::Late(_) => tries_left.saturating_sub(1),
        ToolFileError::Unfit(_) | ToolFileError::Undescribed(_) | ToolFileError::Bad(_) => 0,
    }
}

#[cfg(test)]
mod tests;
