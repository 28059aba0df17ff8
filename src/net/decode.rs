//! Decodes compressed bodies. `ureq` decodes plain `gzip` itself and removes the header.

use flate2::read::{MultiGzDecoder, ZlibDecoder};
use std::io::Read;
use ureq::Body;
use ureq::http::Response;
use ureq::http::header::CONTENT_ENCODING;

/// The body, decoded as it arrives; `None` if its coding is unknown. The caller limits how much it reads.
pub(crate) fn decoded(response: Response<Body>) -> Option<Box<dyn Read>> {
    let (head, body) = response.into_parts();
    let coding = head.headers.get(CONTENT_ENCODING).map_or(Ok(""), |value| value.to_str()).ok()?;
    let body = body.into_reader();
    match coding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" | "none" => Some(Box::new(body)),
        "gzip" | "x-gzip" => Some(Box::new(MultiGzDecoder::new(body))),
        "deflate" => Some(Box::new(ZlibDecoder::new(body))),
        _ => None,
    }
}
