//! The tools that are available now: built-in ones, then those of each source. A new version of a source
//! rebuilds the catalogue.

use super::schema::ParameterSchema;
use crate::domain::tool::{Aliases, ToolChoice, ToolDefinition, ToolGroup, ToolOrigin, ToolSpec};
use crate::ports::{Tool, ToolOffer, ToolScope, ToolSource, Unavailability};
use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

/// Tools of one source; more are left out.
const SOURCE_TOOLS: usize = 2_048;
/// The longest name that model providers accept.
const NAME_CHARS: usize = 64;

/// Why a set of tools cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolSetError {
    /// The tool's schema does not compile.
    #[error("tool '{tool}' has a bad schema: {reason}")]
    BadSchema {
        /// The tool's name.
        tool: String,
        /// The error of the schema compiler.
        reason: String,
    },
    /// Two tools share a name or an alias.
    #[error("tool '{0}' is registered twice")]
    Duplicate(String),
    /// A name that model providers do not accept.
    #[error("tool '{0}' has a bad name: 1 to 64 letters, digits, _ and - make one")]
    BadName(String),
}

/// A tool with its constant properties.
pub(super) struct RegisteredTool {
    pub(super) tool: Arc<dyn Tool>,
    pub(super) spec: ToolDefinition,
    pub(super) aliases: Aliases,
    /// Further names for patterns of approval.
    approval_names: Vec<String>,
    pub(super) reads_results: bool,
    pub(super) group: Option<ToolGroup>,
    pub(super) offer: ToolOffer,
    pub(super) schema: ParameterSchema,
    /// The version of its source; 0 for built-in tools.
    pub(super) version: u64,
}

impl RegisteredTool {
    fn new(tool: Arc<dyn Tool>, version: u64) -> Result<Self, ToolSetError> {
        let spec = definition(tool.as_ref(), tool.spec());
        let bad_schema = |reason| ToolSetError::BadSchema { tool: spec.name.to_string(), reason };
        let schema = ParameterSchema::new(&spec.parameters).map_err(bad_schema)?;
        let (aliases, reads_results) = (tool.aliases(), tool.reads_results());
        let (approval_names, group, offer) = (tool.approval_names(), tool.group(), tool.offer());
        Ok(Self { tool, spec, aliases, approval_names, reads_results, group, offer, schema, version })
    }

    /// Its name and its aliases.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.spec.name.as_ref()).chain(self.aliases.names.iter().copied())
    }

    /// Every name for patterns of approval.
    pub(super) fn approval_names(&self) -> impl Iterator<Item = &str> {
        let mcp_name = self.tool.mcp_offer().map(|offer| offer.name);
        self.names().chain(self.approval_names.iter().map(String::as_str)).chain(mcp_name)
    }

    /// Whether the job lists one of its names.
    pub(super) fn is_named(&self, choice: &ToolChoice) -> bool {
        matches!(choice, ToolChoice::Named(_)) && self.names().any(|name| choice.allows(name))
    }

    /// Whether the job may use it, by a name or by a group.
    pub(super) fn is_allowed(&self, choice: &ToolChoice) -> bool {
        let is_reader = self.reads_results && choice.offers_any();
        let is_in_group = || match choice {
            ToolChoice::Named(names) => names.iter().any(|name| self.is_in_group(name)),
            ToolChoice::All(_) | ToolChoice::Default => false,
        };
        is_reader || self.names().any(|name| choice.allows(name)) || is_in_group()
    }

    fn is_in_group(&self, name: &str) -> bool {
        match name {
            ToolChoice::DEFAULT_GROUP => self.offer == ToolOffer::Default,
            _ if self.offer == ToolOffer::ByName => false,
            ToolChoice::EVERY_GROUP => true,
            _ => self.group.is_some_and(|group| group.name() == name),
        }
    }

    /// Whether the job's choice offers it, if it can work.
    pub(super) fn is_offered(&self, scope: &ToolScope<'_>) -> bool {
        let is_chosen = match scope.choice {
            ToolChoice::Default => self.is_in_group(ToolChoice::DEFAULT_GROUP),
            ToolChoice::All(all) => *all && self.is_in_group(ToolChoice::EVERY_GROUP),
            ToolChoice::Named(_) => self.is_allowed(scope.choice),
        };
        is_chosen && (!self.reads_results || scope.has_results || self.is_named(scope.choice))
    }

    /// Why the job's settings or the configuration refuse every call; `None` if they do not.
    pub(super) fn refusal(&self, scope: &ToolScope<'_>) -> Option<ToolRefusal> {
        if !self.is_allowed(scope.choice) {
            return Some(ToolRefusal::NotAllowed);
        }
        match self.tool.unavailability(scope)? {
            // The tool's own error says more about this moment.
            Unavailability::Now(_) => None,
            Unavailability::Always(reason) | Unavailability::InJob(reason) => {
                Some(ToolRefusal::Unusable(reason))
            }
        }
    }

    /// Its definition in this job.
    pub(super) fn definition(&self, scope: &ToolScope<'_>) -> ToolDefinition {
        self.tool.definition_in(scope).unwrap_or_else(|| self.spec.clone())
    }
}

/// The definition for models. Schemas of others than this server stay as they are.
fn definition(tool: &dyn Tool, spec: ToolSpec) -> ToolDefinition {
    if tool.origin() == ToolOrigin::BuiltIn {
        ToolDefinition::concise(spec)
    } else {
        ToolDefinition::from(spec)
    }
}

/// Why a job may not call a tool.
pub(super) enum ToolRefusal {
    /// The job does not name it.
    NotAllowed,
    /// It cannot work in this job, for this reason.
    Unusable(String),
}

/// The tools at one time: built-in ones in alphabetical order, then those of each source in its order. The
/// stable order keeps the prompt cacheable.
#[derive(Default)]
pub(super) struct ToolCatalogue {
    tools: Vec<Arc<RegisteredTool>>,
    /// The versions of the sources.
    versions: Vec<u64>,
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
        Ok(Self { tools, versions: Vec::new() })
    }

    /// These tools and the current ones of the sources. An invalid tool of a source is left out.
    fn with_sources(&self, sources: &[Arc<dyn ToolSource>]) -> Self {
        // First: a change during the loop is then a new version.
        let versions = versions(sources);
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
        Self { tools, versions }
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
    current: RwLock<Arc<ToolCatalogue>>,
}

impl CurrentCatalogue {
    pub(super) fn new(
        tools: Vec<Box<dyn Tool>>,
        sources: Vec<Arc<dyn ToolSource>>,
    ) -> Result<Self, ToolSetError> {
        let builtin = ToolCatalogue::from_builtin(tools)?;
        let current = RwLock::new(Arc::new(builtin.with_sources(&sources)));
        Ok(Self { builtin, sources, current })
    }

    pub(super) fn current(&self) -> Arc<ToolCatalogue> {
        let versions = versions(&self.sources);
        let current = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        if current.versions == versions {
            return current;
        }
        let rebuilt = Arc::new(self.builtin.with_sources(&self.sources));
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
