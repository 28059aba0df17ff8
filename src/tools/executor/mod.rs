//! Runs batches of tool calls: it finds the tool, checks the arguments, orders what uses files, runs the rest
//! in parallel, and reports each result to a journal. No tool is named here (P6).

mod approval;
mod arguments;
mod audit_entry;
mod batch;
mod cache;
mod catalogue;
mod coerce;
mod file_ordering;
mod name_pattern;
mod nearest;
mod options;
mod outcome;
mod registered_tool;
mod run;
mod schema;
mod truncate;
mod unknown_names;

pub use approval::{ApprovalRules, BadApprovalPattern};
pub use cache::ToolCacheOptions;
pub use name_pattern::NamePattern;
pub use options::{BatchLimits, DefaultTools, ExecutorOptions};
pub use registered_tool::ToolSetError;
pub use schema::{schema_fault, schema_mismatch};

use crate::domain::tool::{
    ToolCall, ToolChoice, ToolDefinition, ToolOrigin, ToolReach, ToolSpec, ToolTraits,
};
use crate::ports::{
    AuditEntry, Journal, Measurement, Tool, ToolContext, ToolInfo, ToolOffer, ToolScope, ToolSource, Toolbox,
    Unavailability, UnexecutedReason, WorkspaceOwner,
};
use audit_entry::audit_entry;
use batch::{CallPreparer, PreparedBatch};
use cache::ResultCache;
use catalogue::CurrentCatalogue;
use registered_tool::RegisteredTool;
use run::BatchRun;
use serde_json::Value;
use std::sync::Arc;
use unknown_names::NameCheck;

/// Runs the tools.
pub struct Executor {
    catalogue: CurrentCatalogue,
    options: ExecutorOptions,
    cache: ResultCache,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let catalogue = self.catalogue.current();
        let names: Vec<_> = catalogue.tools().iter().map(|tool| tool.spec.name.as_ref()).collect();
        f.debug_struct("Executor")
            .field("tools", &names)
            .field("limits", &self.options.limits)
            .finish_non_exhaustive()
    }
}

impl Executor {
    /// Serves the tools in alphabetical order, then those of each source. The error names an invalid tool. An
    /// invalid tool of a source is left out.
    pub fn new(
        tools: Vec<Box<dyn Tool>>,
        sources: Vec<Arc<dyn ToolSource>>,
        options: ExecutorOptions,
    ) -> Result<Self, ToolSetError> {
        let cache = ResultCache::new(options.limits.cache);
        let names = NameCheck {
            approval: options.approval.clone(),
            default_tools: options.default_tools.clone(),
            dormant: options.dormant.clone(),
        };
        Ok(Self { catalogue: CurrentCatalogue::new(tools, sources, names)?, options, cache })
    }
}

impl Toolbox for Executor {
    fn offered(&self, scope: &ToolScope<'_>) -> Vec<ToolDefinition> {
        let is_offered =
            |tool: &&Arc<RegisteredTool>| tool.is_offered(scope) && tool.tool.unavailability(scope).is_none();
        let catalogue = self.catalogue.current();
        catalogue.tools().iter().filter(is_offered).map(|tool| tool.definition(scope)).collect()
    }

    fn offered_names(&self, scope: &ToolScope<'_>) -> Vec<String> {
        let is_offered = |tool: &&Arc<RegisteredTool>| {
            let unavailability = tool.tool.unavailability(scope);
            tool.is_offered(scope) && matches!(unavailability, None | Some(Unavailability::Now(_)))
        };
        let catalogue = self.catalogue.current();
        catalogue.tools().iter().filter(is_offered).map(|tool| tool.spec.name.to_string()).collect()
    }

    fn instructions(&self, scope: &ToolScope<'_>, owner: WorkspaceOwner) -> Vec<String> {
        let is_offered =
            |tool: &&Arc<RegisteredTool>| tool.is_offered(scope) && tool.tool.unavailability(scope).is_none();
        let catalogue = self.catalogue.current();
        let offered = catalogue.tools().iter().filter(is_offered);
        offered.filter_map(|tool| tool.tool.instructions(owner)).collect()
    }

