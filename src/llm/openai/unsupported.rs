//! Optional request fields that a provider has refused, and what is sent instead. Fields that say what the
//! answer must be (`stop`, `tool_choice`) are not optional: the refusal is an error.

use super::quirks::{MAX_COMPLETION_TOKENS, MAX_TOKENS};
use super::replay_data;
use std::sync::atomic::{AtomicU32, Ordering};
use ureq::http::StatusCode;

/// Without it, the instructions say what the form of the answer is.
pub(super) const RESPONSE_FORMAT: &str = "response_format";

/// The optional fields; `max_tokens` and `max_completion_tokens` replace each other.
pub(super) const FIELDS: [&str; 17] = [
    "stream_options",
    MAX_TOKENS,
    MAX_COMPLETION_TOKENS,
    "temperature",
    "thinking",
    "reasoning",
    "reasoning_content",
    "reasoning_effort",
    "parallel_tool_calls",
    "top_p",
    "top_k",
    "frequency_penalty",
    "presence_penalty",
    "seed",
    RESPONSE_FORMAT,
    replay_data::DETAILS,
    replay_data::EXTRA,
];
/// Words of an error response about an unknown field. A bad value has other words.
const UNKNOWN_WORDS: [&str; 19] = [
    "unsupported",
    "not supported",
    "not support",
    "unknown",
    "unrecognized",
    "unrecognised",
    "unexpected",
    "extra_forbidden",
    "extra inputs",
    "additional properties",
    "not permitted",
    "not allowed",
    "no such field",
    "not recognized",
    "not a valid field",
    "cannot be disabled",
    "deprecated",
    "unavailable",
    "instead",
];

/// A set of such fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct UnsupportedParameters(u32);

impl UnsupportedParameters {
    /// Whether the field is among them.
    pub(super) fn has(self, field: &str) -> bool {
        FIELDS.iter().position(|known| *known == field).is_some_and(|at| self.0 & bit(at) != 0)
    }

    /// These fields and those that an error response with this status and these words (lower case) names.
    pub(super) fn with_named(self, status: StatusCode, words: &str) -> Self {
        // A schema that the provider refuses is no field that it does not know.
        let is_about_fields = matches!(status.as_u16(), 400 | 422)
            && UNKNOWN_WORDS.iter().any(|word| words.contains(word))
            && !words.contains("invalid schema");
        if !is_about_fields {
            return self;
        }
        let named = FIELDS.iter().enumerate().filter(|(_, field)| names(words, field));
        let all_named = self.0 | named.fold(0, |all, (at, _)| all | bit(at));
        // "Use max_completion_tokens instead" names both fields; the first one was refused.
        let limits = Self(all_named ^ self.0);
        let is_advice = limits.has(MAX_TOKENS) && limits.has(MAX_COMPLETION_TOKENS);
        if !is_advice {
            return Self(all_named);
        }
        let first = |field: &str| words.find(field).unwrap_or(usize::MAX);
        let kept =
            if first(MAX_TOKENS) < first(MAX_COMPLETION_TOKENS) { MAX_COMPLETION_TOKENS } else { MAX_TOKENS };
        let at = FIELDS.iter().position(|field| *field == kept).unwrap_or_default();
        Self(all_named & !bit(at))
    }

    /// The field that limits the answer: the preferred one, or the other if that is unsupported.
    pub(super) fn limit_field(self, preferred: &'static str) -> Option<&'static str> {
        let other = if preferred == MAX_TOKENS { MAX_COMPLETION_TOKENS } else { MAX_TOKENS };
        [preferred, other].into_iter().find(|field| !self.has(field))
    }
}

fn bit(at: usize) -> u32 {
    1_u32.checked_shl(u32::try_from(at).unwrap_or(u32::MAX)).unwrap_or(0)
}

/// Whether the field is named as a word of its own.
fn names(words: &str, field: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    words.match_indices(field).any(|(at, _)| {
        let before = words.get(..at).and_then(|text| text.chars().next_back());
        let after = words.get(at.saturating_add(field.len())..).and_then(|text| text.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// The fields that a model is known not to support.
#[derive(Debug, Default)]
pub(super) struct KnownUnsupported(AtomicU32);

impl KnownUnsupported {
    /// The known fields.
    pub(super) fn known(&self) -> UnsupportedParameters {
        UnsupportedParameters(self.0.load(Ordering::Relaxed))
    }

    /// Adds fields without which a request succeeded.
    pub(super) fn learn(&self, unsupported: UnsupportedParameters) {
        self.0.fetch_or(unsupported.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(status: u16, words: &str) -> Vec<&'static str> {
        let status = StatusCode::from_u16(status).expect("a status");
        let unsupported = UnsupportedParameters::default().with_named(status, &words.to_ascii_lowercase());
        FIELDS.into_iter().filter(|field| unsupported.has(field)).collect()
    }

    #[test]
    fn refusals_name_the_unknown_fields() {
        for (words, fields) in [
            ("Unrecognized request argument supplied: stream_options", vec!["stream_options"]),
            (
                "extra_forbidden body stream_options include_usage Extra inputs are not permitted",
                vec!["stream_options"],
            ),
            ("extra_forbidden body messages 3 assistant reasoning_content", vec!["reasoning_content"]),
            (
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                vec![MAX_TOKENS],
            ),
            ("extra_forbidden body max_completion_tokens", vec![MAX_COMPLETION_TOKENS]),
            ("Unsupported value: 'temperature' does not support 0.2 with this model.", vec!["temperature"]),
            ("Reasoning is mandatory for this endpoint and cannot be disabled.", vec!["reasoning"]),
            ("max_tokens is too large: 100000. This model supports at most 4096", vec![]),
            ("unknown field `rethinking`", vec![]),
            ("This response_format type is unavailable now", vec![RESPONSE_FORMAT]),
            ("Invalid schema for response_format 'n': 'uniqueItems' is not permitted.", vec![]),
        ] {
            assert_eq!(named(400, words), fields, "{words}");
        }
        assert!(named(500, "unknown field temperature").is_empty());
        assert_eq!(named(422, "unknown field temperature"), ["temperature"]);
    }

    #[test]
    fn the_two_limit_fields_replace_each_other() {
        let none = UnsupportedParameters::default();
        assert_eq!(none.limit_field(MAX_TOKENS), Some(MAX_TOKENS));
        let first = none.with_named(StatusCode::BAD_REQUEST, "unknown max_tokens");
        assert_eq!(first.limit_field(MAX_TOKENS), Some(MAX_COMPLETION_TOKENS));
        let all_named = first.with_named(StatusCode::BAD_REQUEST, "unknown max_completion_tokens");
        assert_eq!(all_named.limit_field(MAX_TOKENS), None);
        assert_eq!(all_named.limit_field(MAX_COMPLETION_TOKENS), None);
    }
}
