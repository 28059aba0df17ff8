//! The tool name that a wrong name most likely meant. It is only suggested, never executed.

/// The least likeness of a suggestion, 0 to 1.
const LIKELY: f64 = 0.6;
/// Characters of a wrong name that are compared and quoted.
pub(super) const NAME_CHARS: usize = 64;

/// The most similar name, if any is similar enough.
pub(super) fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = bare(wrong);
    let likeness = |name: &str| {
        let name = bare(name);
        if name == wrong { 1.0 } else { strsim::normalized_damerau_levenshtein(&name, &wrong) }
    };
    let scored = names.map(|name| (likeness(name), name)).filter(|(score, _)| *score >= LIKELY);
    scored.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, name)| name)
}

/// Letters and digits in lower case: `ExecutePython` and `execute-python` are equal.
fn bare(name: &str) -> String {
    name.chars()
        .take(NAME_CHARS)
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_guessed_and_inventions_are_not() {
        let guess =
            |wrong: &str| nearest(wrong, ["calculator", "execute_python", "text_process"].into_iter());
        assert_eq!(guess("Calculator"), Some("calculator"));
        assert_eq!(guess("executePython"), Some("execute_python"));
        assert_eq!(guess("calculater"), Some("calculator"));
        assert_eq!(guess("format_disk"), None);
        assert_eq!(guess(""), None);
        assert_eq!(guess(&"x".repeat(1 << 20)), None);
    }
}
