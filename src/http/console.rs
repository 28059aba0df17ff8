//! `GET /` and the files of the console. `build.rs` packs `src/console/` into the binary.
//!
//! The page names its files below a hash of them all, so they are cached for good. A page of another version
//! asks for files that are not here: it gets a 404 and tells its user to load it again.

use super::context::ServerContext;
use super::error::ApiError;
use super::request::context::RequestContext;
use super::response::{self, HandlerResult, HttpResponse};
use bytes::Bytes;
use flate2::read::GzDecoder;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use std::io::Read as _;

include!(concat!(env!("OUT_DIR"), "/console_files.rs"));

const PAGE: &str = "index.html";
/// The path of the page.
pub(crate) const PAGE_PATH: &str = "/";

/// Scripts, styles and data of this server only. Markup becomes part of the page through `DOMPurify` alone.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; \
    form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify";

/// A file of the console.
struct PackedFile {
    /// Below `src/console/`.
    path: &'static str,
    gzip: &'static [u8],
}

/// The page.
pub(crate) fn page(context: &ServerContext, request: &RequestContext) -> HandlerResult {
    let file = find(context, PAGE)?;
    let tag = format!("\"{VERSION}\"");
    let known = request.headers.get(header::IF_NONE_MATCH);
    let mut response = if known.is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        response::empty(StatusCode::NOT_MODIFIED)
    } else {
        packed(file, &request.headers)?
    };
    // Browsers take the headers of a 304 over into their copy, the policy too.
    protect(&mut response);
    response::set(&mut response, header::ETAG, &tag);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

/// A file of the page.
pub(crate) fn file(context: &ServerContext, request: &RequestContext) -> HandlerResult {
    if request.segment("version") != VERSION {
        return Err(ApiError::NotFound("console file of this version"));
    }
    let mut response = packed(find(context, request.segment("file"))?, &request.headers)?;
    protect(&mut response);
    let for_good = HeaderValue::from_static("public, max-age=31536000, immutable");
    response.headers_mut().insert(header::CACHE_CONTROL, for_good);
    Ok(response)
}

fn find(context: &ServerContext, path: &str) -> Result<&'static PackedFile, ApiError> {
    let found = FILES.iter().find(|file| file.path == path).filter(|_| context.app.has_console);
    found.ok_or(ApiError::NotFound("resource"))
}

/// The file as it is stored, or unpacked for a client that takes no gzip.
fn packed(file: &PackedFile, headers: &HeaderMap) -> HandlerResult {
    if takes_gzip(headers) {
        let mut response = response::bytes(media_type(file.path), Bytes::from_static(file.gzip));
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        return Ok(response);
    }
    let mut content = Vec::new();
    GzDecoder::new(file.gzip).read_to_end(&mut content).map_err(|_| ApiError::Internal)?;
    Ok(response::bytes(media_type(file.path), content.into()))
}

fn protect(response: &mut HttpResponse) {
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    let opener = HeaderName::from_static("cross-origin-opener-policy");
    headers.insert(opener, HeaderValue::from_static("same-origin"));
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    codings.flat_map(|line| line.split(',')).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused = quality.trim().strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()) == Some(0.0);
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str) -> String {
        let file = FILES.iter().find(|file| file.path == path).expect("a file");
        let mut text = String::new();
        GzDecoder::new(file.gzip).read_to_string(&mut text).expect("text");
        text
    }

    #[test]
    fn the_page_names_only_files_that_are_packed() {
        let page = text(PAGE);
        let prefix = format!("\"console/{VERSION}/");
        let named: Vec<&str> =
            page.split(&prefix).skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(named.len() >= 4, "{page}");
        for path in named {
            assert!(FILES.iter().any(|file| file.path == path), "{path}");
        }
        assert!(!page.contains("\"console/main.js"), "every address has the version");
    }

    #[test]
    fn all_files_together_stay_small() {
        let bytes: usize = FILES.iter().map(|file| file.gzip.len()).sum();
        assert!(bytes <= 200_000, "{bytes} bytes compressed");
        for file in FILES {
            assert_ne!(media_type(file.path), "application/octet-stream", "{}", file.path);
        }
    }

    #[test]
    fn gzip_is_sent_to_clients_that_take_it() {
        let of = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            takes_gzip(&headers)
        };
        assert!(of("gzip, deflate, br") && of("br;q=1.0, GZIP;q=0.5"));
        assert!(!of("br") && !of("gzip;q=0") && !takes_gzip(&HeaderMap::new()));
    }
}
