//! The session cookie, for browsers, whose `EventSource` sends no `Authorization`. It is ignored in
//! requests that another site may have caused.

use hyper::header::{COOKIE, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method};

/// The cookie's name.
const NAME: &str = "nanoclaw_session";
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The session of the request, unless another site may have caused it. Foreign origins were refused before.
pub(crate) fn session(head: &Parts) -> Option<&str> {
    let site = head.headers.get(SEC_FETCH_SITE).map(|site| site.as_bytes().to_ascii_lowercase());
    let is_own = match site.as_deref() {
        _ if head.headers.contains_key(ORIGIN) => true,
        Some(b"same-origin") => true,
        // From the address bar or without a browser: neither posts.
        Some(b"none") | None => matches!(head.method, Method::GET | Method::HEAD),
        Some(_) => false,
    };
    if is_own { only(&head.headers) } else { None }
}

/// The cookie. Two of that name are ignored: another host may have set one.
fn only(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut found = pairs.filter(|(name, _)| *name == NAME).map(|(_, value)| value.trim_matches('"'));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// The header value that sets the session.
pub(crate) fn set_cookie_value(token: &str, session_s: u64, headers: &HeaderMap) -> String {
    written(token, session_s, headers)
}

/// The header value that removes it.
pub(crate) fn clear_cookie_value(headers: &HeaderMap) -> String {
    written("", 0, headers)
}

fn written(value: &str, max_age_s: u64, headers: &HeaderMap) -> String {
    let is_https =
        headers.get(X_FORWARDED_PROTO).is_some_and(|p| p.as_bytes().eq_ignore_ascii_case(b"https"));
    let secure = if is_https { "; Secure" } else { "" };
    format!("{NAME}={value}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Strict{secure}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    fn seen(method: &str, headers: &[(&str, &str)]) -> Option<String> {
        let mut request = Request::builder().method(method).uri("/v1/jobs");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).expect("a request").into_parts();
        session(&head).map(str::to_owned)
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        for line in ["nanoclaw_session=x.y", "a=1; nanoclaw_session=x.y;b", "nanoclaw_session=\"x.y\"; =;;"] {
            assert_eq!(seen("GET", &[("cookie", line)]).as_deref(), Some("x.y"), "{line}");
        }
        assert_eq!(seen("GET", &[("cookie", "a=1"), ("cookie", "nanoclaw_session=z")]).as_deref(), Some("z"));
        for line in
            ["", "nanoclaw_session", "xnanoclaw_session=1", "Nanoclaw_Session=1", "a=nanoclaw_session=1"]
        {
            assert_eq!(seen("GET", &[("cookie", line)]), None, "{line}");
        }
        let twice = "nanoclaw_session=theirs; nanoclaw_session=mine";
        assert_eq!(seen("GET", &[("cookie", twice)]), None, "a neighbour's domain can set one as well");
    }

    #[test]
    fn p9_a_cookie_is_ignored_on_possible_cross_site_requests() {
        let cookie = ("cookie", "nanoclaw_session=x");
        let with = |method: &str, name: &'static str, value: &'static str| {
            seen(method, &[cookie, (name, value)]).is_some()
        };
        for method in ["POST", "DELETE", "PATCH", "PUT"] {
            assert!(seen(method, &[cookie]).is_none(), "{method} of who knows whom");
            assert!(!with(method, "sec-fetch-site", "none") && !with(method, "sec-fetch-site", "same-site"));
            assert!(!with(method, "sec-fetch-site", "cross-site") && !with(method, "sec-fetch-site", "?"));
            assert!(with(method, "sec-fetch-site", "same-origin"));
            assert!(with(method, "origin", "http://localhost"), "which the guard has accepted");
        }
        assert!(with("GET", "sec-fetch-site", "none") && with("GET", "sec-fetch-site", "Same-Origin"));
        assert!(!with("GET", "sec-fetch-site", "same-site") && !with("GET", "sec-fetch-site", "cross-site"));
    }

    #[test]
    fn p9_the_cookie_is_http_only_and_same_site() {
        let mut headers = HeaderMap::new();
        let plain = "nanoclaw_session=x; Path=/; Max-Age=9; HttpOnly; SameSite=Strict";
        assert_eq!(set_cookie_value("x", 9, &headers), plain);
        headers.insert(X_FORWARDED_PROTO, hyper::header::HeaderValue::from_static("https"));
        assert_eq!(set_cookie_value("x", 9, &headers), format!("{plain}; Secure"));
        assert!(clear_cookie_value(&headers).starts_with("nanoclaw_session=; Path=/; Max-Age=0;"));
    }
}
