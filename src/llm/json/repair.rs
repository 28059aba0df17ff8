//! Repairs three mistakes in JSON: raw control characters in strings, unknown escapes, and numbers that JSON does not
//! have.

/// The text with these mistakes repaired.
pub(super) fn mend(text: &str) -> String {
    let mut mended = String::with_capacity(text.len().saturating_add(16));
    let mut rest = text;
    let mut in_text = false;
    while let Some(c) = rest.chars().next() {
        let taken = if in_text { in_string(rest, c, &mut mended) } else { outside(rest, c, &mut mended) };
        if c == '"' {
            in_text = !in_text;
        }
        rest = rest.get(taken..).unwrap_or_default();
    }
    mended
}

/// Copies one unit inside a string; returns the bytes consumed.
fn in_string(rest: &str, c: char, mended: &mut String) -> usize {
    match c {
        '\\' => {
            let escape = escape(rest);
            if escape == 0 {
                mended.push_str("\\\\");
                return 1;
            }
            mended.push_str(rest.get(..escape).unwrap_or_default());
            escape
        }
        c if c.is_ascii_control() => {
            mended.push_str("\\u00");
            mended.extend(
                [u32::from(c) / 16, u32::from(c) % 16]
                    .map(|digit| char::from_digit(digit, 16).unwrap_or('0')),
            );
            1
        }
        c => {
            mended.push(c);
            c.len_utf8()
        }
    }
}

/// The length of the escape at the front; 0 if it is invalid.
fn escape(rest: &str) -> usize {
    match rest.as_bytes().get(1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
        Some(b'u') => {
            let digits = rest.as_bytes().get(2..6).unwrap_or_default();
            if digits.len() == 4 && digits.iter().all(u8::is_ascii_hexdigit) { 6 } else { 0 }
        }
        _ => 0,
    }
}

/// Copies one unit outside of strings; returns the bytes consumed.
fn outside(rest: &str, c: char, mended: &mut String) -> usize {
    for word in ["NaN", "-NaN", "Infinity", "-Infinity"] {
        if rest.starts_with(word) {
            mended.push_str("null");
            return word.len();
        }
    }
    if c == '-' || c.is_ascii_digit() {
        let end = rest.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
        let number = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        let too_large = number.parse::<f64>().is_ok_and(f64::is_infinite);
        mended.push_str(if too_large { "null" } else { number });
        return number.len().max(1);
    }
    mended.push(c);
    c.len_utf8()
}
