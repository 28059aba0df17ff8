//! What the tools that submit jobs share: the caller, the tools that the new job may call, and error texts.

use crate::domain::tool::{ToolChoice, ToolReach};
use crate::ports::{JobServiceError, ToolCaller, ToolContext, ToolError};
use crate::tools::registry::AgentServices;
use std::sync::Weak;

/// Whose call it is.
pub(super) fn caller(context: &ToolContext) -> ToolCaller {
    ToolCaller { user: context.user, job: context.job, id_ref: context.id_ref.clone() }
}

/// What the model is told of an errand that was not taken.
pub(super) fn refused(error: &JobServiceError) -> ToolError {
    ToolError::failed(format!("It was not taken: {error}"))
}

/// What the job may call, less what hands in work: as names, so that no later tool is added to them.
pub(super) fn without_handing_in(
    agents: &AgentServices,
    context: &ToolContext,
) -> Result<ToolChoice, ToolError> {
    let toolbox = agents.toolbox.get().and_then(Weak::upgrade);
    let toolbox = toolbox.ok_or_else(|| ToolError::failed("The server is shutting down".to_owned()))?;
    let names = toolbox.offered(&context.allowed, false).into_iter().map(|tool| tool.name.to_string());
    let names: Vec<String> = names.filter(|name| toolbox.reach(name) != ToolReach::HandsIn).collect();
    Ok(if names.is_empty() { ToolChoice::All(false) } else { ToolChoice::Named(names) })
}

#[cfg(test)]
mod tests;
