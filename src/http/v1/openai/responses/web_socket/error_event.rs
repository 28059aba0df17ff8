//! `WebSocketErrorEvent` of the Open Responses document.

use crate::http::error::ApiError;
use crate::http::response::error::ErrorResponse;
use hyper::StatusCode;
use serde_json::{Value, json};

/// The message for an error: of a request, or with a number of a response under way.
pub(super) fn text(error: &ApiError, number: Option<u64>) -> String {
    let (status, _) = error.class();
    let mut event = json!({"type": "error", "status": status.as_u16()});
    if let (Value::Object(event), Value::Object(detail)) =
        (&mut event, json!(ErrorResponse::of_openai(error)))
    {
        event.extend(detail);
        event.extend(number.map(|number| ("sequence_number".to_owned(), number.into())));
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
            && let Some(Value::Object(detail)) = event.get_mut("error")
        {
            let wait_s = error.retry_after_s().to_string();
            detail.insert("headers".to_owned(), json!({"retry-after": wait_s}));
        }
    }
    event.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_status_and_the_fields_of_the_route() {
        let read =
            |error: &ApiError, number| -> Value { serde_json::from_str(&text(error, number)).expect("JSON") };
        let event = read(&ApiError::value("type", "no"), None);
        assert_eq!(
            event,
            json!({"type": "error", "status": 400, "error": {
                "type": "invalid_request_error", "code": "invalid_value", "message": "no", "param": "type",
            }})
        );
        let busy = read(&ApiError::TooMany { message: "later".to_owned(), retry_after_s: 7 }, Some(3));
        assert_eq!((&busy["status"], &busy["sequence_number"]), (&json!(429), &json!(3)));
        assert_eq!(busy["error"]["headers"], json!({"retry-after": "7"}));
    }
}
