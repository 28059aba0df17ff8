//! Client text inside our own messages: cut and escaped.

const CHARS: usize = 64;

/// Client text for an error message: cut to 64 characters, control characters escaped.
pub(crate) fn quoted(text: &str) -> String {
    let cut: String = text.chars().take(CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(CHARS).is_some() { format!("'{cut}…'") } else { format!("'{cut}'") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_texts_are_short_and_on_one_line() {
        assert_eq!(quoted("a\nb"), "'a\\nb'");
        assert!(quoted(&"x".repeat(500)).chars().count() < 70);
    }
}
