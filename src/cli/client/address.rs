//! Checks of server addresses and of ids that become part of a request's path.

use crate::cli::error::CliError;

/// Whether request paths can be appended to it.
pub(super) fn is_origin(base: &str) -> bool {
    let Ok(uri) = base.parse::<ureq::http::Uri>() else { return false };
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let has_host = uri.authority().is_some_and(|authority| {
        let host = authority.host();
        // `http::Uri` accepts an invalid port.
        !host.is_empty() && (authority.port_u16().is_some() || authority.as_str().ends_with(host))
    });
    is_http && has_host && uri.query().is_none()
}

/// The id, if it can stand in a path unescaped.
pub(crate) fn path_segment(id: &str) -> Result<&str, CliError> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !id.is_empty() && id.chars().all(is_safe) {
        Ok(id)
    } else {
        Err(CliError::usage(format!("'{id}' is not a job id"))
            .hint("ids look like job_01ARZ3NDEKTSV4RRFFQ69G5FAV"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_address_has_scheme_and_host_and_no_query() {
        for good in [
            "http://127.0.0.1:8787",
            "https://x.test",
            "http://[::1]:80",
            "http://[::1]",
            "http://x/behind/a/proxy",
        ] {
            assert!(is_origin(good), "{good}");
        }
        for bad in [
            "nonsense",
            "http://",
            "http://:80",
            "http://x:99999",
            "http://x:",
            "http://x:port",
            "http://x/?a=b",
            "ftp://x",
        ] {
            assert!(!is_origin(bad), "{bad}");
        }
    }

    #[test]
    fn an_id_that_changes_the_url_path_is_refused() {
        assert!(
            path_segment("job_1/../x").is_err() && path_segment("").is_err() && path_segment("job_1").is_ok()
        );
    }
}
