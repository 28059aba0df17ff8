//! The audit log entry of a call.

use crate::domain::tool::ToolCall;
use crate::ports::{AuditEntry, ToolContext};

/// The entry of a call without a result.
pub(super) fn audit_entry(call: &ToolCall, context: &ToolContext) -> AuditEntry {
    let id_ref = match context.id_ref.as_str() {
        "" => call.id_ref.clone(),
        parent => format!("{parent}/{}", call.id_ref),
    };
    AuditEntry {
        time_ms: context.cancel.clock().now_ms(),
        user: context.user,
        job: (!context.is_trial).then_some(context.job),
        project: context.project_id,
        id_ref,
        tool: call.name.clone(),
        arguments: serde_json::from_str(&call.arguments).unwrap_or_else(|_| call.arguments.clone().into()),
        success: false,
        result: String::new(),
        duration_ms: 0,
        level: None,
        skipped: None,
    }
}

#[cfg(test)]
mod tests;
