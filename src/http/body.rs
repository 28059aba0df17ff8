//! Request bodies. Owns their limits in size and time, each alone and all together; refuses to read what a header says
//! is too large already.

use super::door::Door;
use super::error::Error;
use super::quoted::quoted;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body, Incoming};
use hyper::header;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// More is not reserved on the word of a header alone.
const RESERVE_BYTES: usize = 64 * 1024;

/// A whole body, and its place among those in flight: held until it has been read into something else.
pub(crate) struct Whole {
    pub(crate) bytes: Vec<u8>,
    pub(crate) place: Place,
}

/// Its share of `limits.bodies_bytes`. It grows with what has arrived, not with what a header announces: else a few
/// clients that send nothing could take it all.
#[derive(Debug, Default)]
pub(crate) struct Place(Option<OwnedSemaphorePermit>);

impl Place {
    /// Takes so much more, if there is so much.
    pub(crate) fn grow(&mut self, free: &Arc<Semaphore>, bytes: usize) -> Option<()> {
        let more = Arc::clone(free).try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()?;
        match &mut self.0 {
            Some(held) => held.merge(more),
            None => self.0 = Some(more),
        }
        Some(())
    }
}

/// The whole body.
pub(crate) async fn read(door: &Door, headers: &HeaderMap, body: Incoming) -> Result<Whole, Error> {
    read_within(door, headers, body, door.room.limits.body_bytes).await
}

/// The whole body, of at most so many bytes: for those whom nobody knows yet.
pub(crate) async fn read_within(
    door: &Door,
    headers: &HeaderMap,
    body: Incoming,
    most: usize,
) -> Result<Whole, Error> {
    refuse_encoding(headers)?;
    let limits = &door.room.limits;
    let declared = body.size_hint().lower();
    if declared > most as u64 {
        return Err(Error::BodyTooLarge(most));
    }
    let deadline = Duration::from_secs(limits.body_timeout_s);
    match tokio::time::timeout(deadline, collect(door, body, most)).await {
        Ok(collected) => collected,
        Err(_) => Err(Error::BodyTimeout(limits.body_timeout_s)),
    }
}

/// Bodies are taken as they are.
pub(crate) fn refuse_encoding(headers: &HeaderMap) -> Result<(), Error> {
    match headers
        .get(header::CONTENT_ENCODING)
        .filter(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        Some(encoding) => Err(Error::Encoding(quoted(&String::from_utf8_lossy(encoding.as_bytes())))),
        None => Ok(()),
    }
}

async fn collect(door: &Door, mut body: Incoming, most: usize) -> Result<Whole, Error> {
    let limits = &door.room.limits;
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut bytes = Vec::with_capacity(declared.min(RESERVE_BYTES));
    let mut place = Place::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Error::malformed("the request body broke off"))?;
        let Ok(data) = frame.into_data() else { continue }; // trailers say nothing that is asked for
        if bytes.len() + data.len() > most {
            return Err(Error::BodyTooLarge(most));
        }
        place.grow(&door.bodies, data.len()).ok_or(Error::BodiesFull(limits.bodies_bytes))?;
        if bytes.capacity() - bytes.len() < data.len() {
            // Twice as much, as ever, but never beyond what was announced: that would be memory without a place.
            let announced = declared.saturating_sub(bytes.len());
            bytes.reserve_exact(bytes.len().min(announced).max(data.len()));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Whole { bytes, place })
}
