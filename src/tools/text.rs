//! White space, word lists, lengths in JSON.

/// The text with every run of white space as one space.
pub(super) fn collapse_whitespace(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a list of words, separated by white space, contains the word.
pub(super) fn has_word(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|listed| listed == word)
}

/// The length of a character in JSON.
pub(super) fn json_chars(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\u{0}'..='\u{1f}' => 6,
        _ => 1,
    }
}
