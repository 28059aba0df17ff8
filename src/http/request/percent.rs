//! Strict percent-decoding of paths and queries: a broken escape or broken UTF-8 is an error.

/// Decodes `%XX`; `None` if an escape is broken or the bytes are not UTF-8.
pub(crate) fn decode(text: &str, plus_is_space: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex(rest.next()?)? << 4 | hex(rest.next()?)?,
            b'+' if plus_is_space => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Encodes all but letters, digits and `.-_`, for a value of a header (RFC 8187).
pub(crate) fn encode(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let encoded = text.bytes().map(|byte| match byte {
        byte if is_plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    encoded.collect()
}

/// An absolute path with nothing escaped but `/` and `%` inside a segment, so that each path has one
/// spelling.
pub(crate) fn normalized(path: &str) -> Option<String> {
    let segments = path.strip_prefix('/')?.split('/');
    let mut all = String::with_capacity(path.len());
    for segment in segments {
        all.push('/');
        all.push_str(&decode(segment, false)?.replace('%', "%25").replace('/', "%2F"));
    }
    Some(all)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn broken_escapes_and_broken_utf8_are_refused() {
        for bad in ["%", "%4", "%zz", "%+1", "%ff", "a%c3", "%%41"] {
            assert_eq!(decode(bad, false), None, "{bad}");
        }
        assert_eq!(decode("%41%2fb+c", false).as_deref(), Some("A/b+c"));
        assert_eq!(decode("b+c", true).as_deref(), Some("b c"));
    }

    #[test]
    fn an_escaped_slash_does_not_split_a_path() {
        assert_eq!(normalized("/v1/a%2Fb/").as_deref(), Some("/v1/a%2Fb/"));
        assert_eq!(normalized("/v%31/%25%61").as_deref(), Some("/v1/%25a"));
        assert_eq!(normalized("*"), None);
    }

    proptest! {
        #[test]
        fn every_escaped_text_is_decoded(text in any::<String>()) {
            let escaped = text.bytes().fold(String::new(), |all, b| format!("{all}%{b:02X}"));
            prop_assert_eq!(decode(&escaped, true), Some(text));
        }

        #[test]
        fn no_text_makes_percent_decoding_panic(text in any::<String>()) {
            decode(&text, true);
            normalized(&text);
        }
    }
}
