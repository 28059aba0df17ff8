//! Handles of full tool results, which a model uses to read what was cut.

use super::id::JobId;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Characters of a call id that a handle keeps.
const CALL_CHARS: usize = 64;

/// A result by job and call: `job_…/call_0`. Short and free of JSON escapes, so that small models copy it
/// correctly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultHandle {
    /// The job that ran the tool.
    pub job: JobId,
    /// The call within it.
    call: String,
}

impl ResultHandle {
    /// The handle of a call's result. An unusual call id is replaced by a hash.
    pub fn of(job: JobId, id_ref: &str) -> Self {
        if is_handy(id_ref) {
            return Self { job, call: id_ref.to_owned() };
        }
        let mut hasher = DefaultHasher::new();
        id_ref.hash(&mut hasher);
        Self { job, call: format!("call.{:016x}", hasher.finish()) }
    }

    /// Parses a handle that a model wrote. A bare call id refers to the model's own job. `None` for anything
    /// else.
    pub fn parse(text: &str, own: JobId) -> Option<Self> {
        let text = text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`'));
        let (job, call) = match text.split_once('/') {
            Some((job, call)) => (job.parse().ok()?, call),
            None => (own, text),
        };
        is_handy(call).then(|| Self { job, call: call.to_owned() })
    }
}

fn is_handy(call: &str) -> bool {
    let is_plain_char = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.');
    (1..=CALL_CHARS).contains(&call.len()) && call.bytes().all(is_plain_char)
}

impl fmt::Display for ResultHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.job, self.call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_result_handle_round_trips_for_any_call_id(bits: u128, id_ref: String, own: u128) {
            let handle = ResultHandle::of(JobId::from_bits(bits), &id_ref);
            let text = handle.to_string();
            prop_assert!(text.len() <= 96 && serde_json::Value::from(text.as_str()).to_string().len() == text.len() + 2);
            prop_assert_eq!(ResultHandle::parse(&text, JobId::from_bits(own)), Some(handle));
        }

        #[test]
        fn no_text_makes_the_handle_parser_panic(text: String) {
            drop(ResultHandle::parse(&text, JobId::from_bits(1)));
        }
    }

    #[test]
    fn unusual_call_ids_stay_distinct_and_a_bare_id_means_the_own_job() {
        let job = JobId::from_bits(7);
        assert_ne!(ResultHandle::of(job, "a/b"), ResultHandle::of(job, "a b"));
        let own = ResultHandle::of(job, "call_0");
        for text in ["call_0", " `call_0`\n", &format!("\"{own}\"")] {
            assert_eq!(ResultHandle::parse(text, job), Some(own.clone()), "{text}");
        }
        for text in ["", "/", "job_x/call_0", &format!("{job}/"), &format!("{job}/a/b"), "a b"] {
            assert_eq!(ResultHandle::parse(text, job), None, "{text}");
        }
    }
}
