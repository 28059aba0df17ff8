//! What tools are built from.

use super::builtin::{BashRules, MessageChannels, SubAgentOptions, WeatherOptions, WebSearchOptions};
use super::code::CodeRunner;
use crate::domain::limits::Limits;
use crate::ports::{Clock, JobServices, Model, ProjectFiles, Results, Toolbox, Web};
use std::sync::{Arc, OnceLock, Weak};

/// Six fields at most: a tool that needs more is more than a tool.
#[derive(Clone)]
pub struct ToolDeps {
    /// Runs model-written code behind the kernel.
    pub code: Arc<dyn CodeRunner>,
    /// What was cut of earlier results.
    pub results: Arc<dyn Results>,
    /// Files of projects.
    pub files: Arc<dyn ProjectFiles>,
    /// The web.
    pub web: Arc<dyn Web>,
    /// Jobs, schedules and models.
    pub agents: AgentServices,
    /// What the operator says about tools.
    pub options: Arc<ToolOptions>,
}

/// What tools need that hand in work or ask models of their own.
#[derive(Clone)]
pub struct AgentServices {
    /// Background jobs and schedules.
    pub jobs: Arc<dyn JobServices>,
    /// Models.
    pub model: Arc<dyn Model>,
    /// All tools; filled once they are there.
    pub toolbox: Arc<OnceLock<Weak<dyn Toolbox>>>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// What the operator says about tools, checked.
#[derive(Debug, Clone)]
pub struct ToolOptions {
    /// About commands.
    pub bash: BashRules,
    /// About sub-agents.
    pub sub_agent: SubAgentOptions,
    /// Where messages may go.
    pub channels: MessageChannels,
    /// The bounds of P8.
    pub limits: Limits,
    /// Longest time of a page, seconds.
    pub web_timeout_s: u64,
    /// About searches.
    pub web_search: WebSearchOptions,
    /// About the weather.
    pub weather: WeatherOptions,
}
