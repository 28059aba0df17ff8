//! Content codings of an answer. Owns gzip, which some proxies send though nobody asked; refuses the others. `ureq`
//! undoes plain `gzip` itself and takes the header away; what is left of it here is spelled otherwise.

use super::failure::unavailable;
use crate::ports::ModelError;
use flate2::read::MultiGzDecoder;
use std::io::Read;
use ureq::http::Response;
use ureq::http::header::CONTENT_ENCODING;
use ureq::{Body, BodyReader};

/// A body whose coding is undone as it arrives: what has come is handed on at once. The caller bounds how much it takes,
/// which bounds what can be unpacked.
pub(crate) enum Reader {
    /// As it came.
    Plain(BodyReader<'static>),
    /// Packed.
    Gzip(Box<MultiGzDecoder<BodyReader<'static>>>),
}

/// The body of an answer as text again.
pub(crate) fn reader(response: Response<Body>) -> Result<Reader, ModelError> {
    let (head, body) = response.into_parts();
    let coding = head.headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?"));
    let coding = coding.unwrap_or_default().trim().to_ascii_lowercase();
    let body = body.into_reader();
    match coding.as_str() {
        "" | "identity" | "none" => Ok(Reader::Plain(body)),
        "gzip" | "x-gzip" => Ok(Reader::Gzip(Box::new(MultiGzDecoder::new(body)))),
        _ => Err(unavailable("the model's provider answers in a content coding that was not asked for")),
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(body) => body.read(buffer),
            Self::Gzip(body) => body.read(buffer),
        }
    }
}
