//! The spans of an ended job, a fold of its log: one trace for each job, after the semantic conventions of
//! OpenTelemetry for generative AI, version 1.41.0 (status: development).
//!
//! The root is `invoke_agent`; below it are a `chat` span for each model call, failed ones too, and an
//! `execute_tool` span for each tool call of the server. Below that of a tool with sub-agents is an
//! `invoke_agent` span for each of them, with its own calls below. All ids follow from the job and the place
//! of a record in its log, so a repeated export has the same ones. What has no times in the log gets no
//! others:
//! - A record without times (of an early version, or of a call that a crash cut off) gets those of its
//!   neighbours, and the attribute `nanoclaw.times.estimated`.
//! - Summaries and titles have no spans, nor have sub-agents in logs without the times of their calls. Their
//!   tokens count in the root.

mod agents;
mod attributes;
mod collector;
mod content;
mod fold;
mod options;
mod output;
mod span;
#[cfg(test)]
mod tests;

pub use attributes::{SpanAttributes, SpanValue};
pub use fold::SpanFold;
pub use options::{ModelIdentity, SpanOptions};
pub use span::{SpanKind, TraceSpan};

/// The schema of the conventions.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.0";
