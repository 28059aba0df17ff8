//! Reads the body of an answer in this dialect.

use super::answer::OpenAiAnswer;
use crate::llm::dialect_options::AnswerLimits;
use crate::llm::sse::SseEvent;
use crate::llm::transport::body::{self, AnswerCollector};
use crate::llm::transport::error_mapper::{ErrorMapper, ProviderFailure};
use crate::net::CallSlot;
use crate::ports::Completion;
use std::io::Read;

/// The data of the event that ends a stream.
const DONE: &str = "[DONE]";

/// Reads a body to its end and returns the completion.
pub(super) fn read(
    mut body: impl Read,
    slot: &CallSlot,
    mut answer: OpenAiAnswer<'_>,
    limits: AnswerLimits,
) -> Result<Completion, ProviderFailure> {
    let done = body::read(&mut body, slot, &mut answer, limits.output_bytes)?;
    Ok(answer.finish(done)?)
}

impl AnswerCollector for OpenAiAnswer<'_> {
    fn collect(&mut self, event: &SseEvent) -> Result<bool, ProviderFailure> {
        match event.data.trim() {
            DONE => return Ok(true),
            error if event.name == "error" => return Err(self.failure(error)),
            chunk => self.absorb(chunk)?,
        }
        Ok(false)
    }

    fn collect_whole(&mut self, json: &str) -> Result<(), ProviderFailure> {
        self.absorb(json)
    }

    fn has_ended(&self) -> bool {
        OpenAiAnswer::has_ended(self)
    }

    fn bytes(&self) -> usize {
        OpenAiAnswer::bytes(self)
    }

    fn errors(&self) -> &ErrorMapper {
        OpenAiAnswer::errors(self)
    }
}
