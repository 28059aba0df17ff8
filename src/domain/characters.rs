//! Characters of a text: counts them by token cost, and cuts between them.

/// First code point (CJK radicals) that counts as a syllable or word.
const WIDE: char = '\u{2E80}';

/// Characters of a text by cost class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CharacterCounts {
    pub(super) ascii: u64,
    pub(super) other: u64,
    pub(super) wide: u64,
}

/// The beginning of a text, at most this many bytes and without half a character.
pub fn beginning(text: &str, max_bytes: usize) -> &str {
    let end = (0..=max_bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

/// The end of a text, in the same way.
pub fn ending(text: &str, max_bytes: usize) -> &str {
    let first = text.len().saturating_sub(max_bytes);
    let start = (first..=text.len()).find(|start| text.is_char_boundary(*start));
    text.get(start.unwrap_or(text.len())..).unwrap_or_default()
}

impl CharacterCounts {
    /// Counts the characters of these texts together.
    pub fn of(texts: &[&str]) -> Self {
        let mut counts = Self::default();
        for c in texts.iter().flat_map(|text| text.chars()) {
            match c {
                c if c.is_ascii() => counts.ascii = counts.ascii.saturating_add(1),
                c if c < WIDE => counts.other = counts.other.saturating_add(1),
                _ => counts.wide = counts.wide.saturating_add(1),
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_ends_between_characters() {
        for (max_bytes, wanted) in [(0, ""), (1, "a"), (2, "a"), (3, "aé"), (9, "aé")] {
            assert_eq!(beginning("aé", max_bytes), wanted);
        }
    }
}
