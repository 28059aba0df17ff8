//! Reads the body of an answer: a stream of events, or one JSON object from a provider that does not stream.

use super::error_mapper::{ErrorMapper, ProviderFailure, unavailable};
use crate::llm::sse::{SseEvent, SseParser};
use crate::net::{CallEnd, CallSlot};
use crate::ports::ModelError;
use std::io::Read;
use std::time::Duration;

/// Size of one read, bytes.
const PIECE_BYTES: usize = 8 * 1024;
/// What an event may hold beside its text, bytes.
const ENVELOPE_BYTES: usize = 256 * 1024;
/// Bytes of a body for each byte of its answer: events of a few letters are mostly envelope.
const BODY_FACTOR: usize = 256;
/// Idle timeout once the answer has ended; the usage may follow it.
const IDLE_AFTER_END: Duration = Duration::from_secs(5);
/// Idle timeout after the end of the stream.
const IDLE_AFTER_DONE: Duration = Duration::from_millis(150);
/// Reads after the end of the stream.
const DRAIN_READS: usize = 4;

/// Builds an answer from what is read.
pub(crate) trait AnswerCollector {
    /// Takes an event with data; returns whether it ends the stream.
    fn collect(&mut self, event: &SseEvent) -> Result<bool, ProviderFailure>;
    /// Takes the whole answer of a provider that does not stream.
    fn collect_whole(&mut self, json: &str) -> Result<(), ProviderFailure>;
    /// Passes on that everything that was read has been passed on.
    fn caught_up(&mut self) -> Result<(), ModelError>;
    /// Whether the answer is complete, except for its usage.
    fn has_ended(&self) -> bool;
    /// Size of the answer so far, bytes.
    fn bytes(&self) -> usize;
    /// Maps failed reads.
    fn errors(&self) -> &ErrorMapper;
}

/// Reads a body to its end; returns whether it was a stream with an end event. A line, an event or a JSON
/// object must not be much longer than `output_bytes`. `slot` holds the call, whose timeouts follow the
/// answer.
pub(crate) fn read(
    body: &mut dyn Read,
    slot: &CallSlot,
    answer: &mut dyn AnswerCollector,
    output_bytes: usize,
) -> Result<bool, ProviderFailure> {
    let limit = output_bytes.saturating_add(ENVELOPE_BYTES);
    let mut piece = vec![0; PIECE_BYTES];
    let mut parser = SseParser::new(limit);
    let mut begun = false;
    let mut left = output_bytes.saturating_mul(BODY_FACTOR).saturating_add(ENVELOPE_BYTES);
    loop {
        let count = match body.read(&mut piece) {
            Ok(count) => count,
            // Some providers neither send an end event nor close the connection.
            Err(error) if answer.has_ended() && CallEnd::of(&error) != Some(CallEnd::Cancelled) => 0,
            Err(error) => return Err(answer.errors().read(&error).into()),
        };
        let mut input = piece.get(..count).unwrap_or_default();
        left = left.checked_sub(count).ok_or_else(endless)?;
        if count == 0 {
            if !begun {
                return Err(unavailable("the model's provider sent an empty answer").into());
            }
            // Some streams lack the empty line after their last event.
            return Ok(!answer.has_ended() && feed(&mut parser, b"\n\n", answer)?);
        }
        if !begun {
            input = input.trim_ascii_start();
            match input.first() {
                Some(b'{' | b'[') => {
                    read_whole(input, body, answer, limit)?;
                    return Ok(false);
                }
                Some(b'<') => {
                    let message = "the model's provider sent a web page instead of an answer";
                    return Err(unavailable(message).into());
                }
                _ => {}
            }
            begun = !input.is_empty();
        }
        let bytes = answer.bytes();
        if feed(&mut parser, input, answer)? {
            drain(body, slot, &mut piece);
            return Ok(true);
        }
        if answer.bytes() > bytes {
            slot.note_progress();
        }
        answer.caught_up()?;
        if answer.has_ended() {
            slot.limit_idle(IDLE_AFTER_END);
        }
    }
}

fn endless() -> ModelError {
    ModelError::TooLarge(
        "the model's provider sends without end, and hardly anything of an answer".to_owned(),
    )
}

/// Reads the body to its end, so that its connection can be used again. The answer is complete in any case.
fn drain(body: &mut dyn Read, slot: &CallSlot, piece: &mut [u8]) {
    slot.limit_idle(IDLE_AFTER_DONE);
    for _ in 0..DRAIN_READS {
        if !matches!(body.read(piece), Ok(1..)) {
            break;
        }
    }
}

/// Hands on complete events; returns whether one ended the stream.
fn feed(
    parser: &mut SseParser,
    mut input: &[u8],
    answer: &mut dyn AnswerCollector,
) -> Result<bool, ProviderFailure> {
    while let Some(event) =
        parser.next_event(&mut input).map_err(|error| ModelError::TooLarge(error.to_string()))?
    {
        if !event.data.trim().is_empty() && answer.collect(&event)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn read_whole(
    start: &[u8],
    body: &mut dyn Read,
    answer: &mut dyn AnswerCollector,
    limit: usize,
) -> Result<(), ProviderFailure> {
    let mut whole = start.to_vec();
    let left = u64::try_from(limit.saturating_sub(whole.len())).unwrap_or(u64::MAX).saturating_add(1);
    body.take(left).read_to_end(&mut whole).map_err(|error| answer.errors().read(&error))?;
    if whole.len() > limit {
        let message = format!("the model's answer is longer than {limit} bytes");
        return Err(ModelError::TooLarge(message).into());
    }
    answer.collect_whole(&String::from_utf8_lossy(&whole))
}
