//! Repairs mistakes in JSON: raw control characters in strings, unknown escapes, numbers that JSON does not
//! have, and nesting that is deeper than the parser accepts.

/// Deeper values become `null`. No field of an answer is as deep.
const MAX_DEPTH: usize = 48;

/// The text with these mistakes repaired.
pub(super) fn mend(text: &str) -> String {
    let mut mended = String::with_capacity(text.len().saturating_add(16));
    let (mut rest, mut in_string) = (text, false);
    // The depth, and where the output of the value begins that is too deep.
    let (mut depth, mut deep_at) = (0_usize, 0_usize);
    while let Some(c) = rest.chars().next() {
        if matches!(c, '{' | '[') && !in_string {
            depth = depth.saturating_add(1);
            if depth == MAX_DEPTH {
                deep_at = mended.len();
            }
        }
        let taken =
            if in_string { mend_in_string(rest, c, &mut mended) } else { mend_outside(rest, c, &mut mended) };
        if matches!(c, '}' | ']') && !in_string {
            if depth == MAX_DEPTH {
                mended.truncate(deep_at);
                mended.push_str("null");
            }
            depth = depth.saturating_sub(1);
        }
        in_string ^= c == '"';
        rest = rest.get(taken..).unwrap_or_default();
    }
    mended
}

/// Copies a character or an escape of a string; returns the bytes consumed.
fn mend_in_string(rest: &str, c: char, mended: &mut String) -> usize {
    let (length, text) = match (c, escape_length(rest)) {
        ('\\', 0) => (1, "\\\\".to_owned()),
        ('\\', length) => (length, rest.get(..length).unwrap_or_default().to_owned()),
        _ if c.is_ascii_control() => (1, format!("\\u{:04x}", u32::from(c))),
        _ => (c.len_utf8(), c.to_string()),
    };
    mended.push_str(&text);
    length
}

/// The length of the escape at the front; 0 if it is invalid.
fn escape_length(rest: &str) -> usize {
    match rest.as_bytes().get(1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
        Some(b'u') => {
            let digits = rest.as_bytes().get(2..6).unwrap_or_default();
            if digits.len() == 4 && digits.iter().all(u8::is_ascii_hexdigit) { 6 } else { 0 }
        }
        _ => 0,
    }
}

/// Copies a number, a word or another character outside of strings; returns the bytes consumed.
fn mend_outside(rest: &str, c: char, mended: &mut String) -> usize {
    if let Some(word) = ["NaN", "-NaN", "Infinity", "-Infinity"].iter().find(|word| rest.starts_with(**word))
    {
        mended.push_str("null");
        return word.len();
    }
    if c == '-' || c.is_ascii_digit() {
        let end = rest.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
        let number = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        let is_too_large = number.parse::<f64>().is_ok_and(f64::is_infinite);
        mended.push_str(if is_too_large { "null" } else { number });
        return number.len().max(1);
    }
    mended.push(c);
    c.len_utf8()
}
