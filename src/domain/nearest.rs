//! "Did you mean": the known word closest to a mistyped one.

/// Minimum similarity of a suggestion.
const LIKENESS: f64 = 0.7;
/// Characters of a word that are compared.
const WORD_CHARS: usize = 64;

/// Names of other systems, and ours for the same.
const SYNONYMS: [(&str, &str); 19] = [
    ("prompt", "input"),
    ("message", "input"),
    ("messages", "input"),
    ("query", "input"),
    ("text", "input"),
    ("instructions", "system_prompt"),
    ("session_id", "conversation_id"),
    ("callback_url", "webhook_url"),
    ("run", "ask"),
    ("submit", "ask"),
    ("logs", "tail"),
    ("events", "tail"),
    ("ps", "jobs"),
    ("ls", "jobs"),
    ("start", "serve"),
    ("stop", "cancel"),
    ("kill", "cancel"),
    ("status", "doctor"),
    ("login", "token"),
];

/// `; did you mean 'x'?` with the closest known word, or an empty text.
pub fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map(|meant| format!("; did you mean '{meant}'?")).unwrap_or_default()
}

fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.chars().take(WORD_CHARS).collect();
    let known: Vec<&str> = known.into_iter().collect();
    let mut ours = SYNONYMS.iter().filter(|(theirs, _)| *theirs == word);
    let same = ours.find_map(|(_, ours)| known.iter().copied().find(|name| name == ours));
    if same.is_some() {
        return same;
    }
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
    fn a_typo_gets_a_suggestion_and_an_unrelated_word_gets_none() {
        assert_eq!(nearest("temprature", ["temperature", "tools"]), Some("temperature"));
        assert_eq!(nearest("zzz", ["temperature", "tools"]), None);
        assert_eq!(nearest("prompt", ["priority", "input"]), Some("input"), "another system's name");
        assert_eq!(nearest("prompt", ["promptly"]), Some("promptly"), "only where the meant name is known");
        assert_eq!(hint("tols", ["temperature", "tools"]), "; did you mean 'tools'?");
        assert_eq!(hint(&"z".repeat(1 << 20), ["tools"]), "");
    }
}