    fn resolve(&self, choice: &ToolChoice, model: &str) -> ToolChoice {
        let Some(configured) = self.options.default_tools.of(model) else { return choice.clone() };
        match choice {
            ToolChoice::Default => ToolChoice::Named(configured.clone()),
            ToolChoice::Named(names) => {
                let expand = |name: &String| {
                    if name == ToolChoice::DEFAULT_GROUP { configured.clone() } else { vec![name.clone()] }
                };
                ToolChoice::Named(names.iter().flat_map(expand).collect())
            }
            ToolChoice::All(_) => choice.clone(),
        }
    }

    fn is_refused(&self, name: &str, scope: &ToolScope<'_>) -> bool {
        let catalogue = self.catalogue.current();
        let is_unusable = |tool: &RegisteredTool| tool.refusal(scope).is_some();
        !scope.choice.offers_any() || catalogue.find(name).is_some_and(is_unusable)
    }

    fn never_works(&self, name: &str) -> Option<String> {
        match self.catalogue.current().find(name)?.tool.unavailability(&ToolScope::EVERY)? {
            Unavailability::Always(reason) => Some(reason),
            Unavailability::InJob(_) | Unavailability::Now(_) => None,
        }
    }

    fn has_tool(&self, name: &str) -> bool {
        self.catalogue.current().find_own(name).is_some()
    }

    fn needs_approval(&self, name: &str, approval_tools: &[String]) -> bool {
        let catalogue = self.catalogue.current();
        catalogue.needs_approval(name, catalogue.find(name), &self.options.approval, approval_tools)
    }

    fn only_computes(&self, name: &str) -> bool {
        let is_builtin = |tool: &RegisteredTool| tool.tool.origin() == ToolOrigin::BuiltIn;
        let catalogue = self.catalogue.current();
        catalogue.find(name).is_some_and(|tool| is_builtin(tool) && tool.tool.traits() == ToolTraits::PURE)
    }

    fn reach(&self, name: &str) -> ToolReach {
        self.catalogue.current().find(name).map_or(ToolReach::Here, |tool| tool.tool.reach())
    }

    fn mismatch(&self, schema: &Value, value: &Value) -> Option<String> {
        schema_mismatch(schema, value)
    }

    fn tool_infos(&self) -> Vec<ToolInfo> {
        let (scope, catalogue) = (ToolScope::EVERY, self.catalogue.current());
        let needs_approval = |tool: &RegisteredTool| {
            catalogue.needs_approval(&tool.spec.name, Some(tool), &self.options.approval, &[])
        };
        let info = |tool: &Arc<RegisteredTool>| ToolInfo {
            spec: ToolSpec::clone(&tool.definition(&scope)),
            traits: tool.tool.traits(),
            origin: tool.tool.origin(),
            needs_approval: needs_approval(tool),
            group: tool.group,
            is_default: tool.offer == ToolOffer::Default,
            mcp: tool.tool.mcp_offer(),
            unavailable: tool.tool.unavailability(&scope).map(|why| why.reason().to_owned()),
        };
        catalogue.tools().iter().map(info).collect()
    }

    fn unknown_names(&self) -> Vec<String> {
        self.catalogue.unknown_names()
    }

    fn run(&self, calls: &[ToolCall], context: &ToolContext, journal: &dyn Journal) {
        let catalogue = self.catalogue.current();
        let batch = PreparedBatch::prepare(
            calls,
            &CallPreparer { catalogue: &catalogue, options: &self.options, context },
        );
        let (options, cache) = (&self.options, &self.cache);
        BatchRun { options, catalogue: &catalogue, cache, context, journal }.perform(&batch);
    }

    fn settled(&self, call: &ToolCall, context: &ToolContext, why: UnexecutedReason, result: &str) {
        let catalogue = self.catalogue.current();
        let tool = catalogue.find(&call.name).map(|tool| tool.spec.name.as_ref());
        self.options.meter.record(Measurement::ToolCalled { tool, outcome: why.name(), took_us: None });
        let Some(audit) = &self.options.audit else { return };
        let (result, skipped) = (result.to_owned(), Some(why.name().to_owned()));
        audit.record(&AuditEntry { result, skipped, ..audit_entry(call, context) });
    }
}

#[cfg(test)]
mod tests;
