//! Request bodies. Owns their limits in size and time; refuses to read what a header says is too large already.

use super::error::Error;
use super::nearest::quoted;
use crate::domain::limits::Limits;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body, Incoming};
use hyper::header;
use std::time::Duration;

/// More is not reserved on the word of a header alone.
const RESERVE_BYTES: usize = 64 * 1024;

/// The whole body.
pub(crate) async fn read(headers: &HeaderMap, body: Incoming, limits: &Limits) -> Result<Vec<u8>, Error> {
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING).filter(|e| e.as_bytes() != b"identity") {
        return Err(Error::Encoding(quoted(&String::from_utf8_lossy(encoding.as_bytes()))));
    }
    let declared = body.size_hint().lower();
    if declared > limits.body_bytes as u64 {
        return Err(Error::BodyTooLarge(limits.body_bytes));
    }
    let deadline = Duration::from_secs(limits.body_timeout_s);
    match tokio::time::timeout(deadline, collect(body, limits.body_bytes)).await {
        Ok(collected) => collected,
        Err(_) => Err(Error::BodyTimeout(limits.body_timeout_s)),
    }
}

async fn collect(mut body: Incoming, limit: usize) -> Result<Vec<u8>, Error> {
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut whole = Vec::with_capacity(declared.min(RESERVE_BYTES));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Error::malformed("the request body broke off"))?;
        let Ok(data) = frame.into_data() else { continue }; // trailers say nothing that is asked for
        if whole.len() + data.len() > limit {
            return Err(Error::BodyTooLarge(limit));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole)
}
