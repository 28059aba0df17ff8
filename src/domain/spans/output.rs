//! Where the fold puts spans, and what all of them are made with.

use super::attributes::SpanAttributes;
use super::collector::SpanCollector;
use super::content::{SpanContent, text_cut};
use super::options::SpanOptions;
use crate::domain::log_chain::RecordPlace;
use crate::domain::run::EndedRun;
use crate::domain::trace_ids::{SpanId, TraceId};
use crate::domain::usage::Usage;

/// Longest name of a tool or of an agent in the name of a span, bytes.
const NAME_BYTES: usize = 256;

/// The spans of a job so far.
pub(super) struct SpanOutput<'a> {
    pub(super) run: &'a EndedRun,
    pub(super) options: &'a SpanOptions,
    pub(super) content: SpanContent,
    pub(super) spans: SpanCollector,
}

impl<'a> SpanOutput<'a> {
    /// No span yet, of a job with this trace that started at this time.
    pub(super) fn new(
        run: &'a EndedRun,
        options: &'a SpanOptions,
        (trace, started_at_ms): (TraceId, u64),
    ) -> Self {
        let (content, spans) = (SpanContent::new(), SpanCollector::new(trace, started_at_ms));
        Self { run, options, content, spans }
    }

    /// Adds a model, its conversation and what it used.
    pub(super) fn add_model(&self, attributes: &mut SpanAttributes, id: &str, usage: Option<Usage>) {
        attributes.model(id, self.options.models.get(id));
        attributes.optional("gen_ai.conversation.id", self.run.spec.conversation_id.as_ref());
        if let Some(usage) = usage {
            attributes.usage(usage);
        }
    }

    /// The name of a configured model at its provider.
    pub(super) fn model_name<'n>(&'n self, id: &'n str) -> &'n str {
        self.options.models.get(id).map_or(id, |identity| &identity.model)
    }

    /// The span of this record.
    pub(super) fn id_of(&self, place: RecordPlace) -> SpanId {
        SpanId::of(self.run.state.id, place)
    }

    pub(super) fn root_id(&self) -> SpanId {
        SpanId::root(self.run.state.id)
    }

    /// What all calls of tools have. `id_ref`: that of a call of the job itself.
    pub(super) fn tool_attributes(
        &mut self,
        name: &str,
        id_ref: Option<&String>,
        arguments: &str,
    ) -> SpanAttributes {
        let mut attributes = SpanAttributes::of("execute_tool");
        attributes.text("gen_ai.tool.name", name);
        attributes.optional("gen_ai.tool.call.id", id_ref);
        attributes.text("gen_ai.tool.type", "function");
        if self.options.include_content {
            attributes.content_text("gen_ai.tool.call.arguments", self.content.text(arguments));
        }
        attributes
    }

    /// Adds the result of a tool, where content may be shown.
    pub(super) fn add_tool_result(&mut self, attributes: &mut SpanAttributes, content: &str) {
        if self.options.include_content {
            attributes.content_text("gen_ai.tool.call.result", self.content.text(content));
        }
    }

    /// The message of a failure, where content may be shown.
    pub(super) fn error_text(&mut self, message: Option<&str>) -> String {
        let message = message.filter(|_| self.options.include_content);
        message.map(|message| self.content.text(message)).unwrap_or_default()
    }
}

/// The name of a tool call's span.
pub(super) fn tool_span_name(tool: &str) -> String {
    span_name("execute_tool", tool)
}

/// The name of an operation's span. Models may invent tools.
pub(super) fn span_name(operation: &str, subject: &str) -> String {
    format!("{operation} {}", text_cut(subject, NAME_BYTES))
}
