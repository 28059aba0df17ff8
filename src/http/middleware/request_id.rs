//! The id of a request in the log: from the client or a proxy if it is well formed, else random.

use crate::ports::Entropy;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use std::fmt;

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The same in responses of Anthropic's routes.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// The longest id from a client, bytes.
const NAME_BYTES: usize = 64;

/// Up to 64 of `A-Z a-z 0-9 . _ -`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestId(String);

impl RequestId {
    /// The id in the request if it is well formed, else a random one.
    pub(crate) fn of(headers: &HeaderMap, entropy: &dyn Entropy) -> Self {
        let given = headers.get(X_REQUEST_ID).and_then(|value| value.to_str().ok());
        given.filter(|name| is_name(name)).map_or_else(|| Self::mint(entropy), |name| Self(name.to_owned()))
    }

    /// A random id: `req_` and 16 hexadecimal digits.
    pub(crate) fn mint(entropy: &dyn Entropy) -> Self {
        let low = entropy.random() & u128::from(u64::MAX);
        Self(format!("req_{low:016x}"))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.0).ok()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    !name.is_empty() && name.len() <= NAME_BYTES && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Always(u128);

    impl Entropy for Always {
        fn random(&self) -> u128 {
            self.0
        }
    }

    #[test]
    fn a_well_formed_request_id_is_kept_and_any_other_is_replaced() {
        let of = |name: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(X_REQUEST_ID, HeaderValue::from_bytes(name).expect("a value"));
            RequestId::of(&headers, &Always(0xAB)).to_string()
        };
        let longest = "x".repeat(NAME_BYTES);
        for good in ["a", "A.b_c-9", "0198-7f", longest.as_str()] {
            assert_eq!(of(good.as_bytes()), good);
        }
        for bad in [&b""[..], b"a b", b"a=b", b"a\"b", b"\xFF", b"a/b", "x".repeat(NAME_BYTES + 1).as_bytes()]
        {
            assert_eq!(of(bad), "req_00000000000000ab", "{bad:?}");
        }
        assert_eq!(RequestId::of(&HeaderMap::new(), &Always(u128::MAX)).to_string(), "req_ffffffffffffffff");
    }
}
