//! Counts the characters of a text by token cost.

/// First code point (CJK radicals) that counts as a syllable or word.
const WIDE: char = '\u{2E80}';

/// Characters of a text by cost class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CharacterCounts {
    pub(super) ascii: u64,
    pub(super) other: u64,
    pub(super) wide: u64,
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
