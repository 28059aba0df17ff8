//! Words of a search: each must appear somewhere in the texts that are searched. Case does not matter.

/// Maximum length of a search, bytes.
pub const SEARCH_BYTES: usize = 256;
/// Maximum words of a search.
const WORDS: usize = 16;

/// Why a text is not a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("'search' must have 1 to {WORDS} words and at most {SEARCH_BYTES} bytes")]
pub struct BadSearchWords;

/// The words, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchWords(Vec<String>);

/// The words of a search that no text so far has contained.
#[derive(Debug)]
pub struct MissingWords<'w>(Vec<&'w str>);

impl SearchWords {
    /// Parses words between white space.
    pub fn parse(text: &str) -> Result<Self, BadSearchWords> {
        let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
        if text.len() > SEARCH_BYTES || words.is_empty() || words.len() > WORDS {
            return Err(BadSearchWords);
        }
        Ok(Self(words))
    }

    /// All of them, before any text is read.
    pub fn missing(&self) -> MissingWords<'_> {
        MissingWords(self.0.iter().map(String::as_str).collect())
    }
}

impl MissingWords<'_> {
    /// Takes out the words that the text contains. Returns whether none is left.
    pub fn read(&mut self, text: &str) -> bool {
        if !self.0.is_empty() && !text.is_empty() {
            let text = text.to_lowercase();
            self.0.retain(|word| !text.contains(word));
        }
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(search: &str, texts: &[&str]) -> bool {
        let words = SearchWords::parse(search).expect("words");
        let mut missing = words.missing();
        texts.iter().any(|text| missing.read(text))
    }

    #[test]
    fn all_words_must_appear_in_any_of_the_texts_and_in_any_case() {
        assert!(found("tea", &["", "Green TEA"]));
        assert!(found(" Tea\tcup ", &["a cup", "of tea"]), "in different texts");
        assert!(found("éTUDE 你好", &["Étude: 你好吗"]));
        assert!(!found("tea cup", &["tea", "tea"]));
        assert!(!found("tea", &[]));
    }

    #[test]
    fn p8_a_search_has_a_bounded_number_of_words_and_bytes() {
        for bad in ["", " \n", &"x".repeat(SEARCH_BYTES + 1), &"a ".repeat(WORDS + 1)] {
            assert_eq!(SearchWords::parse(bad), Err(BadSearchWords), "{bad}");
        }
        assert!(SearchWords::parse(&"a ".repeat(WORDS)).is_ok());
    }
}
