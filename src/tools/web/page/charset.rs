//! Decodes a page. The order is: byte order mark, header, the page's own declaration, UTF-8, Windows-1252.
//! It never fails.

use encoding_rs::{CoderResult, DecoderResult, Encoding, UTF_8, WINDOWS_1252};
use std::borrow::Cow;

/// The start of a page, which may declare its charset.
const DECLARED_WITHIN: usize = 4_096;

/// The longest text of a body, bytes. Some charsets need three times the bytes in UTF-8.
const DECODED_BYTES: usize = 12 << 20;

/// The text of a body.
pub(super) struct DecodedBody<'a> {
    pub(super) text: Cow<'a, str>,
    /// The end of the body is left out.
    pub(super) is_cut: bool,
}

/// Decodes the body. A declared charset that does not fit the bytes is ignored.
pub(super) fn decoded<'a>(body: &'a [u8], content_type: Option<&str>, is_html: bool) -> DecodedBody<'a> {
    if let Some((encoding, bom_bytes)) = Encoding::for_bom(body) {
        let body = body.get(bom_bytes..).unwrap_or_default();
        return fitting(encoding, body).unwrap_or_else(|| repaired(encoding, body));
    }
    let header_encoding = content_type.and_then(|line| label(line.as_bytes()));
    let page_encoding = || label(body.get(..DECLARED_WITHIN).unwrap_or(body));
    let page_encoding = if is_html { page_encoding() } else { None };
    // Old servers declare Latin-1 for everything. Valid UTF-8 beyond ASCII is hardly anything else.
    let is_utf8 = !body.is_ascii() && std::str::from_utf8(body).is_ok();
    let is_credible = |encoding: &&'static Encoding| !(is_utf8 && encoding.is_single_byte());
    let candidates = [header_encoding.filter(is_credible), page_encoding.filter(is_credible), Some(UTF_8)];
    if let Some(decoded) = candidates.into_iter().flatten().find_map(|encoding| fitting(encoding, body)) {
        return decoded;
    }
    repaired(header_encoding.or(page_encoding).unwrap_or(WINDOWS_1252), body)
}

/// The text, if all bytes are valid.
fn fitting<'a>(encoding: &'static Encoding, body: &'a [u8]) -> Option<DecodedBody<'a>> {
    if encoding == UTF_8 {
        let text = std::str::from_utf8(body).ok()?;
        return Some(DecodedBody { text: text.into(), is_cut: false });
    }
    let mut text = String::with_capacity(DECODED_BYTES.min(body.len().saturating_mul(3)));
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let (result, _) = decoder.decode_to_string_without_replacement(body, &mut text, true);
    let is_cut = match result {
        DecoderResult::InputEmpty => false,
        DecoderResult::OutputFull => true,
        DecoderResult::Malformed(..) => return None,
    };
    Some(DecodedBody { text: text.into(), is_cut })
}

/// The text with a mark for invalid bytes.
fn repaired(encoding: &'static Encoding, body: &[u8]) -> DecodedBody<'static> {
    let mut text = String::with_capacity(DECODED_BYTES.min(body.len().saturating_mul(3)));
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let (result, ..) = decoder.decode_to_string(body, &mut text, true);
    DecodedBody { text: text.into(), is_cut: result == CoderResult::OutputFull }
}

/// The charset behind the first `charset=`.
fn label(text: &[u8]) -> Option<&'static Encoding> {
    let text = String::from_utf8_lossy(text).to_ascii_lowercase();
    let (_, rest) = text.split_once("charset")?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
    let name: String =
        rest.chars().take_while(|c| c.is_ascii_alphanumeric() || "-_:.".contains(*c)).collect();
    Encoding::for_label(name.as_bytes())
}
