//! Decodes a page. The order is: byte order mark, header, the page's own declaration, UTF-8, Windows-1252.
//! It never fails.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// The start of a page, which may declare its charset.
const DECLARED_WITHIN: usize = 4_096;

/// Decodes the body. A declared charset that does not fit the bytes is ignored.
pub(super) fn decoded(body: &[u8], content_type: Option<&str>, is_html: bool) -> String {
    if let Some((encoding, bom_bytes)) = Encoding::for_bom(body) {
        return encoding
            .decode_without_bom_handling(body.get(bom_bytes..).unwrap_or_default())
            .0
            .into_owned();
    }
    let header_encoding = content_type.and_then(|line| label(line.as_bytes()));
    let page_encoding = || label(body.get(..DECLARED_WITHIN).unwrap_or(body));
    let page_encoding = if is_html { page_encoding() } else { None };
    // Old servers declare Latin-1 for everything. Valid UTF-8 beyond ASCII is hardly anything else.
    let is_utf8 = !body.is_ascii() && std::str::from_utf8(body).is_ok();
    let is_credible = |encoding: &&'static Encoding| !(is_utf8 && encoding.is_single_byte());
    let candidates = [header_encoding.filter(is_credible), page_encoding.filter(is_credible), Some(UTF_8)];
    let fits = |encoding: &'static Encoding| {
        let (text, is_broken) = encoding.decode_without_bom_handling(body);
        (!is_broken).then(|| text.into_owned())
    };
    if let Some(text) = candidates.into_iter().flatten().find_map(fits) {
        return text;
    }
    let fallback = header_encoding.or(page_encoding).unwrap_or(WINDOWS_1252);
    fallback.decode_without_bom_handling(body).0.into_owned()
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
