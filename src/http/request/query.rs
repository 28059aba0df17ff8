//! Query strings. Unknown names are errors, so that a typo like `?wiat=5` is not ignored, as are repeated
//! ones that are no lists.

use super::percent::decode;
use super::quoted::quoted;
use crate::domain::nearest::hint;
use crate::http::error::ApiError;
use std::ops::RangeInclusive;

/// The known parameters of a route that ignores its query.
pub(crate) const ANY_QUERY: &[&str] = &["*"];

/// A parsed query.
#[derive(Debug, Default)]
pub(crate) struct QueryString(Vec<(&'static str, String)>);

impl QueryString {
    /// Parses `raw`, which may use each of the `known` names once. A name that is also known with `[]` is a
    /// list, of which only the first value is kept. [`ANY_QUERY`] ignores the query.
    pub(crate) fn parse(raw: Option<&str>, known: &[&'static str]) -> Result<Self, ApiError> {
        if known == ANY_QUERY {
            return Ok(Self::default());
        }
        let mut pairs: Vec<(&'static str, String)> = Vec::new();
        for part in raw.unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let broken =
                || ApiError::malformed(format!("the query part {} is not well encoded", quoted(part)));
            let name = decode(name, true).ok_or_else(broken)?;
            let value = decode(value, true).ok_or_else(broken)?;
            let Some(name) = known.iter().copied().find(|k| *k == name) else {
                return Err(unknown(&name, known));
            };
            if pairs.iter().any(|(seen, _)| *seen == name) {
                if is_list(name, known) {
                    continue;
                }
                return Err(ApiError::value(name, format!("the query parameter '{name}' is given twice")));
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    /// The value as written.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(seen, _)| *seen == name).map(|(_, value)| value.as_str())
    }

    /// A whole number within `range`, written in plain digits.
    pub(crate) fn whole(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, ApiError> {
        let Some(value) = self.text(name) else { return Ok(None) };
        match digits(value).filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(ApiError::value(
                name,
                format!(
                    "'{name}' must be a whole number from {} to {}, not {}",
                    range.start(),
                    range.end(),
                    quoted(value)
                ),
            )),
        }
    }

    /// `true` or `false`.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.text(name) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(other) => {
                Err(ApiError::value(name, format!("'{name}' must be true or false, not {}", quoted(other))))
            }
        }
    }
}

/// Whether clients may repeat the name: openai-python sends `include[]=a&include[]=b`.
fn is_list(name: &str, known: &[&str]) -> bool {
    name.ends_with("[]") || known.iter().any(|other| other.strip_suffix("[]") == Some(name))
}

fn unknown(name: &str, known: &[&'static str]) -> ApiError {
    let meant = hint(name, known.iter().copied());
    let list = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    ApiError::Invalid {
        message: format!("unknown query parameter {}{meant} (known here: {list})", quoted(name)),
        param: Some(name.chars().take(64).collect()),
        code: "unknown_parameter",
    }
}

/// Plain decimal digits that fit; no sign, no space.
pub(crate) fn digits(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KNOWN: &[&str] = &["wait", "stream"];

    #[test]
    fn repeated_unknown_and_malformed_query_parts_are_refused() {
        for bad in ["wait=1&wait=1", "wiat=1", "wait=%f", "=1", "%77ait=1&wait=2"] {
            assert!(QueryString::parse(Some(bad), KNOWN).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_list_may_be_repeated() {
        let known = &["include", "include[]", "limit"];
        for good in ["include[]=a&include[]=b", "include%5B%5D=a&include%5B%5D=b", "include=a&include=b"] {
            assert!(QueryString::parse(Some(good), known).is_ok(), "{good}");
        }
        assert!(QueryString::parse(Some("include[]=a&limit=1&limit=2"), known).is_err());
    }

    #[test]
    fn an_unknown_query_name_gets_a_suggestion() {
        let error = QueryString::parse(Some("wiat=5"), KNOWN).expect_err("unknown");
        assert!(error.to_string().contains("did you mean 'wait'"), "{error}");
    }

    #[test]
    fn query_flags_are_true_or_false() {
        let query = QueryString::parse(Some("stream=yes"), KNOWN).expect("parses");
        assert!(query.flag("stream").is_err());
        let query = QueryString::parse(Some("stream=true&wait=3"), KNOWN).expect("parses");
        assert_eq!(query.flag("stream").expect("a flag"), Some(true));
        assert_eq!(query.whole("wait", 0..=600).expect("a number"), Some(3));
    }

    proptest! {
        #[test]
        fn only_whole_numbers_in_range_are_accepted(number: u64, low in 0_u64..50, span in 0_u64..1_000) {
            let query = QueryString::parse(Some(&format!("wait={number}")), KNOWN).expect("parses");
            let read = query.whole("wait", low..=low + span);
            if (low..=low + span).contains(&number) {
                prop_assert_eq!(read.expect("in range"), Some(number));
            } else {
                prop_assert!(read.is_err());
            }
        }

        #[test]
        fn only_plain_digits_are_numbers(text in "\\PC{0,24}") {
            let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            prop_assert_eq!(digits(&text).is_some(), plain && text.parse::<u64>().is_ok());
        }

        #[test]
        fn no_text_makes_the_query_parser_panic(text in any::<String>()) {
            drop(QueryString::parse(Some(&text), KNOWN));
        }
    }
}
