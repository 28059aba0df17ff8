//! The tools that are available now: built-in ones, then those of each source. A new version of a source
//! rebuilds the catalogue.

use super::approval::ApprovalRules;
use super::registered_tool::{RegisteredTool, ToolSetError};
use super::unknown_names::{NameCheck, UnknownNames};
use crate::ports::{Tool, ToolSource};
use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

/// Tools of one source; more are left out.
const SOURCE_TOOLS: usize = 2_048;
/// The longest name that model providers accept.
const NAME_CHARS: usize = 64;

/// The tools at one time: built-in ones in alphabetical order, then those of each source in its order. The
/// stable order keeps the prompt cacheable.
#[derive(Default)]
pub(super) struct ToolCatalogue {
    tools: Vec<Arc<RegisteredTool>>,
    /// The versions of the sources.
    versions: Vec<u64>,
    /// Names of the configuration that none of the tools has.
    unknown: UnknownNames,
}

impl ToolCatalogue {
    /// The built-in tools, or the error of an invalid one.
    fn from_builtin(tools: Vec<Box<dyn Tool>>) -> Result<Self, ToolSetError> {
        let register = |tool: Box<dyn Tool>| RegisteredTool::new(Arc::from(tool), 0).map(Arc::new);
        let mut tools = tools.into_iter().map(register).collect::<Result<Vec<_>, _>>()?;
        tools.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        let mut names: Vec<&str> = tools.iter().flat_map(|tool| tool.names()).collect();
        names.sort_unstable();
        if let Some((duplicate, _)) = names.iter().zip(names.iter().skip(1)).find(|(name, next)| name == next)
        {
            return Err(ToolSetError::Duplicate((*duplicate).to_owned()));
        }
        Ok(Self { tools, versions: Vec::new(), unknown: UnknownNames::default() })
    }

    /// These tools and the current ones of the sources. An invalid tool of a source is left out.
    fn with_sources(&self, sources: &[Arc<dyn ToolSource>], names: &NameCheck) -> Self {
        // First: a change during the loop is then a new version.
        let versions = versions(sources);
        let namespaces: Vec<_> = sources.iter().flat_map(|source| source.namespaces()).collect();
        let mut tools = self.tools.clone();
        let mut used_names: HashSet<String> =
            tools.iter().flat_map(|tool| tool.names()).map(str::to_owned).collect();
        for (source, version) in sources.iter().zip(&versions) {
            let source_tools = source.tools();
            if source_tools.len() > SOURCE_TOOLS {
                tracing::warn!(tools = source_tools.len(), limit = SOURCE_TOOLS, "source has too many tools");
            }
            for tool in source_tools.into_iter().take(SOURCE_TOOLS) {
                match register(tool, *version, &used_names) {
                    Ok(tool) => {
                        used_names.extend(tool.names().map(str::to_owned));
                        tools.push(Arc::new(tool));
                    }
                    Err(reason) => tracing::warn!(%reason, "tool left out"),
                }
            }
        }
        let unknown = names.find_unknown(&tools, &namespaces);
        Self { tools, versions, unknown }
    }

    /// Whether a call needs approval: because a pattern covers it, or because one covers nothing.
    pub(super) fn needs_approval(
        &self,
        name: &str,
        tool: Option<&RegisteredTool>,
        approval: &ApprovalRules,
        approval_tools: &[String],
    ) -> bool {
        self.unknown.asks_always || approval.covers(name, tool, approval_tools)
    }

    /// Logs the unknown names that an earlier catalogue had not.
    fn log_unknown(&self, before: &[String]) {
        for note in self.unknown.notes.iter().filter(|note| !before.contains(note)) {
            tracing::warn!(note, "the configuration names a tool that there is not");
        }
    }

    /// All tools, in stable order.
    pub(super) fn tools(&self) -> &[Arc<RegisteredTool>] {
        &self.tools
    }

    /// The tool of this name or alias, else the one that has this name in other systems.
    pub(super) fn find(&self, name: &str) -> Option<&RegisteredTool> {
        let tools = || self.tools.iter().map(AsRef::as_ref);
        let own = tools().find(|tool| tool.names().any(|known_name| known_name == name));
        own.or_else(|| tools().find(|tool| tool.aliases.foreign.contains(&name)))
    }

    /// The tool of this name or alias.
    pub(super) fn find_own(&self, name: &str) -> Option<&RegisteredTool> {
        self.find(name).filter(|tool| tool.names().any(|known_name| known_name == name))
    }
}

/// The current catalogue, rebuilt when a source has changed. A running batch uses the catalogue of its start.
pub(super) struct CurrentCatalogue {
    builtin: ToolCatalogue,
    sources: Vec<Arc<dyn ToolSource>>,
    names: NameCheck,
    current: RwLock<Arc<ToolCatalogue>>,
}

impl CurrentCatalogue {
    pub(super) fn new(
        tools: Vec<Box<dyn Tool>>,
        sources: Vec<Arc<dyn ToolSource>>,
        names: NameCheck,
    ) -> Result<Self, ToolSetError> {
        let builtin = ToolCatalogue::from_builtin(tools)?;
        let current = builtin.with_sources(&sources, &names);
        current.log_unknown(&[]);
        Ok(Self { builtin, sources, names, current: RwLock::new(Arc::new(current)) })
    }

    /// A sentence for each name of the configuration that no tool has now.
    pub(super) fn unknown_names(&self) -> Vec<String> {
        let of_sources = self.sources.iter().flat_map(|source| source.unknown_names());
        self.current().unknown.notes.iter().cloned().chain(of_sources).collect()
    }

    pub(super) fn current(&self) -> Arc<ToolCatalogue> {
        let versions = versions(&self.sources);
        let current = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        if current.versions == versions {
            return current;
        }
        let rebuilt = Arc::new(self.builtin.with_sources(&self.sources, &self.names));
        rebuilt.log_unknown(&current.unknown.notes);
        // If two threads meet here and the older catalogue stays, the next call rebuilds it.
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&rebuilt);
        rebuilt
    }
}

fn versions(sources: &[Arc<dyn ToolSource>]) -> Vec<u64> {
    sources.iter().map(|source| source.version()).collect()
}

fn register(
    tool: Arc<dyn Tool>,
    version: u64,
    used_names: &HashSet<String>,
) -> Result<RegisteredTool, ToolSetError> {
    let tool = RegisteredTool::new(tool, version)?;
    let bad_schema = |reason| ToolSetError::BadSchema { tool: tool.spec.name.to_string(), reason };
    tool.schema.compiled().map_err(bad_schema)?;
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    for name in tool.names() {
        if name.is_empty() || name.len() > NAME_CHARS || !name.chars().all(is_name_char) {
            return Err(ToolSetError::BadName(name.chars().take(NAME_CHARS).collect()));
        }
        if used_names.contains(name) {
            return Err(ToolSetError::Duplicate(name.to_owned()));
        }
    }
    Ok(tool)
}

#[cfg(test)]
mod tests;
