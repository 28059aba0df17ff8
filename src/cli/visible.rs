//! Makes text of strangers fit for a terminal: what a model, a tool or a program wrote may tell the terminal nothing, it may
//! only be seen. Owns which characters are harmless; refuses to shorten.

use std::borrow::Cow;

/// Stands for a character that has no picture of its own.
const UNSEEN: char = '\u{fffd}';

/// The text with every control character but newline and tab turned into a picture of itself. A carriage return, which
/// would let a line be written over, is left out.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().filter(|c| *c != '\r').map(picture).collect())
}

fn is_harmless(c: char) -> bool {
    matches!(c, '\n' | '\t') || !(c.is_control() || turns_around(c))
}

/// Characters that make a line read otherwise than it is stored, such as code that hides a part of itself.
fn turns_around(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

fn picture(c: char) -> char {
    match u32::from(c) {
        _ if is_harmless(c) => c,
        code @ 0..=0x1f => char::from_u32(0x2400 + code).unwrap_or(UNSEEN),
        0x7f => '\u{2421}',
        _ => UNSEEN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_nothing_that_a_terminal_obeys_gets_through() {
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
    fn text_of_any_script_stays_as_it_is() {
        let text = "a\tb\n日本語 עברית 👩‍💻 é";
        assert!(matches!(visible(text), Cow::Borrowed(same) if same == text));
    }
}
