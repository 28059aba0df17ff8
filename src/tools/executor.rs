//! All tools together, as the engine sees them. Owns the tools of the moment and what the operator says about running
//! them; refuses to know any tool by name (P6).

use super::approval::ApprovalRules;
use super::batch::{Batch, Rules};
use super::cache::{Cache, CacheBounds};
use super::catalogue::{Catalogues, Registered};
use super::entry::entry;
use super::run::Run;
use crate::domain::limits::Limits;
use crate::domain::tool::{ToolCall, ToolChoice, ToolDefinition, ToolReach, ToolSpec};
use crate::ports::{
    Audit, AuditEntry, Journal, Measurement, Meter, NoopMeter, Tool, ToolContext, ToolInfo, ToolSource,
    Toolbox, UnexecutedReason,
};
use std::sync::Arc;
use std::time::Duration;

/// Why a set of tools cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The tool's schema does not compile.
    #[error("tool '{tool}' has a bad schema: {reason}")]
    BadSchema {
        /// Whose.
        tool: String,
        /// Why.
        reason: String,
    },
    /// Two tools of one name, aliases counted: a call could mean either.
    #[error("tool '{0}' is registered twice")]
    Twice(String),
    /// A name that models' providers do not take.
    #[error("tool '{0}' has a bad name: 1 to 64 letters, digits, _ and - make one")]
    BadName(String),
}

/// The bounds of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Calls of one batch that run at once.
    pub workers: usize,
    /// Longest run of one call.
    pub timeout: Duration,
    /// Longest result as the model sees it, characters.
    pub result_chars: usize,
    /// Longest result as it is kept, bytes.
    pub result_bytes: usize,
    /// Of results that stand for new ones.
    pub cache: CacheBounds,
}

impl Bounds {
    /// From the limits and `tool_max_workers`.
    pub fn new(limits: &Limits, workers: usize, cache: CacheBounds) -> Self {
        let timeout = Duration::from_secs(limits.tool_timeout_s);
        let (result_chars, result_bytes) = (limits.tool_result_chars, limits.tool_result_bytes);
        Self { workers: workers.max(1), timeout, result_chars, result_bytes, cache }
    }
}

/// What the operator says about running tools.
#[derive(Clone)]
pub struct Terms {
    /// The bounds of a batch.
    pub bounds: Bounds,
    /// Which calls wait for somebody's approval.
    pub approval: ApprovalRules,
    /// Where every call is recorded, if anywhere.
    pub audit: Option<Arc<dyn Audit>>,
    /// Who counts them.
    pub meter: Arc<dyn Meter>,
}

impl Terms {
    /// These bounds; nothing waits for anybody, and nothing is recorded or counted.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, approval: ApprovalRules::default(), audit: None, meter: Arc::new(NoopMeter) }
    }
}

/// The toolbox.
pub struct Executor {
    catalogues: Catalogues,
    terms: Terms,
    cache: Cache,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let catalogue = self.catalogues.now();
        let names: Vec<_> = catalogue.tools().iter().map(|tool| tool.spec.name.as_ref()).collect();
        f.debug_struct("Executor")
            .field("tools", &names)
            .field("bounds", &self.terms.bounds)
            .finish_non_exhaustive()
    }
}

impl Executor {
    /// Serves these tools, in alphabetical order, and after them those of the sources, in the order of these; or says
    /// which of the tools cannot be served. A tool of a source that cannot be served is left out.
    pub fn new(
        tools: Vec<Box<dyn Tool>>,
        sources: Vec<Arc<dyn ToolSource>>,
        terms: Terms,
    ) -> Result<Self, Error> {
        let cache = Cache::new(terms.bounds.cache);
        Ok(Self { catalogues: Catalogues::new(tools, sources)?, terms, cache })
    }
}

impl Toolbox for Executor {
    fn offered(&self, choice: &ToolChoice, has_results: bool) -> Vec<ToolDefinition> {
        let is_offered = |tool: &&Arc<Registered>| {
            let is_wanted = !tool.reads_results || has_results || tool.is_named(choice);
            is_wanted && tool.is_allowed(choice)
        };
        let catalogue = self.catalogues.now();
        catalogue.tools().iter().filter(is_offered).map(|tool| tool.spec.clone()).collect()
    }

    fn has_tool(&self, name: &str) -> bool {
        self.catalogues.now().find(name).is_some()
    }

    fn needs_approval(&self, name: &str) -> bool {
        self.terms.approval.covers(name, self.catalogues.now().find(name))
    }

    fn reach(&self, name: &str) -> ToolReach {
        self.catalogues.now().find(name).map_or(ToolReach::Here, |tool| tool.tool.reach())
    }

    fn tool_infos(&self) -> Vec<ToolInfo> {
        let info = |tool: &Arc<Registered>| ToolInfo {
            spec: ToolSpec::clone(&tool.spec),
            traits: tool.traits_in(true),
            origin: tool.tool.origin(),
            needs_approval: self.terms.approval.covers(&tool.spec.name, Some(tool)),
        };
        self.catalogues.now().tools().iter().map(info).collect()
    }

    fn run(&self, calls: &[ToolCall], context: &ToolContext, journal: &dyn Journal) {
        let catalogue = self.catalogues.now();
        let batch = Batch::prepare(calls, &Rules { catalogue: &catalogue, terms: &self.terms, context });
        let (terms, cache) = (&self.terms, &self.cache);
        Run { terms, catalogue: &catalogue, cache, context, journal }.perform(&batch);
    }

    fn settled(&self, call: &ToolCall, context: &ToolContext, why: UnexecutedReason, told: &str) {
        let catalogue = self.catalogues.now();
        let tool = catalogue.find(&call.name).map(|tool| tool.spec.name.as_ref());
        self.terms.meter.record(Measurement::ToolCalled { tool, outcome: why.name(), took_us: None });
        let Some(audit) = &self.terms.audit else { return };
        let (result, skipped) = (told.to_owned(), Some(why.name().to_owned()));
        audit.record(&AuditEntry { result, skipped, ..entry(call, context) });
    }
}

#[cfg(test)]
mod face_tests;
#[cfg(test)]
pub(super) mod tests;
