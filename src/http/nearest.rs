//! What a mistyped word was probably meant to be. Owns the threshold; refuses to correct anything by itself.

/// Below this likeness a suggestion confuses more than it helps.
const LIKENESS: f64 = 0.7;

/// The known word most like `word`, if one is like it at all.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.chars().take(64).collect();
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&word, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LIKENESS)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// `; did you mean 'x'?`, or nothing.
pub(crate) fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map(|meant| format!("; did you mean '{meant}'?")).unwrap_or_default()
}

/// A client's text as an error may repeat it: cut to 64 characters, control characters escaped.
pub(crate) fn quoted(text: &str) -> String {
    let cut: String = text.chars().take(64).flat_map(char::escape_debug).collect();
    if text.chars().nth(64).is_some() { format!("'{cut}…'") } else { format!("'{cut}'") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_find_their_word_and_strangers_find_none() {
        assert_eq!(nearest("temprature", ["temperature", "tools"]), Some("temperature"));
        assert_eq!(nearest("zzz", ["temperature", "tools"]), None);
    }

    #[test]
    fn quoted_texts_are_short_and_on_one_line() {
        assert_eq!(quoted("a\nb"), "'a\\nb'");
        assert!(quoted(&"x".repeat(500)).chars().count() < 70);
    }
}
