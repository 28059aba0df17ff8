//! The body of an answer: a stream of events, or one JSON object from a provider that does not stream. Owns the
//! telling apart and the end of reading; refuses bodies beyond the bound.

use super::failure::{Teller, unavailable};
use super::tether;
use crate::llm::sse::{Event, Parser};
use crate::ports::ModelError;
use std::io::Read;
use std::time::Duration;

/// Read at once, bytes.
const PIECE_BYTES: usize = 16 * 1024;
/// What an event holds beside its text, bytes.
const ENVELOPE_BYTES: usize = 256 * 1024;
/// So many bytes of a body may come for each byte that its answer may have: events of a few letters are mostly
/// envelope.
const BODY_FACTOR: usize = 256;
/// Silence that is waited through once the answer has ended; the usage may follow it.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Silence that is waited through after the stream has said that it is done.
const DRAIN: Duration = Duration::from_millis(150);
/// Reads after that.
const DRAIN_READS: usize = 4;

/// Who makes an answer of what is read.
pub(crate) trait Listener {
    /// Takes an event with data in; whether the stream has said that it is done.
    fn hear(&mut self, event: &Event) -> Result<bool, ModelError>;
    /// Takes in the whole answer of a provider that does not stream.
    fn hear_whole(&mut self, json: &str) -> Result<(), ModelError>;
    /// Whether nothing that matters is missing any more.
    fn has_ended(&self) -> bool;
    /// What to tell of a failed read.
    fn teller(&self) -> &Teller;
}

/// Reads a body to its end; returns whether it was a stream that said that it is done. No line, no event and no JSON
/// object may be much longer than `output_bytes`.
pub(crate) fn read(
    body: &mut dyn Read,
    listener: &mut dyn Listener,
    output_bytes: usize,
) -> Result<bool, ModelError> {
    let limit = output_bytes.saturating_add(ENVELOPE_BYTES);
    let mut piece = vec![0; PIECE_BYTES];
    let mut parser = Parser::new(limit);
    let mut begun = false;
    let mut room = output_bytes.saturating_mul(BODY_FACTOR).saturating_add(ENVELOPE_BYTES);
    loop {
        let count = match body.read(&mut piece) {
            Ok(count) => count,
            // Some providers neither say that they are done nor end.
            Err(error) if listener.has_ended() && !tether::is_pulled(&error) => 0,
            Err(error) => return Err(listener.teller().read(&error)),
        };
        let mut input = piece.get(..count).unwrap_or_default();
        room = room.checked_sub(count).ok_or_else(endless)?;
        if count == 0 {
            if !begun {
                return Err(unavailable("the model's provider sent an empty answer"));
            }
            // Some streams forget the empty line after their last event.
            return Ok(!listener.has_ended() && feed(&mut parser, b"\n\n", listener)?);
        }
        if !begun {
            input = input.trim_ascii_start();
            match input.first() {
                Some(b'{' | b'[') => {
                    read_whole(input, body, listener, limit)?;
                    return Ok(false);
                }
                Some(b'<') => {
                    return Err(unavailable("the model's provider sent a web page instead of an answer"));
                }
                _ => {}
            }
            begun = !input.is_empty();
        }
        if feed(&mut parser, input, listener)? {
            drain(body, &mut piece);
            return Ok(true);
        }
        if listener.has_ended() {
            tether::hurry(LAST_WORDS);
        }
    }
}

fn endless() -> ModelError {
    ModelError::TooLarge(
        "the model's provider sends without end, and hardly anything of an answer".to_owned(),
    )
}

/// A body that was read to its end gives its connection back for the next call. The answer stands in any case.
fn drain(body: &mut dyn Read, piece: &mut [u8]) {
    tether::hurry(DRAIN);
    for _ in 0..DRAIN_READS {
        if !matches!(body.read(piece), Ok(1..)) {
            break;
        }
    }
}

/// Whether the stream has said that it is done.
fn feed(parser: &mut Parser, mut input: &[u8], listener: &mut dyn Listener) -> Result<bool, ModelError> {
    while let Some(event) =
        parser.next_event(&mut input).map_err(|error| ModelError::TooLarge(error.to_string()))?
    {
        if !event.data.trim().is_empty() && listener.hear(&event)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn read_whole(
    start: &[u8],
    body: &mut dyn Read,
    listener: &mut dyn Listener,
    limit: usize,
) -> Result<(), ModelError> {
    let mut whole = start.to_vec();
    let room = u64::try_from(limit.saturating_sub(whole.len())).unwrap_or(u64::MAX).saturating_add(1);
    body.take(room).read_to_end(&mut whole).map_err(|error| listener.teller().read(&error))?;
    if whole.len() > limit {
        return Err(ModelError::TooLarge(format!("the model's answer is longer than {limit} bytes")));
    }
    listener.hear_whole(&String::from_utf8_lossy(&whole))
}
