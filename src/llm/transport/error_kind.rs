//! Classifies error responses of providers by status and words.

use serde_json::Value;

/// The meaning of a failure for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProviderErrorKind {
    /// The request is refused.
    Refused,
    /// The content filter refuses the request.
    Filtered,
    /// This server is refused: key or quota.
    Denied,
    /// The model is not known.
    UnknownModel,
    /// The request is too long for the model.
    ContextTooLong,
    /// Too many calls arrive. That is no failure of the provider.
    RateLimited,
    /// Another try may succeed.
    Unavailable,
}

/// Words for an exhausted quota, for which waiting does not help.
const QUOTA_WORDS: [&str; 17] = [
    "insufficient_quota",
    "billing_not_active",
    "billing_hard_limit_reached",
    "exceeded_current_quota",
    "exceeded your current quota",
    "insufficient balance",
    "insufficient_balance",
    "insufficient_user_quota",
    "insufficient credit",
    "requires more credits",
    "out of credits",
    "no credits",
    "account is not active",
    "payment required",
    "arrearage",
    "余额不足",
    "欠费",
];
/// GLM's code for an exhausted quota.
const QUOTA_CODE: &str = "1113";
/// Words for a quota that recovers by itself.
const WINDOW_WORDS: [&str; 4] = ["per minute", "perminute", "per_minute", "per second"];

/// Words for a request that is too long; all words of an entry must occur.
const CONTEXT_WORDS: [&[&str]; 18] = [
    &["context_length_exceeded"],
    &["exceed_context_size"],
    &["maximum context length"],
    &["maximum prompt length"],
    &["max_prompt_tokens"],
    &["prompt is too long"],
    &["prompt too long"],
    &["input is too long"],
    &["available context size"],
    &["context window"],
    &["context length", "exceed"],
    &["input length", "exceed"],
    &["range of input length"],
    &["input token count", "exceed"],
    &["too many tokens"],
    &["reduce the length of the messages"],
    &["exceed context limit"],
    &["exceeds the maximum number of tokens"],
];
/// Statuses of a request that is too long. Older llama.cpp servers send 500.
const CONTEXT_STATUSES: [u16; 4] = [400, 413, 422, 500];

/// Words for a model that the provider does not serve.
const MODEL_WORDS: [&str; 9] = [
    "model_not_found",
    "model not found",
    "no such model",
    "unknown model",
    "model does not exist",
    "not a valid model",
    "invalid model",
    "model_not_supported",
    "unsupported_model",
];

/// Words of a content filter.
const FILTER_WORDS: [&str; 8] = [
    "content_filter",
    "content filter",
    "contentfilter",
    "content_policy",
    "content policy",
    "content management policy",
    "moderation",
    "data_inspection_failed",
];

/// Words for a key or an account that the provider does not serve.
const DENIED_WORDS: [&str; 13] = [
    "invalid_api_key",
    "invalid api key",
    "incorrect api key",
    "api key not valid",
    "api_key_invalid",
    "authentication_error",
    "invalid_authentication",
    "permission_error",
    "billing_error",
    "not_found_error",
    "permission_denied",
    "access_denied",
    "unauthorized",
];

/// Words of a temporary error.
const TRANSIENT_WORDS: [&str; 17] = [
    "rate_limit",
    "rate limit",
    "too many requests",
    "overloaded",
    "server_error",
    "api_error",
    "internal",
    "unavailable",
    "timeout",
    "timed out",
    "try again",
    "temporarily",
    "provider connect",
    "connection error",
    "capacity",
    "resource_exhausted",
    "server busy",
];

/// Words of an error in the request.
const REFUSED_WORDS: [&str; 5] = ["invalid", "bad_request", "bad request", "not supported", "unsupported"];

/// The kind of an error response with this status and these words (lower case).
pub(super) fn of_status(status: u16, words: &str) -> ProviderErrorKind {
    let is_quota_spent = is_quota(words);
    match status {
        400 | 403 | 422 | 451 if has(words, &FILTER_WORDS) => ProviderErrorKind::Filtered,
        404 if words.contains("model") => ProviderErrorKind::UnknownModel,
        401..=404 => ProviderErrorKind::Denied,
        429 if is_quota_spent => ProviderErrorKind::Denied,
        _ if CONTEXT_STATUSES.contains(&status) && is_too_long(words) => ProviderErrorKind::ContextTooLong,
        // A shorter request may fit.
        413 => ProviderErrorKind::ContextTooLong,
        429 => ProviderErrorKind::RateLimited,
        408 | 409 | 425 | 498 | 500..=599 => ProviderErrorKind::Unavailable,
        300..=399 => ProviderErrorKind::Denied,
        _ if has(words, &MODEL_WORDS) => ProviderErrorKind::UnknownModel,
        _ if is_quota_spent || has(words, &DENIED_WORDS) => ProviderErrorKind::Denied,
        _ => ProviderErrorKind::Refused,
    }
}

