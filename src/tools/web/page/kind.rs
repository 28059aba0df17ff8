//! The kind of a body: HTML, text, or something that cannot be read.

use crate::tools::text::has_word;

/// Types `application/…` that are text.
const TEXT_APPLICATIONS: &str = "\
    json xml javascript ecmascript x-javascript ld+json x-ndjson jsonlines yaml x-yaml toml x-sh sql";
/// The body is not text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is not text but {kind}, {bytes} bytes")]
pub(in crate::tools) struct NotTextError {
    /// The content type.
    pub(in crate::tools) kind: String,
    /// The length of the body.
    pub(in crate::tools) bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    /// A web page.
    Html,
    /// Any other text.
    Text,
}

/// The start of a body, which shows its kind.
const SNIFFED_BYTES: usize = 2_048;

/// Decides by the content type, or by the first bytes if it is unknown.
pub(super) fn of(body: &[u8], content_type: Option<&str>) -> Result<PageKind, NotTextError> {
    let name = content_type.and_then(|line| line.split(';').next()).unwrap_or_default();
    let name = name.trim().to_ascii_lowercase();
    let is_text = name.starts_with("text/")
        || name.strip_prefix("application/").is_some_and(|kind| has_word(TEXT_APPLICATIONS, kind))
        || name.ends_with("+json")
        || name.ends_with("+xml");
    let is_unknown =
        matches!(name.as_str(), "" | "application/octet-stream" | "unknown/unknown") || !name.contains('/');
    let start = body.get(..SNIFFED_BYTES).unwrap_or(body);
    // UTF-16 contains NUL bytes.
    let is_wide = body.starts_with(&[0xff, 0xfe])
        || body.starts_with(&[0xfe, 0xff])
        || line(content_type).contains("utf-16");
    let is_binary = start.contains(&0) && !is_wide;
    match name.as_str() {
        "text/html" | "application/xhtml+xml" if !is_binary => Ok(PageKind::Html),
        _ if is_binary || !(is_text || is_unknown) => Err(not_text(&name, body.len())),
        _ if is_text => Ok(PageKind::Text),
        _ if looks_like_html(start) => Ok(PageKind::Html),
        _ if is_wide || is_utf8(start) => Ok(PageKind::Text),
        _ => Err(not_text(&name, body.len())),
    }
}

fn line(content_type: Option<&str>) -> String {
    content_type.unwrap_or_default().to_ascii_lowercase()
}

fn not_text(name: &str, bytes: usize) -> NotTextError {
    let kind = if name.is_empty() { "of no known type".to_owned() } else { name.chars().take(100).collect() };
    NotTextError { kind, bytes }
}

fn looks_like_html(start: &[u8]) -> bool {
    let start = String::from_utf8_lossy(start).to_ascii_lowercase();
    ["<!doctype html", "<html", "<head", "<body"].iter().any(|tag| start.contains(tag))
}

/// A character may be cut in two at the end.
fn is_utf8(start: &[u8]) -> bool {
    match std::str::from_utf8(start) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    }
}
