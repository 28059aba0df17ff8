//! Headers that are lists of words.

use hyper::HeaderMap;
use hyper::header::HeaderName;

/// Whether a line of the header has this word, in any case.
pub(crate) fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|word| word.trim().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::CONNECTION;

    #[test]
    fn only_whole_words_count() {
        let read = |value: &str| {
            has_token(
                &HeaderMap::from_iter([(CONNECTION, value.parse().expect("a value"))]),
                &CONNECTION,
                "close",
            )
        };
        assert_eq!(["close", "te, Close", "keep-alive", "closed"].map(read), [true, true, false, false]);
    }
}
