//! Shared by the tools that submit jobs: the caller, the tools of the new job, and error texts.

use crate::domain::tool::{ToolChoice, ToolReach};
use crate::ports::{JobServiceError, ToolCaller, ToolContext, ToolError};
use crate::tools::registry::AgentServices;
use std::sync::Weak;

pub(super) fn caller(context: &ToolContext) -> ToolCaller {
    ToolCaller { user: context.user, job: context.job, id_ref: context.id_ref.clone() }
}

/// The error for the model when the job services reject a request.
pub(super) fn rejected(error: &JobServiceError) -> ToolError {
    ToolError::failed(format!("It was not taken: {error}"))
}

/// The tools of the job without those that submit jobs. They are listed by name, so that no later tool is
/// added.
pub(super) fn tools_without_submission(
    agents: &AgentServices,
    context: &ToolContext,
) -> Result<ToolChoice, ToolError> {
    let toolbox = agents.toolbox.get().and_then(Weak::upgrade);
    let toolbox = toolbox.ok_or_else(|| ToolError::failed("The server is shutting down".to_owned()))?;
    let mut names = toolbox.offered_names(&context.scope());
    names.retain(|name| toolbox.reach(name) != ToolReach::HandsIn);
    Ok(if names.is_empty() { ToolChoice::All(false) } else { ToolChoice::Named(names) })
}

#[cfg(test)]
mod tests;
