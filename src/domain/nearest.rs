//! What a mistyped word was probably meant to be. Owns the threshold; refuses to correct anything by itself.

/// Below this likeness a suggestion confuses more than it helps.
const LIKENESS: f64 = 0.7;
/// Of a word, characters that are looked at.
const WORD_CHARS: usize = 64;

/// `; did you mean 'x'?` with the known word most like `word`, or nothing if none is like it.
pub fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map(|meant| format!("; did you mean '{meant}'?")).unwrap_or_default()
}

fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.chars().take(WORD_CHARS).collect();
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&word, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LIKENESS)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_find_their_word_and_strangers_find_none() {
        assert_eq!(nearest("temprature", ["temperature", "tools"]), Some("temperature"));
        assert_eq!(nearest("zzz", ["temperature", "tools"]), None);
        assert_eq!(hint("tols", ["temperature", "tools"]), "; did you mean 'tools'?");
        assert_eq!(hint(&"z".repeat(1 << 20), ["tools"]), "");
    }
}
