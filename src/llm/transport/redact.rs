//! Redacts a provider's messages for clients (P9): keys, URLs, control characters, length.

use crate::domain::secret::Secret;

/// The longest message, characters.
const QUOTE_CHARS: usize = 400;
/// Prefixes of words that may be keys.
const KEY_PREFIXES: [&str; 6] = ["sk-", "sk_", "pk-", "gsk_", "hf_", "xai-"];
/// Words with at least this many letters and digits in a row count as keys.
const KEY_CHARS: usize = 32;
/// Shorter keys (local servers accept any word) are ordinary words.
const SECRET_BYTES: usize = 4;

/// `text` on one line, without URLs and keys, truncated.
pub(super) fn redact(text: &str, secrets: &[Secret], host: &str) -> String {
    let known = secrets.iter().map(Secret::reveal).filter(|secret| secret.len() >= SECRET_BYTES);
    let text = known.fold(text.to_owned(), |text, secret| text.replace(secret, "[key]"));
    let words: Vec<String> = text.split_whitespace().map(|word| redact_word(word, host)).collect();
    let line: String = words.join(" ").chars().filter(|c| !c.is_control()).collect();
    match line.char_indices().nth(QUOTE_CHARS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

fn redact_word(word: &str, host: &str) -> String {
    let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
    let lower = word.to_ascii_lowercase();
    let names_host = !host.is_empty() && lower.contains(&host.to_ascii_lowercase());
    if lower.contains("://") || lower.contains("www.") || names_host {
        return "[url]".to_owned();
    }
    let longest_run = word.split(|c: char| !c.is_ascii_alphanumeric()).map(str::len).max().unwrap_or(0);
    if KEY_PREFIXES.iter().any(|prefix| bare.starts_with(prefix)) || longest_run >= KEY_CHARS {
        return "[key]".to_owned();
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_quoted_provider_texts_hide_keys_and_urls() {
        let message = "Incorrect API key provided: sk-abc**def, or topsecret.\n See https://platform.x/keys (api.x.test:443)";
        let redacted = redact(message, &[Secret::from("topsecret".to_owned())], "api.x.test");
        assert_eq!(redacted, "Incorrect API key provided: [key] or [key]. See [url] [url]");
    }

    #[test]
    fn p8_a_quoted_provider_text_is_short() {
        assert_eq!(redact(&"a b ".repeat(1000), &[], "").chars().count(), QUOTE_CHARS + 1);
    }
}
