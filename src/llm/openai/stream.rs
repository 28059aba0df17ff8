//! The body of an answer: a stream of events, or one JSON object from a provider that does not stream. Owns the
//! telling apart and the end of reading; refuses bodies beyond the bound.

use super::Bounds;
use super::answer::Answer;
use crate::llm::sse::Parser;
use crate::llm::wire::failure::unavailable;
use crate::llm::wire::tether;
use crate::ports::{Completion, ModelError};
use std::io::Read;
use std::time::Duration;

/// Read at once, bytes.
const PIECE_BYTES: usize = 16 * 1024;
/// What a chunk holds beside its text, bytes.
const ENVELOPE_BYTES: usize = 256 * 1024;
/// So many bytes of a body may come for each byte that its answer may have: chunks of a few letters are mostly envelope.
/// Bounds what is unpacked from gzip, too.
const BODY_FACTOR: usize = 256;
/// Silence that is waited through once the finish reason has come; the usage may follow it.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Silence that is waited through after `[DONE]`.
const DRAIN: Duration = Duration::from_millis(150);
/// Reads after `[DONE]`.
const DRAIN_READS: usize = 4;
/// What ends a stream.
const DONE: &str = "[DONE]";

/// Reads a body to its end and returns the completion.
pub(super) fn read(
    mut body: impl Read,
    mut answer: Answer<'_>,
    bounds: Bounds,
) -> Result<Completion, ModelError> {
    let limit = bounds.output_bytes.saturating_add(ENVELOPE_BYTES);
    let mut piece = vec![0; PIECE_BYTES];
    let mut parser = Parser::new(limit);
    let mut begun = false;
    let mut room = bounds.output_bytes.saturating_mul(BODY_FACTOR).saturating_add(ENVELOPE_BYTES);
    loop {
        let count = match body.read(&mut piece) {
            Ok(count) => count,
            // Some providers neither say `[DONE]` nor end: nothing that matters is missing.
            Err(error) if answer.has_ended() && !tether::is_pulled(&error) => 0,
            Err(error) => return Err(answer.teller().read(&error)),
        };
        let mut input = piece.get(..count).unwrap_or_default();
        room = room.checked_sub(count).ok_or_else(|| {
            ModelError::TooLarge(
                "the model's provider sends without end, and hardly anything of an answer".into(),
            )
        })?;
        if count == 0 {
            if !begun {
                return Err(unavailable("the model's provider sent an empty answer"));
            }
            // Some streams forget the empty line after their last event.
            let done = !answer.has_ended() && feed(&mut parser, b"\n\n", &mut answer)?;
            return answer.finish(done);
        }
        if !begun {
            input = input.trim_ascii_start();
            match input.first() {
                Some(b'{' | b'[') => return read_whole(input, body, answer, limit),
                Some(b'<') => {
                    return Err(unavailable("the model's provider sent a web page instead of an answer"));
                }
                _ => {}
            }
            begun = !input.is_empty();
        }
        if feed(&mut parser, input, &mut answer)? {
            drain(body, &mut piece);
            return answer.finish(true);
        }
        if answer.has_ended() {
            tether::hurry(LAST_WORDS);
        }
    }
}

/// A body that was read to its end gives its connection back for the next call. The answer stands in any case.
fn drain(mut body: impl Read, piece: &mut [u8]) {
    tether::hurry(DRAIN);
    for _ in 0..DRAIN_READS {
        if !matches!(body.read(piece), Ok(1..)) {
            break;
        }
    }
}

/// Whether the stream has said that it is done.
fn feed(parser: &mut Parser, mut input: &[u8], answer: &mut Answer<'_>) -> Result<bool, ModelError> {
    while let Some(event) =
        parser.next_event(&mut input).map_err(|error| ModelError::TooLarge(error.to_string()))?
    {
        match event.data.trim() {
            DONE => return Ok(true),
            "" => {}
            error if event.name == "error" => return Err(answer.failure(error)),
            chunk => answer.absorb(chunk)?,
        }
    }
    Ok(false)
}

fn read_whole(
    start: &[u8],
    body: impl Read,
    mut answer: Answer<'_>,
    limit: usize,
) -> Result<Completion, ModelError> {
    let mut whole = start.to_vec();
    let room = u64::try_from(limit.saturating_sub(whole.len())).unwrap_or(u64::MAX).saturating_add(1);
    body.take(room).read_to_end(&mut whole).map_err(|error| answer.teller().read(&error))?;
    if whole.len() > limit {
        return Err(ModelError::TooLarge(format!("the model's answer is longer than {limit} bytes")));
    }
    answer.absorb(&String::from_utf8_lossy(&whole))?;
    answer.finish(false)
}
