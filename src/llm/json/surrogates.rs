//! Joins surrogate pairs that a provider splits between two chunks: one ends with `\ud83d`, the next begins
//! with `\ude00`. A surrogate that stays alone becomes U+FFFD.

use std::borrow::Cow;

/// Placeholders for surrogates inside a parsed text: 2,048 private code points, one for each.
const STAND_IN: u32 = 0x10_F800;
const HALF: u32 = 0xD800;
const HALVES: u32 = 0x800;
const LOW: u32 = 0xDC00;

/// The JSON text with a placeholder for each lone surrogate, and whether there was one.
pub(super) fn mark(text: &str) -> (Cow<'_, str>, bool) {
    replace_alone(text, |half| char::from_u32(STAND_IN + (half - HALF)).map(String::from))
}

/// The JSON text with `\ufffd` for each lone surrogate.
pub(crate) fn without_halves(text: &str) -> Cow<'_, str> {
    replace_alone(text, |_| Some("\\ufffd".to_owned())).0
}

fn replace_alone(text: &str, name: impl Fn(u32) -> Option<String>) -> (Cow<'_, str>, bool) {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return (Cow::Borrowed(text), false);
    }
    let (mut out, mut found, mut at, mut copied) = (String::new(), false, 0_usize, 0_usize);
    let bytes = text.as_bytes();
    while let Some(step) = bytes.get(at..).and_then(|rest| rest.iter().position(|b| *b == b'\\')) {
        at = at.saturating_add(step);
        let Some(half) = half_at(text, at) else {
            at = at.saturating_add(2); // another escape, or the backslash of `\\`
            continue;
        };
        let end = at.saturating_add(6);
        if half < LOW && half_at(text, end).is_some_and(|next| next >= LOW) {
            at = end.saturating_add(6);
            continue;
        }
        if let Some(name) = name(half) {
            out.push_str(text.get(copied..at).unwrap_or_default());
            out.push_str(&name);
            (copied, found) = (end, true);
        }
        at = end;
    }
    if !found {
        return (Cow::Borrowed(text), false);
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    (Cow::Owned(out), true)
}

/// Bytes at the beginning of an unfinished JSON text that [`without_halves`] leaves as they are, whatever
/// follows them. The text must not begin within an escape.
pub(crate) fn settled_bytes(text: &str) -> usize {
    let (bytes, mut at) = (text.as_bytes(), 0_usize);
    while let Some(step) = bytes.get(at..).and_then(|rest| rest.iter().position(|b| *b == b'\\')) {
        at = at.saturating_add(step);
        let escape = bytes.get(at..).unwrap_or_default();
        let is_unicode = escape.get(1).is_none_or(|b| *b == b'u');
        if is_unicode && escape.len() < 6 {
            return at;
        }
        let end = at.saturating_add(6);
        at = match half_at(text, at) {
            None => at.saturating_add(2),
            Some(half) if half < LOW && half_at(text, end).is_some_and(|next| next >= LOW) => {
                end.saturating_add(6)
            }
            Some(_) => return at,
        };
    }
    bytes.len()
}

/// The surrogate whose escape is here.
fn half_at(text: &str, at: usize) -> Option<u32> {
    let digits = text.get(at..at.saturating_add(6))?.strip_prefix("\\u")?;
    let half = u32::from_str_radix(digits, 16).ok()?;
    (HALF..HALF + HALVES).contains(&half).then_some(half)
}

/// One text that arrives in pieces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SurrogateJoiner {
    /// A first surrogate that waits for its second.
    waiting: Option<u32>,
}

