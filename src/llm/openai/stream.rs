//! The body of an answer as this dialect reads it. Owns what ends a stream and which event is a failure; the reading
//! itself is [`body`]'s.

use super::Bounds;
use super::answer::Answer;
use crate::llm::sse::Event;
use crate::llm::wire::body::{self, Listener};
use crate::llm::wire::failure::Teller;
use crate::ports::{Completion, ModelError};
use std::io::Read;

/// What ends a stream.
const DONE: &str = "[DONE]";

/// Reads a body to its end and returns the completion.
pub(super) fn read(
    mut body: impl Read,
    mut answer: Answer<'_>,
    bounds: Bounds,
) -> Result<Completion, ModelError> {
    let done = body::read(&mut body, &mut answer, bounds.output_bytes)?;
    answer.finish(done)
}

impl Listener for Answer<'_> {
    fn hear(&mut self, event: &Event) -> Result<bool, ModelError> {
        match event.data.trim() {
            DONE => return Ok(true),
            error if event.name == "error" => return Err(self.failure(error)),
            chunk => self.absorb(chunk)?,
        }
        Ok(false)
    }

    fn hear_whole(&mut self, json: &str) -> Result<(), ModelError> {
        self.absorb(json)
    }

    fn has_ended(&self) -> bool {
        Answer::has_ended(self)
    }

    fn teller(&self) -> &Teller {
        Answer::teller(self)
    }
}
