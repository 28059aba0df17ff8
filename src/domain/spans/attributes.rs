//! Attributes of spans.

use super::content::text_cut;
use super::options::ModelIdentity;
use crate::domain::usage::Usage;
use serde_json::Value;

/// Longest name of a tool or of a model in a span, bytes: models may invent tools.
const NAME_BYTES: usize = 256;

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpanValue {
    /// A text.
    Text(String),
    /// A number that is not negative.
    Number(u64),
    /// A flag.
    Flag(bool),
    /// A list of texts.
    Texts(Vec<String>),
}

/// The attributes of a span, each name once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpanAttributes(pub Vec<(&'static str, SpanValue)>);

impl SpanAttributes {
    /// The attributes of an operation of the conventions.
    pub(super) fn of(operation: &str) -> Self {
        let mut attributes = Self::default();
        attributes.text("gen_ai.operation.name", operation);
        attributes
    }

    /// The value of an attribute.
    pub fn get(&self, name: &str) -> Option<&SpanValue> {
        self.0.iter().find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    pub(super) fn text(&mut self, name: &'static str, value: &(impl ToString + ?Sized)) {
        self.0.push((name, SpanValue::Text(text_cut(&value.to_string(), NAME_BYTES))));
    }

    pub(super) fn optional(&mut self, name: &'static str, value: Option<&impl ToString>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    pub(super) fn number(&mut self, name: &'static str, value: u64) {
        self.0.push((name, SpanValue::Number(value)));
    }

    pub(super) fn positive(&mut self, name: &'static str, value: u64) {
        if value > 0 {
            self.number(name, value);
        }
    }

    /// Sets a flag.
    pub(super) fn flag(&mut self, name: &'static str) {
        self.0.push((name, SpanValue::Flag(true)));
    }

    pub(super) fn finish_reason(&mut self, reason: &str) {
        let reasons = SpanValue::Texts(vec![reason.to_owned()]);
        self.0.push(("gen_ai.response.finish_reasons", reasons));
    }

    /// Adds content, whose size its maker has limited. Spans have no structured values, so it is JSON.
    pub(super) fn content(&mut self, name: &'static str, value: &Value) {
        self.0.push((name, SpanValue::Text(value.to_string())));
    }

    /// Adds a content that is a text.
    pub(super) fn content_text(&mut self, name: &'static str, value: String) {
        self.0.push((name, SpanValue::Text(value)));
    }

    pub(super) fn usage(&mut self, usage: Usage) {
        self.number("gen_ai.usage.input_tokens", usage.prompt_tokens);
        self.number("gen_ai.usage.output_tokens", usage.completion_tokens);
        self.positive("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens);
        self.positive("gen_ai.usage.reasoning.output_tokens", usage.reasoning_tokens);
        self.positive("nanoclaw.usage.cost_micros", usage.cost_micros);
    }

    /// Adds a model of the configuration, or one that is no longer configured.
    pub(super) fn model(&mut self, id: &str, identity: Option<&ModelIdentity>) {
        let Some(ModelIdentity { provider, model, server }) = identity else {
            return self.text("gen_ai.request.model", id);
        };
        self.text("gen_ai.provider.name", provider);
        self.text("gen_ai.request.model", model);
        if let Some((address, port)) = server {
            self.text("server.address", address);
            self.number("server.port", u64::from(*port));
        }
    }
}
