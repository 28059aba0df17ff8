//! Client text inside our own messages: cut and escaped.

const CHARS: usize = 64;
/// The most texts of a list.
const TEXTS: usize = 16;

/// Client text for an error message: cut to 64 characters, control characters escaped.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", escaped(text))
}

/// The same without quotation marks, for messages with the words of another API.
pub(crate) fn escaped(text: &str) -> String {
    let cut: String = text.chars().take(CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(CHARS).is_some() { cut + "…" } else { cut }
}

/// Several such texts, with commas.
pub(crate) fn listed(texts: &[&str]) -> String {
    texts.iter().take(TEXTS).map(|text| escaped(text)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_texts_are_short_and_on_one_line() {
        assert_eq!(quoted("a\nb"), "'a\\nb'");
        assert!(quoted(&"x".repeat(500)).chars().count() < 70);
        assert_eq!(listed(&["a", "b\n"]), "a, b\\n");
        assert!(listed(&["x"; 500]).len() < 70);
    }
}
