//! A tool of the catalogue with its constant properties: its names, its schema, and which jobs may use it.

use super::schema::ParameterSchema;
use crate::domain::tool::{Aliases, ToolChoice, ToolDefinition, ToolGroup, ToolOrigin, ToolSpec};
use crate::ports::{Tool, ToolOffer, ToolScope, Unavailability};
use std::sync::Arc;

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
    pub(super) fn new(tool: Arc<dyn Tool>, version: u64) -> Result<Self, ToolSetError> {
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
