//! The services and options that tools are built from.

use super::builtin::{BashRules, MessageChannels, SubAgentOptions, WeatherOptions, WebSearchOptions};
use super::code::CodeRunner;
use super::skills::Skills;
use crate::domain::limits::Limits;
use crate::ports::{Clock, JobServices, Memories, Model, Results, Toolbox, Web, WorkspaceFiles};
use std::sync::{Arc, OnceLock, Weak};

/// The services and options of tools.
#[derive(Clone)]
pub struct ToolDeps {
    /// Runs model-written code behind the kernel.
    pub code: Arc<dyn CodeRunner>,
    /// Full texts of shortened results.
    pub results: Arc<dyn Results>,
    /// Files of projects and jobs.
    pub files: Arc<dyn WorkspaceFiles>,
    /// Web requests.
    pub web: Arc<dyn Web>,
    /// Jobs, schedules and models.
    pub agents: AgentServices,
    /// Memories, if the configuration allows them.
    pub memories: Option<Arc<dyn Memories>>,
    /// Skills, if the configuration has some.
    pub skills: Option<Arc<Skills>>,
    /// The options.
    pub options: Arc<ToolOptions>,
}

/// The services of tools that submit jobs or call models.
#[derive(Clone)]
pub struct AgentServices {
    /// Background jobs and schedules.
    pub jobs: Arc<dyn JobServices>,
    /// Models.
    pub model: Arc<dyn Model>,
    /// All tools; set once they exist.
    pub toolbox: Arc<OnceLock<Weak<dyn Toolbox>>>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

/// The checked options of tools.
#[derive(Debug, Clone)]
pub struct ToolOptions {
    /// Rules for commands.
    pub bash: BashRules,
    /// Limits of sub-agents.
    pub sub_agent: SubAgentOptions,
    /// Channels of messages.
    pub channels: MessageChannels,
    /// Limits (P8).
    pub limits: Limits,
    /// Longest time of one page.
    pub web_timeout_s: u64,
    /// The search service.
    pub web_search: WebSearchOptions,
    /// The weather service.
    pub weather: WeatherOptions,
}
