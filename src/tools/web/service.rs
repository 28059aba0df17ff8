//! Sends requests to the services that the operator has configured. Error texts never repeat a key.

use crate::ports::{CancelToken, ToolError, UrlTrust, Web, WebError, WebMethod, WebRequest, WebResponse};
use crate::tools::text::collapse_whitespace;
use serde_json::Value;
use std::time::Duration;
use url::Url;

const RESPONSE_BYTES: usize = 4 << 20;
/// Shorter header values are not treated as keys.
const KEY_CHARS: usize = 6;
/// Characters of a service's error text.
const ERROR_CHARS: usize = 300;

/// An invalid value of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadOption {
    /// The whole key.
    pub key: String,
    /// The value, without secrets.
    pub value: String,
    /// The allowed values.
    pub allowed: String,
}

/// The fault of a service address.
pub(in crate::tools) fn fault(key: &str, address: Option<&str>) -> Option<BadOption> {
    let text = address?;
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let has_no_extras =
        |url: &Url| url.username().is_empty() && url.password().is_none() && url.query().is_none();
    if url.as_ref().is_some_and(has_no_extras) {
        return None;
    }
    let display = if url.is_some() { "***".to_owned() } else { text.chars().take(200).collect() };
    let allowed = "must be http://… or https://…, without user name, password and query".to_owned();
    Some(BadOption { key: key.to_owned(), value: display, allowed })
}

/// The address of `path` below `base`, which may end with the path already.
pub(in crate::tools) fn service_url(base: &str, path: &str) -> Result<Url, ToolError> {
    let base = base.trim_end_matches('/');
    let address_text =
        if base.ends_with(path.trim_end_matches('/')) { base.to_owned() } else { format!("{base}{path}") };
    Url::parse(&address_text)
        .map_err(|_| ToolError::failed("The service's address in the configuration cannot be used"))
}

/// A request to a configured service.
#[derive(Debug)]
pub(in crate::tools) struct ServiceRequest {
    pub(in crate::tools) url: Url,
    pub(in crate::tools) method: WebMethod,
    pub(in crate::tools) headers: Vec<(String, String)>,
    /// The name in error texts.
    pub(in crate::tools) service: &'static str,
    pub(in crate::tools) timeout_s: u64,
}

impl ServiceRequest {
    /// A GET request without headers.
    pub(in crate::tools) fn get(url: Url, service: &'static str, timeout_s: u64) -> Self {
        Self { url, method: WebMethod::Get, headers: Vec::new(), service, timeout_s }
    }
}

/// Sends a request. Every HTTP status but 2xx is an error.
pub(in crate::tools) fn send_to_service(
    web: &dyn Web,
    request: ServiceRequest,
    cancel: &CancelToken,
) -> Result<WebResponse, ToolError> {
    let ServiceRequest { url, method, headers, service, timeout_s } = request;
    let keys: Vec<String> =
        headers.iter().map(|(_, value)| value.strip_prefix("Bearer ").unwrap_or(value).to_owned()).collect();
    let excerpt = |response: &WebResponse| excerpt(response, &keys);
    let request =
        WebRequest { method, url: url.into(), headers, trust: UrlTrust::Operator, max_bytes: RESPONSE_BYTES };
    let response = web.send(&request, &cancel.with_timeout(Duration::from_secs(timeout_s)));
    let response = response.map_err(|error| match error {
        WebError::Stopped if !cancel.is_cancelled() => {
            ToolError::failed(format!("{service} gives no answer within {timeout_s} s"))
        }
        other => ToolError::failed(format!("{service} cannot be asked: {other}")),
    })?;
    match response.status {
        200..=299 => Ok(response),
        401 | 403 => Err(ToolError::failed(format!(
            "{service} refuses the question (HTTP {}): {}",
            response.status,
            excerpt(&response)
        ))),
        429 => Err(ToolError::failed(format!("{service} is asked too often (HTTP 429): try later"))),
        300..=399 => {
            Err(ToolError::failed(format!("{service} answers with a redirect (HTTP {})", response.status)))
        }
        status => Err(ToolError::failed(format!("{service} fails (HTTP {status}): {}", excerpt(&response)))),
    }
}

/// Sends a request and reads the JSON of the response.
pub(in crate::tools) fn request_json(
    web: &dyn Web,
    request: ServiceRequest,
    cancel: &CancelToken,
) -> Result<Value, ToolError> {
    let service = request.service;
    let response = send_to_service(web, request, cancel)?;
    serde_json::from_slice(&response.body)
        .map_err(|_| ToolError::failed(format!("{service} does not answer in JSON")))
}

/// The beginning of a response, without keys that it repeats.
fn excerpt(response: &WebResponse, keys: &[String]) -> String {
    let text = String::from_utf8_lossy(&response.body);
    let is_key = |key: &&String| key.len() >= KEY_CHARS;
    let text =
        keys.iter().filter(is_key).fold(text.into_owned(), |text, key| text.replace(key.as_str(), "***"));
    collapse_whitespace(&text).chars().take(ERROR_CHARS).collect()
}
