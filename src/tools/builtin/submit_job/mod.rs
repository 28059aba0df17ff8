//! Shared by the tools that submit jobs: the caller, the rights of the new job, and error texts.

use crate::domain::job_rights::JobRights;
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

/// The rights of the job without the tools that submit jobs. The tools are listed by name, so that no later
/// tool is added.
pub(super) fn rights_without_submission(
    agents: &AgentServices,
    context: &ToolContext,
) -> Result<JobRights, ToolError> {
    let toolbox = agents.toolbox.get().and_then(Weak::upgrade);
    let toolbox = toolbox.ok_or_else(|| ToolError::failed("The server is shutting down".to_owned()))?;
    let mut names = toolbox.offered_names(&context.scope());
    names.retain(|name| toolbox.reach(name) != ToolReach::HandsIn);
    Ok(JobRights { tools: ToolChoice::of_tools(names), ..context.rights.clone() })
}

#[cfg(test)]
mod tests;
