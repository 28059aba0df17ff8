//! White space of texts.

/// What separates words, however many there are.
pub(in crate::tools) fn collapse_whitespace(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
