//! Decodes gzip bodies, which some proxies send unasked. `ureq` decodes plain `gzip` itself and removes the header; the
//! rest (`x-gzip`) is decoded here.

use super::error_mapper::unavailable;
use crate::ports::ModelError;
use flate2::read::MultiGzDecoder;
use std::io::Read;
use ureq::http::Response;
use ureq::http::header::CONTENT_ENCODING;
use ureq::{Body, BodyReader};

/// A body that is decoded as it arrives. The caller limits how much it reads.
pub(crate) enum DecodedBody {
    /// Without an encoding.
    Plain(BodyReader<'static>),
    /// Compressed.
    Gzip(Box<MultiGzDecoder<BodyReader<'static>>>),
}

/// The decoded body of a response.
pub(crate) fn reader(response: Response<Body>) -> Result<DecodedBody, ModelError> {
    let (head, body) = response.into_parts();
    let coding = head.headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?"));
    let coding = coding.unwrap_or_default().trim().to_ascii_lowercase();
    let body = body.into_reader();
    match coding.as_str() {
        "" | "identity" | "none" => Ok(DecodedBody::Plain(body)),
        "gzip" | "x-gzip" => Ok(DecodedBody::Gzip(Box::new(MultiGzDecoder::new(body)))),
        _ => Err(unavailable("the model's provider answers in a content coding that was not asked for")),
    }
}

impl Read for DecodedBody {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(body) => body.read(buffer),
            Self::Gzip(body) => body.read(buffer),
        }
    }
}
