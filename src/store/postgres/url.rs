//! The URL of the database. Its TLS parameters are read here, because the driver knows only some of them.

use crate::store::postgres::pool_error::{PoolError, describe};
use crate::store::postgres::tls::{RootSource, TlsMode, connector};
use percent_encoding::percent_decode_str;
use std::ops::Range;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

const SSL_MODE: &str = "sslmode";
const SSL_ROOT_CERT: &str = "sslrootcert";

/// What a URL says.
pub(crate) struct DatabaseUrl {
    pub(crate) config: Config,
    pub(crate) tls: MakeRustlsConnect,
    pub(crate) tls_mode: TlsMode,
}

impl DatabaseUrl {
    /// Reads `postgres://…` or `key=value` pairs. The modes of TLS mean what they mean to libpq.
    pub(crate) fn parse(url: &str) -> Result<Self, PoolError> {
        let (rest, params) = split(url);
        let mut config: Config = rest.parse().map_err(|error| PoolError::Url(describe(&error)))?;
        let roots = params.root_cert.as_deref().map(RootSource::of);
        let tls_mode = TlsMode::of(params.mode.as_deref(), roots.as_ref()).map_err(PoolError::Parameter)?;
        let tls = connector(tls_mode, roots.as_ref())?;
        // A socket needs no TLS, whatever the mode.
        let is_socket = config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)));
        config.ssl_mode(if is_socket { SslMode::Disable } else { tls_mode.of_driver() });
        Ok(Self { config, tls, tls_mode })
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct TlsParams {
    mode: Option<String>,
    root_cert: Option<String>,
}

impl TlsParams {
    /// Takes a parameter that is one of them.
    fn take(&mut self, key: &str, value: String) -> bool {
        let slot = match key {
            SSL_MODE => &mut self.mode,
            SSL_ROOT_CERT => &mut self.root_cert,
            _ => return false,
        };
        *slot = Some(value);
        true
    }
}

/// The URL without the parameters of TLS, and these.
fn split(url: &str) -> (String, TlsParams) {
    let is_url = url.starts_with("postgres://") || url.starts_with("postgresql://");
    if is_url { split_url(url) } else { split_pairs(url) }
}

fn split_url(url: &str) -> (String, TlsParams) {
    let mut params = TlsParams::default();
    // A password may have a question mark.
    let after_password = url.find('@').unwrap_or(0);
    let Some((before, query)) = url
        .get(after_password..)
        .and_then(|rest| rest.find('?'))
        .and_then(|at| url.split_at_checked(after_password.saturating_add(at)))
    else {
        return (url.to_owned(), params);
    };
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let others: Vec<&str> = query
        .trim_start_matches('?')
        .split('&')
        .filter(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            !params.take(&decoded(key), decoded(value))
        })
        .collect();
    let rest = if others.is_empty() { before.to_owned() } else { format!("{before}?{}", others.join("&")) };
    (rest, params)
}

fn split_pairs(text: &str) -> (String, TlsParams) {
    let (mut params, mut rest, mut at) = (TlsParams::default(), String::new(), 0);
    while let Some((range, key, value)) = next_pair(text, at) {
        at = range.end;
        if !params.take(&key, value) {
            rest.push_str(text.get(range).unwrap_or_default());
            rest.push(' ');
        }
    }
    // What is no pair is for the driver to refuse.
    rest.push_str(text.get(at..).unwrap_or_default().trim());
    (rest.trim().to_owned(), params)
}

