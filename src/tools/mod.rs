//! The tools that models call: the built-in ones (`builtin`), the operator's own (`custom`), and the executor
//! that runs batches of calls. The arguments of a tool fit its schema; user and project come from the
//! context.

mod builtin;
mod code;
mod custom;
mod executor;
mod options;
mod parallel;
mod registry;
mod skills;
#[cfg(test)]
mod testing;
mod text;
mod web;

pub use builtin::{
    BadBashOption, BadChannel, BashOptions, BashRules, ChannelOptions, MessageChannels, SubAgentOptions,
    WeatherOptions, WebSearchOptions, builtin_names, builtin_of_foreign_name, registered,
};
pub use code::{CodeRunner, MeasuredCode, SharedCode};
pub use custom::{BadTool, CommandToolOptions, CommandTools, JavaScriptTools};
pub use executor::{
    ApprovalRules, BadApprovalPattern, BatchLimits, DefaultTools, Executor, ExecutorOptions, NamePattern,
    ToolCacheOptions, ToolSetError, schema_fault, schema_mismatch,
};
pub use options::ToolsSectionOptions;
pub use registry::{AgentServices, ToolDeps, ToolOptions};
pub use skills::{RejectedSkill, Skill, SkillError, SkillOptions, SkillSet, Skills, find_skills};
pub use web::BadOption;