impl SurrogateJoiner {
    /// The piece with surrogates joined; `marked`: its chunk has placeholders.
    pub(crate) fn join<'a>(&mut self, piece: &'a str, marked: bool) -> Cow<'a, str> {
        if piece.is_empty() || (!marked && self.waiting.is_none()) {
            return Cow::Borrowed(piece);
        }
        let mut joined = String::with_capacity(piece.len());
        for c in piece.chars() {
            let half = u32::from(c).checked_sub(STAND_IN).filter(|_| marked).map(|offset| HALF + offset);
            self.take(c, half, &mut joined);
        }
        Cow::Owned(joined)
    }

    fn take(&mut self, c: char, half: Option<u32>, joined: &mut String) {
        match (self.waiting.take(), half) {
            (None, None) => joined.push(c),
            (Some(_), None) => joined.extend(['\u{FFFD}', c]),
            (None, Some(half)) if half < LOW => self.waiting = Some(half),
            (None, Some(_)) => joined.push('\u{FFFD}'),
            (Some(_), Some(half)) if half < LOW => {
                joined.push('\u{FFFD}');
                self.waiting = Some(half);
            }
            (Some(first), Some(second)) => {
                let code = 0x1_0000 + ((first - HALF) << 10) + (second - LOW);
                joined.push(char::from_u32(code).unwrap_or('\u{FFFD}'));
            }
        }
    }

    /// The rest when the text has ended.
    pub(crate) fn end(&mut self) -> &'static str {
        if self.waiting.take().is_some() { "\u{FFFD}" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::json::parse;
    use proptest::prelude::*;

    /// The JSON strings of one text, joined.
    fn joined(pieces: &[&str]) -> String {
        let (mut surrogates, mut text) = (SurrogateJoiner::default(), String::new());
        for piece in pieces {
            let parsed = parse(piece).expect("JSON");
            text.push_str(&surrogates.join(parsed.value.as_str().expect("a text"), parsed.halved));
        }
        text + surrogates.end()
    }

    #[test]
    fn surrogate_halves_are_joined_across_pieces() {
        assert_eq!(joined(&[r#""a\ud83d""#, r#""\ude00b""#]), "a😀b");
        assert_eq!(joined(&[r#""\uD83D""#, r#""""#, r#""\uDE00""#]), "😀");
        assert_eq!(joined(&[r#""\ud83d\ude00\ud83d""#, r#""\ude00""#]), "😀😀");
    }

    #[test]
    fn a_text_is_settled_up_to_an_escape_that_may_be_half_a_pair() {
        let settled = |text: &'static str| &text[..settled_bytes(text)];
        assert_eq!(settled(r#"{"a":"é\\n"#), r#"{"a":"é\\n"#);
        assert_eq!(settled(r"x\ud83d\ude00y"), r"x\ud83d\ude00y");
        for open in [r"x\", r"x\u", r"x\ud83", r"x\ud83d", r"x\ud83d\ude0", r"x\ud83dy", r"x\ude00y"] {
            assert_eq!(settled(open), "x", "{open}");
        }
    }

    #[test]
    fn a_lone_surrogate_becomes_the_replacement_character() {
        assert_eq!(joined(&[r#""a\ud83d""#, r#""b""#]), "a\u{FFFD}b");
        assert_eq!(joined(&[r#""a\ude00b""#]), "a\u{FFFD}b");
        assert_eq!(joined(&[r#""\ud83d\ud83d\ude00""#]), "\u{FFFD}😀");
        assert_eq!(joined(&[r#""x\ud83d""#]), "x\u{FFFD}");
        assert_eq!(joined(&[r#""\\ud83d \\\ud83d""#]), "\\ud83d \\\u{FFFD}", "an escaped backslash is none");
        assert_eq!(
            without_halves(r#"{"a":"\ud83d","b":"\ud83d\ude00"}"#),
            r#"{"a":"\ufffd","b":"\ud83d\ude00"}"#
        );
    }

    proptest! {
        #[test]
        fn settled_bytes_stay_as_they_are(
            parts in prop::collection::vec(
                prop::sample::select(vec!["a", "é", r"\\", r"\n", r"\u00e9", r"\ud83d", r"\ude00", r"\u", r"\"]),
                0..8,
            ),
            cut in 0usize..40,
        ) {
            let text = parts.concat();
            let cut = (0..=cut.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            let settled = settled_bytes(&text[..cut]);
            prop_assert!(without_halves(&text).starts_with(&text[..settled]), "{text} {cut}");
        }

        #[test]
        fn any_text_cut_between_utf16_units_is_restored(text in "[a-z😀🎉é\\\\\"]{0,20}", cut in 0usize..60) {
            let units: Vec<u16> = text.encode_utf16().collect();
            let (front, back) = units.split_at(cut.min(units.len()));
            let json = |units: &[u16]| {
                let escapes: String = units.iter().fold(String::new(), |all, unit| format!("{all}\\u{unit:04x}"));
                format!("\"{escapes}\"")
            };
            prop_assert_eq!(joined(&[&json(front), &json(back)]), text);
        }
    }
}
