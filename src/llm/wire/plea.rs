//! Whether a provider has said, in the call that this thread makes, that it gets too many of them. Owns that one bit:
//! to whoever waits for an answer it is like any other trouble, to those who come next it is not.
//!
//! As with [`super::tether`], a call runs on one thread from start to end, and the bit waits there.

use std::cell::Cell;

thread_local! {
    static IS_LIMITED: Cell<bool> = const { Cell::new(false) };
}

/// A call begins.
pub(crate) fn forget() {
    IS_LIMITED.set(false);
}

/// The provider says that it limits calls.
pub(super) fn note() {
    IS_LIMITED.set(true);
}

/// Whether it has said so since the call began.
pub(crate) fn is_noted() -> bool {
    IS_LIMITED.get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::secret::Secret;
    use crate::llm::wire::endpoint::{CHAT, Endpoint};
    use crate::llm::wire::failure::Teller;
    use crate::llm::wire::tether::Patience;
    use serde_json::json;
    use std::time::Duration;
    use ureq::http::StatusCode;

    #[test]
    fn a_limit_is_heard_in_statuses_and_in_error_objects_and_trouble_is_not() {
        let endpoint = Endpoint::parse("http://127.0.0.1:1/v1", CHAT).expect("a URL");
        let patience = Patience { connect: Duration::ZERO, idle: Duration::ZERO };
        let teller = Teller::new(&endpoint, Secret::default(), patience);
        for (status, noted) in [(429, true), (500, false), (503, false), (400, false)] {
            forget();
            teller.status(StatusCode::from_u16(status).expect("a status"), None, "{}");
            assert_eq!(is_noted(), noted, "{status}");
        }
        for (error, noted) in [
            (json!({"code": 429, "message": "slow"}), true),
            (json!({"code": "429"}), true),
            (json!({"type": "rate_limit_error"}), true),
            (json!({"code": "rate_limit_exceeded"}), true),
            (json!({"type": "overloaded_error"}), false),
            (json!({"code": 502}), false),
            (json!("rate_limit"), false),
        ] {
            forget();
            teller.error_object(&error);
            assert_eq!(is_noted(), noted, "{error}");
        }
    }
}
