//! Request bodies. Owns their limits in size and time, each alone and all together; refuses to read what a header says
//! is too large already.

use super::arriving::Arriving;
use super::door::Door;
use super::error::Error;
use super::quoted::quoted;
use crate::domain::limits::Limits;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::Body;
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
pub(crate) async fn read(door: &Door, headers: &HeaderMap, body: Arriving) -> Result<Whole, Error> {
    read_up_to(door, headers, body, door.room.limits.body_bytes).await
}

/// The whole body, of at most so many bytes.
pub(crate) async fn read_up_to(
    door: &Door,
    headers: &HeaderMap,
    body: Arriving,
    most: usize,
) -> Result<Whole, Error> {
    refuse_encoding(headers)?;
    let limits = &door.room.limits;
    let declared = body.size_hint().lower();
    if declared > most as u64 {
        return Err(too_large(limits, most));
    }
    let (deadline, sender) = (Duration::from_secs(limits.body_timeout_s), body.sender());
    match tokio::time::timeout(deadline, collect(door, body, most)).await {
        Ok(collected) => sender.confirm(door).and(collected),
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

fn too_large(limits: &Limits, most: usize) -> Error {
    if most == limits.body_bytes {
        return Error::BodyTooLarge(most);
    }
    Error::UploadTooLarge(format!("the request body is larger than {most} bytes"))
}

async fn collect(door: &Door, mut body: Arriving, most: usize) -> Result<Whole, Error> {
    let limits = &door.room.limits;
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut bytes = Vec::with_capacity(declared.min(RESERVE_BYTES));
    let mut place = Place::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Error::malformed("the request body broke off"))?;
        let Ok(data) = frame.into_data() else { continue }; // trailers say nothing that is asked for
        if bytes.len() + data.len() > most {
            return Err(too_large(limits, most));
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
