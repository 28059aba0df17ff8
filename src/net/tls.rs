//! TLS of asynchronous clients: the public certificate authorities, no client certificates.

use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The configuration; an error means that this build has no TLS.
pub(crate) fn client_tls() -> Result<Arc<ClientConfig>, String> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be had: {error}"))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}