/// The kind of an error object in a response with status 200.
pub(super) fn of_error(error: &Value, words: &str) -> ProviderErrorKind {
    let number = |key: &str| crate::llm::json::count(error.get(key)?);
    let status = ["code", "status", "status_code", "http_code"].iter().find_map(|key| number(key));
    if let Some(status) = status.and_then(|s| u16::try_from(s).ok()).filter(|s| (400..600).contains(s)) {
        return of_status(status, words);
    }
    if is_quota(words) {
        ProviderErrorKind::Denied
    } else if is_too_long(words) {
        ProviderErrorKind::ContextTooLong
    } else if is_rate_limit(error) {
        ProviderErrorKind::RateLimited
    } else if has(words, &FILTER_WORDS) {
        ProviderErrorKind::Filtered
    } else if has(words, &MODEL_WORDS) {
        ProviderErrorKind::UnknownModel
    } else if has(words, &DENIED_WORDS) {
        ProviderErrorKind::Denied
    } else if has(words, &TRANSIENT_WORDS) || !has(words, &REFUSED_WORDS) {
        // An answer that had begun and broke off without a reason may succeed later.
        ProviderErrorKind::Unavailable
    } else {
        ProviderErrorKind::Refused
    }
}

fn has(words: &str, list: &[&str]) -> bool {
    list.iter().any(|word| words.contains(word))
}

fn is_quota(words: &str) -> bool {
    let is_code = || words.split_whitespace().any(|word| word == QUOTA_CODE);
    // A load balancer is no account balance.
    let is_balance =
        || words.contains("balance") && !words.contains("balancer") && !words.contains("load balance");
    (has(words, &QUOTA_WORDS) || is_code() || is_balance()) && !has(words, &WINDOW_WORDS)
}

/// Whether an error object names a rate limit.
fn is_rate_limit(error: &Value) -> bool {
    let says = |key: &str| match error.get(key) {
        Some(Value::Number(number)) => number.as_u64() == Some(429),
        Some(Value::String(text)) => text == "429" || text.to_ascii_lowercase().contains("rate_limit"),
        _ => false,
    };
    says("code") || says("status") || says("type")
}

fn is_too_long(words: &str) -> bool {
    CONTEXT_WORDS.iter().any(|entry| entry.iter().all(|word| words.contains(word)))
}

/// The depth to which an error object is read.
const DEPTH: usize = 8;
/// The most text that is read of an error object, characters.
const WORDS_CHARS: usize = 16 * 1024;
/// Fields in which an error object quotes the request.
const QUOTED: [&str; 4] = ["input", "ctx", "url", "documentation_url"];

/// All text of an error object, in lower case.
pub(super) fn words(error: &Value) -> String {
    let mut all = String::new();
    gather(error, DEPTH, &mut all);
    all.to_lowercase()
}

fn gather(value: &Value, depth: usize, all: &mut String) {
    if depth == 0 || all.len() > WORDS_CHARS {
        return;
    }
    match value {
        Value::String(text) => {
            all.extend(text.chars().take(WORDS_CHARS));
            all.push(' ');
        }
        Value::Number(number) => all.extend([number.to_string().as_str(), " "]),
        Value::Array(items) => items.iter().for_each(|item| gather(item, depth.saturating_sub(1), all)),
        Value::Object(fields) => {
            for (_, field) in fields.iter().filter(|(key, _)| !QUOTED.contains(&key.as_str())) {
                gather(field, depth.saturating_sub(1), all);
            }
        }
        _ => {}
    }
}

/// Fields with the message for people, the best one first.
const MESSAGE_FIELDS: [&str; 8] =
    ["message", "detail", "msg", "status_msg", "error_msg", "error", "errors", "reason"];

/// The message for people. It is never a web page.
pub(super) fn message_of(error: &Value) -> Option<&str> {
    message_within(error, DEPTH)
}

fn message_within(value: &Value, depth: usize) -> Option<&str> {
    let depth = depth.checked_sub(1)?;
    match value {
        Value::String(text) => (!text.trim().is_empty() && !is_page(text)).then_some(text.as_str()),
        Value::Array(items) => items.iter().find_map(|item| message_within(item, depth)),
        Value::Object(fields) => MESSAGE_FIELDS
            .iter()
            .filter_map(|key| fields.get(*key))
            .find_map(|field| message_within(field, depth)),
        _ => None,
    }
}

