//! Makes text of models, tools and programs safe for a terminal: control characters become visible symbols.

use std::borrow::Cow;

/// Replaces a character that has no symbol.
const REPLACEMENT: char = '\u{fffd}';

/// Replaces every control character but newline and tab by a symbol. A carriage return, which could
/// overwrite a line, is removed.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().filter(|c| *c != '\r').map(symbol).collect())
}

fn is_harmless(c: char) -> bool {
    matches!(c, '\n' | '\t') || !(c.is_control() || changes_direction(c))
}

/// Characters that change the order in which a line is shown, and so can hide a part of it.
fn changes_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

fn symbol(c: char) -> char {
    match u32::from(c) {
        _ if is_harmless(c) => c,
        code @ 0..=0x1f => char::from_u32(0x2400 + code).unwrap_or(REPLACEMENT),
        0x7f => '\u{2421}',
        _ => REPLACEMENT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_control_characters_are_made_visible() {
        assert_eq!(visible("\u{1b}[31mred\u{1b}]0;title\u{7}"), "␛[31mred␛]0;title␇");
        assert_eq!(visible("good\rbad\u{9b}2J\u{7f}"), "goodbad\u{fffd}2J␡");
        assert_eq!(visible("a\u{202e}b\u{2066}c"), "a\u{fffd}b\u{fffd}c");
        for code in 0..=0x10_ffff {
            let Some(c) = char::from_u32(code) else { continue };
            let shown = visible(&String::from(c)).into_owned();
            assert!(!shown.contains(|c: char| c.is_control() && c != '\n' && c != '\t'), "{code:x}");
        }
    }

    #[test]
    fn text_of_any_script_is_unchanged() {
        let text = "a\tb\n日本語 עברית 👩‍💻 é";
        assert!(matches!(visible(text), Cow::Borrowed(same) if same == text));
    }
}
