//! Suggests the tool name that is most similar to an unknown name. A suggestion is never executed.

/// The least similarity of a suggestion, 0 to 1.
const MIN_SIMILARITY: f64 = 0.6;
/// Characters of a wrong name that are compared and quoted.
pub(super) const NAME_CHARS: usize = 64;

/// The most similar name, if any is similar enough.
pub(super) fn nearest<'a>(requested: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let requested = normalized(requested);
    let similarity = |name: &str| {
        let name = normalized(name);
        if name == requested { 1.0 } else { strsim::normalized_damerau_levenshtein(&name, &requested) }
    };
    let scored = names.map(|name| (similarity(name), name)).filter(|(score, _)| *score >= MIN_SIMILARITY);
    scored.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, name)| name)
}

/// Letters and digits in lower case: `ExecutePython` and `execute-python` are equal.
fn normalized(name: &str) -> String {
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
    fn a_misspelled_tool_name_gets_a_suggestion_and_an_unrelated_one_none() {
        let guess = |requested: &str| {
            nearest(requested, ["calculator", "execute_python", "text_process"].into_iter())
        };
        assert_eq!(guess("Calculator"), Some("calculator"));
        assert_eq!(guess("executePython"), Some("execute_python"));
        assert_eq!(guess("calculater"), Some("calculator"));
        assert_eq!(guess("format_disk"), None);
        assert_eq!(guess(""), None);
        assert_eq!(guess(&"x".repeat(1 << 20)), None);
    }
}