/// Whether a text is HTML, or a part of it.
fn is_page(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["<!doctype", "<html", "<head", "<body", "</", "<br", "<h1"].iter().any(|tag| text.contains(tag))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn statuses_and_words_determine_the_kind() {
        use ProviderErrorKind::{
            ContextTooLong, Denied, Filtered, RateLimited, Refused, Unavailable, UnknownModel,
        };
        for (status, words, kind) in [
            (400, "", Refused),
            (422, "missing field", Refused),
            (400, "this model's maximum context length is 8192 tokens", ContextTooLong),
            (400, "code context_length_exceeded", ContextTooLong),
            (400, "prompt is too long: 208310 tokens > 200000 maximum", ContextTooLong),
            (400, "the request exceeds the available context size, try increasing it", ContextTooLong),
            (500, "the request exceeds the available context size", ContextTooLong),
            (422, "input length 9000 exceeds the maximum of 8000", ContextTooLong),
            (413, "", ContextTooLong),
            (429, "too many tokens per minute", RateLimited),
            (401, "", Denied),
            (402, "insufficient balance", Denied),
            (403, "", Denied),
            (404, "the model x does not exist", UnknownModel),
            (404, "not found", Denied),
            (404, "", Denied),
            (400, "the prompt triggered the content management policy content_filter", Filtered),
            (403, "your chosen model requires moderation", Filtered),
            (400, "api key not valid. please pass a valid api key. api_key_invalid", Denied),
            (400, "openai/x is not a valid model id", UnknownModel),
            (429, "insufficient_quota", Denied),
            (429, "1113 余额不足或无可用资源包,请充值。", Denied),
            (429, "your account is suspended due to insufficient balance", Denied),
            (429, "exceeded_current_quota_error", Denied),
            (429, "you exceeded your current quota, please check your plan", Denied),
            (429, "you exceeded your current quota generaterequestsperminuteperproject", RateLimited),
            (429, "rate_limit_exceeded", RateLimited),
            (503, "the load balancer has no backend", Unavailable),
            (408, "", Unavailable),
            (409, "", Unavailable),
            (425, "", Unavailable),
            (500, "", Unavailable),
            (529, "overloaded_error", Unavailable),
            (307, "", Denied),
        ] {
            assert_eq!(of_status(status, words), kind, "{status} {words}");
        }
    }

    #[test]
    fn error_objects_determine_the_kind() {
        use ProviderErrorKind::{
            ContextTooLong, Denied, Filtered, RateLimited, Refused, Unavailable, UnknownModel,
        };
        for (error, kind) in [
            (json!({"code": 400, "message": "Token limit reached"}), Refused),
            (json!({"code": "429", "message": "slow"}), RateLimited),
            (json!({"type": "rate_limit_error", "message": "slow"}), RateLimited),
            (json!({"code": "rate_limit_exceeded"}), RateLimited),
            (json!({"code": "content_filter", "message": "no"}), Filtered),
            (json!("rate_limit"), Unavailable),
            (json!({"code": 502, "message": "provider"}), Unavailable),
            (json!({"type": "overloaded_error", "message": "busy"}), Unavailable),
            (json!({"type": "insufficient_quota"}), Denied),
            (json!({"code": "1113", "message": "x"}), Denied),
            (json!({"status_code": 1008, "status_msg": "insufficient balance"}), Denied),
            (json!({"code": "context_length_exceeded"}), ContextTooLong),
            (json!({"code": 400, "message": "context window exceeded"}), ContextTooLong),
            (json!({"code": "model_not_found", "message": "no such model"}), UnknownModel),
            (json!({"message": "Please try again later"}), Unavailable),
            (json!({"type": "invalid_request_error", "message": "no such field"}), Refused),
            (json!({"message": "The model has crashed without additional information"}), Unavailable),
            (json!("what"), Unavailable),
        ] {
            assert_eq!(of_error(&error, &words(&error)), kind, "{error}");
        }
    }

    #[test]
    fn the_message_is_found_in_every_field_and_is_never_a_page() {
        for (error, sentence) in [
            (json!({"message": "a"}), Some("a")),
            (json!({"message": {"detail": [{"loc": ["body"], "msg": "b"}]}}), Some("b")),
            (json!({"detail": [{"msg": "c"}]}), Some("c")),
            (json!([{"error": {"message": "d"}}]), Some("d")),
            (json!({"message": "<html><body>no</body></html>", "error": "e"}), Some("e")),
            (json!("<!DOCTYPE html>"), None),
            (json!({"code": 1}), None),
        ] {
            assert_eq!(message_of(&error), sentence, "{error}");
        }
    }

    #[test]
    fn quoted_words_of_the_request_are_ignored() {
        let error =
            json!({"detail": [{"type": "missing", "input": "insufficient balance", "loc": ["body", 3]}]});
        assert_eq!(words(&error), "missing body 3 ");
    }
}
