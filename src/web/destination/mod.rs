//! Parses URLs by the URL standard (so that `2130706433`, `0x7f.1`, `127.1` and full-width digits are the
//! host that they name) and refuses hosts and ports that guests must not reach. The resolver checks the
//! addresses of names.

use crate::domain::address::AddressPolicy;
use crate::ports::WebError;
use std::net::IpAddr;
use url::{Host, Url};

/// The longest address, bytes.
const URL_BYTES: usize = 8 * 1024;
/// Characters that models put around an address.
const WRAPPING: [char; 11] = ['"', '\'', '`', '<', '>', '“', '”', '‘', '’', '«', '»'];
/// Ports of services that take an HTTP request for commands of their own: the Fetch standard's list.
const BAD_PORTS: [u16; 83] = [
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103,
    104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514,
    515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723,
    2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
];
/// Last labels of names without a public address, and the names of metadata services of clouds.
const PRIVATE_NAMES: [&str; 10] = [
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "lan",
    "home.arpa",
    "metadata",
    "instance-data",
    "ip6-loopback",
];

/// Parses an `http:` or `https:` URL.
pub(super) fn parse(text: &str) -> Result<Url, WebError> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control() || WRAPPING.contains(&c));
    if text.len() > URL_BYTES {
        return Err(bad_url(&format!("the address is longer than {URL_BYTES} bytes")));
    }
    let url = Url::parse(text)
        .map_err(|_| bad_url("it is no address: write it whole, as in https://example.org/page"))?;
    check_form(url)
}

/// The target of a redirect.
pub(super) fn redirect_target(from: &Url, location: &str) -> Result<Url, WebError> {
    let url =
        from.join(location).map_err(|_| WebError::Redirects("it redirects to no address".to_owned()))?;
    if url.as_str().len() > URL_BYTES {
        return Err(WebError::Redirects("it redirects to an endless address".to_owned()));
    }
    check_form(url)
}

fn check_form(mut url: Url) -> Result<Url, WebError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad_url("only http:// and https:// addresses can be fetched"));
    }
    if url.host().is_none() {
        return Err(bad_url("the address names no host"));
    }
    // A fragment is never sent.
    url.set_fragment(None);
    Ok(url)
}

/// Refuses URLs that guests must not request.
pub(super) fn check(url: &Url, policy: &AddressPolicy) -> Result<(), WebError> {
    if !url.username().is_empty() || url.password().is_some() {
        let words =
            "addresses with a user name or password are not fetched; leave out what stands before the @";
        return Err(WebError::Forbidden(words.to_owned()));
    }
    if let Some(port) = url.port().filter(|port| BAD_PORTS.contains(port)) {
        return Err(WebError::Forbidden(format!("port {port} belongs to another service than the web")));
    }
    let is_permitted = match url.host() {
        Some(Host::Ipv4(address)) => policy.permits(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => policy.permits(IpAddr::V6(address)),
        // With exceptions configured, the addresses of the name decide.
        Some(Host::Domain(name)) => policy.has_exceptions() || !is_private_name(name),
        None => false,
    };
    if is_permitted { Ok(()) } else { Err(refusal(url.host_str().unwrap_or_default())) }
}

fn is_private_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    PRIVATE_NAMES.iter().any(|private| {
        name.strip_suffix(private).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    })
}

/// The error for a host that is not public. It does not reveal the addresses of a name.
pub(super) fn refusal(host: &str) -> WebError {
    WebError::Forbidden(format!(
        "'{host}' is not on the public internet, and addresses of private networks are not fetched; try no other \
         spelling of it (the operator may open it with web.allow_private_addresses)"
    ))
}

/// The URL without credentials.
pub(super) fn without_credentials(url: &Url) -> String {
    let mut url = url.clone();
    let cleared = url.set_username("").and_then(|()| url.set_password(None));
    // It cannot fail where there is a host.
    cleared.map_or_else(|()| String::new(), |()| url.into())
}

fn bad_url(words: &str) -> WebError {
    WebError::BadUrl(words.to_owned())
}

#[cfg(test)]
mod tests;