/// The pair that begins at or after this place, and where it stands. Values may be quoted, and a backslash
/// takes the next character as it is.
fn next_pair(text: &str, from: usize) -> Option<(Range<usize>, String, String)> {
    let rest = text.get(from..)?;
    let start = from.checked_add(rest.find(|c: char| !c.is_whitespace())?)?;
    let (key, _) = text.get(start..)?.split_once('=')?;
    let key_end = start.checked_add(key.len())?.checked_add(1)?;
    let gap = text.get(key_end..)?.find(|c: char| !c.is_whitespace()).unwrap_or(0);
    let value_start = key_end.checked_add(gap)?;
    let (mut value, mut chars) = (String::new(), text.get(value_start..)?.char_indices().peekable());
    let is_quoted = chars.next_if(|(_, c)| *c == '\'').is_some();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' if is_quoted => {
                let end = value_start.checked_add(at)?.checked_add(1)?;
                return Some((start..end, key.trim().to_owned(), value));
            }
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            c if c.is_whitespace() && !is_quoted => {
                return Some((start..value_start.checked_add(at)?, key.trim().to_owned(), value));
            }
            c => value.push(c),
        }
    }
    // A quote that is not closed is for the driver to refuse.
    (!is_quoted).then(|| (start..text.len(), key.trim().to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str) -> (String, Option<String>, Option<String>) {
        let (rest, TlsParams { mode, root_cert }) = split(url);
        (rest, mode, root_cert)
    }

    fn wanted(
        rest: &str,
        mode: Option<&str>,
        root: Option<&str>,
    ) -> (String, Option<String>, Option<String>) {
        (rest.to_owned(), mode.map(str::to_owned), root.map(str::to_owned))
    }

    #[test]
    fn the_parameters_of_tls_leave_the_rest_of_the_url_as_it_is() {
        for (url, rest, mode, root) in [
            ("postgres://db/x", "postgres://db/x", None, None),
            ("postgres://u:p?w@db/x?sslmode=require", "postgres://u:p?w@db/x", Some("require"), None),
            (
                "postgresql://db/x?a=1&sslrootcert=%2Fetc%2Fca%20one.pem&sslmode=verify-full&options=-c%20b%3Dc",
                "postgresql://db/x?a=1&options=-c%20b%3Dc",
                Some("verify-full"),
                Some("/etc/ca one.pem"),
            ),
            ("host=db user=u", "host=db user=u", None, None),
            ("  sslmode = 'verify-ca'  host=db", "host=db", Some("verify-ca"), None),
            (
                r"host=/run sslrootcert='/a \'b\\' password='a b\'=c' dbname=x",
                r"host=/run password='a b\'=c' dbname=x",
                None,
                Some(r"/a 'b\"),
            ),
            (r"sslrootcert=/a\ b host=db", "host=db", None, Some("/a b")),
            ("host=db junk", "host=db junk", None, None),
            ("host=db options='-c x", "host=db options='-c x", None, None),
            ("", "", None, None),
        ] {
            assert_eq!(parts(url), wanted(rest, mode, root), "{url}");
        }
    }

    #[test]
    fn a_url_says_whether_the_certificate_is_checked_and_bad_values_what_is_allowed() {
        let mode = |url: &str| DatabaseUrl::parse(url).map(|url| (url.tls_mode, url.config.get_ssl_mode()));
        let ok = |url: &str| mode(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(ok("postgres://db/x"), (TlsMode::Prefer, SslMode::Prefer));
        assert_eq!(ok("host=/run/postgresql sslmode=require"), (TlsMode::Require, SslMode::Disable));
        assert_eq!(ok("postgres://db/x?sslmode=verify-full"), (TlsMode::VerifyFull, SslMode::Require));
        let told = |url: &str| mode(url).map(|_| ()).unwrap_err().to_string();
        let modes = told("postgres://db/x?sslmode=full");
        assert!(modes.contains("'full'") && modes.contains("verify-full"), "{modes}");
        let missing = told("postgres://db/x?sslrootcert=/missing/ca.pem");
        assert!(missing.contains("/missing/ca.pem") && missing.contains("No such file"), "{missing}");
        let none = told("postgres://db/x?sslrootcert=/dev/null");
        assert!(none.contains("no certificate"), "{none}");
        let unknown = told("postgres://db/x?sslcert=/a.pem");
        assert!(unknown.contains("sslcert"), "{unknown}");
    }
}
